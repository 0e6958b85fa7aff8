//! 1F1B with a flush (PipeDream-flush, Narayanan et al. 2021; DAPPLE's early backward, Fan et
//! al. 2021): a warm-up of forwards, then one forward and one backward in turn.
//!
//! ```text
//! stage 0  F0 F1 F2          B0 F3 B1    B2    B3
//! stage 1     F0 F1       B0 F2 B1 F3 B2    B3
//! stage 2        F0    B0 F1 B1 F2 B2 F3 B3
//! ```
//!
//! Stage `i` of `p` warms up with `p - i - 1` forwards, so it never keeps more than `p - i`
//! stashes, whatever the number of micro-batches.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    ComputeOrder::by_stage(Kind::OneFOneB.word(), layout, |stage_idx, n_stages, n_microbatches| {
        let warm_up = (n_stages - stage_idx - 1).min(n_microbatches);
        let mut passes: Vec<_> = (0..warm_up).map(|m| (Pass::Forward, m)).collect();
        for m in 0..n_microbatches {
            if warm_up + m < n_microbatches {
                passes.push((Pass::Forward, warm_up + m));
            }
            passes.push((Pass::Backward, m));
        }
        passes
    })
}
