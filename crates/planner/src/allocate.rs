//! HetPipe's three fixed ways to group devices into virtual workers (see [`Policy`]).
//!
//! HetPipe describes them for nodes of equally many alike devices. Ours says what holds for any:
//!
//! | policy | legal for | because |
//! |---|---|---|
//! | `np` | any nodes | a node of few devices is a short pipeline |
//! | `ed` | nodes of equally many devices | each virtual worker takes one of every node |
//! | `hd` | an even number of nodes of even sizes | nodes go in pairs and are halved |
//!
//! Where a node's devices are unlike, the strongest go first, each to the virtual worker that has
//! the least power so far, so that virtual workers come out similar.

use crate::Policy;
use cavalcade_units::DeviceId;
use std::collections::BTreeSet;
use thiserror::Error;

/// Nodes that a policy cannot allocate. Nodes are counted from 0.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AllocationError {
    /// There is no node, or one without devices.
    #[error("{}; each node needs a device", missing(*node))]
    Empty {
        /// The node without devices; None if there is no node.
        node: Option<usize>,
    },
    /// A device is named twice.
    #[error("device {device} is named twice; a device is in one node, once")]
    Twice {
        /// The device.
        device: DeviceId,
    },
    /// A device's power is no positive number.
    #[error("device {device} has power {power}; power is a positive number")]
    Power {
        /// The device.
        device: DeviceId,
        /// What was given.
        power: f64,
    },
    /// `ed` with nodes of unlike sizes.
    #[error(
        "policy ed gives one device of every node to each virtual worker, so nodes need equally \
         many; node {node} has {found}, node 0 has {first}; leave devices out, or use np or auto"
    )]
    Unequal {
        /// The first node with another number of devices than node 0.
        node: usize,
        /// Its devices.
        found: usize,
        /// Those of node 0.
        first: usize,
    },
    /// `hd` with an odd number of nodes.
    #[error(
        "policy hd pairs nodes, so it needs an even number of them, but there are {found}; leave \
         one out, or use np, ed or auto"
    )]
    OddNodes {
        /// The nodes.
        found: usize,
    },
    /// `hd` with a node that cannot be halved.
    #[error(
        "policy hd halves each node, so nodes need an even number of devices, but node {node} has \
         {found}; leave one out, or use np, ed or auto"
    )]
    OddNode {
        /// The first such node.
        node: usize,
        /// Its devices.
        found: usize,
    },
    /// `auto` is no fixed rule.
    #[error("policy auto has to be searched; np, ed and hd are the fixed ones")]
    Auto,
}

/// The devices of each virtual worker by one of the fixed policies.
///
/// `nodes` are the devices of each node, `power` the speed of a device in any unit. Virtual workers
/// and their devices are in the order of the nodes; with `hd`, the pair with the strongest node
/// is first, and in it the strongest node. Of equally strong ones the earlier counts as stronger.
///
/// Pairing the strongest node with the weakest, the second with the last but one, and so on, gives
/// the least power of the strongest pair and the most of the weakest that pairs can have.
///
/// # Errors
/// The policy does not apply to such nodes, or they are not well formed.
pub fn allocate(
    policy: Policy,
    nodes: &[Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
) -> Result<Vec<Vec<DeviceId>>, AllocationError> {
    well_formed(nodes, power)?;
    match policy {
        Policy::NodePartition => Ok(nodes.to_vec()),
        Policy::EqualDistribution => equal_distribution(nodes, power),
        Policy::HybridDistribution => hybrid_distribution(nodes, power),
        Policy::Auto => Err(AllocationError::Auto),
    }
}

/// What every policy needs of the nodes.
pub(crate) fn well_formed(
    nodes: &[Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
) -> Result<(), AllocationError> {
    let empty = nodes.iter().position(Vec::is_empty);
    if nodes.is_empty() || empty.is_some() {
        return Err(AllocationError::Empty { node: empty });
    }
    let mut known = BTreeSet::new();
    for &device in nodes.iter().flatten() {
        if !known.insert(device) {
            return Err(AllocationError::Twice { device });
        }
        let power = power(device);
        if !power.is_finite() || power <= 0.0 {
            return Err(AllocationError::Power { device, power });
        }
    }
    Ok(())
}

fn equal_distribution(
    nodes: &[Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
) -> Result<Vec<Vec<DeviceId>>, AllocationError> {
    let first = nodes[0].len();
    for (node, devices) in nodes.iter().enumerate() {
        if devices.len() != first {
            return Err(AllocationError::Unequal { node, found: devices.len(), first });
        }
    }
    let mut workers = vec![vec![]; first];
    for node in nodes {
        deal(node, &mut workers, power);
    }
    Ok(workers)
}

fn hybrid_distribution(
    nodes: &[Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
) -> Result<Vec<Vec<DeviceId>>, AllocationError> {
    if !nodes.len().is_multiple_of(2) {
        return Err(AllocationError::OddNodes { found: nodes.len() });
    }
    if let Some(node) = nodes.iter().position(|node| !node.len().is_multiple_of(2)) {
        return Err(AllocationError::OddNode { node, found: nodes[node].len() });
    }
    let mut ranked: Vec<&Vec<DeviceId>> = nodes.iter().collect();
    ranked.sort_by(|one, other| total(other, power).total_cmp(&total(one, power)));
    let mut all = Vec::new();
    let (strong, weak) = ranked.split_at(nodes.len() / 2);
    for (strong, weak) in strong.iter().zip(weak.iter().rev()) {
        let mut workers = vec![vec![]; 2];
        deal(strong, &mut workers, power);
        deal(weak, &mut workers, power);
        all.extend(workers);
    }
    Ok(all)
}

/// Gives each of `workers` an equal number of `devices`, the strongest device first, to the worker
/// with the least power that may have one more.
pub(crate) fn deal(
    devices: &[DeviceId],
    workers: &mut [Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
) {
    let each = devices.len() / workers.len();
    let full: Vec<usize> = workers.iter().map(|worker| worker.len() + each).collect();
    let mut ranked = devices.to_vec();
    ranked.sort_by(|&one, &other| power(other).total_cmp(&power(one)));
    for device in ranked {
        let open = (0..workers.len()).filter(|&worker| workers[worker].len() < full[worker]);
        let least = open.min_by(|&one, &other| {
            total(&workers[one], power).total_cmp(&total(&workers[other], power))
        });
        workers[least.expect("the workers' shares are all of the devices")].push(device);
    }
}

fn total(devices: &[DeviceId], power: &dyn Fn(DeviceId) -> f64) -> f64 {
    devices.iter().map(|&device| power(device)).sum()
}

fn missing(node: Option<usize>) -> String {
    node.map_or("there is no node".to_owned(), |node| format!("node {node} has no devices"))
}
