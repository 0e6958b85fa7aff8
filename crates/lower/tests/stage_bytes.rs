//! What the exact rule counts for a stage is never less than what the check will ask for.

mod support;

use cavalcade_lower::{OpCosts, StagePasses, stage_bytes};
use cavalcade_model::{GptConfig, Model};
use cavalcade_schedule::{Kind, Options, build, check, generate};
use cavalcade_testkit::layouts::layouts;
use cavalcade_units::{Bytes, ChunkId};
use proptest::prelude::*;
use support::{cluster, profile};

proptest! {
    #[test]
    fn a_stage_is_never_counted_too_small(
        layout in layouts(3),
        kind in prop::sample::select(vec![
            Kind::GPipe, Kind::OneFOneB, Kind::ZbH1, Kind::ZbH2, Kind::Solve { most: 2 },
            Kind::Solve { most: u32::MAX },
        ]),
        (split, recompute) in any::<(bool, bool)>(),
        sizes in prop::collection::vec(
            (0u64..5000, 0u64..5000, 0u64..50_000, 0u64..50_000, 0u64..3000),
            9,
        ),
    ) {
        // A GPT has at least three layers: embedding, one block, head.
        prop_assume!(layout.n_layers >= 3);
        let tied = !layout.ties.is_empty();
        let blocks = layout.n_layers as usize - 2;
        let config = GptConfig::new(11, 4, 8, 2, blocks, tied, false).expect("it is legal");
        let model = Model::gpt(&config);
        let profile = profile(&model, &sizes);
        let order = generate(kind, &layout).expect("it fits");
        let n_chunks: usize = layout.pipelines.iter().map(|p| p.stages.len()).sum();
        let recomputed = (0..n_chunks).filter(|_| recompute).map(ChunkId::from_idx);
        let options = Options {
            clip_gradients: true,
            split_backward: split,
            recompute: recomputed.collect(),
            ..Options::default()
        };
        let passes = StagePasses::of(kind, split, recompute);
        let schedule = build(order, &options);
        let costs = OpCosts::new(&schedule, &model, &profile, &cluster(layout.n_devices));
        let bounds = check(schedule, None).expect("it is sound").peak_bound(&costs);
        for pipeline in &layout.pipelines {
            for (idx, stage) in pipeline.stages.iter().enumerate() {
                let in_flight = kind.in_flight(idx as u32, pipeline.shape());
                let counted =
                    stage_bytes(&model, &profile, stage.layers.clone(), in_flight, passes);
                let bound = bounds[stage.device.idx()];
                prop_assert!(counted + Bytes(8) >= bound, "{counted:?} < {bound:?}");
            }
        }
    }
}
