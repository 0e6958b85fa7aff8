//! A plan, a model and a cluster, simulated without any of the devices being there.
//!
//! Times come from a measured profile, or, without one, from the counts of the model's products and
//! each device's `flops` and `efficiency`. Symmetric replicas are simulated once.

use crate::error::Error;
use crate::prepare::{fits, refused};
use cavalcade_cluster::{Cluster, Device};
use cavalcade_lower::{Folded, OpCosts, lower, nominal};
use cavalcade_model::Network;
use cavalcade_plan::Plan;
use cavalcade_profile::{ParamBytes, Profile};
use cavalcade_schedule::{CheckedSchedule, Options, Reduction, check};
use cavalcade_sim::{
    Disturbance, Fault, LinkName, Prediction, ProfiledCosts, Spent, Stalled, Verdict, Wait,
    WaitsFor, predict, predict_disturbed,
};
use cavalcade_units::{Bytes, ChunkId, DeviceId, FlopRate, Nanos};
use std::path::{Path, PathBuf};

/// What AdamW keeps in 32 bits, on devices where nothing was measured.
const ADAMW: ParamBytes = ParamBytes { weights: 4, gradients: 4, optimizer: 8 };

/// The files that say what to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationFiles {
    /// The plan, as a run folder's `plan.toml`.
    pub plan: PathBuf,
    /// The model: a `config.json`.
    pub model: PathBuf,
    /// The cluster: `[[device]]`, `[link]`, `[[links]]` and `[[network]]`.
    pub cluster: PathBuf,
    /// A profile of that model; none to count in `flops`.
    pub profile: Option<PathBuf>,
}

/// What passes over the schedule add, as the settings of a run do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationPasses {
    /// Whole backwards are split.
    pub split_backward: bool,
    /// Every chunk keeps its inputs alone and runs its forwards again.
    pub recompute: bool,
    /// Those inputs leave the device, and come back this many passes before their use.
    pub offload: Option<u32>,
    /// How gradients are summed.
    pub reduction: Reduction,
}

/// A step that was simulated, with clipped gradients.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The whole plan.
    pub plan: Plan,
    /// The model.
    pub model: Network,
    /// The cluster.
    pub cluster: Cluster,
    /// What was simulated: one replica, if all of them do the same.
    pub schedule: CheckedSchedule,
    /// What a step will be like.
    pub prediction: Prediction,
    /// By device, all that do the same, itself first.
    pub alike: Vec<Vec<DeviceId>>,
}

