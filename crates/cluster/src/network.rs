//! Links that several pairs of devices share.
//!
//! A network joins the members of one level. Each member has one port, which all that it sends to
//! other members leaves by and all that it receives comes in by, and each direction of a port has
//! a capacity of its own:
//!
//! ```text
//!  between devices (of a node)    between nodes (of a site)     between sites
//!
//!   node  [ a ]  [ b ]            site  [a b]   [c d]            [ a b | c d ]   [ e f ]
//!           ^v     ^v  ports              ^v      ^v  NICs             ^v           ^v  uplinks
//!          ------------                  ------------                 ----------------
//! ```
//!
//! A message goes by the ports of the lowest level that joins its ends. One between sites passes
//! the NICs of its nodes too; one between nodes does not pass the ports of devices, which stand
//! for the links within a node. What joins the ports has no limit of its own.

use crate::ClusterError;
use cavalcade_units::{Bandwidth, DeviceId, Nanos};
use std::fmt;

/// What a network joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The devices of a node; each has a port.
    Devices,
    /// The nodes of a site; each has a NIC.
    Nodes,
    /// The sites; each has an uplink.
    Sites,
}

impl Level {
    /// All levels, the lowest first.
    pub const ALL: [Self; 3] = [Self::Devices, Self::Nodes, Self::Sites];

    /// Its word in a file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Nodes => "nodes",
            Self::Sites => "sites",
        }
    }

    fn port(self) -> &'static str {
        match self {
            Self::Devices => "port of device",
            Self::Nodes => "NIC of node",
            Self::Sites => "uplink of site",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The ports of one level, or of one member of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What it joins.
    pub between: Level,
    /// The one member whose port this is. None: every member without an entry of its own.
    pub of: Option<String>,
    /// From a message's last byte leaving to its arrival. Of all ports that a message passes, the
    /// largest latency holds: they are parts of one way.
    pub latency: Nanos,
    /// What the port sends at most. None: no limit.
    pub outward: Option<Bandwidth>,
    /// What the port receives at most. None: no limit.
    pub inward: Option<Bandwidth>,
}

/// One direction of a port: what several messages under way share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Such as ``NIC of node `a`, out``.
    pub name: String,
    /// What all messages together get.
    pub bandwidth: Bandwidth,
}

/// The way of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// From the last byte leaving to arrival.
    pub latency: Nanos,
    /// Its own limit, whatever else is under way. None: no limit.
    pub bandwidth: Option<Bandwidth>,
    /// The resources that it passes, in order, each once: indices into
    /// [`Cluster::resources`](crate::Cluster::resources).
    pub legs: Vec<usize>,
}

/// A port as routes see it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Port {
    latency: Nanos,
    outward: Option<usize>,
    inward: Option<usize>,
}

/// Networks over devices, resolved: the ports of every member of every level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Networks {
    given: Vec<Network>,
    /// By device, its member of each level.
    members: Vec<[usize; 3]>,
    /// By level and member.
    ports: [Vec<Option<Port>>; 3],
    resources: Vec<Resource>,
}

impl Networks {
    /// `places` has each device's name of each level: its own, its node's, its site's.
    pub(crate) fn new(
        places: &[[Option<&str>; 3]],
        given: Vec<Network>,
    ) -> Result<Self, ClusterError> {
        if given.is_empty() {
            return Ok(Self::default());
        }
        let mut names: [Vec<Option<&str>>; 3] = Default::default();
        let mut members = Vec::new();
        for place in places {
            let mut member = [0; 3];
            for level in 0..3 {
                let known = names[level].iter().position(|name| *name == place[level]);
                member[level] = known.unwrap_or_else(|| {
                    names[level].push(place[level]);
                    names[level].len() - 1
                });
            }
            members.push(member);
        }
        let mut networks =
            Self { given: Vec::new(), members, ports: Default::default(), resources: Vec::new() };
        for network in &given {
            networks.check(network, &names[network.between as usize])?;
            networks.given.push(network.clone());
        }
        for level in Level::ALL {
            for name in names[level as usize].iter().flatten() {
                let port = networks.port(level, name);
                networks.ports[level as usize].push(port);
            }
        }
        Ok(networks)
    }

    /// Whether `network` joins something and says nothing twice.
    fn check(&self, network: &Network, names: &[Option<&str>]) -> Result<(), ClusterError> {
        let level = network.between;
        let is_joined = |a: &[usize; 3], b: &[usize; 3]| match level {
            Level::Devices => a[1] == b[1] && a[0] != b[0],
            Level::Nodes => a[1] != b[1],
            Level::Sites => a[2] != b[2],
        };
        let mut pairs = self.members.iter().flat_map(|a| self.members.iter().map(move |b| (a, b)));
        if !pairs.any(|(a, b)| is_joined(a, b)) {
            return Err(ClusterError::NothingToJoin { level });
        }
        if let Some(of) = &network.of
            && !names.contains(&Some(of))
        {
            let known = names.iter().copied().flatten().collect::<Vec<_>>().join(", ");
            return Err(ClusterError::UnknownMember { level, name: of.clone(), known });
        }
        let is_same = |other: &Network| (other.between, &other.of) == (level, &network.of);
        if self.given.iter().any(is_same) {
            let of = network.of.as_ref().map_or(String::new(), |of| format!(" of `{of}`"));
            return Err(ClusterError::RepeatedNetwork { level, of });
        }
        Ok(())
    }

    /// The port of the member `name`, its capacities entered among the resources.
    fn port(&mut self, level: Level, name: &str) -> Option<Port> {
        let of_level = self.given.iter().filter(|network| network.between == level);
        let own = of_level.clone().find(|network| network.of.as_deref() == Some(name));
        let network = own.or(of_level.clone().find(|network| network.of.is_none()))?;
        let (latency, outward, inward) = (network.latency, network.outward, network.inward);
        let mut resource = |bandwidth: Option<Bandwidth>, direction: &str| {
            bandwidth.map(|bandwidth| {
                let name = format!("{} `{name}`, {direction}", level.port());
                self.resources.push(Resource { name, bandwidth });
                self.resources.len() - 1
            })
        };
        let outward = resource(outward, "out");
        Some(Port { latency, outward, inward: resource(inward, "in") })
    }

    /// The networks as they were given.
    pub(crate) fn given(&self) -> &[Network] {
        &self.given
    }

    pub(crate) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The way from one device to another; none where no network joins them.
    pub(crate) fn route(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let (from, to) = (self.members.get(from.idx())?, self.members.get(to.idx())?);
        let levels: &[Level] = if from[1] == to[1] {
            &[Level::Devices]
        } else if from[2] == to[2] {
            &[Level::Nodes]
        } else {
            &[Level::Nodes, Level::Sites]
        };
        let port = |member: &[usize; 3], level: Level| {
            let ports = &self.ports[level as usize];
            ports.get(member[level as usize]).copied().flatten()
        };
        let out = levels.iter().filter_map(|&level| Some((port(from, level)?, true)));
        let back = levels.iter().rev().filter_map(|&level| Some((port(to, level)?, false)));
        let mut route: Option<Route> = None;
        for (port, is_outward) in out.chain(back) {
            let none = || Route { latency: Nanos::ZERO, bandwidth: None, legs: Vec::new() };
            let route = route.get_or_insert_with(none);
            route.latency = route.latency.max(port.latency);
            route.legs.extend(if is_outward { port.outward } else { port.inward });
        }
        route
    }
}
