//! What holds for every schedule that the generators and passes make, over random layouts.

mod finishing;

use cavalcade_schedule::{
    Kind, Layout, MemoryModel, Op, Options, Schedule, Value, build, check, generate,
};
use cavalcade_testkit::layouts::{cases, layouts, wave_cases};
use cavalcade_units::{Bytes, ChunkId, DeviceId};
use finishing::runs_to_the_end;
use proptest::prelude::*;

fn schedule(kind: Kind, layout: &Layout, clip_gradients: bool) -> Schedule {
    build(
        generate(kind, layout).expect("it fits"),
        &Options { clip_gradients, ..Options::default() },
    )
}

/// Every stash of one chunk one byte, nothing else: the bound is then the number of its
/// micro-batches in flight.
struct StashOf(ChunkId);

impl MemoryModel for StashOf {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(u64::from(matches!(value, Value::Stash { chunk, .. } if chunk == self.0)))
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

proptest! {
    #[test]
    fn text_round_trips((kind, layout) in cases(3), clip: bool) {
        let schedule = schedule(kind, &layout, clip);
        prop_assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
    }

    #[test]
    fn the_passes_keep_the_compute_order((kind, layout) in cases(3)) {
        let a = schedule(kind, &layout, false);
        let b = schedule(kind, &layout, true);
        let computes = |s: &Schedule| -> Vec<Vec<Op>> {
            let only = |p: &Vec<Op>| {
                p.iter().copied().filter(|op| matches!(op, Op::Compute { .. })).collect()
            };
            s.programs.iter().map(only).collect()
        };
        prop_assert_eq!(computes(&a), computes(&b));
    }

    #[test]
    fn every_checked_schedule_finishes_in_any_order(
        (kind, layout) in cases(3), clip: bool, seed: u64,
    ) {
        let checked = check(schedule(kind, &layout, clip), None).unwrap();
        prop_assert!(runs_to_the_end(&checked, seed));
    }

    #[test]
    fn schedules_with_servers_round_trip_and_finish_in_any_order(
        (kind, layout, waves) in wave_cases(3), seed: u64,
    ) {
        let options = Options { waves: Some(waves), ..Options::default() };
        let schedule = build(generate(kind, &layout).expect("it fits"), &options);
        prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule.clone()));
        let checked = check(schedule, None).unwrap();
        prop_assert!(runs_to_the_end(&checked, seed));
    }

    #[test]
    fn the_bound_of_stashes_is_the_number_in_flight((kind, layout) in cases(3)) {
        let checked = check(schedule(kind, &layout, true), None).unwrap();
        let mut chunk = ChunkId(0);
        let is_limit = matches!(kind, Kind::Solve { .. } | Kind::Skip { .. });
        for pipeline in &layout.pipelines {
            for (idx, stage) in pipeline.stages.iter().enumerate() {
                if is_limit {
                    // Pipelines may share a device, and then its chunk.
                    chunk = checked.schedule().chunks_on(stage.device).next().unwrap();
                }
                let expected = kind.in_flight(idx as u32, pipeline.shape());
                let bound = checked.peak_bound(&StashOf(chunk))[stage.device.idx()];
                if is_limit {
                    prop_assert!(bound.0 <= u64::from(expected), "chunk {}: {}", chunk, bound.0);
                } else {
                    prop_assert_eq!(bound.0, u64::from(expected), "chunk {}", chunk);
                }
                chunk.0 += 1;
            }
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*") {
        let _ = text.parse::<Schedule>();
    }

    #[test]
    fn damaged_text_never_panics(
        layout in layouts(2), at in 0usize..4000, byte in 32u8..127, cut: bool,
    ) {
        let mut text = schedule(Kind::OneFOneB, &layout, true).to_string().into_bytes();
        let at = at % text.len();
        if cut { text.remove(at); } else { text[at] = byte; }
        if let Ok(schedule) = String::from_utf8(text).unwrap().parse::<Schedule>() {
            let _ = check(schedule, None);
        }
    }
}

/// ZB-H1 on two devices: the last one holds a stash and what is left of the one before.
#[test]
fn the_bound_knows_both_sizes() {
    struct Sizes(u64, u64);
    impl MemoryModel for Sizes {
        fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
            Bytes(if matches!(value, Value::Stash { .. }) { self.0 } else { 0 })
        }
        fn updated(&self, _: DeviceId, value: Value) -> Bytes {
            Bytes(if matches!(value, Value::Stash { .. }) { self.1 } else { 0 })
        }
        fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
            Bytes::ZERO
        }
        fn capacity(&self, _: DeviceId) -> Option<Bytes> {
            None
        }
    }
    let layout = Layout::even(Kind::ZbH1, 2, 1, 6);
    let order = generate(Kind::ZbH1, &layout).expect("it fits");
    let checked = check(build(order, &Options::default()), None).expect("it is sound");
    let bound = |made, between| -> Vec<u64> {
        checked.peak_bound(&Sizes(made, between)).into_iter().map(|bytes| bytes.0).collect()
    };
    assert_eq!(bound(10, 10), [20, 20]);
    assert_eq!(bound(10, 3), [20, 13]);
    assert_eq!(bound(10, 25), [35, 50]);
}
