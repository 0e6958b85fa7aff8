//! The virtual world: a schedule is run by the same interpreter as in a worker, but an action is
//! an event in a heap that ends when its cost says so.
//!
//! Costs come from a profile (measured layer and link times) through [`ProfiledCosts`], or from
//! any other [`Costs`].
//!
//! Messages that pass the same port of a node or a site share it, max-min fairly; those on links
//! of their own take bytes over bandwidth, to the nanosecond. Collectives are closed forms and
//! share nothing with messages. A [`Disturbance`] adds jitter, stragglers and faults by seed; a
//! fault that ends a step gives a [`Verdict`]. Parameter servers are virtual too: a pull ends when
//! the waves that it names have been pushed and what it asked for has come.
//!
//! Invariant: this crate and the runtime never depend on each other.

mod collective_cost;
mod costs;
mod critical_path;
mod disturbance;
mod flows;
mod max_min;
mod predict;
mod profiled;
mod servers;
mod usage;
mod verdict;
mod world;

pub use collective_cost::{all_gather, all_reduce, hierarchical_all_reduce, ring_all_reduce};
pub use costs::{Costs, LinkCost};
pub use critical_path::Spent;
pub use disturbance::{Disturbance, DisturbanceError, Fault, Trouble};
pub use predict::{Prediction, predict, predict_disturbed};
pub use profiled::ProfiledCosts;
pub use usage::{DeviceUse, LinkName, LinkUse};
pub use verdict::{Verdict, Wait, WaitsFor};
pub use world::{Stalled, VirtualWorld};
