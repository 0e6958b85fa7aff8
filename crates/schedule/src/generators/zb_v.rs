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

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};
use std::collections::BTreeMap;

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(Kind::ZbV.to_string(), layout);
    for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
        let n_stages = pipeline.stages.len() as u32;
        for rank in 0..n_stages / 2 {
            for (pass, chunk, microbatch) in passes(rank, n_stages / 2, pipeline.microbatches) {
                let stage = if chunk == 0 { rank } else { n_stages - 1 - rank };
                order.push(path_idx, stage, pass, microbatch);
            }
        }
    }
    order
}

/// The passes of one device: which, of its first (0) or second chunk, over which micro-batch.
pub(super) fn passes(rank: u32, n_devices: u32, n_microbatches: u32) -> Vec<(Pass, usize, u32)> {
    let n_places = n_microbatches.max(2 * n_devices);
    let left = n_devices - rank;
    let mut device = Device::default();
    (0..2 * left - 1).for_each(|_| device.take(Pass::Forward, 0));
    for _ in 0..rank {
        device.take(Pass::Forward, 1);
        device.take(Pass::Forward, 0);
    }
    for _ in 0..left {
        device.take(Pass::Forward, 1);
        device.whole_backward(1);
    }
    while device.next(Pass::Forward, 1) < n_places {
        if device.next(Pass::Forward, 0) < n_places {
            device.take(Pass::Forward, 0);
        }
        device.whole_backward(0);
        device.take(Pass::Forward, 1);
        device.whole_backward(1);
    }
    for _ in 0..rank {
        device.take(Pass::BackwardInput, 0);
        device.take(Pass::BackwardInput, 1);
    }
    for _ in 0..left {
        device.take(Pass::BackwardInput, 0);
        device.take(Pass::BackwardWeight, 0);
    }
    for chunk in [1, 0] {
        while device.next(Pass::BackwardWeight, chunk) < n_places {
            device.take(Pass::BackwardWeight, chunk);
        }
    }
    device.passes.retain(|&(_, _, microbatch)| microbatch < n_microbatches);
    device.passes
}

/// A device's passes so far.
#[derive(Default)]
struct Device {
    passes: Vec<(Pass, usize, u32)>,
    /// How many of each pass and chunk there are.
    taken: BTreeMap<(Pass, usize), u32>,
}

impl Device {
    /// The micro-batch whose turn it is.
    fn next(&self, pass: Pass, chunk: usize) -> u32 {
        self.taken.get(&(pass, chunk)).copied().unwrap_or(0)
    }

    fn take(&mut self, pass: Pass, chunk: usize) {
        let microbatch = self.next(pass, chunk);
        self.passes.push((pass, chunk, microbatch));
        self.taken.insert((pass, chunk), microbatch + 1);
    }

    fn whole_backward(&mut self, chunk: usize) {
        self.take(Pass::BackwardInput, chunk);
        self.take(Pass::BackwardWeight, chunk);
    }
}
