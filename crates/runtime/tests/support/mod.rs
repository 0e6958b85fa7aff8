//! Small jobs for the tests of this crate.

use cavalcade_cluster::{Cluster, Device};
use cavalcade_data::{ImageRule, ImageSplit, TokenSet};
use cavalcade_lower::{OpCosts, lower};
use cavalcade_model::{ConvConfig, GptConfig, Model, Network};
use cavalcade_plan::{Pipeline, Plan, Stage, Waves};
use cavalcade_profile::{ClockMeter, LayerProfile, LinkProfile, Meter, ParamBytes, Profile};
use cavalcade_runtime::{
    Job, LearningRate, OptimizerSettings, Samples, ServerSettings, Settings, Values, WavesOfRun,
};
use cavalcade_schedule::{Form, Kind, Options, check};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use std::sync::Arc;

/// Blocks of a GPT; with embedding and head there are two layers more.
const BLOCKS: usize = 3;
const CONTEXT: usize = 8;

/// A run to be compared: cuts between stages and micro-batches, by pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) pipelines: Vec<(Vec<u32>, u32)>,
    pub(crate) kind: Kind,
    pub(crate) tied: bool,
    /// A convolutional network on images instead of a GPT on text; five layers both.
    pub(crate) on_images: bool,
    pub(crate) clip_norm: Option<f64>,
    pub(crate) optimizer: OptimizerSettings,
    /// What the passes add; clipping is set by `clip_norm`.
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    /// Replicas that exchange waves; `steps` are waves then.
    pub(crate) waves: Option<Waves>,
    pub(crate) servers: ServerSettings,
}

impl Case {
    pub(crate) fn new(pipelines: &[(&[u32], u32)]) -> Self {
        Self {
            pipelines: pipelines.iter().map(|(cuts, n)| (cuts.to_vec(), *n)).collect(),
            kind: Kind::OneFOneB,
            tied: true,
            on_images: false,
            clip_norm: Some(1.0),
            optimizer: OptimizerSettings::AdamW {
                beta1: 0.9,
                beta2: 0.95,
                epsilon: 1e-8,
                weight_decay: 0.1,
            },
            options: Options::default(),
            seed: 7,
            steps: 3,
            waves: None,
            servers: ServerSettings::default(),
        }
    }

    pub(crate) fn job(&self) -> Job {
        let (network, samples) = match self.on_images {
            true => images(self.seed),
            false => text(self.tied),
        };
        let model = network.model();
        let (pipelines, n_devices) = self.pipelines(model.n_layers());
        let plan =
            Plan::new(pipelines, 2, self.kind, model.n_layers(), n_devices).expect("it is legal");
        let plan = match self.waves {
            Some(waves) => plan.with_waves(waves).expect("it is legal"),
            None => plan,
        };
        let options = Options { clip_gradients: self.clip_norm.is_some(), ..self.options.clone() };
        let (profile, cluster) = (profile(&model), cluster(n_devices));
        let schedule = lower(&plan, &model, &profile, &cluster, &options);
        let costs = OpCosts::new(&schedule, &model, &profile, &cluster);
        Job {
            settings: Settings {
                seed: self.seed,
                steps: self.steps,
                optimizer: self.optimizer,
                learning_rate: LearningRate {
                    peak: 1e-2,
                    floor: 1e-3,
                    warmup_steps: 1,
                    steps: self.steps,
                },
                clip_norm: self.clip_norm,
                servers: self.servers,
            },
            microbatch_size: 2,
            schedule: Arc::new(check(schedule, None).expect("it is legal")),
            costs: Arc::new(costs),
            samples,
            model: Arc::new(model),
            network,
            waves: plan
                .waves_of_step()
                .map(|(per_step, _)| WavesOfRun { per_step, total: self.steps }),
        }
    }
}

