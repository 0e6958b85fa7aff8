//! 1F1B with a flush (PipeDream-flush, Narayanan et al. 2021; DAPPLE's early backward, Fan et
//! al. 2021): a warm-up of forwards, then one forward and one backward in turn.
//!
//! ```text
//! stage 0  F0 F1 F2          B0 F3 B1    B2    B3
//! stage 1     F0 F1       B0 F2 B1 F3 B2    B3
//! stage 2        F0    B0 F1 B1 F2 B2 F3 B3
//! ```
//!
//! Stage `i` of `p` begins with `K_i` forwards and then never keeps more than `K_i` stashes,
//! whatever the number of micro-batches. How many is the only difference between
//!
//! | kind | `K_i` | source |
//! |---|---|---|
//! | `1f1b` | `p - i` | |
//! | `1f1b:aN` | `min(p - i, N)` | DAPPLE's policy A: memory for `N` stashes |
//! | `1f1b:bN` | `min(2 (p - i) - 1, N)` | DAPPLE's policy B: transfers that take time are hidden |
//! | `geo:C+N` | `p - i`, before stage `C` `N` more | GeoPipe (2025): a slow link to stage `C` |
//!
//! For a link with one-way time `X` the number to give `geo` is `2 X / (F + B)`, rounded up.
//! `K_i` never grows from a stage to the next, so no stage waits for a backward that cannot come.
//! Where `N` cuts it short, neighbors have the same `K_i` and one of them waits: memory for time.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

/// Which of DAPPLE's two rules says how many forwards a stage begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarmUp {
    /// As many as stages are left: what hides all that has no transfer time.
    A,
    /// Nearly twice as many, so that a transfer may take as long as a pass.
    B,
}

/// `K_i`; at least 1, at most the number of micro-batches.
pub(super) fn warm_up(kind: Kind, stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    let left = n_stages - stage_idx;
    let wanted = match kind {
        Kind::Dapple { policy: WarmUp::A, most } => left.min(most),
        Kind::Dapple { policy: WarmUp::B, most } => (2 * left - 1).min(most),
        Kind::Geo { cut, extra } if stage_idx < cut => left.saturating_add(extra),
        _ => left,
    };
    wanted.max(1).min(n_microbatches)
}

pub(super) fn order(kind: Kind, layout: &Layout) -> ComputeOrder {
    ComputeOrder::by_stage(kind.to_string(), layout, |stage_idx, n_stages, n_microbatches| {
        passes(kind, stage_idx, n_stages, n_microbatches)
    })
}

/// The passes of one stage.
pub(super) fn passes(
    kind: Kind,
    stage_idx: u32,
    n_stages: u32,
    n_microbatches: u32,
) -> Vec<(Pass, u32)> {
    let ahead = warm_up(kind, stage_idx, n_stages, n_microbatches) - 1;
    let mut passes: Vec<_> = (0..ahead).map(|m| (Pass::Forward, m)).collect();
    for m in 0..n_microbatches {
        if ahead + m < n_microbatches {
            passes.push((Pass::Forward, ahead + m));
        }
        passes.push((Pass::Backward, m));
    }
    passes
}
