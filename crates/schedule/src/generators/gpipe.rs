//! GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards.
//!
//! ```text
//! stage 0  F0 F1 F2 F3          B0 B1 B2 B3
//! stage 1     F0 F1 F2 F3    B0 B1 B2 B3
//! stage 2        F0 F1 F2 F3 B0 B1 B2 B3
//! ```
//!
//! Every stage keeps the stash of all micro-batches. The backwards run in the order of the
//! forwards (the paper reverses them; the sums are then made in another order and nothing else
//! differs), so that gradients accumulate as in every other schedule here.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    ComputeOrder::by_stage(Kind::GPipe.to_string(), layout, |_, _, n_microbatches| {
        let forwards = (0..n_microbatches).map(|m| (Pass::Forward, m));
        let backwards = (0..n_microbatches).map(|m| (Pass::Backward, m));
        forwards.chain(backwards).collect()
    })
}
