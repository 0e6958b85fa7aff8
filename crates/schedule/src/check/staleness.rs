//! Without a flush: no forward uses weights that lack more updates than the schedule allows, and
//! no update uses gradients but those of its own micro-batch.
//!
//! HetPipe's rule (Park et al., USENIX ATC 2020): with local staleness `s`, micro-batch `p` of a
//! pipeline sees the updates of all up to `p - (s + 1)`.

use super::error::{CheckError, place};
use crate::op::{Op, Pass};
use crate::tables::Schedule;
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId};
use std::collections::{HashMap, HashSet};

pub(super) fn check(schedule: &Schedule) -> Result<(), CheckError> {
    let Some(bound) = schedule.staleness else { return Ok(()) };
    let before = due_before(schedule, bound as usize);
    for (device_idx, program) in schedule.programs.iter().enumerate() {
        let mut updated: HashSet<(ChunkId, MicrobatchId)> = HashSet::new();
        // By chunk, the micro-batch whose gradients wait.
        let mut waiting: HashMap<ChunkId, MicrobatchId> = HashMap::new();
        for (op_idx, &op) in program.iter().enumerate() {
            let Op::Compute { pass, chunk, microbatch } = op else { continue };
            let place = || place(DeviceId::from_idx(device_idx), op_idx, op);
            let found = match pass {
                Pass::Update => Some(waiting.remove(&chunk)).filter(|&own| own != Some(microbatch)),
                Pass::Backward | Pass::BackwardWeight | Pass::DoubleBackward => {
                    let other = waiting.insert(chunk, microbatch);
                    other.filter(|&other| other != microbatch).map(Some)
                }
                _ => None,
            };
            if let Some(found) = found {
                let found = found.map_or("no micro-batch".into(), |m| format!("micro-batch {m}"));
                return Err(CheckError::MixedGradients { place: place(), found });
            }
            if pass == Pass::Apply {
                updated.insert((chunk, microbatch));
            }
            let due = before[microbatch.idx()].filter(|_| pass == Pass::Forward);
            if let Some(missing) = due.filter(|&due| !updated.contains(&(chunk, due))) {
                return Err(CheckError::Stale { place: place(), missing: missing.0, bound });
            }
        }
    }
    Ok(())
}

/// By micro-batch, the one `bound + 1` before it on its path: its update must be there. Those
/// before that one come earlier by the same rule for it, or by the order of the gradients' use.
fn due_before(schedule: &Schedule, bound: usize) -> Vec<Option<MicrobatchId>> {
    let mut of_path = vec![Vec::new(); schedule.paths.len()];
    let paths = schedule.microbatches.iter().enumerate();
    let due = paths.map(|(idx, &path)| {
        let earlier = &mut of_path[path as usize];
        let due = earlier.len().checked_sub(bound.saturating_add(1)).map(|at| earlier[at]);
        earlier.push(MicrobatchId::from_idx(idx));
        due
    });
    due.collect()
}