impl Simulation {
    /// Reads the files, lowers the plan, checks it and simulates two steps.
    ///
    /// # Errors
    /// If a file cannot be read or does not fit the others, if a device has too little memory, or
    /// if a fault of `trouble` ends the run.
    pub fn new(
        files: &SimulationFiles,
        passes: SimulationPasses,
        trouble: &Trouble,
    ) -> Result<Self, Error> {
        let SimulationFiles { plan: path, .. } = files;
        let cluster = Cluster::read(&files.cluster)?;
        let model = Network::read(&files.model)?;
        let network = model.model();
        let in_plan = |problem: String| Error::Plan { path: path.clone(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| in_plan(error.to_string()))?;
        let names: Vec<&str> = cluster.devices().iter().map(|d| d.name.as_str()).collect();
        let plan = Plan::from_toml(&text, &names, network.n_layers())
            .map_err(|error| in_plan(error.to_string()))?;
        let trouble = trouble.on(&cluster)?;
        let (profile, cluster) = match &files.profile {
            Some(path) => (measured(path, &plan, &model)?, cluster),
            None => counted(&files.cluster, &plan, &model, cluster)?,
        };
        let folded = match trouble.is_none() {
            true => Folded::new(&plan, &cluster),
            // Trouble strikes one replica and not its twins.
            false => Folded::whole(&plan, &cluster),
        };
        let stages = folded.plan.pipelines().iter().map(|pipeline| pipeline.stages().len());
        let chunks = (0..stages.sum()).map(ChunkId::from_idx);
        let options = Options {
            clip_gradients: true,
            split_backward: passes.split_backward,
            recompute: chunks.filter(|_| passes.recompute).collect(),
            offload: passes.offload,
            copies: folded.copies,
            waves: None,
            reduction: passes.reduction,
        };
        let n_devices = cluster.devices().len();
        let schedule = lower(&folded.plan, &network, &profile, &cluster, &options);
        let costs = OpCosts::new(&schedule, &network, &profile, &cluster);
        let schedule = check(schedule, Some(&costs)).map_err(|e| refused(e, &cluster))?;
        let costs = ProfiledCosts::new(costs).with_copies(folded.alike.clone());
        let prediction = match &trouble {
            None => predict(&schedule, &costs),
            Some(wanted) => {
                let trouble = wanted.check(n_devices);
                let trouble = trouble.map_err(|error| Error::Argument(error.to_string()))?;
                predict_disturbed(&schedule, &costs, &trouble)
            }
        };
        let prediction = prediction.map_err(|stalled| match stalled {
            Stalled::Memory(_) => Error::NoPlan(stalled.to_string()),
            Stalled::Fault(verdict) => Error::Stopped(in_words(&verdict, &cluster)),
            stalled @ Stalled::NothingLeft { .. } => Error::Stopped(stalled.to_string()),
        })?;
        Ok(Self { plan, model, cluster, schedule, prediction, alike: folded.alike })
    }

    /// Devices that have work, symmetric replicas counted.
    pub fn n_devices(&self) -> usize {
        self.working().map(|device| self.alike[device.idx()].len()).sum()
    }

    /// Devices that were simulated and have work.
    pub fn working(&self) -> impl Iterator<Item = DeviceId> {
        let devices = (0..self.schedule.n_devices()).map(DeviceId::from_idx);
        devices.filter(|&device| !self.schedule.actions_of(device).is_empty())
    }

    /// Tokens a second, or what else the model counts its predictions in.
    pub fn tokens_per_second(&self) -> f64 {
        let tokens = self.plan.global_batch() as f64 * self.model.predictions() as f64;
        tokens / self.prediction.step_time.as_secs_f64()
    }

    /// Model FLOPs utilization: three forwards' worth of products for each token or image, over
    /// what all devices with work could do in that time. None if one of them has no `flops`.
    pub fn utilization(&self) -> Option<f64> {
        let rates = self.working().map(|device| {
            let n_alike = self.alike[device.idx()].len() as f64;
            Some(self.cluster.device(device).flops?.flops_per_second() * n_alike)
        });
        let available: f64 = rates.sum::<Option<f64>>()?;
        let work: u64 = self.model.model().layers.iter().map(|layer| layer.work).sum();
        Some(3.0 * work as f64 * self.tokens_per_second() / available)
    }

    /// The mean over devices of the share of the step in which they wait for a message or a
    /// collective alone.
    pub fn exposed_fraction(&self) -> f64 {
        let uses = self.working().map(|device| self.prediction.devices[device.idx()].exposed);
        let exposed: Nanos = uses.sum();
        let all = self.prediction.step_time.as_secs_f64() * self.working().count() as f64;
        if all > 0.0 { exposed.as_secs_f64() / all } else { 0.0 }
    }

    /// What the step's critical path is spent on, and its shares, the largest first: the first is
    /// what limits the step.
    pub fn critical_shares(&self) -> Vec<(String, f64)> {
        let parts = &self.prediction.critical;
        let whole: Nanos = parts.iter().map(|&(_, time)| time).sum();
        let share = |time: Nanos| time.as_secs_f64() / whole.as_secs_f64();
        parts.iter().map(|&(what, time)| (self.words(what), share(time))).collect()
    }

    /// The busiest link by name, its share of the step and the bytes that pass it.
    pub fn busiest_link(&self) -> Option<(String, f64, Bytes)> {
        let used = self.prediction.busiest_link()?;
        let name = match &used.link {
            LinkName::Pair { from, to } => format!("{} to {}", self.name(*from), self.name(*to)),
            LinkName::Shared(name) => name.clone(),
        };
        Some((name, used.busy, used.bytes))
    }

    /// The name of a device.
    pub fn name(&self, device: DeviceId) -> &str {
        &self.cluster.device(device).name
    }

    fn words(&self, spent: Spent) -> String {
        match spent {
            Spent::Computing(device) => format!("computing on {}", self.name(device)),
            Spent::Messages { from, to } => {
                format!("messages from {} to {}", self.name(from), self.name(to))
            }
            Spent::Collectives(group) => {
                let members = &self.schedule.schedule().groups[group.idx()];
                let all: usize = members.iter().map(|d| self.alike[d.idx()].len()).sum();
                match &members[..] {
                    [first, second] if all == 2 => {
                        let names = [self.name(*first), self.name(*second)];
                        format!("collectives of {} and {}", names[0], names[1])
                    }
                    _ => format!("collectives of {all} devices"),
                }
            }
            Spent::Host(device) => format!("the host link of {}", self.name(device)),
        }
    }
}

/// What goes wrong, with devices by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trouble {
    /// Of the jitter.
    pub seed: u64,
    /// The relative spread of every compute time.
    pub jitter: f64,
    /// Devices and how many times longer they compute.
    pub slow: Vec<(String, f64)>,
    /// Devices and when they die.
    pub dies: Vec<(String, Nanos)>,
    /// Sender, receiver, when their link stalls, and for how long; none for ever.
    pub stalls: Vec<(String, String, Nanos, Option<Nanos>)>,
}

