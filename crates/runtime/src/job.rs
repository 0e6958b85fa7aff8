//! Everything a rank needs to know, the same on all of them.

use crate::device::{params_within, span};
use crate::fingerprint::fingerprint;
use crate::protocol::Values;
use crate::samples::Samples;
use crate::settings::Settings;
use cavalcade_lower::OpCosts;
use cavalcade_model::{Model, Network};
use cavalcade_nn::{Chunk, ChunkInput, ChunkParam, Targets, network_chunk};
use cavalcade_schedule::{BucketId, CheckedSchedule, Op, Value};
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId, Rank};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A run, prepared: what to train, on what, in what order.
#[derive(Clone)]
pub struct Job {
    /// The model's description.
    pub network: Network,
    /// The model's layers and parameters.
    pub model: Arc<Model>,
    /// Optimizer, learning rate, clipping, seed.
    pub settings: Settings,
    /// Samples of a micro-batch.
    pub microbatch_size: u32,
    /// The schedule of a step.
    pub schedule: Arc<CheckedSchedule>,
    /// What its ops take.
    pub costs: Arc<OpCosts>,
    /// What to train on.
    pub samples: Samples,
    /// How many waves a step of a schedule without a flush has.
    pub waves: Option<WavesOfRun>,
}

impl Job {
    /// Micro-batches of a step, over all pipelines.
    pub fn n_microbatches(&self) -> u32 {
        self.schedule.schedule().microbatches.len() as u32
    }

    /// Samples of a step.
    pub fn global_batch(&self) -> u64 {
        u64::from(self.n_microbatches()) * u64::from(self.microbatch_size)
    }

    /// What enters the first chunk of a micro-batch.
    pub fn data(&self, step: u64, microbatch: MicrobatchId) -> ChunkInput {
        let n = self.microbatch_size as usize;
        self.samples.data(self.settings.seed, self.first_sample(microbatch, step), n)
    }

    /// What the output of its last chunk is compared with.
    pub fn targets(&self, step: u64, microbatch: MicrobatchId) -> Targets {
        let n = self.microbatch_size as usize;
        self.samples.targets(self.settings.seed, self.first_sample(microbatch, step), n)
    }

    /// The shape of an activation or a gradient that one chunk hands to another.
    ///
    /// # Panics
    /// If `value` is something else, or the gradient of the data.
    pub fn shape(&self, value: Value) -> [usize; 3] {
        let layers = |chunk: ChunkId| &self.schedule.schedule().chunks[chunk.idx()].layers;
        let producer = match value {
            Value::Activation { chunk, .. } => Some(layers(chunk).end - 1),
            Value::Gradient { chunk, .. } => layers(chunk).start.checked_sub(1),
            _ => None,
        };
        let layer = producer.expect("chunks hand on activations, and gradients of some");
        self.network.output_shape(layer, self.microbatch_size as usize)
    }

    /// Sequences of one report: of a wave over all pipelines, or of a step.
    pub fn reported_batch(&self) -> u64 {
        self.global_batch() / self.waves.map_or(1, |waves| u64::from(waves.per_step))
    }

    /// How often the schedule is run for this many reports.
    pub fn n_steps(&self, reports: u64) -> u64 {
        reports.div_ceil(self.waves.map_or(1, |waves| u64::from(waves.per_step)))
    }

    /// The number over the run of wave `wave` of step `step`.
    pub(crate) fn wave(&self, step: u64, wave: u32) -> u64 {
        step * self.waves.map_or(0, |waves| u64::from(waves.per_step)) + u64::from(wave)
    }

    /// Whether the run ends before this wave.
    pub(crate) fn is_beyond(&self, wave: u64) -> bool {
        self.waves.is_some_and(|waves| wave >= waves.total)
    }

    /// Whether `op` belongs to a wave after the last one of the run.
    pub(crate) fn is_beyond_op(&self, op: Op, step: u64) -> bool {
        let schedule = self.schedule.schedule();
        if schedule.wave.is_none() {
            return false;
        }
        let of_microbatch = |microbatch| self.place_of(microbatch, step).0;
        let wave = match op {
            Op::Compute { microbatch, .. } => of_microbatch(microbatch),
            Op::Send(id) | Op::Recv(id) => {
                let message = schedule.transfers[id.idx()].value.message();
                message.map_or(0, |(_, microbatch, _)| of_microbatch(microbatch))
            }
            Op::Push(id) | Op::Pull(id) | Op::Merge(id) => {
                self.wave(step, schedule.exchanges[id.idx()].wave)
            }
            _ => return false,
        };
        self.is_beyond(wave)
    }

