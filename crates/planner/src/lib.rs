//! How to divide work over unlike devices: devices over virtual workers (pipelines), layers over
//! the stages of one, micro-batches over all of them.
//!
//! ```text
//!   nodes --allocate, search--> virtual workers --arrange--> order and layers --shares--> counts
//!                                                  ^
//!                              most_in_flight: the count in flight that all can carry
//! ```
//!
//! All rules are deterministic, and exact but for `search`, which says whether its answer is. They
//! see costs only through functions and numbers, so that the caller decides where costs come from:
//! a profile, an estimate, a simulation, a guess.

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
