//! Closed forms of collectives' times: latency `alpha` a step, `beta` seconds a byte, of the
//! slowest way used.
//!
//! In a step all members send at once, so what several of them pass is divided among them: with
//! one NIC a node and `g` rails each gets a `g`-th of it. Of the messages of a schedule that are
//! under way at the same time a collective takes nothing and gives nothing.
//!
//! Sources: the ring of Patarasuk and Yuan (2009); Thakur et al. (2005). The hierarchy is that of
//! Jia et al. (2018), with a reduce-scatter instead of a reduce, so that every rail carries a part.
//! Tree and server are those of FireCaffe (Iandola et al. 2016).

use crate::costs::{Costs, LinkCost};
use cavalcade_schedule::Reduction;
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};

/// An all-reduce of `bytes` over `group`, done as `reduction` says. Of a ring the cheaper of two:
/// the ring in the group's order, and the hierarchy where `node` puts equally many members into
/// each of several nodes.
pub fn all_reduce<C: Costs, N: PartialEq>(
    costs: &C,
    reduction: Reduction,
    group: &[DeviceId],
    node: impl Fn(DeviceId) -> N,
    bytes: Bytes,
) -> Nanos {
    match reduction {
        Reduction::Ring => {}
        Reduction::Tree => return tree_all_reduce(costs, group, bytes),
        Reduction::Server => return server_all_reduce(costs, group, bytes),
    }
    let mut nodes: Vec<(N, Vec<DeviceId>)> = Vec::new();
    for &device in group {
        let name = node(device);
        match nodes.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(device),
            None => nodes.push((name, vec![device])),
        }
    }
    let nodes: Vec<_> = nodes.into_iter().map(|(_, members)| members).collect();
    let ring = ring_all_reduce(costs, group, bytes);
    hierarchical_all_reduce(costs, &nodes, bytes).map_or(ring, |hierarchy| hierarchy.min(ring))
}

/// A ring all-reduce of `bytes` over `group`: `2 (n-1) alpha + 2 (n-1)/n bytes beta`.
pub fn ring_all_reduce<C: Costs>(costs: &C, group: &[DeviceId], bytes: Bytes) -> Nanos {
    let n = group.len() as u64;
    step(costs, &ring(group), Bytes(bytes.0.div_ceil(n.max(1)))) * (2 * n.saturating_sub(1))
}

/// An all-reduce of `bytes` up and down a binary tree over `group`: `2 log2(n)` steps, rounded up
/// to whole levels, of all bytes each: `2 log2(n) (alpha + bytes beta)` over equal links.
///
/// For powers of two FireCaffe's `2 |W| log2(p) / BW`, whether each pair has a link of its own or
/// each member one port: a port passes one message a step. For other `n` it may take less, as the
/// last members wait for nobody and can be ahead of their step.
pub fn tree_all_reduce<C: Costs>(costs: &C, group: &[DeviceId], bytes: Bytes) -> Nanos {
    let reaches = (0..).map(|level| 1 << level).take_while(|&reach| reach < group.len());
    let level = |reach: usize| {
        let parents = group.iter().step_by(2 * reach).copied();
        let children = group.iter().skip(reach).step_by(2 * reach).copied();
        let up: Vec<_> = children.zip(parents).collect();
        let down: Vec<_> = up.iter().map(|&(child, parent)| (parent, child)).collect();
        step(costs, &up, bytes) + step(costs, &down, bytes)
    };
    reaches.map(level).sum()
}

/// An all-reduce of `bytes` by the first member of `group`: all others send to it at once, then it
/// sends to them, one after the other.
///
/// ```text
///                            in                             out
/// one port a member          alpha + (n-1) bytes beta       alpha + (n-1) bytes beta
/// a link for each pair       alpha + bytes beta             alpha + (n-1) bytes beta
/// ```
///
/// FireCaffe's `|W| p / BW` is one direction of a server beside `p` workers, through one port. Ours
/// is one of the `n`, so that `n - 1` copies pass in each direction: `2 (n-1) bytes beta` through
/// one port, and `n bytes beta` over links of their own.
pub fn server_all_reduce<C: Costs>(costs: &C, group: &[DeviceId], bytes: Bytes) -> Nanos {
    let Some((&server, others)) = group.split_first() else { return Nanos::ZERO };
    let gathered: Vec<_> = others.iter().map(|&member| (member, server)).collect();
    let mut sent = Nanos::ZERO;
    let arrivals = others.iter().map(|&member| {
        let link = way(costs, (server, member), |_| 1);
        sent += link.busy(bytes);
        sent + link.latency
    });
    step(costs, &gathered, bytes) + arrivals.max().unwrap_or_default()
}

