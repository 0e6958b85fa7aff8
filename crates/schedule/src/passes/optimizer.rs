//! Ends the step: the norm of the whole gradient if it is clipped, then one step a chunk.

use crate::op::Op;
use crate::passes::push_collective;
use crate::tables::{CollectiveKind, Schedule};
use cavalcade_units::{ChunkId, DeviceId};
use std::collections::BTreeSet;

pub(super) fn insert(schedule: &mut Schedule, clip_gradients: bool) {
    if clip_gradients {
        let devices: BTreeSet<DeviceId> = schedule.chunks.iter().map(|c| c.device).collect();
        push_collective(schedule, CollectiveKind::GradNorm, devices.into_iter().collect());
    }
    for (chunk_idx, chunk) in schedule.chunks.iter().enumerate() {
        let step = Op::OptimizerStep { chunk: ChunkId::from_idx(chunk_idx) };
        schedule.programs[chunk.device.idx()].push(step);
    }
}
