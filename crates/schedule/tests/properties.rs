//! What holds for every schedule that the generators and passes make, over random layouts.

use cavalcade_schedule::{
    ActionId, CheckedSchedule, Kind, Layout, MemoryModel, Op, Options, Schedule, Value, build,
    check, generate,
};
use cavalcade_testkit::layouts::{cases, layouts};
use cavalcade_units::{Bytes, ChunkId, DeviceId};
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

/// Runs actions in any order that the dependencies allow, choosing by `choices`.
fn runs_to_the_end(checked: &CheckedSchedule, mut choices: impl FnMut(usize) -> usize) -> bool {
    let n_actions = checked.n_actions() as u32;
    let mut missing: Vec<u32> =
        (0..n_actions).map(|a| checked.n_predecessors(ActionId(a))).collect();
    let mut sent = vec![false; checked.schedule().transfers.len()];
    let mut arrived = vec![0; checked.schedule().collectives.len()];
    let mut ready: Vec<ActionId> =
        (0..n_actions).map(ActionId).filter(|a| missing[a.idx()] == 0).collect();
    let mut n_done = 0;
    while !ready.is_empty() {
        let startable: Vec<usize> = (0..ready.len())
            .filter(|&i| match checked.op(ready[i]) {
                Op::Recv(id) => sent[id.idx()],
                _ => true,
            })
            .collect();
        if startable.is_empty() {
            return false;
        }
        let action = ready.swap_remove(startable[choices(startable.len())]);
        let done = match checked.op(action) {
            Op::Collective(id) => {
                arrived[id.idx()] += 1;
                let members = checked.members(id);
                if arrived[id.idx()] == members.len() { members.to_vec() } else { Vec::new() }
            }
            Op::Send(id) => {
                sent[id.idx()] = true;
                vec![action]
            }
            _ => vec![action],
        };
        for action in done {
            n_done += 1;
            for later in checked.successors(action) {
                missing[later.idx()] -= 1;
                if missing[later.idx()] == 0 {
                    ready.push(*later);
                }
            }
        }
    }
    n_done == n_actions
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
        let mut state = seed | 1;
        let choose = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        prop_assert!(runs_to_the_end(&checked, choose));
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
