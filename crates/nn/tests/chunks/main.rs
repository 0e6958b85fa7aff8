//! Chunks through the trait that the runtime uses.

mod gradient;
mod own_module;
mod partition;
mod row;
