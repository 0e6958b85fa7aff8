//! ZB-H1 and ZB-H2 (Qi et al., ICLR 2024): 1F1B with split backwards, whose weight parts fill the
//! bubble at the end of the step.
//!
//! ```text
//! zb-h1, 3 stages, 4 micro-batches
//! stage 0  F0 F1 F2       I0 W0 F3 I1 W1 I2 W2 I3 W3
//! stage 1     F0 F1    I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//! stage 2        F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//! ```
//!
//! Stage `i` of `p` begins with `K_i` forwards. Then an input backward, the weight backward of the
//! micro-batch `D_i` before it and the next forward take turns, so that it never holds more than
//! `K_i + D_i` micro-batches between their forward and their weight backward.
//!
//! | kind | `K_i` | `D_i` | held | idle time, equal stages |
//! |---|---|---|---|---|
//! | `zb-h1` | `p - i` | `i` | `p` | `(p - 1)(F + Bi - W)` |
//! | `zb-h2` | `2 (p - i) - 1` | `2 i` | `2 p - 1` | `(p - 1)(F + Bi - 2 W)` |
//!
//! Idle time, exact where `W` is no longer than `F`, is that of a device between its first pass and
//! its last: the next step may begin on the first devices while the last ones still compute.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

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
    let left = n_stages - stage_idx;
    let (ahead, behind) = match kind {
        Kind::ZbH2 => (2 * left - 1, 2 * stage_idx),
        _ => (left, stage_idx),
    };
    let mut forwards = (0..n_microbatches).map(|m| (Pass::Forward, m));
    let mut weights = (0..n_microbatches).map(|m| (Pass::BackwardWeight, m));
    let mut passes: Vec<_> = forwards.by_ref().take(ahead as usize).collect();
    for m in 0..n_microbatches {
        passes.push((Pass::BackwardInput, m));
        if m >= behind {
            passes.extend(weights.next());
        }
        passes.extend(forwards.next());
    }
    passes.extend(weights);
    passes
}
