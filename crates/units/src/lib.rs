//! Quantities with their units, and the small integer ids that every other crate names things by.
//!
//! A number without a unit is how two copies of one rule come to disagree, so bytes, time and
//! rates are types here, each with one text form (`64 MiB`, `1.5 ms`, `10 Gbit/s`) that parses
//! back to the same value. Ids are `Copy` newtypes over `u32`: an index of a device cannot be
//! handed to something that wants a chunk.
//!
//! Absent: serde. Text forms are parsed at the edge, by the crate that owns the file format.

mod bandwidth;
mod bytes;
mod flops;
mod ids;
mod nanos;
mod quantity;

pub use bandwidth::Bandwidth;
pub use bytes::Bytes;
pub use flops::FlopRate;
pub use ids::{
    ChunkId, CollectiveId, DeviceId, ExchangeId, GroupId, MicrobatchId, PipelineId, Rank,
    TransferId,
};
pub use nanos::Nanos;
pub use quantity::ParseQuantityError;
