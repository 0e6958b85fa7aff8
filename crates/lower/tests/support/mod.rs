//! A profile with chosen sizes, and a cluster without limits.

use cavalcade_cluster::{Cluster, Device};
use cavalcade_model::{Layer, Model};
use cavalcade_profile::{LayerProfile, LinkProfile, ParamBytes, Profile};
use cavalcade_units::{Bandwidth, Bytes, Nanos};

/// Of a layer: saved and deferred bytes, both workspaces, the output.
pub(crate) type Sizes = (u64, u64, u64, u64, u64);

/// A profile of `model` whose layers have `sizes`.
pub(crate) fn profile(model: &Model, sizes: &[Sizes]) -> Profile {
    let layer = |(layer, sizes): (&Layer, &Sizes)| LayerProfile {
        name: layer.name.clone(),
        forward: Nanos(10),
        backward: Nanos(20),
        backward_input: Nanos(13),
        backward_weight: Nanos(8),
        saved: Bytes(sizes.0),
        deferred: Bytes(sizes.1),
        workspace: Bytes(sizes.2),
        split_workspace: Bytes(sizes.3),
        output: Bytes(sizes.4),
    };
    Profile {
        model: "0".repeat(16),
        microbatch_size: 1,
        sequence: 4,
        layers: model.layers.iter().zip(sizes).map(layer).collect(),
        optimizer_per_million: Nanos(1),
        param_bytes: ParamBytes { weights: 8, gradients: 4, optimizer: 8 },
        base: Bytes(1000),
        loopback: LinkProfile {
            latency: Nanos(1),
            bandwidth: Bandwidth::from_bytes_per_second(1e9),
        },
        op_overhead: Nanos(0),
        jitter: 0.0,
    }
}

/// Devices as fast as the measured host.
pub(crate) fn cluster(n_devices: u32) -> Cluster {
    let device = |idx| Device::named(format!("d{idx}"));
    Cluster::new((0..n_devices).map(device).collect(), None, &[]).expect("it is legal")
}
