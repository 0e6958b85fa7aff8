//! Everything a rank needs to know, the same on all of them.

use crate::fingerprint::fingerprint;
use crate::samples::Samples;
use crate::settings::Settings;
use cavalcade_lower::OpCosts;
use cavalcade_model::{Model, Network};
use cavalcade_nn::{ChunkInput, Targets};
use cavalcade_schedule::{CheckedSchedule, Value};
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId, Rank};
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
        self.samples.data(self.settings.seed, self.first_sample(step, microbatch), n)
    }

    /// What the output of its last chunk is compared with.
    pub fn targets(&self, step: u64, microbatch: MicrobatchId) -> Targets {
        let n = self.microbatch_size as usize;
        self.samples.targets(self.settings.seed, self.first_sample(step, microbatch), n)
    }

    fn first_sample(&self, step: u64, microbatch: MicrobatchId) -> u64 {
        step * self.global_batch() + u64::from(microbatch.0) * u64::from(self.microbatch_size)
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

    /// Hash of the schedule's text, by which ranks make sure that they run the same one.
    pub fn schedule_hash(&self) -> String {
        fingerprint(self.schedule.schedule().to_string().as_bytes())
    }
}
