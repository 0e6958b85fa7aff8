//! Generators for tests: random layouts and random costs, shared by the crates that test with
//! them. Only dev-dependencies name this crate.

pub mod layouts;
