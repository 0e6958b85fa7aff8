//! Plan to layout to schedule.

use crate::costs::{link, pass_time, speed};
use cavalcade_cluster::Cluster;
use cavalcade_model::Model;
use cavalcade_plan::{Pipeline, Placement, Plan, Stage};
use cavalcade_profile::Profile;
use cavalcade_schedule::{
    Layout, Options, Pass, Schedule, Servers, StageTicks, Ticks, Tie, Waves, build, generate,
};
use cavalcade_units::{DeviceId, Nanos};
use std::collections::BTreeMap;

/// The layout of `plan`: what the schedule's generators need to know of it. A tick is a nanosecond.
pub fn layout(plan: &Plan, model: &Model, profile: &Profile, cluster: &Cluster) -> Layout {
    let n_devices = cluster.devices().len();
    Layout {
        n_layers: model.n_layers(),
        n_devices: u32::try_from(n_devices).expect("a cluster has fewer than 2^32 devices"),
        ties: model.ties.iter().map(|tie| Tie { layers: tie.layers.clone() }).collect(),
        pipelines: plan.pipelines().iter().map(Pipeline::form).collect(),
        ticks: match plan.schedule().weighs_ticks() {
            true => ticks(plan, profile, cluster),
            false => Ticks::default(),
        },
    }
}

/// The schedule of `plan`, not yet checked.
pub fn lower(
    plan: &Plan,
    model: &Model,
    profile: &Profile,
    cluster: &Cluster,
    options: &Options,
) -> Schedule {
    let order = generate(plan.schedule(), &layout(plan, model, profile, cluster));
    let options = Options { waves: waves(plan, cluster), ..options.clone() };
    build(order.expect("a plan has the form that its schedule needs"), &options)
}

/// How the replicas of `plan` exchange waves.
fn waves(plan: &Plan, cluster: &Cluster) -> Option<Waves> {
    let (waves, (_, length)) = (plan.waves()?, plan.waves_of_step()?);
    let servers = match waves.servers {
        Placement::Local => Servers::Local,
        Placement::RoundRobin => {
            let stages = plan.pipelines().iter().flat_map(Pipeline::stages);
            let mut devices: Vec<DeviceId> = stages.map(Stage::device).collect();
            devices.sort_unstable();
            let node = |device: &DeviceId| cluster.device(*device).node();
            let mut firsts: Vec<DeviceId> = Vec::new();
            for device in devices {
                if !firsts.iter().any(|first| node(first) == node(&device)) {
                    firsts.push(device);
                }
            }
            Servers::RoundRobin(firsts)
        }
    };
    Some(Waves { length, distance: waves.distance, servers })
}

/// What passes and messages take by the profile, in nanoseconds; messages between all devices on
/// which there is a stage, as large as the largest output of any stage.
fn ticks(plan: &Plan, profile: &Profile, cluster: &Cluster) -> Ticks {
    let of_stage = |stage: &Stage| {
        let speed = speed(cluster, stage.device());
        let time = |pass| (pass_time(profile, pass, stage.layers(), speed) + profile.op_overhead).0;
        StageTicks {
            forward: time(Pass::Forward),
            backward: time(Pass::Backward),
            backward_input: time(Pass::BackwardInput),
            backward_weight: time(Pass::BackwardWeight),
        }
    };
    let stages = plan.pipelines().iter().map(|pipeline| pipeline.stages().iter().map(of_stage));
    let stages = stages.map(Iterator::collect).collect();
    let all = || plan.pipelines().iter().flat_map(Pipeline::stages);
    let bytes = all().map(|stage| profile.output(stage.layers())).max().unwrap_or_default();
    let delay = |from: DeviceId, to: DeviceId| {
        let link = link(profile, cluster, from, to);
        (link.latency + link.bandwidth.map_or(Nanos::ZERO, |rate| rate.time_for(bytes))).0
    };
    let pairs = all().flat_map(|from| all().map(move |to| (from.device(), to.device())));
    let pairs = pairs.filter(|(from, to)| from != to);
    let delays: BTreeMap<_, _> = pairs.map(|pair| (pair, delay(pair.0, pair.1))).collect();
    Ticks { stages, delays }
}
