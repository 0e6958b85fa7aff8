//! The checked cluster: a table of devices, by ordered pair the links between them, and the
//! networks that several pairs share.

use crate::ClusterError;
use crate::network::{Network, Networks, Resource, Route};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, FlopRate, Nanos};
use std::collections::BTreeMap;

/// The fastest emulated device, in host cores. Above it a speed is a slip of the pen.
const SPEED_MAX: f64 = 1000.0;

/// One device, driven by one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its speed as a multiple of the host core that the profile was measured on, in `(0, 1000]`.
    /// None: it runs as fast as it can.
    pub speed: Option<f64>,
    /// Its memory, above zero. None: unlimited.
    pub memory: Option<Bytes>,
    /// Threads of its arithmetic, at least one.
    pub threads: usize,
    /// What its arithmetic reaches at best: the measure of its utilization, and of its times where
    /// nothing was measured. None: unknown.
    pub flops: Option<FlopRate>,
    /// The share of `flops` that a layer's passes reach, in `(0, 1]`.
    pub efficiency: f64,
    /// The machine that it sits in together with others. None: a node of its own, with its name.
    pub node: Option<String>,
    /// Where its node stands. All devices have a site, or none has.
    pub site: Option<String>,
}

impl Device {
    /// A device of one thread that runs as fast as it can, without a limit of memory, in a node of
    /// its own.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            name,
            speed: None,
            memory: None,
            threads: 1,
            flops: None,
            efficiency: 1.0,
            node: None,
            site: None,
        }
    }

    /// The name of its node.
    pub fn node(&self) -> &str {
        self.node.as_ref().unwrap_or(&self.name)
    }
}

/// What a link does to a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Time from sending a message to its first byte arriving.
    pub latency: Nanos,
    /// Rate at which its bytes follow. None: all at once.
    pub bandwidth: Option<Bandwidth>,
}

/// A link between two devices, by their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The sending device.
    pub from: String,
    /// The receiving device.
    pub to: String,
    /// What the link does.
    pub spec: LinkSpec,
    /// Whether it holds only from `from` to `to`; else for both directions.
    pub oneway: bool,
}

/// Devices and links that make sense together.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    devices: Vec<Device>,
    default_link: Option<LinkSpec>,
    links: BTreeMap<(DeviceId, DeviceId), LinkSpec>,
    networks: Networks,
}

impl Cluster {
    /// A cluster of `devices` without networks. Pairs that no entry of `links` names use
    /// `default_link`.
    ///
    /// # Errors
    /// No device; a blank or repeated name; a speed, memory or thread count out of its range; a
    /// link of an unknown device, of a device to itself, or of a pair that has one already.
    pub fn new(
        devices: Vec<Device>,
        default_link: Option<LinkSpec>,
        links: &[Link],
    ) -> Result<Self, ClusterError> {
        if devices.is_empty() {
            return Err(ClusterError::NoDevices);
        }
        for (idx, device) in devices.iter().enumerate() {
            check_device(device, idx)?;
            if devices[..idx].iter().any(|other| other.name == device.name) {
                return Err(ClusterError::RepeatedName { name: device.name.clone() });
            }
        }
        check_places(&devices)?;
        let networks = Networks::default();
        let mut cluster = Self { devices, default_link, links: BTreeMap::new(), networks };
        for link in links {
            cluster.insert(link)?;
        }
        Ok(cluster)
    }

    /// The same cluster with `networks`. A pair uses its own link if it has one, else the network
    /// that joins its devices, else the default link.
    ///
    /// # Errors
    /// A network that joins nothing, is there twice, or is of a member that is not there.
    pub fn with_networks(self, networks: Vec<Network>) -> Result<Self, ClusterError> {
        let places = self.devices.iter().map(|device| {
            [Some(device.name.as_str()), Some(device.node()), device.site.as_deref()]
        });
        let networks = Networks::new(&places.collect::<Vec<_>>(), networks)?;
        Ok(Self { networks, ..self })
    }

    /// The same cluster, each device with its speed of `speeds`.
    ///
    /// # Errors
    /// A speed out of its range.
    ///
    /// # Panics
    /// If there is not one speed a device.
    pub fn with_speeds(mut self, speeds: &[f64]) -> Result<Self, ClusterError> {
        assert_eq!(speeds.len(), self.devices.len(), "one speed a device");
        for (idx, (device, &speed)) in self.devices.iter_mut().zip(speeds).enumerate() {
            device.speed = Some(speed);
            check_device(device, idx)?;
        }
        Ok(self)
    }

