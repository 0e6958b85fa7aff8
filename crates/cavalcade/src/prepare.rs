//! Everything that is known before the first step: data, model, profile, plan, schedule, and
//! what the simulator says about them.

use crate::allocation::Allocating;
use crate::config::{Config, PlanConfig};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::waves;
use cavalcade_cluster::Cluster;
use cavalcade_lower::{OpCosts, StagePasses, lower, stage_bytes};
use cavalcade_model::{Model, Network};
use cavalcade_plan::{Pipeline, Plan, Stage};
use cavalcade_planner::{PartitionError, Shares, partition, shares};
use cavalcade_profile::{Pass, Profile};
use cavalcade_runtime::{Hello, Job, WavesOfRun};
use cavalcade_schedule::{CheckError, CheckedSchedule, Kind, Options, Shape, check};
use cavalcade_sim::{Prediction, ProfiledCosts, predict};
use cavalcade_units::{Bytes, ChunkId, DeviceId, Nanos};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A run that is ready to start.
pub struct Prepared {
    /// What was asked for.
    pub config: Config,
    /// The model, its vocabulary known.
    pub model: Network,
    /// What it learns from.
    pub data: Dataset,
    /// Measured times.
    pub profile: Profile,
    /// What goes where.
    pub plan: Plan,
    /// What the ranks are given.
    pub job: Job,
    /// What a step will be like.
    pub prediction: Prediction,
}

/// The model of `config`; of a GPT, over the tokens of the text.
pub(crate) fn model(config: &Config, data: &Dataset) -> Result<Network, Error> {
    let mut model = config.model.clone();
    if let (Network::Gpt(gpt), Dataset::Text(text)) = (&mut model, data) {
        gpt.vocab = text.tokenizer().vocab_size();
    }
    model.check()?;
    Ok(model)
}

/// What a rank of this run introduces itself with.
pub(crate) fn hello(config: &Config, data: &Dataset) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_hash: config.hash(),
        corpus_hash: data.hash().to_owned(),
        config: config.agreed(),
    }
}

impl Prepared {
    /// Plans, lowers, checks and simulates.
    ///
    /// # Errors
    /// If what the configuration fixes does not fit together, or nothing fits into memory.
    pub fn new(config: Config, data: Dataset, profile: Profile) -> Result<Self, Error> {
        let model = model(&config, &data)?;
        let network = model.model();
        let named = config.profile.as_ref().unwrap_or(&config.path);
        fits(named, (&model, config.microbatch), &profile)?;
        let config = Allocating::new(&config, &network, &profile).allocated()?;
        let plan = match &config.sync.waves {
            Some(waves) => waves::make_plan(&config, waves, &network, &profile)?,
            None => make_plan(&config, &network, &profile)?,
        };
        Self::planned(config, data, profile, plan)
    }

    /// Lowers, checks and simulates a plan that is there.
    pub(crate) fn planned(
        config: Config,
        data: Dataset,
        profile: Profile,
        plan: Plan,
    ) -> Result<Self, Error> {
        let model = model(&config, &data)?;
        let job = job(&config, &model, &data, &plan, &profile)
            .map_err(|e| refused(e, &config.cluster))?;
        let costs = ProfiledCosts::new((*job.costs).clone());
        let prediction =
            predict(&job.schedule, &costs).map_err(|stalled| Error::NoPlan(stalled.to_string()))?;
        Ok(Self { config, model, data, profile, plan, job, prediction })
    }

    /// What the simulator says of a step, or of a wave where a step has several: milliseconds.
    pub fn predicted_report_ms(&self) -> f64 {
        let Some(waves) = self.job.waves else {
            return self.prediction.step_time.as_millis_f64();
        };
        // A run of one step fills and empties its pipelines within it.
        let time = match waves.total <= u64::from(waves.per_step) {
            true => self.prediction.trace.makespan(),
            false => self.prediction.step_time,
        };
        time.as_millis_f64() / f64::from(waves.per_step)
    }

    /// The plan's text form.
    pub fn plan_text(&self) -> String {
        self.plan.to_toml(&cluster_names(&self.config))
    }
}

/// The error of a schedule that fails the check, with the name of the device that is too small.
pub(crate) fn refused(error: CheckError, cluster: &Cluster) -> Error {
    match error {
        CheckError::Memory { device, place, needed, capacity } => {
            let name = &cluster.device(device).name;
            Error::NoPlan(format!(
                "`{name}` may need {needed} during {place}, but has {capacity}; give it fewer \
                 layers or micro-batches in flight, or more memory"
            ))
        }
        error => Error::Schedule(error),
    }
}

/// The job of `plan`: the same on every rank that is given the same texts.
pub(crate) fn job(
    config: &Config,
    model: &Network,
    data: &Dataset,
    plan: &Plan,
    profile: &Profile,
) -> Result<Job, CheckError> {
    let settings = config.settings.clone();
    let network = model.model();
    let (schedule, costs) = lowered(config, plan, &network, profile)?;
    Ok(Job {
        network: model.clone(),
        model: Arc::new(network),
        settings,
        microbatch_size: plan.microbatch_size(),
        schedule: Arc::new(schedule),
        costs: Arc::new(costs),
        samples: data.samples(),
        waves: plan
            .waves_of_step()
            .map(|(per_step, _)| WavesOfRun { per_step, total: config.settings.steps }),
    })
}