impl Trouble {
    /// The same with devices by their ids; none if nothing goes wrong.
    fn on(&self, cluster: &Cluster) -> Result<Option<Disturbance>, Error> {
        let id = |name: &String| {
            cluster.device_named(name).ok_or_else(|| {
                let known: Vec<_> = cluster.devices().iter().map(|d| d.name.as_str()).collect();
                let known = known.join(", ");
                Error::Argument(format!("`{name}` is no device; the devices are {known}"))
            })
        };
        let mut disturbance =
            Disturbance { seed: self.seed, jitter: self.jitter, ..Disturbance::default() };
        for (name, factor) in &self.slow {
            disturbance.stragglers.push((id(name)?, *factor));
        }
        for &(ref name, at) in &self.dies {
            disturbance.faults.push(Fault::DeviceDies { device: id(name)?, at });
        }
        for &(ref from, ref to, at, lasts) in &self.stalls {
            let (from, to) = (id(from)?, id(to)?);
            disturbance.faults.push(Fault::LinkStalls { from, to, at, lasts });
        }
        let quiet = Disturbance { seed: self.seed, ..Disturbance::default() };
        Ok(Some(disturbance).filter(|wanted| *wanted != quiet))
    }
}

/// A verdict with devices by their names: what broke, when nothing went on, who waits for whom.
fn in_words(verdict: &Verdict, cluster: &Cluster) -> String {
    let name = |device: DeviceId| format!("`{}`", cluster.device(device).name);
    let broke = |fault: Fault| match fault {
        Fault::DeviceDies { device, at } => format!("{} died at {at}", name(device)),
        Fault::LinkStalls { from, to, at, .. } => {
            format!("the link from {} to {} stalled at {at}", name(from), name(to))
        }
    };
    let Verdict { fault, at, n_finished, n_actions, waits } = verdict;
    let mut text = format!(
        "{}; nothing could go on after {at}, when {n_finished} of {n_actions} ops of the step were \
         done",
        broke(*fault)
    );
    for Wait { device, op, waits_for } in waits {
        // The op's words begin with the device by its number.
        let op = op.split_once(", ").map_or(op.as_str(), |(_, op)| op);
        let what = match *waits_for {
            WaitsFor::Fault(Fault::DeviceDies { device, .. }) => {
                format!("{}, which died", name(device))
            }
            WaitsFor::Fault(Fault::LinkStalls { from, to, .. }) => {
                format!("the link from {} to {}, which stalled", name(from), name(to))
            }
            WaitsFor::Device(device) => name(device),
        };
        text += &format!("; {} waits in {op} for {what}", name(*device));
    }
    text
}

fn measured(path: &Path, plan: &Plan, model: &Network) -> Result<Profile, Error> {
    let profile = Profile::read(path)?;
    fits(path, (model, plan.microbatch_size()), &profile)?;
    Ok(profile)
}

/// The profile of the fastest device of `cluster` by its `flops`, and the cluster with the speeds
/// of all relative to it.
fn counted(
    path: &Path,
    plan: &Plan,
    model: &Network,
    cluster: Cluster,
) -> Result<(Profile, Cluster), Error> {
    let Network::Gpt(model) = model else {
        let problem = "only a GPT's times can be counted; measure a profile of this network with \
                       `cavalcade probe` and name it with --profile";
        return Err(Error::Argument(problem.to_owned()));
    };
    let rate = |device: &Device| Some(device.flops?.flops_per_second() * device.efficiency);
    let rates: Vec<Option<f64>> = cluster.devices().iter().map(rate).collect();
    let used = plan.pipelines().iter().flat_map(|pipeline| pipeline.stages());
    if let Some(stage) = used.into_iter().find(|stage| rates[stage.device().idx()].is_none()) {
        let problem = format!(
            "nothing says how fast `{}` is; give it `flops`, such as \"312 TFLOP/s\", or measure a \
             profile with `cavalcade probe` and name it with --profile",
            cluster.device(stage.device()).name
        );
        return Err(Error::Plan { path: path.to_owned(), problem });
    }
    let most = rates.iter().flatten().copied().fold(0.0, f64::max);
    let speeds: Vec<f64> = rates.iter().map(|rate| rate.map_or(1.0, |rate| rate / most)).collect();
    let fastest = FlopRate::from_flops_per_second(most);
    let profile = nominal(model, plan.microbatch_size(), ADAMW, fastest);
    Ok((profile, cluster.with_speeds(&speeds)?))
}
