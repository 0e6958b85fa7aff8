//! Which devices form pipelines, where the configuration names a policy: HetPipe's allocations, and
//! a search among groupings that is scored by the simulator.

use crate::config::{Config, PipelineConfig};
use crate::error::Error;
use crate::prepare::{make_plan, microbatch_time};
use crate::waves::{self, predicted};
use cavalcade_cluster::Device;
use cavalcade_lower::{StagePasses, link, stage_bytes};
use cavalcade_model::Model;
use cavalcade_planner::{Arrangement, Costs, Policy, allocate, arrange, search};
use cavalcade_profile::Profile;
use cavalcade_schedule::{Kind, Shape};
use cavalcade_units::{DeviceId, Nanos};
use std::ops::Range;

/// Groupings that the search looks at, at most.
const GROUPINGS: usize = 150;

/// Allocates the devices of a configuration.
pub(crate) struct Allocating<'a> {
    config: &'a Config,
    network: &'a Model,
    profile: &'a Profile,
}

impl<'a> Allocating<'a> {
    pub(crate) fn new(config: &'a Config, network: &'a Model, profile: &'a Profile) -> Self {
        Self { config, network, profile }
    }

    /// The configuration with the pipelines that its policy gives; as it is, if it names none.
    pub(crate) fn allocated(&self) -> Result<Config, Error> {
        let Some(policy) = self.config.plan.allocation else { return Ok(self.config.clone()) };
        let nodes = self.nodes();
        let power = |device: DeviceId| self.device(device).speed.unwrap_or(1.0);
        let no_plan = |message: String| Error::NoPlan(format!("plan.allocation: {message}"));
        let workers = match policy {
            Policy::Auto => {
                let score = |workers: &[Vec<DeviceId>]| self.quick_score(workers).ok();
                let class = |device| self.class(device);
                let found = search(&nodes, &power, &class, GROUPINGS, &score);
                let found = found.map_err(|e| no_plan(e.to_string()))?.workers;
                // With the best number in flight for each, no fixed policy may be better.
                let fixed = Policy::ALL.into_iter().filter(|policy| *policy != Policy::Auto);
                let fixed = fixed.filter_map(|policy| allocate(policy, &nodes, &power).ok());
                let scored = std::iter::once(found).chain(fixed);
                let scored =
                    scored.filter_map(|workers| Some((self.score(&workers).ok()?, workers)));
                let best = scored.min_by(|(one, _), (other, _)| one.total_cmp(other));
                best.ok_or_else(|| no_plan("no grouping of the devices fits".to_owned()))?.1
            }
            policy => allocate(policy, &nodes, &power).map_err(|e| Error::Plan {
                path: self.config.path.clone(),
                problem: format!("plan.allocation: {e}"),
            })?,
        };
        self.arranged(&workers)
    }

    /// As [`Self::score`], with as many micro-batches in flight as the largest has devices, if that
    /// is left open.
    fn quick_score(&self, workers: &[Vec<DeviceId>]) -> Result<f64, Error> {
        let mut config = self.config.clone();
        if let Some(waves) = &mut config.sync.waves {
            let largest = workers.iter().map(Vec::len).max().unwrap_or(1) as u32;
            waves.in_flight.get_or_insert(largest);
        }
        let quick = Allocating { config: &config, network: self.network, profile: self.profile };
        quick.score(workers).or_else(|_| self.score(workers))
    }

    /// Seconds a micro-batch with these virtual workers, by the simulator.
    pub(crate) fn score(&self, workers: &[Vec<DeviceId>]) -> Result<f64, Error> {
        let config = self.arranged(workers)?;
        match &config.sync.waves {
            Some(waves) => {
                let (_, each) = waves::fastest(&config, waves, self.network, self.profile)?;
                Ok(each / workers.len() as f64)
            }
            None => {
                let plan = make_plan(&config, self.network, self.profile)?;
                let prediction = predicted(&config, &plan, self.network, self.profile)?;
                Ok(prediction.step_time.as_secs_f64() / f64::from(config.n_microbatches()))
            }
        }
    }

    /// The configuration with each virtual worker's devices in their best order.
    fn arranged(&self, workers: &[Vec<DeviceId>]) -> Result<Config, Error> {
        let mut config = self.config.clone();
        config.plan.pipelines = Vec::new();
        for (idx, devices) in workers.iter().enumerate() {
            let found = self.arrange(devices, (idx, workers.len()))?;
            // Layers are cut again for the number in flight that is chosen in the end.
            let pipeline =
                PipelineConfig { devices: found.devices, layers: None, microbatches: None };
            config.plan.pipelines.push(pipeline);
        }
        Ok(config)
    }

