//! What ops hand to each other.

use crate::tables::BucketId;
use cavalcade_units::{ChunkId, ExchangeId, MicrobatchId};
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
    /// What `chunk`'s forward keeps for its backward, its input included. Between the two parts of
    /// a split backward it holds what the parameter gradients need.
    Stash {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// What a chunk that recomputes keeps of its forward: the input.
    Input {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The same on the device's host.
    Offloaded {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// What a double backward leaves for the backward: gradients of what the forward kept.
    Deferred {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The parameters as a micro-batch's forward used them, in a schedule without a flush.
    WeightStash {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The change of the chunk's parameters that a micro-batch's gradients make, until it is
    /// applied.
    Change {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The sum of the changes that the micro-batches of a wave make.
    WaveSum {
        /// The chunk.
        chunk: ChunkId,
        /// The wave, counted on its path.
        wave: u32,
    },
    /// What came from the parameters' server.
    Pulled {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// The gradient of the model's output by `chunk`'s input: what its adjoint pass puts out for
    /// the chunk before it.
    Adjoint {
        /// The producer.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// What `chunk`'s adjoint pass keeps for its double backward.
    AdjointStash {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// The gradient of the objective by the adjoint that entered `chunk`: what its double backward
    /// puts out for the chunk after it.
    Tangent {
        /// The producer.
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

/// To which neighbor on a micro-batch's path a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the chunk after its maker.
    Down,
    /// To the chunk before its maker.
    Up,
}

impl Value {
    /// The maker, the micro-batch and the direction of a value that goes from chunk to chunk; none
    /// for a value that stays on its device.
    pub fn message(self) -> Option<(ChunkId, MicrobatchId, Direction)> {
        match self {
            Self::Activation { chunk, microbatch } | Self::Tangent { chunk, microbatch } => {
                Some((chunk, microbatch, Direction::Down))
            }
            Self::Gradient { chunk, microbatch } | Self::Adjoint { chunk, microbatch } => {
                Some((chunk, microbatch, Direction::Up))
            }
            _ => None,
        }
    }

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
        let mut of = |what: &str, chunk: &ChunkId, microbatch: &MicrobatchId| {
            write!(f, "the {what} of chunk {chunk}, micro-batch {microbatch}")
        };
        match self {
            Self::Activation { chunk, microbatch } => of("activation", chunk, microbatch),
            Self::Gradient { chunk, microbatch } => of("input gradient", chunk, microbatch),
            Self::Stash { chunk, microbatch } => of("stash", chunk, microbatch),
            Self::Input { chunk, microbatch } => of("kept input", chunk, microbatch),
            Self::Offloaded { chunk, microbatch } => of("offloaded input", chunk, microbatch),
            Self::Deferred { chunk, microbatch } => of("deferred part", chunk, microbatch),
            Self::WeightStash { chunk, microbatch } => of("stashed weights", chunk, microbatch),
            Self::Change { chunk, microbatch } => of("change", chunk, microbatch),
            Self::WaveSum { chunk, wave } => {
                write!(f, "the sum of the changes of chunk {chunk}, wave {wave}")
            }
            Self::Pulled { exchange } => write!(f, "what exchange {exchange} pulled"),
            Self::Adjoint { chunk, microbatch } => of("adjoint", chunk, microbatch),
            Self::AdjointStash { chunk, microbatch } => of("adjoint stash", chunk, microbatch),
            Self::Tangent { chunk, microbatch } => of("tangent", chunk, microbatch),
            Self::Params { chunk } => write!(f, "the parameters of chunk {chunk}"),
            Self::ParamGrad { chunk, bucket } => {
                write!(f, "the parameter gradients of chunk {chunk}, bucket {}", bucket.0)
            }
            Self::OptState { chunk } => write!(f, "the optimizer state of chunk {chunk}"),
            Self::GradNorm => write!(f, "the gradient norm"),
        }
    }
}
