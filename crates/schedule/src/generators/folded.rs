//! Pipelines that go down their devices and up again: two chunks a device, and what the kinds over
//! them share.

use super::{Kind, dualpipe_v, v_memory, zb_v};
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout, most_in_flight};
use std::collections::{BTreeMap, VecDeque};

/// A pass of a device: which, of its first (0) or second chunk (1), over which micro-batch.
pub(super) type FoldedPass = (Pass, usize, u32);

pub(super) fn order(kind: Kind, layout: &Layout) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(kind.to_string(), layout);
    for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
        let n_stages = pipeline.stages.len() as u32;
        let programs = programs(kind, n_stages / 2, pipeline.microbatches);
        for (rank, program) in (0..).zip(programs) {
            for (pass, chunk, microbatch) in program {
                let stage = if chunk == 0 { rank } else { n_stages - 1 - rank };
                order.push(path_idx, stage, pass, microbatch);
            }
        }
    }
    order
}

/// Most micro-batches that a stage keeps at once.
pub(super) fn in_flight(kind: Kind, stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    let rank = stage_idx.min(n_stages - 1 - stage_idx);
    let own = usize::from(rank != stage_idx);
    let mut programs = programs(kind, n_stages / 2, n_microbatches);
    let program = programs.swap_remove(rank as usize);
    let own = program.into_iter().filter(|&(_, chunk, _)| chunk == own);
    most_in_flight(own.map(|(pass, ..)| pass))
}

fn programs(kind: Kind, n_devices: u32, n_microbatches: u32) -> Vec<Vec<FoldedPass>> {
    let by_rank = |passes: fn(u32, u32, u32) -> Vec<FoldedPass>| {
        (0..n_devices).map(|rank| passes(rank, n_devices, n_microbatches)).collect()
    };
    match kind {
        Kind::ZbV => by_rank(zb_v::passes),
        Kind::DualPipeV => by_rank(dualpipe_v::passes),
        _ => v_memory::programs(kind, n_devices, n_microbatches),
    }
}

/// A device's passes so far; those of one sort and chunk go through the micro-batches in order.
#[derive(Default)]
pub(super) struct Device {
    passes: Vec<FoldedPass>,
    /// How many of each pass and chunk there are.
    taken: BTreeMap<(Pass, usize), u32>,
    /// Chunks whose weight backward is still to come, oldest first.
    deferred: VecDeque<usize>,
}

impl Device {
    /// The micro-batch whose turn it is.
    pub(super) fn next(&self, pass: Pass, chunk: usize) -> u32 {
        self.taken.get(&(pass, chunk)).copied().unwrap_or(0)
    }

    fn take(&mut self, pass: Pass, chunk: usize) {
        let microbatch = self.next(pass, chunk);
        self.passes.push((pass, chunk, microbatch));
        self.taken.insert((pass, chunk), microbatch + 1);
    }

    pub(super) fn forward(&mut self, chunk: usize) {
        self.take(Pass::Forward, chunk);
    }

    /// An input backward; its weight backward waits.
    pub(super) fn input(&mut self, chunk: usize) {
        self.take(Pass::BackwardInput, chunk);
        self.deferred.push_back(chunk);
    }

    /// The weight backward that has waited longest, if any does.
    pub(super) fn weight(&mut self) {
        if let Some(&chunk) = self.deferred.front() {
            self.weight_of(chunk);
        }
    }

    /// The weight backward of this chunk that has waited longest; false if none waits.
    pub(super) fn weight_of(&mut self, chunk: usize) -> bool {
        let waits = self.deferred.iter().position(|&waiting| waiting == chunk);
        if let Some(at) = waits {
            self.deferred.remove(at);
            self.take(Pass::BackwardWeight, chunk);
        }
        waits.is_some()
    }

    /// Both parts of a backward, one after the other.
    pub(super) fn backward(&mut self, chunk: usize) {
        self.take(Pass::BackwardInput, chunk);
        self.take(Pass::BackwardWeight, chunk);
    }

    /// All passes but those over micro-batches beyond `n_microbatches`.
    pub(super) fn finish(mut self, n_microbatches: u32) -> Vec<FoldedPass> {
        self.passes.retain(|&(_, _, microbatch)| microbatch < n_microbatches);
        self.passes
    }
}
