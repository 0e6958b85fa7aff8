//! One interpreter for two worlds.
//!
//! [`interpret()`] runs a checked schedule: it starts every action as soon as it heads its lane and
//! all that it needs is there, and asks the [`World`] what finished next. What an action *is* (a
//! matrix product in a worker process, or an event in a heap) only the world knows. The simulator
//! and the runtime are two worlds, so a wrong prediction can only be a wrong cost, never another
//! order.
//!
//! Absent: clocks, threads, tensors, costs.

mod interpret;
mod ledger;
mod trace;

pub use interpret::{Action, Finished, World, interpret};
pub use ledger::{Ledger, OverCapacity};
pub use trace::{Record, Trace};
