//! How to divide work over unlike devices: layers over the stages of a pipeline, micro-batches
//! over pipelines.
//!
//! Both rules are exact and deterministic. They see costs only through functions and numbers, so
//! that the caller decides where costs come from: a profile, an estimate, a guess.
//!
//! Absent: the choice of which devices form a pipeline, and in which order. Devices come grouped
//! and ordered by the caller.

mod allocate;
mod arrange;
mod in_flight;
mod order;
mod partition;
mod policy;
mod search;
mod shares;
mod splits;
mod stage;

pub use allocate::{AllocationError, allocate};
pub use arrange::{ArrangeError, Arrangement, Costs, arrange};
pub use in_flight::{InFlight, InFlightError, most_in_flight};
pub use partition::{PartitionError, partition};
pub use policy::{Policy, UnknownPolicy};
pub use search::{Found, SearchError, search};
pub use shares::{Shares, shares};
