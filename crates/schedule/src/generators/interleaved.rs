//! Interleaved 1F1B (Narayanan et al., SC 2021; Megatron-LM): a device holds several chunks, stage
//! `s` of the pipeline on device `s mod p`, so that the bubble is that of a chunk and not of the
//! whole device.
//!
//! ```text
//! 2 devices, 2 chunks each (stages 0 to 3; `0F1` is stage 0, micro-batch 1)
//! device 0  0F0 0F1 2F0 2F1         2B0 0F2 2B1 ...
//! device 1      1F0 1F1 3F0 3B0 3F1 3B1 1F2 ...
//! ```
//!
//! Micro-batches go in groups of `p`: a group passes the device's first chunk, then its second,
//! and so on; backwards the same from the last chunk. Device `r` begins with
//! `2 (p - r - 1) + (v - 1) p` forwards (`v` chunks a device), then alternates. Device 0 keeps
//! `v p + p - 1` stashes of a chunk, which is `p (1 + (p - 1)/(p v))` of a whole device's part.
//!
//! Megatron-LM wants the micro-batches to be a multiple of `p`. Here any number is legal: the first
//! group takes what remains, so it has up to `2 p - 1` (and the device begins with as many more
//! forwards); fewer than `p` micro-batches are one group. A last group of another size would ask
//! for backwards whose forwards are still to come.

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout, most_in_flight};

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(Kind::Interleaved.to_string(), layout);
    for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
        let shape = pipeline.shape();
        let (n_devices, n_chunks) = (shape.n_devices, shape.n_stages / shape.n_devices);
        for rank in 0..n_devices {
            for (pass, chunk, microbatch) in
                passes(rank, n_devices, n_chunks, pipeline.microbatches)
            {
                order.push(path_idx, chunk * n_devices + rank, pass, microbatch);
            }
        }
    }
    order
}

/// The passes of one device: which, of which of its chunks, over which micro-batch.
pub(super) fn passes(
    rank: u32,
    n_devices: u32,
    n_chunks: u32,
    n_microbatches: u32,
) -> Vec<(Pass, u32, u32)> {
    let groups = groups(n_devices, n_microbatches);
    let visits = |pass: Pass| {
        groups.iter().cloned().flat_map(move |group| {
            (0..n_chunks).flat_map(move |visit| {
                let chunk = if pass == Pass::Forward { visit } else { n_chunks - 1 - visit };
                group.clone().map(move |microbatch| (pass, chunk, microbatch))
            })
        })
    };
    let group_len = groups[0].end;
    let ahead = 2 * (n_devices - rank - 1) + (n_chunks - 1) * group_len;
    let mut forwards = visits(Pass::Forward);
    let mut passes: Vec<_> = forwards.by_ref().take(ahead as usize).collect();
    for backward in visits(Pass::Backward) {
        passes.extend(forwards.next());
        passes.push(backward);
    }
    passes
}

/// Micro-batches in runs of `n_devices`; the first run takes what remains.
fn groups(n_devices: u32, n_microbatches: u32) -> Vec<std::ops::Range<u32>> {
    let n_groups = (n_microbatches / n_devices).max(1);
    let end = |group: u32| n_microbatches - (n_groups - 1 - group) * n_devices;
    let start = |group: u32| if group == 0 { 0 } else { end(group - 1) };
    (0..n_groups).map(|group| start(group)..end(group)).collect()
}

/// Most stashes that `stage_idx` keeps at once.
pub(super) fn in_flight(stage_idx: u32, n_stages: u32, n_devices: u32, n_microbatches: u32) -> u32 {
    let own_chunk = stage_idx / n_devices;
    let passes = passes(stage_idx % n_devices, n_devices, n_stages / n_devices, n_microbatches);
    let own = passes.into_iter().filter(|(_, chunk, _)| *chunk == own_chunk);
    most_in_flight(own.map(|(pass, ..)| pass))
}
