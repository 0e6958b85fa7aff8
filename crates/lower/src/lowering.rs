//! Plan to layout to schedule.

use cavalcade_model::Model;
use cavalcade_plan::{Pipeline, Plan};
use cavalcade_schedule::{Layout, Options, Schedule, Tie, build, generate};

/// The layout of `plan`: what the schedule's generators need to know of it.
pub fn layout(plan: &Plan, model: &Model, n_devices: usize) -> Layout {
    Layout {
        n_layers: model.n_layers(),
        n_devices: u32::try_from(n_devices).expect("a cluster has fewer than 2^32 devices"),
        ties: model.ties.iter().map(|tie| Tie { layers: tie.layers.clone() }).collect(),
        pipelines: plan.pipelines().iter().map(Pipeline::form).collect(),
    }
}

/// The schedule of `plan`, not yet checked.
pub fn lower(plan: &Plan, model: &Model, n_devices: usize, options: &Options) -> Schedule {
    let order = generate(plan.schedule(), &layout(plan, model, n_devices));
    build(order.expect("a plan has the form that its schedule needs"), options)
}
