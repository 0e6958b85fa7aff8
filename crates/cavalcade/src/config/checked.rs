//! The configuration as it is meant: every value checked, every default filled in.

use super::file::{ConfigFile, OptimizerWord, Paths, PipelineFile, RecomputeWord};
use super::network::{self, DataConfig};
use super::sync::{self, SyncConfig};
use super::{ConfigError, overrides};
use cavalcade_cluster::{Cluster, ClusterError, ClusterFile};
use cavalcade_model::Network;
use cavalcade_planner::Policy;
use cavalcade_runtime::{LearningRate, OptimizerSettings, Settings};
use cavalcade_schedule::{Form, Kind, Reduction};
use cavalcade_units::{DeviceId, Nanos};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Table;

/// A configuration that makes sense. What depends on the text (the vocabulary) or on measured
/// times (the plan) is not in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it was read, for messages.
    pub path: PathBuf,
    /// Where the profile is, if it is not to be measured now.
    pub profile: Option<PathBuf>,
    /// The model; the vocabulary of a GPT is set when the text is known.
    pub model: Network,
    /// What it learns from.
    pub data: DataConfig,
    /// Optimizer and learning rate.
    pub settings: Settings,
    /// Samples of a step.
    pub global_batch: u32,
    /// Samples of a micro-batch.
    pub microbatch: u32,
    /// Windows of held-out text, or held-out images, for the validation loss.
    pub validation_windows: u32,
    /// What the file says about the plan.
    pub plan: PlanConfig,
    /// How replicas stay together.
    pub sync: SyncConfig,
    /// Devices and links.
    pub cluster: Cluster,
    /// How workers are started.
    pub launch: LaunchConfig,
    pub(super) file: ConfigFile,
}

/// What is fixed of the plan; the rest follows from the profile.
#[derive(Clone, Debug)]
pub struct PlanConfig {
    /// The kind of schedule.
    pub kind: Kind,
    /// Whether backward passes run in two halves, be it by the kind of schedule or by wish.
    pub split_backward: bool,
    /// Whether every chunk keeps its input alone and runs its forward pass again.
    pub recompute: bool,
    /// Whether those inputs are kept on the host, and how many passes before its use each is
    /// fetched.
    pub offload: Option<u32>,
    /// How gradients are summed.
    pub reduction: Reduction,
    /// By which rule devices form the replicas; none if `pipelines` says.
    pub allocation: Option<Policy>,
    /// The replicas; empty if they follow from `allocation`.
    pub pipelines: Vec<PipelineConfig>,
}

/// A replica.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Its devices, first stage to last.
    pub devices: Vec<DeviceId>,
    /// Layers by stage, if they are fixed.
    pub layers: Option<Vec<Range<u32>>>,
    /// Its share of the micro-batches, if it is fixed.
    pub microbatches: Option<u32>,
}

/// How workers are started and found.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port of the coordinator; 0 for any free one.
    pub port: u16,
    /// Ranks that are started by hand.
    pub external_ranks: Vec<u32>,
    /// How long to wait for all to join.
    pub join_timeout: Nanos,
}

