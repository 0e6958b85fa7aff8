//! One process on the whole batch: what every synchronous plan must equal.
//!
//! It shares no schedule, transport, collective or bucket with a planned run: one chunk with all
//! layers, one forward and one backward over the global batch, one optimizer step.

use crate::device::{clip, optimizer};
use crate::error::RunError;
use crate::protocol::Values;
use crate::settings::Settings;
use cavalcade_data::{SampleOrder, TokenSet};
use cavalcade_model::{GptConfig, Model};
use cavalcade_nn::{Chunk, ChunkInput, ChunkOutput, Optimizer, Targets, gpt_chunk, squared_norm};
use cavalcade_units::MicrobatchId;
use std::sync::Arc;

/// A run in one process.
pub struct Reference {
    chunk: Box<dyn Chunk>,
    optimizer: Box<dyn Optimizer>,
    settings: Settings,
    tokens: Arc<TokenSet>,
    order: SampleOrder,
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
        config: &GptConfig,
        settings: &Settings,
        tokens: Arc<TokenSet>,
        global_batch: usize,
    ) -> Self {
        let n_layers = Model::gpt(config).n_layers();
        let chunk = gpt_chunk(config, 0..n_layers, settings.seed);
        Self {
            optimizer: optimizer(settings.optimizer, chunk.params()),
            order: tokens.order(config.context, settings.seed),
            settings: settings.clone(),
            chunk,
            tokens,
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
        let batch = self.tokens.batch(&self.order, first, self.global_batch);
        let input =
            ChunkInput::Tokens { ids: batch.tokens, batch: batch.batch, sequence: batch.sequence };
        let targets = Some(Targets { ids: batch.targets });
        let loss = match self.chunk.forward(MicrobatchId(0), input, targets, 1.0)? {
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
