//! From a plan to a schedule, and from a profile to what each op of that schedule costs.
//!
//! [`lower`] is the step from *where* to *who does what in what order*. [`OpCosts`] is the one
//! place that says how long an op takes and how large a value is on a device: the simulator
//! predicts with it, the planner's memory limit is it, and the runtime paces emulated devices by
//! it, so the three cannot disagree.
//!
//! [`Folded`] finds symmetric replicas, and [`nominal()`] stands in for a profile where nothing was
//! measured.
//!
//! Absent: who shares a link with whom (the simulator's), tensors (the runtime's).

mod costs;
mod fold;
mod lowering;
mod nominal;

pub use costs::{OpCosts, StagePasses, copies_of_waves, link, stage_bytes};
pub use fold::Folded;
pub use lowering::{layout, lower};
pub use nominal::nominal;
