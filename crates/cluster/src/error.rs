//! What can be wrong with a description of a cluster.

use crate::network::Level;
use cavalcade_units::ParseQuantityError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A cluster that makes no sense, or its file cannot be read.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// There are no devices.
    #[error("the cluster has no devices; add a `[[device]]` with a name")]
    NoDevices,
    /// A device's name is empty or only spaces.
    #[error("device {position} has a blank name; give each device a name of its own")]
    BlankName {
        /// Its place in the list, from 1.
        position: usize,
    },
    /// Two devices have one name.
    #[error("two devices are named `{name}`; give each device a name of its own")]
    RepeatedName {
        /// The name.
        name: String,
    },
    /// A speed is out of range.
    #[error(
        "device `{name}` has speed {found}; write a number above 0 and at most 1000, or leave it \
         out for full speed"
    )]
    Speed {
        /// The device.
        name: String,
        /// Its speed.
        found: f64,
    },
    /// An efficiency is out of range.
    #[error(
        "device `{name}` has efficiency {found}; write a share above 0 and at most 1, or leave it \
         out for all of its flops"
    )]
    Efficiency {
        /// The device.
        name: String,
        /// Its efficiency.
        found: f64,
    },
    /// A device has zero bytes.
    #[error(
        "device `{name}` has no memory; write an amount such as `64 MiB`, or leave it out for no \
         limit"
    )]
    NoMemory {
        /// The device.
        name: String,
    },
    /// A device has zero threads.
    #[error("device `{name}` has 0 threads; it needs at least 1")]
    NoThreads {
        /// The device.
        name: String,
    },
    /// A link names a device that is not there.
    #[error("a link names the device `{name}`, which does not exist; the devices are {known}")]
    UnknownDevice {
        /// The name in the link.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Both ends of a link are one device.
    #[error("a link goes from `{name}` to itself; name two devices")]
    LinkToItself {
        /// The device.
        name: String,
    },
    /// A pair has two links in one direction.
    #[error(
        "there are two links from `{from}` to `{to}`; remove one, or set `oneway = true` where \
         only one direction is meant"
    )]
    RepeatedLink {
        /// The sending device.
        from: String,
        /// The receiving device.
        to: String,
    },
    /// A node or a site has a blank name.
    #[error("device `{name}` has a {what} with a blank name; name it, or leave it out")]
    BlankPlace {
        /// The device.
        name: String,
        /// `node` or `site`.
        what: &'static str,
    },
    /// Some devices have a site and this one has none.
    #[error(
        "device `{name}` has no `site`, but others have; give each device a site, or none of them"
    )]
    NoSite {
        /// The device.
        name: String,
    },
    /// A node is spread over sites.
    #[error(
        "node `{node}` has `{}` and `{}` at different sites; a node stands at one site", devices[0],
        devices[1]
    )]
    NodeInTwoSites {
        /// The node.
        node: String,
        /// Two of its devices.
        devices: [String; 2],
    },
    /// No two devices would use a network.
    #[error(
        "a network joins {level}, but no two devices {}; {}, or remove the network",
        apart(*level).0, apart(*level).1
    )]
    NothingToJoin {
        /// What it would join.
        level: Level,
    },
    /// A network is of a member that is not there.
    #[error("a network between {level} is of `{name}`, which is none; the {level} are {known}")]
    UnknownMember {
        /// What the network joins.
        level: Level,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Two networks say what one port is.
    #[error("there are two networks between {level}{of}; remove one, or tell them apart by `of`")]
    RepeatedNetwork {
        /// What they join.
        level: Level,
        /// Whose port they are, with its preposition; or nothing.
        of: String,
    },
    /// A network gives a bandwidth for both directions and for one.
    #[error(
        "{place} has `bandwidth` and `{also}`; write `bandwidth` for both directions, or `out` and \
         `in`"
    )]
    TwoBandwidths {
        /// Which network.
        place: String,
        /// The other key.
        also: &'static str,
    },
    /// A text is no quantity.
    #[error("{place}: {source}")]
    Quantity {
        /// Which key of which table.
        place: String,
        /// What is wrong with it.
        source: ParseQuantityError,
    },
    /// The text is not TOML of this form; the message has the line and the column.
    #[error("not a cluster file: {0}")]
    Syntax(#[from] toml::de::Error),
    /// The file cannot be read.
    #[error("cannot read the cluster file {path}: {source}; check the path and its permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file was read, and its content is wrong.
    #[error("{path}: {source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<ClusterError>,
    },
}

/// What no two devices of a cluster are, and how to say that some are.
fn apart(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::Devices => ("are in one node", "give several devices the same `node`"),
        Level::Nodes => ("are in different nodes", "give devices different nodes"),
        Level::Sites => ("are at different sites", "give devices a `site`"),
    }
}