/// The schedule of `plan`, checked, and what its ops cost.
pub(crate) fn lowered(
    config: &Config,
    plan: &Plan,
    network: &Model,
    profile: &Profile,
) -> Result<(CheckedSchedule, OpCosts), CheckError> {
    let schedule = lower(plan, network, profile, &config.cluster, &options(config, plan));
    let costs = OpCosts::new(&schedule, network, profile, &config.cluster);
    Ok((check(schedule, Some(&costs))?, costs))
}

/// What the passes over the schedule of `plan` are to add.
fn options(config: &Config, plan: &Plan) -> Options {
    let n_chunks: usize = plan.pipelines().iter().map(|pipeline| pipeline.stages().len()).sum();
    let recompute = (0..n_chunks).map(ChunkId::from_idx).filter(|_| config.plan.recompute);
    Options {
        clip_gradients: config.settings.clip_norm.is_some(),
        split_backward: config.plan.split_backward,
        recompute: recompute.collect(),
        offload: config.plan.offload,
        copies: 0,
        waves: None,
        reduction: config.plan.reduction,
    }
}

/// Whether the profile in `path` is one of this model at this micro-batch size.
pub(crate) fn fits(
    path: &Path,
    (model, microbatch): (&Network, u32),
    profile: &Profile,
) -> Result<(), Error> {
    let sequence = model.predictions() as u32;
    let expected = (model.fingerprint(), microbatch, sequence, model.n_layers() as usize);
    let found =
        (profile.model.clone(), profile.microbatch_size, profile.sequence, profile.layers.len());
    if found == expected {
        return Ok(());
    }
    let problem = format!(
        "the profile is of model {}, micro-batch {}, sequence {}; the run has model {}, \
         micro-batch {}, sequence {}; measure it again with `cavalcade probe`",
        found.0, found.1, found.2, expected.0, expected.1, expected.2
    );
    Err(Error::Plan { path: path.to_owned(), problem })
}

/// What a device needs that holds the whole model and takes one micro-batch after the other.
pub(crate) fn whole_model_bytes(network: &Model, profile: &Profile) -> Bytes {
    stage_bytes(network, profile, 0..network.n_layers(), 1, StagePasses::default())
}

/// What the configuration fixes, completed by the exact rules: layers by dynamic programming over
/// the slowest stage under memory, shares of micro-batches by the time that each pipeline takes.
pub(crate) fn make_plan(
    config: &Config,
    network: &Model,
    profile: &Profile,
) -> Result<Plan, Error> {
    let kind = config.plan.kind;
    let PlanConfig { split_backward, recompute, .. } = config.plan;
    let passes = StagePasses::of(kind, split_backward, recompute);
    let microbatches = |idx: usize| config.plan.pipelines[idx].microbatches;
    let most = |idx| microbatches(idx).unwrap_or(config.n_microbatches());
    let stages = stages(config, network, profile, kind, &|idx| (passes, most(idx)))?;
    // Shares follow from what the stages take, so the stages have to make sense first.
    plan_of(config, network, kind, &stages, &vec![1; stages.len()])?;
    let shares = split(config, profile, &stages)?;
    plan_of(config, network, kind, &stages, &shares)
}

/// The stages of every pipeline: those that are fixed, and the rest by the exact rule, with room
/// for how its passes run and for its micro-batches, by `passes`.
pub(crate) fn stages(
    config: &Config,
    network: &Model,
    profile: &Profile,
    kind: Kind,
    passes: &dyn Fn(usize) -> (StagePasses, u32),
) -> Result<Vec<Vec<Stage>>, Error> {
    let mut stages: Vec<Vec<Stage>> = Vec::new();
    for (idx, pipeline) in config.plan.pipelines.iter().enumerate() {
        let layers = match &pipeline.layers {
            Some(layers) => layers.clone(),
            None => cut(config, network, profile, idx, kind, passes(idx))?,
        };
        let pairs = pipeline.devices.iter().zip(layers);
        stages.push(pairs.map(|(&device, layers)| Stage::new(device, layers)).collect());
    }
    Ok(stages)
}

/// The plan with these stages, and micro-batches of a step by pipeline.
pub(crate) fn plan_of(
    config: &Config,
    network: &Model,
    kind: Kind,
    stages: &[Vec<Stage>],
    microbatches: &[u32],
) -> Result<Plan, Error> {
    let pipelines = stages.iter().zip(microbatches);
    Plan::new(
        pipelines.map(|(stages, &n)| Pipeline::new(stages.clone(), n)).collect(),
        config.microbatch,
        kind,
        network.n_layers(),
        config.cluster.devices().len(),
    )
    .map_err(|e| Error::Plan { path: config.path.clone(), problem: e.to_string() })
}