    /// The best order of one virtual worker of several, with as many micro-batches in flight as it
    /// has devices, or the most below that have room.
    fn arrange(&self, devices: &[DeviceId], place: (usize, usize)) -> Result<Arrangement, Error> {
        let wanted = self.config.sync.waves.as_ref().and_then(|waves| waves.in_flight);
        let most = wanted.unwrap_or(devices.len() as u32);
        let least = wanted.unwrap_or(1);
        let mut refusal = None;
        for length in (least..=most).rev() {
            match self.arrange_with(devices, place, length) {
                Ok(found) => return Ok(found),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.expect("at least one number in flight was tried"))
    }

    fn arrange_with(
        &self,
        devices: &[DeviceId],
        (idx, n_workers): (usize, usize),
        length: u32,
    ) -> Result<Arrangement, Error> {
        let Self { config, network, profile } = *self;
        let plan = &config.plan;
        let (kind, passes) = match &config.sync.waves {
            Some(waves) => {
                let served = (idx == 0).then_some(n_workers as u32);
                waves::passes(config, waves, (length, waves.distance.unwrap_or(0)), served)
            }
            None => (plan.kind, StagePasses::of(plan.kind, plan.split_backward, plan.recompute)),
        };
        let n_microbatches = match kind {
            Kind::HetPipe { .. } => length,
            _ => config.n_microbatches(),
        };
        let bytes = |stage: usize, n_stages: usize, layers: Range<u32>| {
            let n_stages = n_stages as u32;
            let shape = Shape { n_stages, n_devices: n_stages, n_microbatches };
            let in_flight = kind.in_flight(stage as u32, shape);
            stage_bytes(network, profile, layers, in_flight, passes)
        };
        let time = |device: DeviceId, layer: u32| {
            let speed = self.device(device).speed.unwrap_or(1.0);
            microbatch_time(plan, profile, layer..layer + 1, speed)
        };
        let message = |from: DeviceId, to: DeviceId, cut: u32| {
            let link = link(profile, &config.cluster, from, to);
            let bytes = profile.output(0..cut);
            link.latency + link.bandwidth.map_or(Nanos::ZERO, |rate| rate.time_for(bytes))
        };
        let capacity = |device: DeviceId| self.device(device).memory;
        let costs = Costs {
            n_layers: network.n_layers(),
            time: &time,
            bytes: &bytes,
            capacity: &capacity,
            message: &message,
        };
        arrange(devices, &|device| self.class(device), &costs)
            .map_err(|e| Error::NoPlan(format!("virtual worker {idx}: {e}")))
    }

    fn device(&self, device: DeviceId) -> &Device {
        self.config.cluster.device(device)
    }

    /// Devices by node, nodes in the order of their first devices.
    fn nodes(&self) -> Vec<Vec<DeviceId>> {
        let devices = || (0..self.config.cluster.devices().len()).map(DeviceId::from_idx);
        let of = |node: String| devices().filter(|&d| self.device(d).node() == node).collect();
        self.config.nodes().into_iter().map(of).collect()
    }

    /// The first device that is as fast and as large, and on the same node.
    fn class(&self, device: DeviceId) -> u32 {
        let own = self.device(device);
        let is_like = |other: &&Device| {
            (other.speed, other.memory, other.threads, other.node())
                == (own.speed, own.memory, own.threads, own.node())
        };
        let first = self.config.cluster.devices().iter().position(|other| is_like(&other));
        first.expect("a device is like itself") as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Allocating;
    use crate::config::Config;
    use cavalcade_lower::nominal;
    use cavalcade_model::{GptConfig, Network};
    use cavalcade_planner::{Policy, allocate};
    use cavalcade_profile::ParamBytes;
    use cavalcade_units::FlopRate;
    use std::path::Path;

    /// Two strong devices with little memory, two weak ones with much, two in between, on three
    /// nodes.
    const CLUSTER: &str = r#"
        model = { layers = 4, width = 64, heads = 4, context = 32, tied = false }
        data = { path = "text.txt" }
        train = { clip_norm = 0, microbatch = 2, steps = 20 }
        plan = { allocation = "auto" }
        sync = { mode = "wsp", distance = 1 }
        link = { latency = "100 us", bandwidth = "100 Mbit/s" }
        device = [
            { name = "a0", node = "a", speed = 0.9, memory = "24 MiB" },
            { name = "a1", node = "a", speed = 0.8, memory = "24 MiB" },
            { name = "b0", node = "b", speed = 0.3, memory = "64 MiB" },
            { name = "b1", node = "b", speed = 0.2, memory = "64 MiB" },
            { name = "c0", node = "c", speed = 0.5, memory = "32 MiB" },
            { name = "c1", node = "c", speed = 0.6, memory = "32 MiB" },
        ]
    "#;

    #[test]
    fn the_search_is_never_worse_than_a_fixed_policy() {
        for sync in ["flush", "wsp"] {
            let config =
                Config::parse(CLUSTER, Path::new("c.toml"), &[format!("sync.mode={sync}")]);
            let config = config.unwrap();
            let gpt = GptConfig::new(50, 32, 64, 4, 4, false, false).unwrap();
            let bytes = ParamBytes { weights: 8, gradients: 4, optimizer: 8 };
            let profile = nominal(&gpt, 2, bytes, FlopRate::from_flops_per_second(1e10));
            let network = Network::Gpt(gpt).model();
            let allocating = Allocating::new(&config, &network, &profile);
            let found = allocating.allocated().unwrap();
            let workers: Vec<_> =
                found.plan.pipelines.iter().map(|pipeline| pipeline.devices.clone()).collect();
            let score = allocating.score(&workers).unwrap();
            let nodes = allocating.nodes();
            let fixed = Policy::ALL.into_iter().filter(|policy| *policy != Policy::Auto);
            let mut n_scored = 0;
            for policy in fixed {
                let power = |device| allocating.device(device).speed.unwrap_or(1.0);
                let Ok(workers) = allocate(policy, &nodes, &power) else { continue };
                let Ok(fixed) = allocating.score(&workers) else { continue };
                assert!(score <= fixed * (1.0 + 1e-9), "{sync}: {policy} {fixed}, auto {score}");
                n_scored += 1;
            }
            assert!(n_scored > 0, "{sync}");
        }
    }
}