impl Config {
    /// Reads `path` and applies `overrides` (`key=value`).
    ///
    /// # Errors
    /// Anything unreadable, unknown, of the wrong type or without sense, with its place.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|reason| ConfigError::Unreadable { path: path.to_owned(), reason })?;
        Self::parse(&text, path, overrides)
    }

    /// Reads `text`, which stands (or will stand) at `path`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str, path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        let syntax = |error: &toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            line: error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1),
            problem: plain(error.message()),
        };
        let mut table: Table = toml::from_str(text).map_err(|e| syntax(&e))?;
        let mut file: ConfigFile = toml::from_str(text).map_err(|e| syntax(&e))?;
        for text in overrides {
            overrides::apply(&mut table, text)?;
            file = table.clone().try_into().map_err(|error: toml::de::Error| {
                let problem = plain(error.message());
                ConfigError::Override { text: text.clone(), problem }
            })?;
        }
        let checked = Self::check(file, path);
        // A value may come from an override as well as from the file.
        checked.map_err(|error| match error {
            ConfigError::Value { path, key, problem } if !overrides.is_empty() => {
                let key = format!("(with --set) {key}");
                ConfigError::Value { path, key, problem }
            }
            error => error,
        })
    }

    pub(super) fn check(mut file: ConfigFile, path: &Path) -> Result<Self, ConfigError> {
        let fail = |key: &str, problem: String| ConfigError::Value {
            path: path.to_owned(),
            key: key.to_owned(),
            problem,
        };
        let base = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let base = std::path::absolute(base).map_err(|e| fail("path", e.to_string()))?;
        let cluster = ClusterFile {
            device: file.device.clone(),
            link: file.link.clone(),
            links: file.links.clone(),
            network: file.network.clone(),
        };
        let cluster = Cluster::try_from(cluster).map_err(|e| fail(key_of(&e), e.to_string()))?;
        if file.pipeline.is_empty() && file.plan.allocation.is_none() {
            let devices = cluster.devices().iter().map(|device| device.name.clone()).collect();
            file.pipeline.push(PipelineFile { devices, layers: None, microbatches: None });
        }
        let model = network::network(&mut file.model, &fail)?;
        let data = network::data(&mut file.data, &model, &base, &fail)?;
        let (plan, sync) = plan(&file, &cluster, &fail)?;
        network::can_run(plan.kind, &model, &fail)?;
        Ok(Self {
            path: path.to_owned(),
            profile: file.profile.as_ref().map(|profile| base.join(profile)),
            settings: settings(&file, &fail)?,
            global_batch: file.train.global_batch,
            microbatch: microbatch(&file, sync.waves.is_some(), &fail)?,
            validation_windows: file.train.validation_windows,
            sync,
            launch: launch(&file, &cluster, &fail)?,
            plan,
            data,
            model,
            cluster,
            file,
        })
    }

    /// Micro-batches of a step.
    pub fn n_microbatches(&self) -> u32 {
        self.global_batch / self.microbatch
    }

    /// Whether `train` and `verify` can run it: their workers emulate links of pairs alone.
    ///
    /// # Errors
    /// If devices share networks.
    pub(crate) fn can_be_emulated(&self) -> Result<(), ConfigError> {
        if !self.cluster.is_shared() {
            return Ok(());
        }
        Err(ConfigError::Value {
            path: self.path.clone(),
            key: "network".to_owned(),
            problem: "devices share networks, which can be simulated but not emulated; a run can \
                      emulate the links of pairs, [link] and [[links]]: write those instead, or \
                      remove [[network]]"
                .to_owned(),
        })
    }

    /// The text of the resolved configuration: all defaults written out, paths absolute, so that
    /// it means the same wherever it is read.
    pub fn to_toml(&self) -> String {
        let mut file = self.file.clone();
        if let DataConfig::Text(text) = &self.data {
            let absolute = |path: &String| text.base.join(path).display().to_string();
            file.data.path = Some(Paths::Many(text.paths.iter().map(absolute).collect()));
        }
        file.profile = self.profile.as_ref().map(|profile| profile.display().to_string());
        toml::to_string(&file).expect("the file was read from TOML, so it can be written as TOML")
    }
}

/// Which part of the file a problem of the cluster is in.
fn key_of(error: &ClusterError) -> &'static str {
    match error {
        ClusterError::Quantity { place, .. } if place.starts_with("device") => "device",
        ClusterError::NothingToJoin { .. }
        | ClusterError::UnknownMember { .. }
        | ClusterError::RepeatedNetwork { .. }
        | ClusterError::TwoBandwidths { .. } => "network",
        ClusterError::Quantity { place, .. } if place.starts_with("network") => "network",
        ClusterError::Quantity { .. }
        | ClusterError::UnknownDevice { .. }
        | ClusterError::LinkToItself { .. }
        | ClusterError::RepeatedLink { .. } => "link",
        _ => "device",
    }
}

/// A message of the TOML reader in words of TOML instead of Rust.
fn plain(message: &str) -> String {
    let words = [
        ("expected usize", "expected a whole number of at least 0"),
        ("expected u64", "expected a whole number of at least 0"),
        ("expected u32", "expected a whole number of at least 0"),
        ("expected u16", "expected a whole number below 65536"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
        ("expected a sequence", "expected a list"),
    ];
    let text = words.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to));
    match text.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a table of keys"),
        None => text,
    }
}

/// Makes the error of a key.
type Fail<'a> = dyn Fn(&str, String) -> ConfigError + 'a;

