//! Measured times and memory of a model's layers, and the one formula that turns them into costs.
//!
//! The simulator predicts with [`Profile::pass_time`] and an emulated device sleeps to it, so a
//! wrong prediction is never a difference between two formulas. A profile belongs to a model, a
//! micro-batch size and a host, and is kept in a JSON file with a version.
//!
//! Absent: the measuring itself, which needs tensors (`nn`), and clocks other than
//! [`ClockMeter`]'s.

mod costs;
mod error;
mod json;
mod meter;

pub use costs::{LayerProfile, LinkProfile, ParamBytes, Pass, Profile};
pub use error::ProfileError;
pub use meter::{ClockMeter, Meter};
