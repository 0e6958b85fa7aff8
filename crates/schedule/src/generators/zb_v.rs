//! ZB-V (Qi et al., NeurIPS 2024): two chunks a device, the pipeline goes down over the devices and
//! up again, so that the last stage is on the first device. No idle time if `F = Bi = W`, within
//! the memory of 1F1B's first stage.
//!
//! ```text
//! 2 devices, stages 0 and 3 on device 0, 1 and 2 on device 1
//! device 0  0F0 0F1 0F2     3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 ...
//! device 1      1F0 2F0 1F1 2F1         2I0 2W0 1F2 1I0 1W0 ...
//! ```
//!
//! Device `r` of `p` begins with `2 (p - r) - 1` forwards of its first chunk, then `r` of its
//! second and first in turn, then `p - r` of its second with their whole backwards; then it takes a
//! forward and a backward of the first chunk and of the second in turn. When the forwards are
//! over, input backwards go first and weight backwards fill what is left.
//!
//! The pattern is one of at least `2 p` micro-batches. Fewer leave their places empty.

use super::folded::{Device, FoldedPass};
use crate::op::Pass;

/// The passes of one device.
pub(super) fn passes(rank: u32, n_devices: u32, n_microbatches: u32) -> Vec<FoldedPass> {
    let n_places = n_microbatches.max(2 * n_devices);
    let left = n_devices - rank;
    let mut device = Device::default();
    (0..2 * left - 1).for_each(|_| device.forward(0));
    for _ in 0..rank {
        device.forward(1);
        device.forward(0);
    }
    for _ in 0..left {
        device.forward(1);
        device.backward(1);
    }
    while device.next(Pass::Forward, 1) < n_places {
        if device.next(Pass::Forward, 0) < n_places {
            device.forward(0);
        }
        device.backward(0);
        device.forward(1);
        device.backward(1);
    }
    for _ in 0..rank {
        device.input(0);
        device.input(1);
    }
    for _ in 0..left {
        device.input(0);
        device.weight_of(0);
    }
    for chunk in [1, 0] {
        while device.weight_of(chunk) {}
    }
    device.finish(n_microbatches)
}
