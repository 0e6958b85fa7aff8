//! What goes where: which device holds which layers, in how many pipelines, and how many
//! micro-batches each pipeline takes of a step.
//!
//! ```text
//! step of 4 + 2 micro-batches          layers
//!   pipeline 0, 4 micro-batches:   a: 0..2 -> b: 2..3 -> c: 3..6
//!   pipeline 1, 2 micro-batches:   d: 0..6
//! ```
//!
//! A [`Plan`] is checked once, where it is made; whatever holds one may rely on every pipeline
//! covering all layers in order and on no device serving two stages. Unlike pipelines are the
//! point: each may have its own depth, cuts and share of the batch.
//!
//! Absent: the order of work (`schedule`), costs and memory (`lower`), and the search for a good
//! plan (`planner`). Devices and layers are plain ids here; only the text form knows names.

mod error;
mod plan;
mod text;
mod waves;

pub use error::PlanError;
pub use plan::{Pipeline, Plan, Stage};
pub use waves::{Placement, UnknownPlacement, Waves};
