//! What can be wrong with a call of a chunk.

use cavalcade_units::MicrobatchId;
use thiserror::Error;

/// A call that a chunk refuses. The chunk is left as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The chunk takes the other kind of input.
    #[error("the chunk got {found} as its input and takes {wanted}; route each stage's output on")]
    Input {
        /// The kind that came.
        found: &'static str,
        /// The kind that the chunk takes.
        wanted: &'static str,
    },
    /// A buffer has not the length that its shape or its partner asks for.
    #[error("{what} holds {found} values and {wanted} are needed; send the shape with the data")]
    Length {
        /// The buffer.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        wanted: usize,
    },
    /// A tensor at the boundary has the wrong shape.
    #[error("{what} has shape {found:?} and {wanted:?} is needed; check the stage it came from")]
    Shape {
        /// The tensor.
        what: &'static str,
        /// Its shape.
        found: [usize; 3],
        /// The right shape.
        wanted: [usize; 3],
    },
    /// A token id is outside the vocabulary.
    #[error("token id {found} is outside the vocabulary of {vocab}; use the model's own tokenizer")]
    Token {
        /// The id.
        found: u32,
        /// The number of legal ids.
        vocab: usize,
    },
    /// A sequence is longer than the model's context.
    #[error("a sequence of {found} tokens exceeds the context of {max}; cut it")]
    Sequence {
        /// Its length.
        found: usize,
        /// The longest legal one.
        max: usize,
    },
    /// Targets are missing on the last chunk or came to another one.
    #[error(
        "targets are {found} on a chunk where they are {wanted}; only the last chunk takes them"
    )]
    Targets {
        /// What came.
        found: &'static str,
        /// What the chunk wants.
        wanted: &'static str,
    },
    /// The gradient of the output is missing, or came to the last chunk.
    #[error("an output gradient is {found} where it is {wanted}; only the last chunk has none")]
    Gradient {
        /// What came.
        found: &'static str,
        /// What the chunk wants.
        wanted: &'static str,
    },
    /// A forward pass of a micro-batch that is already between forward and backward.
    #[error("micro-batch {microbatch} is already in flight; run its backward or discard it first")]
    InFlight {
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// A backward pass of a micro-batch without its forward.
    #[error("micro-batch {microbatch} is not in flight; run its forward pass first")]
    NotInFlight {
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// A backward or backward-input pass of a micro-batch that has its backward-input pass behind
    /// it.
    #[error(
        "micro-batch {microbatch} has its backward-input pass behind it; run its backward-weight \
         pass or discard it"
    )]
    InputPassDone {
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// A backward-weight pass of a micro-batch without its backward-input pass.
    #[error(
        "micro-batch {microbatch} has no backward-input pass behind it; run that before its \
         backward-weight pass"
    )]
    NoInputPass {
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
}
