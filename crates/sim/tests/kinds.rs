//! The kinds of schedule against their closed forms: equal stages, free links, any two times of
//! forward and backward.

mod support;

use cavalcade_schedule::{CheckedSchedule, Kind, Options, Schedule, WarmUp, check};
use cavalcade_sim::predict;
use cavalcade_units::{DeviceId, Nanos};
use support::{Equal, run};

const TIMES: [(u64, u64); 4] = [(1000, 2000), (1000, 1000), (700, 1900), (2000, 600)];

fn schedule(kind: Kind, p: u32, v: u32, m: u32) -> CheckedSchedule {
    support::schedule(kind, p, v, m, &Options::default())
}

/// Whole backwards alone.
fn free(forward: u64, backward: u64) -> Equal {
    Equal::free(forward, backward, 0)
}

fn makespan(schedule: &CheckedSchedule, costs: &Equal) -> u64 {
    run(schedule, costs).0.makespan().0
}

/// Narayanan et al. 2021: the bubble of interleaved 1F1B is `(p - 1) (F + B) / v`.
#[test]
fn interleaved_waits_for_chunks_and_not_for_devices() {
    for (p, v, m) in [(1, 3, 2), (2, 2, 2), (2, 2, 8), (4, 2, 4), (4, 3, 16), (8, 4, 8), (8, 2, 32)]
    {
        for (forward, backward) in TIMES {
            let schedule = schedule(Kind::Interleaved, p, v, m);
            let prediction = predict(&schedule, &free(forward, backward)).unwrap();
            let chunk = forward + backward;
            let expected = u64::from(m * v) * chunk + u64::from(p - 1) * chunk;
            assert_eq!(prediction.step_time, Nanos(expected), "p={p} v={v} m={m}");
            let (trace, _) = run(&schedule, &free(forward, backward));
            assert_eq!(trace.makespan(), Nanos(expected), "p={p} v={v} m={m}");
        }
    }
}

/// Korthikanti et al. 2023: `p (1 + (p - 1)/(p v))` whole devices' stashes at the worst one, that
/// is `v p + p - 1` chunks' stashes, if there are enough micro-batches to fill them.
#[test]
fn interleaved_keeps_more_stashes_than_1f1b() {
    for (p, v, m) in [(2, 2, 4), (4, 2, 8), (4, 3, 16), (8, 4, 16)] {
        let (_, peaks) = run(&schedule(Kind::Interleaved, p, v, m), &free(1000, 2000));
        assert_eq!(peaks[0], u64::from(v * p + p - 1), "p={p} v={v} m={m}");
        assert_eq!(peaks.iter().max(), peaks.first(), "p={p} v={v} m={m}");
        let (_, peaks) = run(&schedule(Kind::OneFOneB, p, 1, m), &free(1000, 2000));
        assert!(peaks.into_iter().eq((0..p).map(|i| u64::from(p - i))), "p={p}");
    }
}

/// What Megatron-LM refuses: the micro-batches are no multiple of the devices. Nothing is claimed
/// of it but that it is sound and not slower than 1F1B.
#[test]
fn interleaved_with_a_broken_group_is_not_slower_than_1f1b() {
    for (p, v) in [(2, 2), (3, 2), (4, 2), (4, 4), (8, 2)] {
        for m in 1..=3 * p {
            for (forward, backward) in TIMES {
                let chunks = free(forward, backward);
                let whole = free(forward * u64::from(v), backward * u64::from(v));
                let interleaved = makespan(&schedule(Kind::Interleaved, p, v, m), &chunks);
                let plain = makespan(&schedule(Kind::OneFOneB, p, 1, m), &whole);
                assert!(interleaved <= plain, "p={p} v={v} m={m}: {interleaved} > {plain}");
            }
        }
    }
}

/// Li and Hoefler 2021, table 2: `2 N + D - 2` slots, between `D/2 + 1` and `D` stashes.
#[test]
fn chimera_takes_2n_plus_d_minus_2_slots() {
    for (d, n) in [(2, 2), (2, 8), (4, 4), (4, 8), (4, 20), (6, 6), (8, 8), (8, 16)] {
        let schedule = schedule(Kind::Chimera, d, 1, n);
        let (trace, peaks) = run(&schedule, &free(1000, 1000));
        assert_eq!(trace.makespan().0, u64::from(2 * n + d - 2) * 1000, "D={d} N={n}");
        let (least, most) = (peaks.iter().min().unwrap(), peaks.iter().max().unwrap());
        assert!((u64::from(d / 2 + 1)..=u64::from(d)).contains(least), "D={d} N={n}: {peaks:?}");
        assert_eq!(*most, u64::from(d), "D={d} N={n}: {peaks:?}");
    }
}

#[test]
fn chimera_with_broken_units_is_not_slower_than_1f1b() {
    for d in [2, 4, 6, 8] {
        for n in 2..=3 * d {
            let costs = free(1000, 1000);
            let chimera = makespan(&schedule(Kind::Chimera, d, 1, n), &costs);
            let plain = makespan(&schedule(Kind::OneFOneB, d, 1, n), &costs);
            assert!(chimera <= plain, "D={d} N={n}: {chimera} > {plain}");
        }
    }
}

