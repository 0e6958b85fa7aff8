//! The log of versions: all that a run without a flush leaves to timing.

use serde::{Deserialize, Serialize};

/// What a parameter server did that does not follow from the schedule. Chunks and buckets are
/// numbered as the schedule does, waves from 0 over the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionEvent {
    /// It answered a pull, with which the chunk goes on before the last micro-batch of `wave`.
    Pulled {
        /// The chunk that asked.
        chunk: u32,
        /// The bucket of parameters.
        bucket: u32,
        /// The wave.
        wave: u64,
        /// How many waves of all replicas the weights held.
        version: u64,
    },
    /// It went on without a chunk whose rank was lost.
    Left {
        /// The chunk.
        chunk: u32,
        /// The bucket of parameters.
        bucket: u32,
        /// The first wave that lacks its changes.
        wave: u64,
    },
}
