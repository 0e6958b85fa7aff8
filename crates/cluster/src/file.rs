//! A cluster as it is written in TOML, on its own or within a larger configuration.
//!
//! ```text
//! [[device]]
//! name = "titan"
//! speed = 0.5
//! memory = "64 MiB"
//! threads = 1
//!
//! [link]                    # every pair without a link of its own
//! latency = "200 us"
//! bandwidth = "1 Gbit/s"
//!
//! [[links]]                 # both directions, unless `oneway = true`
//! from = "titan"
//! to = "pi"
//! latency = "2 ms"
//! ```
//!
//! `[[network]]` stands in `network_file.rs`.
//!
//! Quantities are text here and become types in [`Cluster::try_from`]. Absent: a version; tables
//! are part of larger files, and unknown keys are refused.

use crate::network_file::NetworkFile;
use crate::{Cluster, ClusterError, Device, Link, LinkSpec, Network, quantity_text};
use cavalcade_units::{Nanos, ParseQuantityError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The tables `[[device]]`, `[link]`, `[[links]]` and `[[network]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// The devices; at least one.
    #[serde(default)]
    pub device: Vec<DeviceFile>,
    /// The link of every pair without one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkFile>,
    /// The links of single pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PairLinkFile>,
    /// What pairs share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkFile>,
}

/// One `[[device]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Its name.
    pub name: String,
    /// As a multiple of one host core; left out: full speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Such as `64 MiB`; left out: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Threads of its arithmetic; left out: 1.
    #[serde(default = "one")]
    pub threads: usize,
    /// What its arithmetic reaches at best, such as `312 TFLOP/s`; left out: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<String>,
    /// The share of that which layers reach; left out: 1.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub efficiency: f64,
    /// The machine that it sits in; left out: one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where that stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

fn one() -> usize {
    1
}

fn all() -> f64 {
    1.0
}

fn is_all(efficiency: &f64) -> bool {
    *efficiency == all()
}

/// The `[link]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFile {
    /// Such as `200 us`; left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Such as `1 Gbit/s`; left out: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
}

/// One of `[[links]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PairLinkFile {
    /// The sending device's name.
    pub from: String,
    /// The receiving device's name.
    pub to: String,
    /// As in [`LinkFile`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// As in [`LinkFile`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Whether it holds only from `from` to `to`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oneway: bool,
}

impl TryFrom<ClusterFile> for Cluster {
    type Error = ClusterError;

    fn try_from(file: ClusterFile) -> Result<Self, ClusterError> {
        let device = |device: DeviceFile| {
            let place = |what| format!("device `{}`, {what}", device.name);
            let memory = quantity(device.memory.as_deref(), || place("memory"))?;
            let flops = quantity(device.flops.as_deref(), || place("flops"))?;
            let DeviceFile { name, speed, threads, efficiency, node, site, .. } = device;
            Ok(Device { name, speed, memory, threads, flops, efficiency, node, site })
        };
        let devices = file.device.into_iter().map(device);
        let devices = devices.collect::<Result<Vec<_>, ClusterError>>()?;
        let default_link = file.link.map(|link| spec(&link, "[link]")).transpose()?;
        let link = |link: PairLinkFile| {
            let PairLinkFile { from, to, latency, bandwidth, oneway } = link;
            let place = format!("link from `{from}` to `{to}`");
            let spec = spec(&LinkFile { latency, bandwidth }, &place)?;
            Ok(Link { from, to, spec, oneway })
        };
        let links = file.links.into_iter().map(link);
        let links = links.collect::<Result<Vec<_>, ClusterError>>()?;
        let networks = file.network.into_iter().map(Network::try_from);
        let networks = networks.collect::<Result<Vec<_>, ClusterError>>()?;
        Self::new(devices, default_link, &links)?.with_networks(networks)
    }
}

impl From<&Cluster> for ClusterFile {
    fn from(cluster: &Cluster) -> Self {
        let device = |device: &Device| DeviceFile {
            name: device.name.clone(),
            speed: device.speed,
            memory: device.memory.map(quantity_text::memory),
            threads: device.threads,
            flops: device.flops.map(quantity_text::flops),
            efficiency: device.efficiency,
            node: device.node.clone(),
            site: device.site.clone(),
        };
        let link = |link: Link| {
            let LinkFile { latency, bandwidth } = LinkFile::from(link.spec);
            PairLinkFile { from: link.from, to: link.to, latency, bandwidth, oneway: link.oneway }
        };
        Self {
            device: cluster.devices().iter().map(device).collect(),
            link: cluster.default_link().map(LinkFile::from),
            links: cluster.links().into_iter().map(link).collect(),
            network: cluster.networks().iter().map(NetworkFile::from).collect(),
        }
    }
}

impl From<LinkSpec> for LinkFile {
    fn from(spec: LinkSpec) -> Self {
        let latency = Some(quantity_text::time(spec.latency));
        Self { latency, bandwidth: spec.bandwidth.map(quantity_text::rate) }
    }
}

impl Cluster {
    /// Reads the text of a file of its own.
    ///
    /// # Errors
    /// Not TOML of this form, with the line; or what [`Cluster::new`] refuses.
    pub fn from_toml(text: &str) -> Result<Self, ClusterError> {
        toml::from_str::<ClusterFile>(text)?.try_into()
    }

    /// The text from which [`Cluster::from_toml`] makes an equal cluster.
    pub fn to_toml(&self) -> String {
        toml::to_string(&ClusterFile::from(self)).expect("text and numbers are always TOML")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Cluster::from_toml`], with the file's name.
    pub fn read(path: &Path) -> Result<Self, ClusterError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ClusterError::File { path: path.to_owned(), source })?;
        Self::from_toml(&text).map_err(|error| ClusterError::InFile {
            path: path.to_owned(),
            source: Box::new(error),
        })
    }
}

fn spec(link: &LinkFile, place: &str) -> Result<LinkSpec, ClusterError> {
    let latency = quantity(link.latency.as_deref(), || format!("{place}, latency"))?;
    let bandwidth = quantity(link.bandwidth.as_deref(), || format!("{place}, bandwidth"))?;
    Ok(LinkSpec { latency: latency.unwrap_or(Nanos::ZERO), bandwidth })
}

pub(crate) fn quantity<Q: FromStr<Err = ParseQuantityError>>(
    text: Option<&str>,
    place: impl Fn() -> String,
) -> Result<Option<Q>, ClusterError> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|source| ClusterError::Quantity { place: place(), source })
}
