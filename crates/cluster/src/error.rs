//! What can be wrong with a description of a cluster.

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