impl Case {
    /// Every stage on a device of its own; interleaved, on two devices in turn; folded, there and
    /// back; for Chimera, every other pipeline on the devices of the one before it, in the opposite
    /// order.
    fn pipelines(&self, n_layers: u32) -> (Vec<Pipeline>, usize) {
        let mut first = 0;
        let mut pipelines = Vec::new();
        for (idx, (cuts, microbatches)) in self.pipelines.iter().enumerate() {
            let bounds = [vec![0], cuts.clone(), vec![n_layers]].concat();
            let n_stages = bounds.len() as u32 - 1;
            let is_up = self.kind.form() == Form::Mirrored && idx % 2 == 1;
            if is_up {
                first -= n_stages;
            }
            let device = |stage: u32| match self.kind.form() {
                Form::Round => first + stage % 2,
                Form::Folded => first + stage.min(n_stages - 1 - stage),
                Form::Mirrored if is_up => first + n_stages - 1 - stage,
                Form::Mirrored | Form::Apart | Form::Alike => first + stage,
            };
            let pairs = bounds.windows(2).zip(0..);
            let stages =
                pairs.map(|(pair, stage)| Stage::new(DeviceId(device(stage)), pair[0]..pair[1]));
            pipelines.push(Pipeline::new(stages.collect(), *microbatches));
            first += n_stages;
        }
        (pipelines, first as usize)
    }
}

/// A small GPT, and a short text of a little structure.
fn text(tied: bool) -> (Network, Samples) {
    let config = GptConfig::new(23, CONTEXT, 16, 2, BLOCKS, tied, false).expect("it is legal");
    let tokens = TokenSet::new((0..400u32).map(|i| (i * i / 7 + i) % 23).collect());
    (Network::Gpt(config), Samples::Text { tokens: Arc::new(tokens), context: CONTEXT })
}

/// Two convolutions, two hidden layers and the classes; and images for them.
fn images(seed: u64) -> (Network, Samples) {
    let (side, channels, classes) = (8, 3, 5);
    let (convolutions, hidden) = (vec![4, 6], vec![12, 7]);
    let config = ConvConfig { image: side, channels, convolutions, hidden, classes };
    let rule = ImageRule { side, channels, classes, n_images: 40, noise: 0.5, seed };
    let split = ImageSplit::new(rule, 0.1).expect("it is legal");
    (Network::Conv(config), Samples::Images(Arc::new(split.train)))
}

fn cluster(n_devices: usize) -> Cluster {
    let device = |idx| Device::named(format!("d{idx}"));
    Cluster::new((0..n_devices).map(device).collect(), None, &[]).expect("it is legal")
}

fn profile(model: &Model) -> Profile {
    let layer = |name: &str| LayerProfile {
        name: name.to_owned(),
        forward: Nanos(1000),
        backward: Nanos(2000),
        backward_input: Nanos(1000),
        backward_weight: Nanos(1000),
        saved: Bytes(1000),
        deferred: Bytes(500),
        workspace: Bytes(100),
        split_workspace: Bytes(100),
        output: Bytes(100),
    };
    Profile {
        model: "0".repeat(16),
        microbatch_size: 2,
        sequence: CONTEXT as u32,
        layers: model.layers.iter().map(|l| layer(&l.name)).collect(),
        optimizer_per_million: Nanos(1000),
        param_bytes: ParamBytes { weights: 8, gradients: 4, optimizer: 8 },
        base: Bytes::ZERO,
        loopback: LinkProfile {
            latency: Nanos(1000),
            bandwidth: Bandwidth::from_bytes_per_second(1e9),
        },
        op_overhead: Nanos::ZERO,
        jitter: 0.0,
    }
}

pub(crate) fn meter() -> Arc<dyn Meter> {
    Arc::new(ClockMeter::start())
}

/// L2 of the difference over L2 of `expected`, over all parameters as one vector.
pub(crate) fn close(found: &Values, expected: &Values) -> f64 {
    assert!(found.keys().eq(expected.keys()), "the same parameters");
    let pairs = found.values().flatten().zip(expected.values().flatten());
    let difference: f64 = pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let whole: f64 = expected.values().flatten().map(|v| f64::from(*v).powi(2)).sum();
    (difference / whole).sqrt()
}
