//! The simulator against the closed forms of equal stages on free links, and against bounds that
//! hold for any costs.

use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Kind, Lane, Layout, MemoryModel, Op, Options, Pass,
    Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld, predict};
use cavalcade_testkit::layouts::cases;
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use proptest::prelude::*;

/// Costs that depend on nothing but the pass, or, with a seed, on everything.
struct TestCosts {
    forward: u64,
    backward: u64,
    seed: Option<u64>,
}

impl TestCosts {
    fn scaled(&self, cost: u64, parts: &[u64]) -> u64 {
        let Some(seed) = self.seed else { return cost };
        let mix = parts.iter().fold(seed, |mix, part| {
            (mix ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        cost / 4 + mix % cost.max(1)
    }
}

impl MemoryModel for TestCosts {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        match value {
            Value::Stash { chunk, .. } => Bytes(self.scaled(100, &[1, u64::from(chunk.0)])),
            Value::Params { .. } => Bytes(50),
            Value::OptState { .. } => Bytes(100),
            Value::ParamGrad { .. } => Bytes(50),
            Value::GradNorm => Bytes(8),
            _ => Bytes(10),
        }
    }
    fn updated(&self, device: DeviceId, value: Value) -> Bytes {
        match value {
            Value::Stash { chunk, .. } => Bytes(self.scaled(100, &[5, u64::from(chunk.0)])),
            _ => self.bytes(device, value),
        }
    }
    fn workspace(&self, _: DeviceId, op: Op) -> Bytes {
        Bytes(if matches!(op, Op::Compute { .. }) { 7 } else { 0 })
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for TestCosts {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let device = u64::from(device.0);
        Nanos(match op {
            Op::Compute { pass: Pass::Forward, chunk, .. } => {
                self.scaled(self.forward, &[2, device, u64::from(chunk.0)])
            }
            Op::Compute { chunk, microbatch, .. } => {
                let parts = [3, device, u64::from(chunk.0), u64::from(microbatch.0)];
                self.scaled(self.backward, &parts)
            }
            _ => self.seed.map_or(0, |_| 5),
        })
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        match self.seed {
            None => LinkCost::FREE,
            Some(_) => LinkCost {
                latency: Nanos(self.scaled(40, &[4, u64::from(from.0), u64::from(to.0)])),
                bandwidth: Some(Bandwidth::from_bytes_per_second(1e8)),
            },
        }
    }
    fn collective(&self, _: CollectiveKind, group: &[DeviceId]) -> Nanos {
        Nanos(self.seed.map_or(0, |_| group.len() as u64 * 11))
    }
}

fn straight(kind: Kind, n_stages: u32, microbatches: u32) -> CheckedSchedule {
    let order = generate(kind, &Layout::even(kind, n_stages, 1, microbatches)).expect("it fits");
    check(build(order, &Options::default()), None).expect("it is sound")
}

#[test]
fn equal_stages_take_m_plus_p_minus_1_slots() {
    for kind in [Kind::GPipe, Kind::OneFOneB] {
        for (p, m) in [(1, 1), (1, 5), (2, 4), (4, 8), (8, 8), (8, 3), (16, 64)] {
            for (forward, backward) in [(1000, 2000), (1000, 1000), (700, 1900)] {
                let costs = TestCosts { forward, backward, seed: None };
                let schedule = straight(kind, p, m);
                let prediction = predict(&schedule, &costs).unwrap();
                let expected = u64::from(m + p - 1) * (forward + backward);
                assert_eq!(prediction.step_time, Nanos(expected), "{kind} p={p} m={m}");
                let bubble = f64::from(p - 1) / f64::from(m + p - 1);
                assert!((prediction.bubble_fraction - bubble).abs() < 1e-12, "{kind} p={p} m={m}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let costs = TestCosts { forward: 1000, backward: 2000, seed: Some(7) };
    let schedule = straight(Kind::OneFOneB, 4, 8);
    assert_eq!(predict(&schedule, &costs).unwrap(), predict(&schedule, &costs).unwrap());
}

/// Longest chain of dependent work, sends and collectives included, by the schedule's own graph.
fn critical_path(schedule: &CheckedSchedule, costs: &TestCosts, trace: &Trace) -> Nanos {
    let mut actions: Vec<_> = trace.iter().collect();
    actions.sort_by_key(|(action, record)| (record.end, record.start, *action));
    let mut path = vec![Nanos::ZERO; schedule.n_actions()];
    let mut longest = Nanos::ZERO;
    for (action, _) in actions {
        let device = schedule.device_of(action);
        let op = schedule.op(action);
        let cost = match op {
            Op::Compute { .. } | Op::OptimizerStep { .. } => costs.compute(device, op),
            _ => Nanos::ZERO,
        };
        let end = path[action.idx()] + cost;
        longest = longest.max(end);
        let later = schedule.successors(action).iter().copied();
        let recv = match op {
            Op::Send(id) => Some(schedule.ends(id).1),
            _ => None,
        };
        for later in later.chain(recv) {
            path[later.idx()] = path[later.idx()].max(end);
        }
    }
    longest
}

proptest! {
    #[test]
    fn any_costs_keep_the_bounds((kind, layout) in cases(3), seed: u64, clip: bool) {
        let options = Options { clip_gradients: clip, ..Options::default() };
        let schedule = check(build(generate(kind, &layout).unwrap(), &options), None).unwrap();
        let costs = TestCosts { forward: 1000, backward: 2000, seed: Some(seed) };
        let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
        let mut world = VirtualWorld::new(&schedule, &costs, vec![Nanos::ZERO; devices.len()]);
        let trace = interpret(&schedule, &devices, &mut world).unwrap();

        // Time: no less than the critical path and than the busiest lane.
        prop_assert!(trace.makespan() >= critical_path(&schedule, &costs, &trace));
        for &device in &devices {
            prop_assert!(trace.makespan() >= trace.busy(&schedule, device));
        }
        // Lanes: in list order and one at a time.
        for &device in &devices {
            for lane in 0..schedule.lanes(device).len() as u32 {
                let on_lane = schedule.actions_of(device).map(ActionId)
                    .filter(|&a| schedule.lane_of(a).0 == lane);
                let records: Vec<_> = on_lane.map(|a| trace.get(a).unwrap()).collect();
                prop_assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
        // Memory: within the checker's bound, and at it where only one order is possible.
        let bound = schedule.peak_bound(&costs);
        for (device, (peak, bound)) in world.peaks().iter().zip(&bound).enumerate() {
            prop_assert!(peak <= bound, "device {device}: {peak} > {bound}");
            let is_alone = schedule.lanes(DeviceId::from_idx(device)) == [Lane::Compute];
            // A stash that shrinks or grows counts as the larger while it does.
            let is_split = kind.splits_backward();
            prop_assert!(!is_alone || is_split || peak == bound);
        }
    }
}
