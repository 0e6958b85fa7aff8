//! What a device does without a flush: changes instead of optimizer steps, waves instead of sums.
//!
//! ```text
//! update   gradients -> change of micro-batch m, added to the sum of its wave
//! apply    change -> weights
//! push     the wave's sum -> server
//! pull     server -> version v, weights
//! merge    weights = pulled + own sums of waves v, v + 1, ... up to the wave before
//! ```

use crate::device::{Device, span};
use crate::error::RunError;
use crate::lock::lock;
use crate::servers::{pull, push};
use cavalcade_units::{ChunkId, ExchangeId, MicrobatchId, Rank};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What a device keeps between those ops.
#[derive(Default)]
pub(crate) struct Exchanged {
    changes: Mutex<BTreeMap<(ChunkId, MicrobatchId), Vec<f32>>>,
    /// By chunk and wave.
    sums: Mutex<BTreeMap<(ChunkId, u64), Vec<f32>>>,
    pulled: Mutex<BTreeMap<ExchangeId, (u64, Vec<f32>)>>,
}

impl Device {
    pub(crate) fn update(
        &self,
        chunk_id: ChunkId,
        microbatch: MicrobatchId,
        step: u64,
    ) -> Result<(), RunError> {
        let (wave, n_before) = self.job.place_of(microbatch, step);
        let rate = self.job.settings.learning_rate.at(wave) as f32;
        let change = {
            let mut held = self.held(chunk_id);
            let held = &mut *held;
            let gradients = held.chunk.gradients();
            if gradients.iter().any(|gradient| !gradient.is_finite()) {
                return Err(RunError::NormNotFinite { step: wave });
            }
            let change = held.optimizer.change(held.chunk.weights(), gradients, rate, n_before + 1);
            held.chunk.zero_gradients();
            change
        };
        if self.job.schedule.schedule().wave.is_some() {
            let mut sums = lock(&self.exchanged.sums);
            match sums.entry((chunk_id, wave)) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(change.clone());
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    place.get_mut().iter_mut().zip(&change).for_each(|(sum, more)| *sum += more);
                }
            }
        }
        lock(&self.exchanged.changes).insert((chunk_id, microbatch), change);
        Ok(())
    }

    pub(crate) fn apply(&self, chunk_id: ChunkId, microbatch: MicrobatchId) {
        let change = lock(&self.exchanged.changes).remove(&(chunk_id, microbatch));
        let change = change.expect("the interpreter starts an op when what it consumes is there");
        self.held(chunk_id).chunk.update(&mut |weights, _| {
            weights.iter_mut().zip(&change).for_each(|(weight, change)| *weight += change);
        });
    }

    pub(crate) fn push(&self, id: ExchangeId, step: u64) -> Result<(), RunError> {
        let entry = &self.job.schedule.schedule().exchanges[id.idx()];
        let span = span(&*self.held(entry.chunk).chunk, &self.unit(entry.bucket));
        let waves = self.job.wave(step, entry.since)..=self.job.wave(step, entry.wave);
        let sum = {
            let sums = lock(&self.exchanged.sums);
            let mut of_waves =
                waves.filter_map(|wave| Some(&sums.get(&(entry.chunk, wave))?[span.clone()]));
            let mut sum = of_waves.next().map(<[f32]>::to_vec).unwrap_or_default();
            for more in of_waves {
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
            sum
        };
        push(&*self.transport, self.server(id), (step, id), &sum)
    }

    pub(crate) fn pull(&self, id: ExchangeId, step: u64) -> Result<(), RunError> {
        let pulled = pull(&*self.transport, self.server(id), (step, id))?;
        lock(&self.exchanged.pulled).insert(id, pulled);
        Ok(())
    }

    pub(crate) fn merge(&self, id: ExchangeId, step: u64) -> Result<(), RunError> {
        let entry = &self.job.schedule.schedule().exchanges[id.idx()];
        let pulled = lock(&self.exchanged.pulled).remove(&id);
        let (version, mut merged) = pulled.expect("the pull of a merge has ended");
        let wave = self.job.wave(step, entry.wave);
        let mut held = self.held(entry.chunk);
        let span = span(&*held.chunk, &self.unit(entry.bucket));
        if merged.len() != span.len() {
            let (found, expected) = (merged.len(), span.len());
            return Err(RunError::WrongPush { from: self.server(id), found, expected });
        }
        {
            let mut sums = lock(&self.exchanged.sums);
            for own in version..wave {
                let sum = sums.get(&(entry.chunk, own));
                let sum = sum.expect("own waves that a server may lack are kept");
                merged.iter_mut().zip(&sum[span.clone()]).for_each(|(sum, more)| *sum += more);
            }
            // No later merge can lack those before, and the last of them may still be on its way to
            // the server of another part.
            let least = wave.saturating_sub(u64::from(entry.lag) + 1);
            sums.retain(|&(chunk, of), _| chunk != entry.chunk || of >= least);
        }
        held.chunk.update(&mut |weights, _| weights[span.clone()].copy_from_slice(&merged));
        Ok(())
    }

    fn server(&self, id: ExchangeId) -> Rank {
        self.rank(self.job.schedule.schedule().server_of(id))
    }
}