/// The layers of pipeline `idx` by the exact rule.
fn cut(
    config: &Config,
    network: &Model,
    profile: &Profile,
    idx: usize,
    kind: Kind,
    (passes, microbatches): (StagePasses, u32),
) -> Result<Vec<Range<u32>>, Error> {
    let devices = &config.plan.pipelines[idx].devices;
    let n_layers = network.n_layers();
    if devices.len() > n_layers as usize {
        let problem = format!(
            "pipeline[{idx}] has {} devices for {n_layers} layers ({} .. {}); each needs at least \
             one layer",
            devices.len(),
            network.layers[0].name,
            network.layers[n_layers as usize - 1].name,
        );
        return Err(Error::Plan { path: config.path.clone(), problem });
    }
    let speed = |stage: usize| config.cluster.device(devices[stage]).speed.unwrap_or(1.0);
    let time = |stage: usize, layer: u32| {
        microbatch_time(&config.plan, profile, layer..layer + 1, speed(stage))
    };
    // The most micro-batches that a stage can be given: what the rule must leave room for.
    let n_stages = devices.len() as u32;
    let n_devices = devices.iter().collect::<BTreeSet<_>>().len() as u32;
    let shape = Shape { n_stages, n_devices, n_microbatches: microbatches };
    let in_flight: Vec<u32> = (0..n_stages).map(|stage| kind.in_flight(stage, shape)).collect();
    let bytes = |stage: usize, layers: Range<u32>| {
        stage_bytes(network, profile, layers, in_flight[stage], passes)
    };
    // A device that serves several stages gives each an equal part of its memory.
    let served = config.plan.pipelines.iter().flat_map(|pipeline| &pipeline.devices);
    let capacity = |device: DeviceId| {
        let n_served = served.clone().filter(|&&other| other == device).count() as u64;
        config.cluster.device(device).memory.map(|memory| Bytes(memory.0 / n_served))
    };
    let capacity: Vec<Option<Bytes>> = devices.iter().map(|&device| capacity(device)).collect();
    let cuts = partition(&time, &bytes, &capacity, n_layers);
    cuts.map_err(|error: PartitionError| {
        let names: Vec<&str> =
            devices.iter().map(|&device| config.cluster.device(device).name.as_str()).collect();
        Error::NoPlan(format!("pipeline[{idx}] ({}): {error}", names.join(", ")))
    })
}

/// The time of all passes of one micro-batch over `layers`.
pub(crate) fn microbatch_time(
    plan: &PlanConfig,
    profile: &Profile,
    layers: Range<u32>,
    speed: f64,
) -> Nanos {
    let forwards = if plan.recompute { &[Pass::Forward; 2][..] } else { &[Pass::Forward] };
    let backwards = match plan.split_backward || plan.kind.splits_backward() {
        true => &[Pass::BackwardInput, Pass::BackwardWeight][..],
        false => &[Pass::Backward],
    };
    let passes = forwards.iter().chain(backwards);
    passes.map(|&pass| profile.pass_time(pass, layers.clone(), speed)).sum()
}

/// Micro-batches by pipeline: those that are fixed, and the rest by the exact rule.
fn split(config: &Config, profile: &Profile, stages: &[Vec<Stage>]) -> Result<Vec<u32>, Error> {
    let total = config.n_microbatches();
    let fixed: Vec<Option<u32>> =
        config.plan.pipelines.iter().map(|pipeline| pipeline.microbatches).collect();
    let sum_fixed: u32 = fixed.iter().flatten().sum();
    let free: Vec<usize> = (0..fixed.len()).filter(|&idx| fixed[idx].is_none()).collect();
    let left = total
        .checked_sub(sum_fixed)
        .filter(|&left| if free.is_empty() { left == 0 } else { left as usize >= free.len() });
    let Some(left) = left else {
        let problem = format!(
            "pipelines are given {sum_fixed} micro-batches and {} more need at least one each, \
             but train.global_batch / train.microbatch is {total}",
            free.len()
        );
        return Err(Error::Plan { path: config.path.clone(), problem });
    };
    let load = |idx: usize| {
        let times: Vec<Nanos> = stages[idx]
            .iter()
            .map(|stage| {
                let speed = config.cluster.device(stage.device()).speed.unwrap_or(1.0);
                microbatch_time(&config.plan, profile, stage.layers(), speed)
            })
            .collect();
        Shares {
            slowest: times.iter().copied().max().unwrap_or_default(),
            fill: times.iter().copied().sum(),
        }
    };
    let loads: Vec<Shares> = free.iter().map(|&idx| load(idx)).collect();
    let mut found = if free.is_empty() { Vec::new() } else { shares(&loads, left) }.into_iter();
    Ok(fixed
        .into_iter()
        .map(|fixed| fixed.or_else(|| found.next()).expect("one share for each free pipeline"))
        .collect())
}

/// The names of all devices, by id.
pub(crate) fn cluster_names(config: &Config) -> Vec<&str> {
    config.cluster.devices().iter().map(|device| device.name.as_str()).collect()
}

/// The devices of a run that have work, by rank.
pub(crate) fn device_names(prepared: &Prepared) -> Vec<String> {
    let name = |device: DeviceId| prepared.config.cluster.device(device).name.clone();
    prepared.job.devices().into_iter().map(name).collect()
}