fn microbatch(file: &ConfigFile, has_waves: bool, fail: &Fail) -> Result<u32, ConfigError> {
    let (global, micro) = (file.train.global_batch, file.train.microbatch);
    if micro == 0 {
        return Err(fail("train.microbatch", "0 sequences; at least 1 is needed".to_owned()));
    }
    if has_waves {
        // What a wave holds follows from what is in flight.
        return Ok(micro);
    }
    if global == 0 {
        return Err(fail("train.global_batch", "0 sequences; at least 1 is needed".to_owned()));
    }
    if !global.is_multiple_of(micro) {
        let below = global / micro * micro;
        let problem = format!(
            "{global} sequences do not divide into micro-batches of {micro}; use {} or {}",
            below.max(micro),
            below + micro + if below == 0 { micro } else { 0 }
        );
        return Err(fail("train.global_batch", problem));
    }
    if (global / micro) < file.pipeline.len() as u32 {
        let problem = format!(
            "{} micro-batches of {micro} for {} pipelines; each pipeline needs at least one",
            global / micro,
            file.pipeline.len()
        );
        return Err(fail("train.global_batch", problem));
    }
    Ok(micro)
}

fn settings(file: &ConfigFile, fail: &Fail) -> Result<Settings, ConfigError> {
    let optimizer = &file.optimizer;
    let positive = |key: &str, value: f64| match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(fail(key, format!("{value} is not a number above 0"))),
    };
    let decay = |key: &str, value: f32| match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(fail(key, format!("{value} is not at least 0 and below 1"))),
    };
    if file.train.steps == 0 {
        return Err(fail("train.steps", "0 steps; at least 1 is needed".to_owned()));
    }
    positive("optimizer.learning_rate", optimizer.learning_rate)?;
    if !(0.0..=optimizer.learning_rate).contains(&optimizer.learning_rate_floor) {
        let problem = format!(
            "{} is not between 0 and the learning rate, {}",
            optimizer.learning_rate_floor, optimizer.learning_rate
        );
        return Err(fail("optimizer.learning_rate_floor", problem));
    }
    decay("optimizer.beta1", optimizer.beta1)?;
    decay("optimizer.beta2", optimizer.beta2)?;
    positive("optimizer.epsilon", f64::from(optimizer.epsilon))?;
    if !(optimizer.weight_decay >= 0.0 && optimizer.weight_decay.is_finite()) {
        let problem = format!("{} is not a number of at least 0", optimizer.weight_decay);
        return Err(fail("optimizer.weight_decay", problem));
    }
    // 0 is how a file says "do not clip": TOML has no null.
    let clip_norm = file.train.clip_norm.filter(|&norm| norm != 0.0);
    clip_norm.map_or(Ok(()), |norm| positive("train.clip_norm", norm))?;
    Ok(Settings {
        seed: file.seed,
        steps: file.train.steps,
        optimizer: match optimizer.kind {
            OptimizerWord::Adamw => OptimizerSettings::AdamW {
                beta1: optimizer.beta1,
                beta2: optimizer.beta2,
                epsilon: optimizer.epsilon,
                weight_decay: optimizer.weight_decay,
            },
            OptimizerWord::Sgd => OptimizerSettings::Sgd,
        },
        learning_rate: LearningRate {
            peak: optimizer.learning_rate,
            floor: optimizer.learning_rate_floor,
            warmup_steps: optimizer.warmup_steps,
            steps: file.train.steps,
        },
        clip_norm,
        servers: sync::servers(file, fail)?,
    })
}

/// Why a kind of schedule can be drawn and simulated and not trained with.
fn not_for_training(kind: Kind) -> Option<String> {
    let remedy = "use another kind such as 1f1b, or draw this one with `cavalcade schedule`";
    let why = match kind {
        _ if kind.is_second_order() => {
            "is for objectives that hold gradients by the input, and \
                                        no model's loss here has any"
        }
        _ => return None,
    };
    Some(format!("{why}; {remedy}"))
}

