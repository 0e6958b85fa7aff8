//! Chimera (Li and Hoefler, SC 2021): two pipelines over the same `D` devices in opposite
//! directions, which fill each other's bubbles.
//!
//! ```text
//! D = 4, N = 4; small letters go down (device = stage), capitals up (device = D - 1 - stage)
//! device 0  f0    f1 F0 B0 F1 B1 b0    b1
//! device 1     f0 F0 f1 F1 b0 B0 b1 B1
//! device 2     F0 f0 F1 f1 B0 b0 B1 b1
//! device 3  F0    F1 f0 b0 f1 b1 B0    B1
//! ```
//!
//! Each direction is 1F1B in its steady state. In slots of one pass, micro-batch `j` of a unit of
//! `D/2` is at stage `i` forwards in slot `i + 2 j` and backwards in slot `2 D - 1 - i + 2 j`: the
//! forwards of one direction have the parity of the other direction's backwards, in another half
//! of the unit, and never meet them. Unit follows unit after `2 D` slots (the paper's direct
//! concatenation) and fits without a gap, so `N` micro-batches, half in each direction, take
//! `2 N + D - 2` slots if `N` is a multiple of `D`. A broken last unit just lacks some passes: any
//! shares of the two directions are legal, and this order of the rest stays sound.
//!
//! Both directions hold a copy of every layer. Their gradients are summed as those of any two
//! pipelines are. Absent: the paper's forward doubling and backward halving, and more than two
//! pipelines over the same devices.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(Kind::Chimera.to_string(), layout);
    for (pair_idx, pair) in layout.pipelines.chunks(2).enumerate() {
        let mut passes = Vec::new();
        for (direction, pipeline) in pair.iter().enumerate() {
            let n_stages = pipeline.stages.len() as u32;
            for stage_idx in 0..n_stages {
                for microbatch in 0..pipeline.microbatches {
                    for pass in [Pass::Forward, Pass::Backward] {
                        let slot = slot(pass, stage_idx, n_stages, microbatch);
                        passes.push((slot, 2 * pair_idx + direction, stage_idx, pass, microbatch));
                    }
                }
            }
        }
        passes.sort_unstable();
        for (_, pipeline_idx, stage_idx, pass, microbatch) in passes {
            order.push(pipeline_idx, stage_idx, pass, microbatch);
        }
    }
    order
}

fn slot(pass: Pass, stage_idx: u32, n_stages: u32, microbatch: u32) -> u64 {
    let [stage_idx, n_stages, microbatch] = [stage_idx, n_stages, microbatch].map(u64::from);
    let unit_len = n_stages / 2;
    let (unit, within) = (microbatch / unit_len, microbatch % unit_len);
    let start = 2 * n_stages * unit + 2 * within;
    if pass == Pass::Forward { start + stage_idx } else { start + 2 * n_stages - 1 - stage_idx }
}

/// Most stashes that a stage keeps of the micro-batches of its direction: those of one unit, or as
/// many as stages are left.
pub(super) fn in_flight(stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    (n_stages / 2).min(n_stages - stage_idx).min(n_microbatches)
}
