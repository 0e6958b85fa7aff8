//! Schedules with split backwards, recomputation and offloading against their closed forms: equal
//! stages, free links.

mod support;

use cavalcade_engine::Trace;
use cavalcade_schedule::{ActionId, CheckedSchedule, Kind, Op, Options};
use cavalcade_units::{ChunkId, DeviceId};
use support::{Equal, run};

const TIMES: [Equal; 4] = [
    Equal::free(1000, 1000, 1000),
    Equal::free(1000, 1200, 900),
    Equal::free(1100, 1000, 600),
    Equal::free(900, 1300, 1000),
];

fn schedule(kind: Kind, p: u32, m: u32, options: &Options) -> CheckedSchedule {
    support::schedule(kind, p, 1, m, options)
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

/// One zero-bubble schedule: `expected` idle, less than 1F1B's, and on no device more than `most`
/// stashes.
fn fills_the_bubble(kind: Kind, (p, m): (u32, u32), most: u32, expected: impl Fn(&Equal) -> u64) {
    for costs in TIMES {
        let schedule = schedule(kind, p, m, &Options::default());
        let (trace, peaks) = run(&schedule, &costs);
        let idle = idle(&schedule, &trace);
        assert_eq!(idle, u64::from(p - 1) * expected(&costs), "{kind} p={p} m={m}");
        let whole = costs.forward + costs.input + costs.weight;
        assert!(idle < u64::from(p - 1) * whole, "{kind} p={p} m={m}: {idle}");
        assert!(peaks.iter().all(|&peak| peak <= u64::from(most)), "{kind} p={p} m={m} {peaks:?}");
    }
}

/// Qi et al. 2024: `(p - 1)(F + Bi - W)` idle if `W <= F`, the stashes of 1F1B's first stage on
/// every device. A longer `W` takes the place of `F`.
#[test]
fn zb_h1_waits_a_third_of_1f1b_in_the_same_memory() {
    for (p, m) in [(2, 4), (4, 8), (4, 12), (8, 16), (8, 32)] {
        fills_the_bubble(Kind::ZbH1, (p, m), p, |t| t.forward.max(t.weight) + t.input - t.weight);
    }
}

/// The same source: `(p - 1)(F + Bi - 2 W)` idle if `W <= F`, with `2 p - 1` stashes. A longer `W`
/// leaves what `Bi` is longer than `F`.
#[test]
fn zb_h2_waits_next_to_nothing_in_twice_the_memory() {
    for (p, m) in [(2, 6), (4, 12), (4, 16), (8, 24), (8, 32)] {
        let expected = |t: &Equal| {
            let steady = (t.forward + t.input).saturating_sub(2 * t.weight);
            steady.max(t.input.saturating_sub(t.forward))
        };
        fills_the_bubble(Kind::ZbH2, (p, m), 2 * p - 1, expected);
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
        assert!(peaks.iter().all(|&peak| peak <= u64::from(2 * p)), "p={p} m={m} {peaks:?}");
    }
}

/// The idle time of a kind of two chunks a device, in parts of 1F1B's `(p - 1)(F + B)`, and the
/// most stashes on a device in stages.
fn against_1f1b(kind: Kind, p: u32, m: u32) -> (f64, f64) {
    let schedule = schedule(kind, p, m, &Options::default());
    // Chunks of half a stage.
    let (trace, peaks) = run(&schedule, &TIMES[0]);
    let plain = u64::from(p - 1) * 2 * 3000;
    let most = peaks.into_iter().max().expect("there is a device");
    (idle(&schedule, &trace) as f64 / plain as f64, most as f64 / 2.0)
}

/// Qi et al., NeurIPS 2024: about half of 1F1B's idle time in about half of its memory.
#[test]
fn v_half_waits_half_of_1f1b_in_half_of_its_memory() {
    for (p, m) in [(3, 6), (4, 8), (5, 10), (6, 24), (8, 16), (8, 64), (16, 32)] {
        let (idle, stashes) = against_1f1b(Kind::VHalf, p, m);
        assert!((0.4..0.53).contains(&idle), "p={p} m={m}: {idle}");
        assert!(stashes <= f64::from(p) / 2.0 + 1.5, "p={p} m={m}: {stashes}");
    }
}

/// The same source: about two thirds of the idle time in a third of the memory.
#[test]
fn v_min_waits_two_thirds_of_1f1b_in_a_third_of_its_memory() {
    for (p, m) in [(2, 4), (3, 6), (4, 8), (5, 10), (6, 24), (8, 16), (8, 64), (16, 32)] {
        let (idle, stashes) = against_1f1b(Kind::VMin, p, m);
        let bound = if p.is_multiple_of(3) { 0.75 } else { 0.667 };
        assert!(idle <= bound, "p={p} m={m}: {idle}");
        assert!(stashes <= f64::from(p) / 3.0 + 1.34, "p={p} m={m}: {stashes}");
    }
}

/// DeepSeek-AI 2025: at most `(p - 1)(FB + B - 3 W)` idle with `FB = F + B` on one lane of compute;
/// `(p - 1)(F + Bi - W)` where the three passes take as long, as the halves of a pair need not wait
/// for each other.
#[test]
fn dualpipe_v_waits_no_longer_than_its_authors_say() {
    for (p, m) in [(1, 2), (2, 4), (2, 9), (4, 8), (4, 12), (8, 16), (8, 40)] {
        for costs in &TIMES {
            let schedule = schedule(Kind::DualPipeV, p, m, &Options::default());
            let (trace, peaks) = run(&schedule, costs);
            let (pairs, idle) = (u64::from(p - 1), idle(&schedule, &trace));
            let Equal { forward, input, weight, .. } = costs;
            assert!(idle <= pairs * (forward + 2 * input - weight), "p={p} m={m}: {idle}");
            if forward == input && input == weight {
                assert_eq!(idle, pairs * (forward + input - weight), "p={p} m={m}");
            }
            assert!(peaks.iter().all(|&peak| peak <= u64::from(2 * p + 1)), "{peaks:?}");
        }
    }
}

/// A split backward hands its gradient on before it is done: the way back costs input parts alone.
#[test]
fn a_split_backward_shortens_the_way_back() {
    for (p, m) in [(1, 2), (2, 4), (4, 8), (8, 16)] {
        let costs = Equal::free(1000, 1000, 1000);
        let options = Options { split_backward: true, ..Options::default() };
        let split = run(&schedule(Kind::GPipe, p, m, &options), &costs).0.makespan().0;
        assert_eq!(split, u64::from(m * 3 + (p - 1) * 2) * 1000, "p={p} m={m}");
    }
}

/// Every backward is a forward longer and every stash but that of the backward under way an input.
#[test]
fn recomputation_costs_a_forward_and_keeps_inputs() {
    for (p, m) in [(1, 2), (2, 4), (4, 8), (8, 16)] {
        let costs = Equal { stash: 10, ..Equal::free(700, 1000, 300) };
        let recompute = (0..p).map(ChunkId).collect();
        let options = Options { recompute, ..Options::default() };
        let (trace, peaks) = run(&schedule(Kind::OneFOneB, p, m, &options), &costs);
        // The recompute does not wait for the gradient, so the way back may hide it.
        let (least, most) = (u64::from(m) * 2700, u64::from(m + p - 1) * 2700);
        assert!((least..=most).contains(&trace.makespan().0), "p={p} m={m}");
        let inputs = (0..p).map(|stage| u64::from(p - stage).min(u64::from(m)));
        assert!(peaks.iter().copied().eq(inputs.map(|n| n + 10)), "p={p} m={m} {peaks:?}");
    }
}

/// With its inputs on the host a device holds those that just came and those about to be used.
#[test]
fn offloading_keeps_no_more_inputs_than_are_about_to_be_used() {
    let recompute = vec![ChunkId(0)];
    let costs = Equal { stash: 10, ..Equal::free(1000, 1000, 1000) };
    let kept = Options { recompute: recompute.clone(), ..Options::default() };
    let away = Options { recompute, offload: Some(1), ..Options::default() };
    let bound = |options: &Options| schedule(Kind::GPipe, 1, 12, options).peak_bound(&costs)[0].0;
    assert_eq!(bound(&kept), 11 + 11);
    let (trace, peaks) = run(&schedule(Kind::GPipe, 1, 12, &away), &costs);
    assert_eq!(trace.makespan().0, 12 * 4000);
    assert!(peaks[0] <= 13, "{peaks:?}");
}