/// Fan et al. 2021: with free links the warm-up changes the memory and not the time.
#[test]
fn more_warm_up_costs_memory_and_no_time() {
    for (p, m) in [(2, 6), (4, 8), (8, 16)] {
        let costs = free(1000, 2000);
        let plain = makespan(&schedule(Kind::OneFOneB, p, 1, m), &costs);
        let kind = Kind::Dapple { policy: WarmUp::B, most: u32::MAX };
        let (trace, peaks) = run(&schedule(kind, p, 1, m), &costs);
        assert_eq!(trace.makespan().0, plain, "p={p} m={m}");
        let expected = (0..p).map(|i| u64::from((2 * (p - i) - 1).min(m)));
        assert!(peaks.iter().copied().eq(expected), "p={p} m={m}: {peaks:?}");
        // Less memory than stages costs time.
        let tight = Kind::Dapple { policy: WarmUp::A, most: p / 2 };
        let (trace, peaks) = run(&schedule(tight, p, 1, m), &costs);
        assert!(trace.makespan().0 > plain, "p={p} m={m}");
        assert!(peaks.iter().all(|&peak| peak <= u64::from(p / 2)), "{peaks:?}");
    }
}

/// GeoPipe 2025: two sites of two stages. 1F1B waits longer with every bit of delay; with
/// `2 X / (F + B)` forwards more before the cut only the way of the first and the last micro-batch
/// is left.
#[test]
fn forwards_ahead_of_a_slow_link_hide_its_delay() {
    let (forward, backward) = (1000, 2000);
    for delay in [0, 1500, 3000, 4500, 6000] {
        let costs = Equal { slow: Some((DeviceId(2), delay)), ..free(forward, backward) };
        let extra = u32::try_from((2 * delay).div_ceil(forward + backward)).unwrap();
        let kind = if extra == 0 { Kind::OneFOneB } else { Kind::Geo { cut: 2, extra } };
        let (trace, peaks) = run(&schedule(kind, 4, 1, 16), &costs);
        let flat = 19 * (forward + backward) + 2 * delay;
        assert_eq!(trace.makespan().0, flat, "delay {delay}");
        assert_eq!(peaks, [u64::from(4 + extra), u64::from(3 + extra), 2, 1], "delay {delay}");
        let plain = makespan(&schedule(Kind::OneFOneB, 4, 1, 16), &costs);
        assert!(delay == 0 || plain - 19 * 3000 > 2 * (flat - 19 * 3000), "delay {delay}: {plain}");
    }
}

/// Park et al. 2020: with as many mini-batches in flight as stages the pipeline never runs dry,
/// with one alone it is one device after the other; the first stage keeps `Nm` copies, the last
/// stage one.
#[test]
fn hetpipe_fills_the_pipeline_with_nm_mini_batches() {
    for (p, m) in [(1, 3), (2, 6), (4, 12), (8, 24)] {
        for (forward, backward) in TIMES {
            let run =
                |wave| run(&schedule(Kind::HetPipe { wave }, p, 1, m), &free(forward, backward));
            let (trace, peaks) = run(None);
            let slots = u64::from(m + p - 1);
            assert_eq!(trace.makespan().0, slots * (forward + backward), "p={p} m={m}");
            assert!(peaks.into_iter().eq((0..p).map(|i| u64::from(p - i))), "p={p}");
            let (trace, peaks) = run(Some(1));
            let alone = u64::from(m * p) * (forward + backward);
            assert_eq!(trace.makespan().0, alone, "p={p} m={m}");
            assert!(peaks.into_iter().all(|peak| peak == 1), "p={p}");
            let (_, peaks) = run(Some(p + 2));
            assert_eq!(peaks[0], if p == 1 { 1 } else { u64::from(p + 2) }, "p={p}");
            assert_eq!(peaks.last(), Some(&1), "p={p}");
        }
    }
}

/// Wang et al. 2026: less than two steps of 1F1B, one of forwards and adjoints and one of the rest,
/// which would keep all `m` micro-batches between them. Exact where all four phases take as long.
#[test]
fn janus_is_faster_than_two_coupled_steps_of_1f1b() {
    let coupled = |p, m, phases: u64| u64::from(m + p - 1) * 2 * phases;
    for (p, m) in [(1, 3), (2, 4), (4, 4), (4, 8), (4, 16), (8, 16), (8, 32)] {
        let (trace, peaks) = run(&schedule(Kind::Janus, p, 1, m), &free(1000, 1000));
        let makespan = trace.makespan().0;
        assert_eq!(makespan, u64::from(4 * m + 2 * (p - 1)) * 1000, "p={p} m={m}");
        assert!(p == 1 || makespan < coupled(p, m, 2000), "p={p} m={m}");
        assert!(peaks.iter().all(|&peak| peak <= u64::from(p + 1)), "p={p} {peaks:?}");
    }
    for (forward, backward) in [(1000, 1500), (1000, 2000), (1000, 800)] {
        let makespan = makespan(&schedule(Kind::Janus, 4, 1, 8), &free(forward, backward));
        assert!(makespan < coupled(4, 8, forward + backward), "{forward}, {backward}");
    }
}

/// A schedule that came as text is checked and simulated like any other.
#[test]
fn a_schedule_read_from_text_behaves_as_the_one_it_was_printed_from() {
    for kind in Kind::ALL {
        let made = schedule(kind, 4, 2, 6);
        let read: Schedule = made.schedule().to_string().parse().unwrap();
        let read = check(read, None).unwrap();
        let costs = free(1000, 2000);
        assert_eq!(predict(&made, &costs).unwrap(), predict(&read, &costs).unwrap(), "{kind}");
    }
}