/// An all-reduce of `bytes` over `N` nodes of `g` members each: a reduce-scatter within each node,
/// a ring over the nodes for each of the `g` parts, an all-gather within each node.
///
/// ```text
/// 2 (g-1) alpha_in + 2 (g-1)/g bytes beta_in + 2 (N-1) alpha_rail + 2 (N-1)/N bytes/g beta_rail
/// ```
///
/// None if there are fewer than two nodes, or members a node, or not equally many in each.
pub fn hierarchical_all_reduce<C: Costs>(
    costs: &C,
    nodes: &[Vec<DeviceId>],
    bytes: Bytes,
) -> Option<Nanos> {
    let (n, g) = (nodes.len(), nodes.first()?.len());
    if n < 2 || g < 2 || nodes.iter().any(|members| members.len() != g) {
        return None;
    }
    let part = Bytes(bytes.0.div_ceil(g as u64));
    let within: Vec<_> = nodes.iter().flat_map(|members| ring(members)).collect();
    let rail = |idx: usize| nodes.iter().map(|members| members[idx]).collect::<Vec<_>>();
    let across: Vec<_> = (0..g).flat_map(|idx| ring(&rail(idx))).collect();
    let part_of_node = Bytes(part.0.div_ceil(n as u64));
    let (inner, outer) = (2 * (g as u64 - 1), 2 * (n as u64 - 1));
    Some(step(costs, &within, part) * inner + step(costs, &across, part_of_node) * outer)
}

/// An all-gather of `bytes` a member over `group`, where each member sends to all others one after
/// the other: `alpha + (n-1) bytes beta`, over the slowest pair. Meant for a few bytes: what pairs
/// share is not divided.
pub fn all_gather<C: Costs>(costs: &C, group: &[DeviceId], bytes: Bytes) -> Nanos {
    let n_others = (group.len() as u64).saturating_sub(1);
    let pairs = group.iter().flat_map(|from| group.iter().map(move |to| (*from, *to)));
    let alone = |_: usize| 1;
    let times = pairs.filter(|(from, to)| from != to).map(|pair| {
        let link = way(costs, pair, alone);
        link.busy(bytes) * n_others + link.latency
    });
    times.max().unwrap_or_default()
}

/// Each member and the next one, the last and the first; nothing for one alone.
fn ring(members: &[DeviceId]) -> Vec<(DeviceId, DeviceId)> {
    let next = members.iter().cycle().skip(1);
    members.iter().copied().zip(next.copied()).filter(|(from, to)| from != to).collect()
}

/// How long `pairs` take to send `bytes` each at once: as long as the slowest of them.
fn step<C: Costs>(costs: &C, pairs: &[(DeviceId, DeviceId)], bytes: Bytes) -> Nanos {
    let mut n_users = vec![0_u32; costs.resources().len()];
    for &(from, to) in pairs {
        costs.legs(from, to).into_iter().for_each(|leg| n_users[leg] += 1);
    }
    let times = pairs.iter().map(|&pair| {
        let link = way(costs, pair, |leg| n_users[leg]);
        link.busy(bytes) + link.latency
    });
    times.max().unwrap_or_default()
}

/// The link of a pair, no wider than its part of each resource that it passes with others.
fn way<C: Costs>(
    costs: &C,
    (from, to): (DeviceId, DeviceId),
    n_users: impl Fn(usize) -> u32,
) -> LinkCost {
    let link = costs.link(from, to);
    let resources = costs.resources();
    let rates = costs.legs(from, to).into_iter().map(|leg| {
        let rate = resources[leg].bandwidth.bytes_per_second();
        Bandwidth::from_bytes_per_second(rate / f64::from(n_users(leg)))
    });
    let narrower = |a: Bandwidth, b: Bandwidth| if b < a { b } else { a };
    LinkCost { bandwidth: link.bandwidth.into_iter().chain(rates).reduce(narrower), ..link }
}
