//! DualPipe-V (DeepSeek-AI, 2025; "cut in half", Qi et al. 2025): two chunks a device, down the
//! devices and up again; in the steady state a forward of one chunk stands beside a backward of
//! the other, so that the one's messages move while the other computes.
//!
//! ```text
//! 2 devices, 4 micro-batches; stages 0 and 3 on device 0, 1 and 2 on device 1
//! device 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3I1 3W1 3F2 0I0 0W0 ...
//! device 1  1F0 2F0 1F1 2F1 1F2 2I0 2W0 2F2 1I0 1W0 ...
//! ```
//!
//! Device `r` of `p` with `l = p - r - 1` devices after it, whole backwards but where it says so:
//!
//! | times | passes, of the first chunk (0) and the second (1) |
//! |---|---|
//! | `2 l` | forward 0 |
//! | `r + 1` | forward 0, forward 1 |
//! | `l` | backward 1, forward 1 |
//! | `n - 2 p + r + 1` | forward 0, backward 1, forward 1, backward 0 |
//! | `l` | backward 1, forward 1, backward 0 |
//! | `r + 1` | backward 1, backward 0: of the latter half of them the input parts only |
//! | `l` | weight part, input part 0 |
//! | `r + 1` | weight part |
//!
//! The source takes a forward beside a backward for one pass that ends as a whole. A device's lane
//! of compute does one pass at a time here, and what the first of the two made is sent at once: the
//! idle time is `(p - 1)(F + Bi - W)` of a chunk's times where these are equal, and no more than
//! the source's `(p - 1)(FB + B - 3 W)` with `FB = F + B` otherwise. A device holds `2 p + 1`
//! chunks' stashes at most. The pattern is one of at least `2 p` micro-batches. Fewer leave their
//! places empty.

use super::folded::{Device, FoldedPass};
use crate::op::Pass;

/// The passes of one device.
pub(super) fn passes(rank: u32, n_devices: u32, n_microbatches: u32) -> Vec<FoldedPass> {
    let n_places = n_microbatches.max(2 * n_devices);
    let after = n_devices - rank - 1;
    let mut device = Device::default();
    (0..2 * after).for_each(|_| device.forward(0));
    for _ in 0..=rank {
        device.forward(0);
        device.forward(1);
    }
    for _ in 0..after {
        device.backward(1);
        device.forward(1);
    }
    while device.next(Pass::Forward, 0) < n_places {
        device.forward(0);
        device.backward(1);
        device.forward(1);
        device.backward(0);
    }
    for _ in 0..after {
        device.backward(1);
        device.forward(1);
        device.backward(0);
    }
    for idx in 0..2 * (rank + 1) {
        let chunk = if idx.is_multiple_of(2) { 1 } else { 0 };
        if idx <= rank { device.backward(chunk) } else { device.input(chunk) }
    }
    for _ in 0..after {
        device.weight();
        device.input(0);
    }
    (0..=rank).for_each(|_| device.weight());
    device.finish(n_microbatches)
}
