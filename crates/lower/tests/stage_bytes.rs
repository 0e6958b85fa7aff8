//! What the exact rule counts for a stage is never less than what the check will ask for.

use cavalcade_cluster::{Cluster, Device};
use cavalcade_lower::{OpCosts, stage_bytes};
use cavalcade_model::{GptConfig, Model};
use cavalcade_profile::{LayerProfile, LinkProfile, ParamBytes, Profile};
use cavalcade_schedule::{Kind, Options, build, check, generate};
use cavalcade_testkit::layouts::layouts;
use cavalcade_units::{Bandwidth, Bytes, Nanos};
use proptest::prelude::*;

fn profile(model: &Model, sizes: &[(u64, u64, u64)]) -> Profile {
    let layer = |(layer, &(saved, workspace, output)): (&cavalcade_model::Layer, _)| LayerProfile {
        name: layer.name.clone(),
        forward: Nanos(10),
        backward: Nanos(20),
        saved: Bytes(saved),
        workspace: Bytes(workspace),
        output: Bytes(output),
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
    }
}

proptest! {
    #[test]
    fn a_stage_is_never_counted_too_small(
        layout in layouts(3),
        kind in prop::sample::select(vec![
            Kind::GPipe, Kind::OneFOneB, Kind::ZbH1, Kind::ZbH2, Kind::Solve { most: 2 },
            Kind::Solve { most: u32::MAX },
        ]),
        sizes in prop::collection::vec((0u64..5000, 0u64..50_000, 0u64..3000), 9),
    ) {
        // A GPT has at least three layers: embedding, one block, head.
        prop_assume!(layout.n_layers >= 3);
        let tied = !layout.ties.is_empty();
        let blocks = layout.n_layers as usize - 2;
        let config = GptConfig::new(11, 4, 8, 2, blocks, tied, false).expect("it is legal");
        let model = Model::gpt(&config);
        let profile = profile(&model, &sizes);
        let options = Options { clip_gradients: true, ..Options::default() };
        let schedule = build(generate(kind, &layout).expect("it fits"), &options);
        let device =
            |idx| Device { name: format!("d{idx}"), speed: None, memory: None, threads: 1 };
        let cluster = Cluster::new((0..layout.n_devices).map(device).collect(), None, &[])
            .expect("it is legal");
        let costs = OpCosts::new(&schedule, &model, &profile, &cluster);
        let bounds = check(schedule, None).expect("it is sound").peak_bound(&costs);
        for pipeline in &layout.pipelines {
            for (idx, stage) in pipeline.stages.iter().enumerate() {
                let in_flight = kind.in_flight(idx as u32, pipeline.shape());
                let counted = stage_bytes(&model, &profile, stage.layers.clone(), in_flight);
                let bound = bounds[stage.device.idx()];
                prop_assert!(counted + Bytes(8) >= bound, "{counted:?} < {bound:?}");
            }
        }
    }
}
