//! Schedules with split backwards, recomputation and offloading against their closed forms: equal
//! stages, free links.

use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass, Value,
    build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bytes, ChunkId, DeviceId, Nanos};

/// Times of one pass of one chunk; what a micro-batch keeps weighs 10 until its backward has ended,
/// a kept input 1. While an input backward runs, what it reads and what it leaves are both there.
struct Equal {
    forward: u64,
    input: u64,
    weight: u64,
}

impl MemoryModel for Equal {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(match value {
            Value::Stash { .. } | Value::Deferred { .. } => 10,
            Value::Input { .. } => 1,
            _ => 0,
        })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Equal {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        Nanos(match op {
            Op::Compute { pass: Pass::Forward | Pass::Recompute, .. } => self.forward,
            Op::Compute { pass: Pass::BackwardInput, .. } => self.input,
            Op::Compute { pass: Pass::BackwardWeight, .. } => self.weight,
            Op::Compute { pass: Pass::Backward, .. } => self.input + self.weight,
            _ => 0,
        })
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        LinkCost::FREE
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

const TIMES: [Equal; 4] = [
    Equal { forward: 1000, input: 1000, weight: 1000 },
    Equal { forward: 1000, input: 1200, weight: 900 },
    Equal { forward: 1100, input: 1000, weight: 600 },
    Equal { forward: 900, input: 1300, weight: 1000 },
];

fn schedule(kind: Kind, p: u32, m: u32, options: &Options) -> CheckedSchedule {
    let order = generate(kind, &Layout::even(kind, p, 1, m)).expect("it fits");
    check(build(order, options), None).expect("it is sound")
}

/// One step and the most that each device holds.
fn run(schedule: &CheckedSchedule, costs: &Equal) -> (Trace, Vec<u64>) {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    let trace = interpret(schedule, &devices, &mut world).expect("memory has no end");
    (trace, world.peaks().into_iter().map(|bytes| bytes.0).collect())
}

/// The most that a device is idle between its first pass and its last.
fn idle(schedule: &CheckedSchedule, trace: &Trace) -> u64 {
    let devices = (0..schedule.n_devices()).map(DeviceId::from_idx);
    let idle = devices.map(|device| {
        let is_pass = |a: &ActionId| matches!(schedule.op_on(device, *a), Op::Compute { .. });
        let passes = schedule.actions_of(device).map(ActionId).filter(is_pass);
        let records: Vec<_> = passes.filter_map(|a| trace.get(a)).collect();
        let start = records.iter().map(|record| record.start).min().expect("it computes");
        let end = records.iter().map(|record| record.end).max().expect("it computes");
        (end - start - trace.busy(schedule, device)).0
    });
    idle.max().expect("there is a device")
}

/// Qi et al. 2024: `(p - 1)(F + Bi - W)` idle, the stashes of 1F1B's first stage on every device.
#[test]
fn zb_h1_waits_a_third_of_1f1b_in_the_same_memory() {
    for (p, m) in [(2, 4), (4, 8), (4, 12), (8, 16), (8, 32)] {
        for costs in TIMES {
            let schedule = schedule(Kind::ZbH1, p, m, &Options::default());
            let (trace, peaks) = run(&schedule, &costs);
            let expected = u64::from(p - 1) * (costs.forward + costs.input - costs.weight);
            // Exact where all three take as long; else less than 1F1B's.
            let whole = costs.forward + costs.input + costs.weight;
            let idle = idle(&schedule, &trace);
            if costs.forward == costs.input && costs.input == costs.weight {
                assert_eq!(idle, expected, "p={p} m={m}");
            }
            assert!(idle < u64::from(p - 1) * whole, "p={p} m={m}: {idle}");
            assert!(
                peaks.iter().all(|&peak| peak <= 10 * u64::from(p + 1)),
                "p={p} m={m} {peaks:?}"
            );
        }
    }
}

/// The same source: `(p - 1)(F + Bi - 2 W)` idle, with `2 p - 1` stashes.
#[test]
fn zb_h2_waits_next_to_nothing_in_twice_the_memory() {
    for (p, m) in [(2, 6), (4, 12), (4, 16), (8, 24), (8, 32)] {
        for costs in TIMES {
            let schedule = schedule(Kind::ZbH2, p, m, &Options::default());
            let (trace, peaks) = run(&schedule, &costs);
            let expected =
                u64::from(p - 1) * (costs.forward + costs.input).saturating_sub(2 * costs.weight);
            // Exact where all three take as long; else less than 1F1B's.
            let whole = costs.forward + costs.input + costs.weight;
            let idle = idle(&schedule, &trace);
            if costs.forward == costs.input && costs.input == costs.weight {
                assert_eq!(idle, expected, "p={p} m={m}");
            }
            assert!(idle < u64::from(p - 1) * whole, "p={p} m={m}: {idle}");
            let most = 10 * u64::from(2 * p);
            assert!(peaks.iter().all(|&peak| peak <= most), "p={p} m={m} {peaks:?}");
        }
    }
}

/// Qi et al., NeurIPS 2024: nothing idle at `F = Bi = W`, in the memory of 1F1B.
#[test]
fn zb_v_waits_for_nothing_in_the_memory_of_1f1b() {
    for (p, m) in [(2, 4), (2, 9), (4, 8), (4, 12), (8, 16), (8, 40)] {
        let schedule = schedule(Kind::ZbV, p, m, &Options::default());
        let (trace, peaks) = run(&schedule, &TIMES[0]);
        assert_eq!(idle(&schedule, &trace), 0, "p={p} m={m}");
        // Chunks are half a device's part.
        assert!(
            peaks.iter().all(|&peak| peak <= 10 * u64::from(2 * p + 1)),
            "p={p} m={m} {peaks:?}"
        );
    }
}

/// A split backward hands its gradient on before it is done: the way back costs input parts alone.
#[test]
fn a_split_backward_shortens_the_way_back() {
    for (p, m) in [(1, 2), (2, 4), (4, 8), (8, 16)] {
        let costs = Equal { forward: 1000, input: 1000, weight: 1000 };
        let options = Options { split_backward: true, ..Options::default() };
        let split = run(&schedule(Kind::GPipe, p, m, &options), &costs).0.makespan().0;
        assert_eq!(split, u64::from(m * 3 + (p - 1) * 2) * 1000, "p={p} m={m}");
    }
}

/// Every backward is a forward longer and every stash but that of the backward under way an input.
#[test]
fn recomputation_costs_a_forward_and_keeps_inputs() {
    for (p, m) in [(1, 2), (2, 4), (4, 8), (8, 16)] {
        let costs = Equal { forward: 700, input: 1000, weight: 300 };
        let recompute = (0..p).map(ChunkId).collect();
        let options = Options { recompute, ..Options::default() };
        let (trace, peaks) = run(&schedule(Kind::OneFOneB, p, m, &options), &costs);
        // The recompute does not wait for the gradient, so the way back may hide it.
        let (least, most) = (u64::from(m) * 2700, u64::from(m + p - 1) * 2700);
        assert!((least..=most).contains(&trace.makespan().0), "p={p} m={m}");
        let inputs = (0..p).map(|stage| u64::from(p - stage).min(u64::from(m)));
        let most = inputs.map(|n| n + 11);
        assert!(peaks.iter().zip(most).all(|(&peak, most)| peak <= most), "p={p} {peaks:?}");
    }
}

/// With its inputs on the host a device holds those that just came and those about to be used.
#[test]
fn offloading_keeps_no_more_inputs_than_are_about_to_be_used() {
    let recompute = vec![ChunkId(0)];
    let costs = Equal { forward: 1000, input: 1000, weight: 1000 };
    let kept = Options { recompute: recompute.clone(), ..Options::default() };
    let away = Options { recompute, offload: Some(1), ..Options::default() };
    let bound = |options: &Options| schedule(Kind::GPipe, 1, 12, options).peak_bound(&costs)[0].0;
    assert_eq!(bound(&kept), 11 + 11);
    let (trace, peaks) = run(&schedule(Kind::GPipe, 1, 12, &away), &costs);
    assert_eq!(trace.makespan().0, 12 * 4000);
    assert!(peaks[0] <= 13, "{peaks:?}");
}
