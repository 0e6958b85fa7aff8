//! The devices that a run may use and the links between them.
//!
//! A [`Cluster`] is checked when it is made, so whoever holds one needs no further checks. Its
//! text form lives in `file.rs` as serde types, which a larger configuration can embed.
//!
//! ```text
//! [link]  ........ every pair .........  titan <---- [[links]] from, to ----> pi
//!
//! [[network]]  the ports of devices, nodes or sites, each shared by all that passes it
//! ```
//!
//! Speeds and links are what an emulated device sleeps to and an emulated link waits for. A
//! device without a speed and a pair without a link are used as they are. Networks are for the
//! simulator alone: [`Cluster::route`] says what a message passes, [`Cluster::is_shared`] whether
//! there are any.
//!
//! Absent: switches with a limit of their own, and the catalogue of real accelerators.

mod cluster;
mod error;
mod file;
mod network;
mod network_file;
mod quantity_text;

pub use cluster::{Cluster, Device, Link, LinkSpec};
pub use error::ClusterError;
pub use file::{ClusterFile, DeviceFile, LinkFile, PairLinkFile};
pub use network::{Level, Network, Resource, Route};
pub use network_file::{LevelWord, NetworkFile};
