//! What a Burn module has to offer to become a chunk.

use crate::{ChunkError, WeightPass};
use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// A chunk's input as tensors.
#[derive(Clone, Debug)]
pub enum ModuleInput {
    /// Token ids `[batch, sequence]`.
    Tokens(Tensor<2, Int>),
    /// An activation `[batch, sequence, width]`.
    Activation(Tensor<3>),
}

impl ModuleInput {
    /// The token ids, for a module that starts with an embedding.
    ///
    /// # Errors
    /// The input is an activation.
    pub fn tokens(self) -> Result<Tensor<2, Int>, ChunkError> {
        match self {
            Self::Tokens(ids) => Ok(ids),
            Self::Activation(_) => {
                Err(ChunkError::Input { found: "an activation", wanted: "token ids" })
            }
        }
    }

    /// The activation, for a module that does not.
    ///
    /// # Errors
    /// The input is token ids.
    pub fn activation(self) -> Result<Tensor<3>, ChunkError> {
        match self {
            Self::Activation(activation) => Ok(activation),
            Self::Tokens(_) => {
                Err(ChunkError::Input { found: "token ids", wanted: "an activation" })
            }
        }
    }
}

/// A Burn module that can be a chunk. Derive `Module`, write `forward`, and hand it to
/// [`crate::BurnChunk::new`].
pub trait ChunkModule: Module + 'static {
    /// From the chunk's input to its output: an activation `[batch, sequence, width]` or, in the
    /// last chunk, logits `[batch, sequence, vocab]`.
    ///
    /// # Errors
    /// The input is of the other kind, or its shape does not fit.
    fn forward(&self, input: ModuleInput) -> Result<Tensor<3>, ChunkError>;

    /// As `forward`, for a pass that is differentiated. A module whose linear maps go through
    /// `weight_pass` has their weight gradients computed by [`crate::Chunk::backward_weight`]
    /// alone; write `forward` as this with [`WeightPass::none`]. By default nothing is put off:
    /// [`crate::Chunk::backward_input`] computes all gradients and keeps those of the weights.
    ///
    /// # Errors
    /// As `forward`.
    fn forward_split(
        &self,
        input: ModuleInput,
        weight_pass: &WeightPass,
    ) -> Result<Tensor<3>, ChunkError> {
        let _ = weight_pass;
        self.forward(input)
    }

    /// The loss of the last chunk as one value: by default the mean cross-entropy of its logits in
    /// nats. `targets` is `[batch, sequence]`.
    fn loss(&self, output: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<1> {
        cross_entropy(output, targets)
    }

    /// The number of legal token ids, for a module that takes tokens.
    fn vocab(&self) -> Option<usize> {
        None
    }
}

/// The mean cross-entropy in nats of `logits` `[batch, sequence, vocab]` against the ids `targets`
/// `[batch, sequence]`.
pub fn cross_entropy(logits: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<1> {
    let [batch, sequence, vocab] = logits.dims();
    let rows = batch * sequence;
    let log_probabilities = log_softmax(logits.reshape([rows, vocab]), 1);
    log_probabilities.gather(1, targets.reshape([rows, 1])).mean().neg()
}
