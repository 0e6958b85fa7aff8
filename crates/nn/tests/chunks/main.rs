//! Chunks through the trait that the runtime uses.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod conv;
mod gradient;
mod measuring;
mod own_module;
mod own_split;
mod partition;
mod refusals;
mod row;
mod split;
