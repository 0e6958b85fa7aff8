//! One process on the whole batch: what every synchronous plan must equal.
//!
//! It shares no schedule, transport, collective or bucket with a planned run: one chunk with all
//! layers, one forward and one backward over the global batch, one optimizer step.

use crate::device::{clip, optimizer};
use crate::error::RunError;
use crate::protocol::Values;
use crate::samples::Samples;
use crate::settings::Settings;
use cavalcade_model::Network;
use cavalcade_nn::{Chunk, ChunkOutput, Optimizer, network_chunk, squared_norm};
use cavalcade_units::MicrobatchId;

/// A run in one process.
pub struct Reference {
    chunk: Box<dyn Chunk>,
    optimizer: Box<dyn Optimizer>,
    settings: Settings,
    samples: Samples,
    global_batch: usize,
    step: u64,
}

/// What one step of it came to.
#[derive(Clone, Debug)]
pub struct ReferenceStep {
    /// Mean loss over the batch.
    pub loss: f64,
    /// Gradients before clipping.
    pub gradients: Values,
    /// Weights after the optimizer.
    pub weights: Values,
}

impl Reference {
    /// The first step has not been taken yet.
    pub fn new(
        network: &Network,
        settings: &Settings,
        samples: Samples,
        global_batch: usize,
    ) -> Self {
        let chunk = network_chunk(network, 0..network.n_layers(), settings.seed);
        Self {
            optimizer: optimizer(settings.optimizer, chunk.params()),
            settings: settings.clone(),
            chunk,
            samples,
            global_batch,
            step: 0,
        }
    }

    /// Goes on from these weights, as another run left them.
    ///
    /// # Errors
    /// If a parameter is missing or has another size.
    pub fn set_weights(&mut self, weights: &Values) -> Result<(), RunError> {
        let mut flat = Vec::with_capacity(self.chunk.weights().len());
        for param in self.chunk.params() {
            flat.extend_from_slice(weights.get(&param.name).map_or(&[][..], Vec::as_slice));
        }
        Ok(self.chunk.set_weights(&flat)?)
    }

    /// Takes a step.
    ///
    /// # Errors
    /// If the model refuses its input.
    pub fn step(&mut self) -> Result<ReferenceStep, RunError> {
        let first = self.step * self.global_batch as u64;
        let (seed, n) = (self.settings.seed, self.global_batch);
        let (input, targets) =
            (self.samples.data(seed, first, n), self.samples.targets(seed, first, n));
        let loss = match self.chunk.forward(MicrobatchId(0), input, Some(targets), 1.0)? {
            ChunkOutput::Loss(loss) => loss,
            ChunkOutput::Activation(_) => {
                let message = "a chunk with the head gave no loss".to_owned();
                return Err(RunError::Bug { message });
            }
        };
        self.chunk.backward(MicrobatchId(0), None)?;
        let gradients = self.named(self.chunk.gradients());
        if let Some(limit) = self.settings.clip_norm {
            let norm = squared_norm(self.chunk.gradients()).sqrt();
            clip(self.chunk.gradients_mut(), limit, norm);
        }
        let rate = self.settings.learning_rate.at(self.step) as f32;
        self.step += 1;
        let (optimizer, step) = (&mut self.optimizer, self.step);
        self.chunk.update(&mut |weights, gradients| {
            optimizer.step(weights, gradients, rate, step);
        });
        self.chunk.zero_gradients();
        Ok(ReferenceStep { loss, gradients, weights: self.named(self.chunk.weights()) })
    }

    fn named(&self, flat: &[f32]) -> Values {
        let params = self.chunk.params().iter();
        params.map(|param| (param.name.clone(), flat[param.range()].to_vec())).collect()
    }
}