    fn insert(&mut self, link: &Link) -> Result<(), ClusterError> {
        let id = |name: &str| {
            self.device_named(name).ok_or_else(|| ClusterError::UnknownDevice {
                name: name.to_owned(),
                known: self.names(),
            })
        };
        let (from, to) = (id(&link.from)?, id(&link.to)?);
        if from == to {
            return Err(ClusterError::LinkToItself { name: link.from.clone() });
        }
        let reverse = (!link.oneway).then_some((to, from));
        for pair in [Some((from, to)), reverse].into_iter().flatten() {
            if self.links.insert(pair, link.spec).is_some() {
                return Err(ClusterError::RepeatedLink {
                    from: self.device(pair.0).name.clone(),
                    to: self.device(pair.1).name.clone(),
                });
            }
        }
        Ok(())
    }

    /// All devices; a [`DeviceId`] is an index into them.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// One device.
    ///
    /// # Panics
    /// If the id is not of this cluster.
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.idx()]
    }

    /// The device of that name.
    pub fn device_named(&self, name: &str) -> Option<DeviceId> {
        self.devices.iter().position(|device| device.name == name).map(DeviceId::from_idx)
    }

    /// The networks, as they were given.
    pub fn networks(&self) -> &[Network] {
        self.networks.given()
    }

    /// Whether pairs of devices share networks. Such a cluster can be simulated and not emulated:
    /// an emulated link is a pair's own.
    pub fn is_shared(&self) -> bool {
        !self.networks().is_empty()
    }

    /// What messages share, by the indices that [`Route::legs`] has.
    pub fn resources(&self) -> &[Resource] {
        self.networks.resources()
    }

    /// The way of messages from `from` to `to`: by the pair's own link, else by a network, else
    /// by the default link. None: the real one, as it is. A device has no way to itself.
    pub fn route(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let of_pair = |link: LinkSpec| {
            let LinkSpec { latency, bandwidth } = link;
            Route { latency, bandwidth, legs: Vec::new() }
        };
        if from == to {
            return None;
        }
        let own = self.links.get(&(from, to)).copied().map(of_pair);
        own.or_else(|| self.networks.route(from, to)).or_else(|| self.default_link.map(of_pair))
    }

    /// The link that messages from `from` to `to` take where there are no networks. None: the
    /// real one, as it is. A device has no link to itself.
    pub fn link(&self, from: DeviceId, to: DeviceId) -> Option<LinkSpec> {
        if from == to {
            return None;
        }
        self.links.get(&(from, to)).copied().or(self.default_link)
    }

    /// The link of all pairs without one of their own.
    pub fn default_link(&self) -> Option<LinkSpec> {
        self.default_link
    }

    /// The links that pairs have of their own, ascending by ids; a link of both directions comes
    /// once.
    pub fn links(&self) -> Vec<Link> {
        let name = |id: DeviceId| self.device(id).name.clone();
        let mut links = Vec::new();
        for (&(from, to), &spec) in &self.links {
            let is_both_ways = self.links.get(&(to, from)) == Some(&spec);
            if !is_both_ways || from < to {
                links.push(Link { from: name(from), to: name(to), spec, oneway: !is_both_ways });
            }
        }
        links
    }

    fn names(&self) -> String {
        self.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Whether nodes and sites make sense: a blank name is a slip, a node stands in one site, and a
/// device without a site among devices with one could be anywhere.
fn check_places(devices: &[Device]) -> Result<(), ClusterError> {
    for device in devices {
        for (what, place) in [("node", &device.node), ("site", &device.site)] {
            if place.as_ref().is_some_and(|place| place.trim().is_empty()) {
                return Err(ClusterError::BlankPlace { name: device.name.clone(), what });
            }
        }
        if device.site.is_none() && devices.iter().any(|other| other.site.is_some()) {
            return Err(ClusterError::NoSite { name: device.name.clone() });
        }
        let elsewhere =
            |other: &&Device| other.node() == device.node() && other.site != device.site;
        if let Some(other) = devices.iter().find(elsewhere) {
            return Err(ClusterError::NodeInTwoSites {
                node: device.node().to_owned(),
                devices: [device, other].map(|device| device.name.clone()),
            });
        }
    }
    Ok(())
}

fn check_device(device: &Device, idx: usize) -> Result<(), ClusterError> {
    let name = device.name.clone();
    if name.trim().is_empty() {
        return Err(ClusterError::BlankName { position: idx + 1 });
    }
    if let Some(speed) = device.speed
        && !(speed > 0.0 && speed <= SPEED_MAX)
    {
        return Err(ClusterError::Speed { name, found: speed });
    }
    if device.memory == Some(Bytes::ZERO) {
        return Err(ClusterError::NoMemory { name });
    }
    if device.threads == 0 {
        return Err(ClusterError::NoThreads { name });
    }
    if !(device.efficiency > 0.0 && device.efficiency <= 1.0) {
        return Err(ClusterError::Efficiency { name, found: device.efficiency });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Cluster, Device, Link, LinkSpec};
    use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
    use expect_test::{Expect, expect};

    fn device(name: &str) -> Device {
        Device::named(name)
    }

    fn spec(latency: u64) -> LinkSpec {
        let bandwidth = Some(Bandwidth::from_bytes_per_second(1e9));
        LinkSpec { latency: Nanos(latency), bandwidth }
    }

    fn link(from: &str, to: &str, latency: u64, oneway: bool) -> Link {
        Link { from: from.to_owned(), to: to.to_owned(), spec: spec(latency), oneway }
    }

    fn refuse(devices: Vec<Device>, links: &[Link], message: Expect) {
        message.assert_eq(&Cluster::new(devices, None, links).unwrap_err().to_string());
    }

    #[test]
    fn a_pair_uses_its_own_link_before_the_default() {
        let devices = vec![device("a"), device("b"), device("c")];
        let links = [link("a", "b", 1, false), link("c", "a", 2, true)];
        let cluster = Cluster::new(devices, Some(spec(9)), &links).unwrap();
        let latencies = [(0, 1), (1, 0), (2, 0), (0, 2), (1, 2), (1, 1)]
            .map(|(from, to)| cluster.link(DeviceId(from), DeviceId(to)).map(|l| l.latency.0));
        assert_eq!(latencies, [Some(1), Some(1), Some(2), Some(9), Some(9), None]);
        assert_eq!(cluster.links(), [link("a", "b", 1, false), link("c", "a", 2, true)]);
        assert_eq!(cluster.device_named("c"), Some(DeviceId(2)));
        assert_eq!(cluster.device_named("d"), None);
    }

    #[test]
    fn speeds_up_to_the_bound_are_legal() {
        for speed in [f64::MIN_POSITIVE, 0.25, 1000.0] {
            let device = Device { speed: Some(speed), ..device("a") };
            assert!(Cluster::new(vec![device], None, &[]).is_ok(), "{speed}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        refuse(vec![], &[], expect!["the cluster has no devices; add a `[[device]]` with a name"]);
        refuse(
            vec![device("a"), device(" ")],
            &[],
            expect!["device 2 has a blank name; give each device a name of its own"],
        );
        refuse(
            vec![device("a"), device("a")],
            &[],
            expect!["two devices are named `a`; give each device a name of its own"],
        );
        refuse(
            vec![Device { memory: Some(Bytes(0)), ..device("a") }],
            &[],
            expect![
                "device `a` has no memory; write an amount such as `64 MiB`, or leave it out for \
                 no limit"
            ],
        );
        refuse(
            vec![Device { threads: 0, ..device("a") }],
            &[],
            expect!["device `a` has 0 threads; it needs at least 1"],
        );
        for speed in [0.0, -1.0, 1000.1, f64::NAN, f64::INFINITY] {
            let devices = vec![Device { speed: Some(speed), ..device("a") }];
            let error = Cluster::new(devices, None, &[]).unwrap_err().to_string();
            let expected = format!(
                "device `a` has speed {speed}; write a number above 0 and at most 1000, or leave \
                 it out for full speed"
            );
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn links_of_nonsense_are_refused() {
        let devices = || vec![device("a"), device("b")];
        refuse(
            devices(),
            &[link("a", "x", 1, false)],
            expect!["a link names the device `x`, which does not exist; the devices are a, b"],
        );
        refuse(
            devices(),
            &[link("a", "a", 1, true)],
            expect!["a link goes from `a` to itself; name two devices"],
        );
        refuse(
            devices(),
            &[link("a", "b", 1, false), link("b", "a", 1, true)],
            expect![
                "there are two links from `b` to `a`; remove one, or set `oneway = true` where \
                 only one direction is meant"
            ],
        );
    }
}
