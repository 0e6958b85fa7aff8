//! Runs the forward of chunks that keep their input alone once more, just before the backward
//! (gradient checkpointing, Chen et al. 2016).

use crate::op::Pass;
use crate::order::ComputeOrder;
use cavalcade_units::ChunkId;

pub(super) fn insert(order: &mut ComputeOrder, chunks: &[ChunkId]) {
    for chunk in chunks {
        order.chunks[chunk.idx()].recompute = true;
    }
    let chunks = &order.chunks;
    for program in &mut order.programs {
        let again = program.iter().flat_map(|&(pass, chunk, microbatch)| {
            let needs_stash = matches!(pass, Pass::Backward | Pass::BackwardInput);
            let first = needs_stash && chunks[chunk.idx()].recompute;
            let recompute = first.then_some((Pass::Recompute, chunk, microbatch));
            recompute.into_iter().chain([(pass, chunk, microbatch)])
        });
        *program = again.collect();
    }
}