    /// The wave of a micro-batch over the run (its step, without waves), and how many micro-batches
    /// of its pipeline come before it.
    pub(crate) fn place_of(&self, microbatch: MicrobatchId, step: u64) -> (u64, u64) {
        let (place, of_path) = self.schedule.place_on_path(microbatch);
        let length = self.schedule.schedule().wave;
        let wave = length.map_or(step, |length| self.wave(step, place / length));
        (wave, step * u64::from(of_path) + u64::from(place))
    }

    /// The first sample of a micro-batch. Waves follow each other in the order of samples, and
    /// within a wave pipelines do.
    pub(crate) fn first_sample(&self, microbatch: MicrobatchId, step: u64) -> u64 {
        let size = u64::from(self.microbatch_size);
        let schedule = self.schedule.schedule();
        let Some(length) = schedule.wave.map(u64::from) else {
            return step * self.global_batch() + u64::from(microbatch.0) * size;
        };
        let (wave, n_before) = self.place_of(microbatch, step);
        let path = u64::from(schedule.microbatches[microbatch.idx()]);
        let n_paths = schedule.paths.len() as u64;
        ((wave * n_paths + path) * length + n_before % length) * size
    }

    /// The initial values of a bucket's parameters, as they lie in its holders' buffers.
    pub(crate) fn initial_weights(&self, bucket: BucketId) -> Vec<f32> {
        let (chunk, span) = self.holder_of(bucket);
        chunk.weights()[span].to_vec()
    }

    /// Values of a bucket's parameters by logical name.
    pub(crate) fn named(&self, bucket: BucketId, values: &[f32]) -> Values {
        let (chunk, span) = self.holder_of(bucket);
        let of = |param: &ChunkParam| {
            let range = param.range();
            values[range.start - span.start..range.end - span.start].to_vec()
        };
        params_within(&*chunk, &span).map(|param| (param.name.clone(), of(param))).collect()
    }

    /// A chunk as the first holder of a bucket has it in the beginning, and where the bucket lies.
    fn holder_of(&self, bucket: BucketId) -> (Box<dyn Chunk>, Range<usize>) {
        let schedule = self.schedule.schedule();
        let bucket = &schedule.buckets[bucket.idx()];
        let layers = schedule.chunks[bucket.holders[0].idx()].layers.clone();
        let chunk = network_chunk(&self.network, layers, self.settings.seed);
        let span = span(&*chunk, &bucket.unit);
        (chunk, span)
    }

    /// The devices that have work, ascending: rank `r` drives the `r`-th of them.
    pub fn devices(&self) -> Vec<DeviceId> {
        let devices = (0..self.schedule.n_devices()).map(DeviceId::from_idx);
        devices.filter(|&device| !self.schedule.actions_of(device).is_empty()).collect()
    }

    /// By device, the rank that drives it.
    pub fn ranks(&self) -> Vec<Option<Rank>> {
        let mut ranks = vec![None; self.schedule.n_devices()];
        for (idx, device) in self.devices().into_iter().enumerate() {
            ranks[device.idx()] = Some(Rank::from_idx(idx));
        }
        ranks
    }

    /// The pipelines that a device works for.
    pub(crate) fn pipelines_of(&self, device: DeviceId) -> BTreeSet<u32> {
        let schedule = self.schedule.schedule();
        let paths = (0..).zip(&schedule.paths);
        let is_on = |path: &[ChunkId]| schedule.chunks_on(device).any(|own| path.contains(&own));
        paths.filter(|(_, path)| is_on(path)).map(|(idx, _)| idx).collect()
    }

    /// Whether parameter servers are on a device.
    pub(crate) fn serves(&self, device: DeviceId) -> bool {
        self.schedule.schedule().buckets.iter().any(|bucket| bucket.server == Some(device))
    }

    /// Hash of the schedule's text, by which ranks make sure that they run the same one.
    pub fn schedule_hash(&self) -> String {
        fingerprint(self.schedule.schedule().to_string().as_bytes())
    }
}

/// What only a run without a flush has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WavesOfRun {
    /// Waves of one step: between two of them the pipelines run empty.
    pub per_step: u32,
    /// Waves of the run; a last step may have fewer.
    pub total: u64,
}