fn plan(
    file: &ConfigFile,
    cluster: &Cluster,
    fail: &Fail,
) -> Result<(PlanConfig, SyncConfig), ConfigError> {
    let kind: Kind =
        file.plan.schedule.parse().map_err(|e| fail("plan.schedule", format!("{e}")))?;
    if let Some(problem) = not_for_training(kind) {
        return Err(fail("plan.schedule", format!("`{kind}` {problem}")));
    }
    let (kind, sync) = sync::sync(file, kind, fail)?;
    let recompute = file.plan.recompute == RecomputeWord::All;
    // 0 is how a file says "do not offload": TOML has no null.
    let offload = Some(file.plan.offload).filter(|&ahead| ahead != 0);
    if let Some(ahead) = offload.filter(|_| !recompute) {
        let problem = format!(
            "{ahead} passes ahead, but only inputs of chunks that recompute leave the device; set \
             plan.recompute to \"all\", or this to 0"
        );
        return Err(fail("plan.offload", problem));
    }
    let allocation = file.plan.allocation.as_ref().map(|word| word.parse::<Policy>());
    let allocation = allocation.transpose().map_err(|e| fail("plan.allocation", e.to_string()))?;
    if let Some(policy) = allocation {
        if !file.pipeline.is_empty() {
            let problem = format!(
                "`{policy}` groups devices into pipelines, and the file has [[pipeline]] too; \
                 remove one of them"
            );
            return Err(fail("plan.allocation", problem));
        }
        if kind.form() != Form::Apart {
            let problem = format!(
                "`{policy}` gives every stage a device of its own, which is not the form of the \
                 schedule `{kind}`; list its devices under [[pipeline]]"
            );
            return Err(fail("plan.allocation", problem));
        }
    }
    let reduction = file.plan.reduce.parse();
    let reduction: Reduction = reduction.map_err(|e| fail("plan.reduce", format!("{e}")))?;
    let names = || {
        let names = cluster.devices().iter().map(|device| device.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let mut pipelines = Vec::new();
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for (idx, pipeline) in file.pipeline.iter().enumerate() {
        let key = |part: &str| format!("pipeline[{idx}].{part}");
        if pipeline.devices.is_empty() {
            return Err(fail(&key("devices"), "no devices; name at least one".to_owned()));
        }
        for name in &pipeline.devices {
            let user = users.insert(name, idx);
            if let Some(user) = user.filter(|_| !kind.shares_devices()) {
                let problem = format!(
                    "`{name}` already has a stage in pipeline[{user}]; a device has one stage, \
                     the devices are {}",
                    names()
                );
                return Err(fail(&key("devices"), problem));
            }
        }
        let device = |name: &String| {
            cluster.device_named(name).ok_or_else(|| {
                let problem = format!("there is no device `{name}`; the devices are {}", names());
                fail(&key("devices"), problem)
            })
        };
        let layers = pipeline.layers.as_ref().map(|layers| {
            let ranges: Option<Vec<_>> = layers.iter().map(|text| layer_range(text)).collect();
            ranges.filter(|ranges| ranges.len() == pipeline.devices.len()).ok_or_else(|| {
                let n_stages = pipeline.devices.len();
                let problem = format!(
                    "{layers:?} is not one range a device, such as \"0..3\"; {n_stages} are needed"
                );
                fail(&key("layers"), problem)
            })
        });
        pipelines.push(PipelineConfig {
            devices: pipeline.devices.iter().map(device).collect::<Result<_, _>>()?,
            layers: layers.transpose()?,
            microbatches: pipeline.microbatches,
        });
    }
    let split_backward = kind.splits_backward() || file.plan.split_backward;
    let plan =
        PlanConfig { kind, split_backward, recompute, offload, reduction, allocation, pipelines };
    Ok((plan, sync))
}

fn layer_range(text: &str) -> Option<Range<u32>> {
    let (start, end) = text.split_once("..")?;
    Some(start.trim().parse().ok()?..end.trim().parse().ok()?)
}

fn launch(file: &ConfigFile, cluster: &Cluster, fail: &Fail) -> Result<LaunchConfig, ConfigError> {
    let launch = &file.launch;
    let bind = launch.bind.parse().map_err(|_| {
        fail("launch.bind", format!("`{}` is not an IP address such as 127.0.0.1", launch.bind))
    })?;
    let join_timeout =
        launch.join_timeout.parse().map_err(|e| fail("launch.join_timeout", format!("{e}")))?;
    let n_ranks = cluster.devices().len();
    if let Some(rank) = launch.external_ranks.iter().find(|&&rank| rank as usize >= n_ranks) {
        let problem = format!("there is no rank {rank}; the ranks are 0..{n_ranks}");
        return Err(fail("launch.external_ranks", problem));
    }
    Ok(LaunchConfig {
        bind,
        port: launch.port,
        external_ranks: launch.external_ranks.clone(),
        join_timeout,
    })
}
