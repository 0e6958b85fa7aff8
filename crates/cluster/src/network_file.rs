//! A network as it is written in TOML.
//!
//! ```text
//! [[network]]
//! between = "nodes"         # "devices" of a node, "nodes" of a site, "sites"
//! latency = "10 us"
//! bandwidth = "10 Gbit/s"   # of each member's port, in each direction
//!
//! [[network]]
//! between = "sites"
//! of = "home"               # one member alone
//! latency = "30 ms"
//! out = "20 Mbit/s"         # one direction each
//! in = "100 Mbit/s"
//! ```

use crate::file::quantity;
use crate::{ClusterError, Level, Network, quantity_text};
use cavalcade_units::{Bandwidth, Nanos};
use serde::{Deserialize, Serialize};

/// One `[[network]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// What it joins.
    pub between: LevelWord,
    /// The one member whose port it is; left out: all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Such as `10 us`; left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Of both directions, such as `10 Gbit/s`; left out: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Of what a member sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// Of what a member receives.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub inward: Option<String>,
}

/// A [`Level`] in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelWord {
    /// The devices of a node.
    Devices,
    /// The nodes of a site.
    Nodes,
    /// The sites.
    Sites,
}

impl From<LevelWord> for Level {
    fn from(word: LevelWord) -> Self {
        match word {
            LevelWord::Devices => Self::Devices,
            LevelWord::Nodes => Self::Nodes,
            LevelWord::Sites => Self::Sites,
        }
    }
}

impl From<Level> for LevelWord {
    fn from(level: Level) -> Self {
        match level {
            Level::Devices => Self::Devices,
            Level::Nodes => Self::Nodes,
            Level::Sites => Self::Sites,
        }
    }
}

impl TryFrom<NetworkFile> for Network {
    type Error = ClusterError;

    fn try_from(file: NetworkFile) -> Result<Self, ClusterError> {
        let between = Level::from(file.between);
        let of = file.of.as_ref().map_or(String::new(), |of| format!(" of `{of}`"));
        let place = format!("network between {between}{of}");
        let also = [("out", &file.out), ("in", &file.inward)];
        if let Some((also, _)) = also.into_iter().find(|(_, text)| text.is_some())
            && file.bandwidth.is_some()
        {
            return Err(ClusterError::TwoBandwidths { place, also });
        }
        let rate = |text: &Option<String>, key: &str| {
            quantity::<Bandwidth>(text.as_deref(), || format!("{place}, {key}"))
        };
        let both = rate(&file.bandwidth, "bandwidth")?;
        let (outward, inward) = (rate(&file.out, "out")?, rate(&file.inward, "in")?);
        let latency = quantity(file.latency.as_deref(), || format!("{place}, latency"))?;
        Ok(Self {
            between,
            of: file.of,
            latency: latency.unwrap_or(Nanos::ZERO),
            outward: both.or(outward),
            inward: both.or(inward),
        })
    }
}

impl From<&Network> for NetworkFile {
    fn from(network: &Network) -> Self {
        let both = network.outward.filter(|_| network.outward == network.inward);
        let one = |direction: Option<Bandwidth>| direction.filter(|_| both.is_none());
        Self {
            between: network.between.into(),
            of: network.of.clone(),
            latency: Some(quantity_text::time(network.latency)),
            bandwidth: both.map(quantity_text::rate),
            out: one(network.outward).map(quantity_text::rate),
            inward: one(network.inward).map(quantity_text::rate),
        }
    }
}
