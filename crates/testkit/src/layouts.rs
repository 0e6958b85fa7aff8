//! Random layouts: pipelines of unlike depth, unlike cuts and unlike shares.

use cavalcade_schedule::{Layout, Pipeline, Stage, Tie};
use cavalcade_units::DeviceId;
use proptest::prelude::*;
use proptest::sample::subsequence;

/// Any layout of up to `pipelines_max` pipelines over up to 9 layers, tied or not.
pub fn layouts(pipelines_max: usize) -> impl Strategy<Value = Layout> {
    (1u32..=9, any::<bool>()).prop_flat_map(move |(n_layers, is_tied)| {
        let pipeline = (cuts(n_layers), 1u32..=6);
        prop::collection::vec(pipeline, 1..=pipelines_max)
            .prop_map(move |pipelines| layout(n_layers, is_tied, pipelines))
    })
}

/// Where to cut `0..n_layers` into consecutive, non-empty runs.
fn cuts(n_layers: u32) -> impl Strategy<Value = Vec<u32>> {
    let inner: Vec<u32> = (1..n_layers).collect();
    let n_inner = inner.len();
    subsequence(inner, 0..=n_inner.min(4))
}

fn layout(n_layers: u32, is_tied: bool, pipelines: Vec<(Vec<u32>, u32)>) -> Layout {
    let mut n_devices = 0;
    let mut pipeline = |(cuts, microbatches): (Vec<u32>, u32)| {
        let mut bounds = vec![0];
        bounds.extend(cuts);
        bounds.push(n_layers);
        let stages = bounds.windows(2).map(|pair| {
            n_devices += 1;
            Stage { device: DeviceId(n_devices - 1), layers: pair[0]..pair[1] }
        });
        Pipeline { stages: stages.collect(), microbatches }
    };
    let pipelines = pipelines.into_iter().map(&mut pipeline).collect();
    let is_tied = is_tied && n_layers > 1;
    let ties = is_tied.then(|| Tie { layers: vec![0, n_layers - 1] }).into_iter().collect();
    Layout { n_layers, n_devices, ties, pipelines }
}
