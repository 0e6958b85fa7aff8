//! HetPipe (Park et al., USENIX ATC 2020): mini-batches follow each other without a flush, `Nm` of
//! them in the pipeline at once, each with its own copy of the weights and its own update.
//!
//! ```text
//! hetpipe:3, 3 stages; U makes the change of a mini-batch, A adds it to the weights
//! stage 0  F0 F1 F2          B0 U0 A0 F3 B1 U1 A1 F4 ...
//! stage 1     F0 F1       B0 U0 F2 B1 U1 A0 F3 ...
//! stage 2        F0 B0 U0 F1 B1 U1 F2 B2 U2 A0 F3 ...
//! ```
//!
//! The first of `k` stages begins with `Nm` forwards, the last one with a single one (there the
//! forward and the backward of a mini-batch are one task), and those between with
//! `1 + (Nm - 1)(k - 1 - i)/(k - 1)`, rounded up: for `Nm = k` the warm-up of 1F1B. Stages work
//! through the mini-batches in order. On every stage a mini-batch sees exactly the updates of all
//! but the `Nm - 1` before it, as if it took its weights where it enters the pipeline: the local
//! staleness `Nm - 1`, which the check holds the schedule to. A later stage therefore keeps
//! changes that it has made for a while. `Nm` mini-batches are a wave; a micro-batch of the
//! schedule is a mini-batch here.

use super::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

pub(super) fn order(kind: Kind, layout: &Layout) -> ComputeOrder {
    let passes = |stage_idx, n_stages, n_microbatches| {
        let ahead = in_flight(kind, stage_idx, n_stages, n_microbatches);
        let wave = wave(kind, n_stages);
        let mut passes = Vec::new();
        let forward = |passes: &mut Vec<_>, m: u32| {
            passes.extend(m.checked_sub(wave).map(|due| (Pass::Apply, due)));
            passes.push((Pass::Forward, m));
        };
        (0..ahead).for_each(|m| forward(&mut passes, m));
        for m in 0..n_microbatches {
            passes.extend([(Pass::Backward, m), (Pass::Update, m)]);
            if m + ahead < n_microbatches {
                forward(&mut passes, m + ahead);
            }
        }
        let left = n_microbatches.saturating_sub(wave)..n_microbatches;
        passes.extend(left.map(|m| (Pass::Apply, m)));
        passes
    };
    let mut order = ComputeOrder::by_stage(kind.to_string(), layout, passes);
    let longest = layout.pipelines.iter().map(|pipeline| pipeline.stages.len() as u32).max();
    order.staleness = longest.map(|n_stages| wave(kind, n_stages) - 1);
    order
}

/// Mini-batches in a pipeline at once.
fn wave(kind: Kind, n_stages: u32) -> u32 {
    match kind {
        Kind::HetPipe { wave: Some(wave) } => wave,
        _ => n_stages,
    }
}

/// With how many forwards a stage begins; at least 1, at most the number of mini-batches.
pub(super) fn in_flight(kind: Kind, stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    let beyond = u64::from(wave(kind, n_stages) - 1);
    let left = u64::from(n_stages - 1 - stage_idx);
    let behind = (beyond * left).div_ceil(u64::from(n_stages - 1).max(1));
    // A pipeline of one stage has its first and last in one.
    let behind = if n_stages == 1 { 0 } else { behind };
    u32::try_from(1 + behind).unwrap_or(u32::MAX).min(n_microbatches)
}
