//! Everything a rank needs to know, the same on all of them.

use crate::fingerprint::fingerprint;
use crate::settings::Settings;
use cavalcade_data::{SampleOrder, TokenSet};
use cavalcade_lower::OpCosts;
use cavalcade_model::{GptConfig, Model};
use cavalcade_schedule::CheckedSchedule;
use cavalcade_units::{DeviceId, Rank};
use std::sync::Arc;

/// A run, prepared: what to train, on what, in what order.
#[derive(Clone)]
pub struct Job {
    /// The model's description.
    pub config: GptConfig,
    /// The model's layers and parameters.
    pub model: Arc<Model>,
    /// Optimizer, learning rate, clipping, seed.
    pub settings: Settings,
    /// Sequences of a micro-batch.
    pub microbatch_size: u32,
    /// The schedule of a step.
    pub schedule: Arc<CheckedSchedule>,
    /// What its ops take.
    pub costs: Arc<OpCosts>,
    /// The training tokens.
    pub tokens: Arc<TokenSet>,
}

impl Job {
    /// Micro-batches of a step, over all pipelines.
    pub fn n_microbatches(&self) -> u32 {
        self.schedule.schedule().microbatches.len() as u32
    }

    /// Sequences of a step.
    pub fn global_batch(&self) -> u64 {
        u64::from(self.n_microbatches()) * u64::from(self.microbatch_size)
    }

    /// The order in which samples are seen.
    pub fn order(&self) -> SampleOrder {
        self.tokens.order(self.config.context, self.settings.seed)
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
