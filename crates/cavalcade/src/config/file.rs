//! The configuration as it is written.

use cavalcade_cluster::{DeviceFile, LinkFile, NetworkFile, PairLinkFile};
use serde::{Deserialize, Serialize};

/// The whole file. Every key is optional but `[[device]]` and `[[pipeline]]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    #[serde(default)]
    pub(super) model: ModelFile,
    #[serde(default)]
    pub(super) data: DataFile,
    #[serde(default)]
    pub(super) train: TrainFile,
    #[serde(default)]
    pub(super) optimizer: OptimizerFile,
    #[serde(default)]
    pub(super) plan: PlanFile,
    #[serde(default)]
    pub(super) sync: SyncFile,
    #[serde(default)]
    pub(super) launch: LaunchFile,
    #[serde(default)]
    pub(super) pipeline: Vec<PipelineFile>,
    #[serde(default)]
    pub(super) device: Vec<DeviceFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<LinkFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<PairLinkFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) network: Vec<NetworkFile>,
}

/// The keys of every kind of model; what is left out of the kind's own has a default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ModelFile {
    pub(super) kind: ModelWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) width: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) heads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bias: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) channels: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) convolutions: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) classes: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModelWord {
    #[default]
    Gpt,
    Conv,
}

/// One path or several.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "data.path has to be a path or a list of paths")]
pub(super) enum Paths {
    One(String),
    Many(Vec<String>),
}

/// The keys of every kind of data.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DataFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<DataWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<Paths>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tokenizer: Option<TokenizerWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) images: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) noise: Option<f32>,
    pub(super) validation: f64,
}

impl Default for DataFile {
    fn default() -> Self {
        let (kind, path, tokenizer, images, noise) = (None, None, None, None, None);
        Self { kind, path, tokenizer, images, noise, validation: 0.05 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DataWord {
    Text,
    Synthetic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TokenizerWord {
    Byte,
    Char,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TrainFile {
    pub(super) steps: u64,
    pub(super) global_batch: u32,
    pub(super) microbatch: u32,
    pub(super) clip_norm: Option<f64>,
    pub(super) validation_windows: u32,
}

impl Default for TrainFile {
    fn default() -> Self {
        Self {
            steps: 200,
            global_batch: 32,
            microbatch: 4,
            clip_norm: Some(1.0),
            validation_windows: 64,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OptimizerFile {
    pub(super) kind: OptimizerWord,
    pub(super) learning_rate: f64,
    pub(super) learning_rate_floor: f64,
    pub(super) warmup_steps: u64,
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    pub(super) epsilon: f32,
    pub(super) weight_decay: f32,
}

impl Default for OptimizerFile {
    fn default() -> Self {
        Self {
            kind: OptimizerWord::Adamw,
            learning_rate: 3e-3,
            learning_rate_floor: 3e-4,
            warmup_steps: 20,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OptimizerWord {
    Adamw,
    Sgd,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanFile {
    pub(super) schedule: String,
    pub(super) split_backward: bool,
    pub(super) recompute: RecomputeWord,
    pub(super) offload: u32,
    pub(super) reduce: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allocation: Option<String>,
}

impl Default for PlanFile {
    fn default() -> Self {
        Self {
            schedule: "1f1b".to_owned(),
            split_backward: false,
            recompute: RecomputeWord::None,
            offload: 0,
            reduce: "ring".to_owned(),
            allocation: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RecomputeWord {
    None,
    All,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SyncFile {
    pub(super) mode: SyncWord,
    pub(super) distance: Distance,
    pub(super) in_flight: u32,
    pub(super) servers: String,
    pub(super) combine: CombineWord,
    pub(super) optimizer: ServerWord,
    pub(super) learning_rate: f32,
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    pub(super) epsilon: f32,
    pub(super) elastic: bool,
}

impl Default for SyncFile {
    fn default() -> Self {
        Self {
            mode: SyncWord::Flush,
            distance: Distance::Waves(0),
            in_flight: 0,
            servers: "local".to_owned(),
            combine: CombineWord::Sum,
            optimizer: ServerWord::Add,
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            elastic: false,
        }
    }
}

/// A number of waves, or a word.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "sync.distance has to be a number of waves, or \"auto\"")]
pub(super) enum Distance {
    Waves(u32),
    Word(DistanceWord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DistanceWord {
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SyncWord {
    Flush,
    Wsp,
    Async,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CombineWord {
    Sum,
    Average,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServerWord {
    Add,
    Momentum,
    Adam,
}

/// A replica: its devices in the order of its stages. What is left out is planned.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PipelineFile {
    pub(super) devices: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) layers: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) microbatches: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LaunchFile {
    pub(super) bind: String,
    pub(super) port: u16,
    pub(super) external_ranks: Vec<u32>,
    pub(super) join_timeout: String,
}

impl Default for LaunchFile {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1".to_owned(),
            port: 0,
            external_ranks: Vec::new(),
            join_timeout: "60 s".to_owned(),
        }
    }
}
