//! What ops hand to each other.

use crate::tables::BucketId;
use cavalcade_units::{ChunkId, MicrobatchId};
use std::fmt;

/// A thing that occupies memory on a device between the op that makes it and its last reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// What `chunk`'s forward puts out for the chunk after it.
    Activation {
        /// The producer.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The gradient of `chunk`'s input: what its backward puts out for the chunk before it.
    Gradient {
        /// The producer.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// What `chunk`'s forward keeps for its backward, its input included.
    Stash {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The chunk's parameters. There from the beginning.
    Params {
        /// The chunk.
        chunk: ChunkId,
    },
    /// The sum so far of the gradients of the part of `chunk`'s parameters that is in `bucket`.
    ParamGrad {
        /// The chunk.
        chunk: ChunkId,
        /// The part.
        bucket: BucketId,
    },
    /// The optimizer's state of the chunk. There from the beginning.
    OptState {
        /// The chunk.
        chunk: ChunkId,
    },
    /// The norm of the whole model's gradient, known to this device.
    GradNorm,
}

impl Value {
    /// The chunk of a value that is there before the first op and stays after the last; none
    /// for a value that comes and goes within a step.
    pub fn persistent_chunk(self) -> Option<ChunkId> {
        match self {
            Self::Params { chunk } | Self::OptState { chunk } => Some(chunk),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activation { chunk, microbatch } => {
                write!(f, "the activation of chunk {chunk}, micro-batch {microbatch}")
            }
            Self::Gradient { chunk, microbatch } => {
                write!(f, "the input gradient of chunk {chunk}, micro-batch {microbatch}")
            }
            Self::Stash { chunk, microbatch } => {
                write!(f, "the stash of chunk {chunk}, micro-batch {microbatch}")
            }
            Self::Params { chunk } => write!(f, "the parameters of chunk {chunk}"),
            Self::ParamGrad { chunk, bucket } => {
                write!(f, "the parameter gradients of chunk {chunk}, bucket {}", bucket.0)
            }
            Self::OptState { chunk } => write!(f, "the optimizer state of chunk {chunk}"),
            Self::GradNorm => write!(f, "the gradient norm"),
        }
    }
}
