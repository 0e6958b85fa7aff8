//! Plan to layout to schedule.

use cavalcade_model::Model;
use cavalcade_plan::Plan;
use cavalcade_schedule::{Layout, Options, Pipeline, Schedule, Stage, Tie, build, generate};

/// The layout of `plan`: what the schedule's generators need to know of it.
pub fn layout(plan: &Plan, model: &Model, n_devices: usize) -> Layout {
    let pipelines = plan.pipelines().iter().map(|pipeline| Pipeline {
        stages: pipeline
            .stages()
            .iter()
            .map(|stage| Stage { device: stage.device(), layers: stage.layers() })
            .collect(),
        microbatches: pipeline.microbatches(),
    });
    Layout {
        n_layers: model.n_layers(),
        n_devices: u32::try_from(n_devices).expect("a cluster has fewer than 2^32 devices"),
        ties: model.ties.iter().map(|tie| Tie { layers: tie.layers.clone() }).collect(),
        pipelines: pipelines.collect(),
    }
}

/// The schedule of `plan`, not yet checked.
pub fn lower(plan: &Plan, model: &Model, n_devices: usize, options: Options) -> Schedule {
    build(generate(plan.schedule(), &layout(plan, model, n_devices)), options)
}
