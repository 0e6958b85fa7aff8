//! The chunk as the runtime sees it: no tensors, host buffers only.

use crate::ChunkError;
use cavalcade_units::MicrobatchId;

/// A tensor at a chunk's boundary: an activation, its gradient, or logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Activation {
    /// The values, row-major.
    pub data: Vec<f32>,
    /// `[batch, sequence, width]`; the last one is the vocabulary for logits.
    pub shape: [usize; 3],
}

/// What enters a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkInput {
    /// Token ids, for the chunk that holds the embedding.
    Tokens {
        /// The ids, sequence by sequence: `batch * sequence` of them.
        ids: Vec<u32>,
        /// Number of sequences.
        batch: usize,
        /// Tokens in each.
        sequence: usize,
    },
    /// The output of the chunk before, or the data of a model without tokens.
    Activation(Activation),
}

/// The token that follows each input token, for the chunk that holds the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The ids, in the order of the input: `batch * sequence` of them.
    pub ids: Vec<u32>,
}

/// What leaves a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkOutput {
    /// The activation for the next chunk.
    Activation(Activation),
    /// The mean loss over this micro-batch's tokens in nats, without the loss scale.
    Loss(f64),
}

/// One parameter within a chunk's flat buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkParam {
    /// Its logical name, unique in the model.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where its values start in the flat buffers.
    pub offset: usize,
    /// Its index among the model's ties, if layers elsewhere may use it too.
    pub tie: Option<u32>,
    /// The layer that owns it.
    pub layer: u32,
}

impl ChunkParam {
    /// The number of values.
    pub fn n_values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Where its values lie in the flat buffers.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.n_values()
    }
}

/// A consecutive run of layers that one device computes.
///
/// A micro-batch is *in flight* from its forward pass to the end of its backward pass. Each in
/// flight keeps the weights that its forward pass used: weights may change in between, and the
/// backward pass still differentiates the function that was computed (weight stashing, as pipelines
/// without a flush need it).
///
/// A backward pass is one call of [`Chunk::backward`], or one of [`Chunk::backward_input`], for
/// which the chunk before waits, and later one of [`Chunk::backward_weight`], for which nobody does
/// (zero-bubble schedules: Qi et al., arXiv:2401.10241). The gradients are the same to the last bit
/// if the passes that add to them run in the same order of micro-batches, whatever runs in between.
pub trait Chunk: Send {
    /// The parameters, ascending by offset and without gaps.
    fn params(&self) -> &[ChunkParam];

    /// All weights, flat.
    fn weights(&self) -> &[f32];

    /// The gradients accumulated since [`Chunk::zero_gradients`], flat, like the weights.
    fn gradients(&self) -> &[f32];

    /// The same, to reduce, scale or clip in place.
    fn gradients_mut(&mut self) -> &mut [f32];

    /// Lets `change` modify the weights (first) and gradients (second) in place, such as by an
    /// optimizer step; the new weights count from the next forward pass on.
    fn update(&mut self, change: &mut dyn FnMut(&mut [f32], &mut [f32]));

    /// Runs the forward pass and keeps its graph for the backward pass. The last chunk needs
    /// targets and returns the loss; the gradients it later starts are those of `loss_scale` times
    /// that loss (1 / micro-batches for a mean over the batch). Other chunks ignore the scale.
    ///
    /// # Errors
    /// The input, the targets or their sizes do not fit, or the micro-batch is in flight.
    fn forward(
        &mut self,
        microbatch: MicrobatchId,
        input: ChunkInput,
        targets: Option<Targets>,
        loss_scale: f32,
    ) -> Result<ChunkOutput, ChunkError>;

    /// Runs the backward pass of a micro-batch in flight, given the gradient of the chunk's output
    /// (none for the last chunk). Adds to the gradients and returns the gradient of the chunk's
    /// input, or none for the first chunk. Whatever the micro-batch kept is freed.
    ///
    /// # Errors
    /// The micro-batch is not in flight, has its backward-input pass behind it, or the gradient
    /// does not fit the output.
    fn backward(
        &mut self,
        microbatch: MicrobatchId,
        gradient: Option<Activation>,
    ) -> Result<Option<Activation>, ChunkError>;

    /// The first half of a backward pass: as [`Chunk::backward`], but adds nothing to the
    /// gradients. What their computation needs is kept, the rest that the micro-batch kept is
    /// freed.
    ///
    /// # Errors
    /// As [`Chunk::backward`].
    fn backward_input(
        &mut self,
        microbatch: MicrobatchId,
        gradient: Option<Activation>,
    ) -> Result<Option<Activation>, ChunkError>;

    /// The second half: adds the micro-batch's weight gradients to the gradients, and frees all
    /// that was kept. It does not depend on weights that changed in between.
    ///
    /// # Errors
    /// The micro-batch is not in flight, or has no [`Chunk::backward_input`] behind it.
    fn backward_weight(&mut self, microbatch: MicrobatchId) -> Result<(), ChunkError>;

    /// Forgets a micro-batch in flight, before or between the halves of its backward pass, without
    /// adding to the gradients. Its memory may be freed only by a later backward pass; to run a
    /// forward pass that is never followed by one, use [`Chunk::evaluate`].
    ///
    /// # Errors
    /// The micro-batch is not in flight.
    fn discard(&mut self, microbatch: MicrobatchId) -> Result<(), ChunkError>;

    /// Runs the forward pass without a graph: for evaluation, and for a pass that will be
    /// recomputed. With targets (last chunk only) it returns the loss.
    ///
    /// # Errors
    /// As [`Chunk::forward`].
    fn evaluate(
        &self,
        input: ChunkInput,
        targets: Option<Targets>,
    ) -> Result<ChunkOutput, ChunkError>;

    /// The output of a forward pass without a graph and without a loss: of the last chunk the
    /// logits `[batch, sequence, vocab]`.
    ///
    /// # Errors
    /// The input does not fit.
    fn logits(&self, input: ChunkInput) -> Result<Activation, ChunkError>;

    /// Sets all gradients to zero, for the next accumulation.
    fn zero_gradients(&mut self) {
        self.gradients_mut().fill(0.0);
    }

    /// Replaces all weights.
    ///
    /// # Errors
    /// The length differs from that of [`Chunk::weights`].
    fn set_weights(&mut self, values: &[f32]) -> Result<(), ChunkError> {
        let (found, wanted) = (values.len(), self.weights().len());
        if found != wanted {
            return Err(ChunkError::Length { what: "a set of weights", found, wanted });
        }
        self.update(&mut |weights, _| weights.copy_from_slice(values));
        Ok(())
    }
}
