//! Collectives on clusters of several nodes, against their closed forms.

use cavalcade_cluster::{Cluster, Resource};
use cavalcade_schedule::{CollectiveKind, MemoryModel, Op, Reduction, Value};
use cavalcade_sim::{
    Costs, LinkCost, all_gather, all_reduce, hierarchical_all_reduce, ring_all_reduce,
    server_all_reduce, tree_all_reduce,
};
use cavalcade_units::{Bytes, DeviceId, Nanos};
use std::cmp::Ordering;
use std::fmt::Write;

/// A cluster's links as they are.
struct Links(Cluster);

impl MemoryModel for Links {
    fn bytes(&self, _: DeviceId, _: Value) -> Bytes {
        Bytes::ZERO
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Links {
    fn compute(&self, _: DeviceId, _: Op) -> Nanos {
        Nanos::ZERO
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        let route = self.0.route(from, to);
        route.map_or(LinkCost::FREE, |route| LinkCost {
            latency: route.latency,
            bandwidth: route.bandwidth,
        })
    }
    fn resources(&self) -> &[Resource] {
        self.0.resources()
    }
    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        self.0.route(from, to).map(|route| route.legs).unwrap_or_default()
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

/// Nodes of so many devices each, and `links`.
fn cluster(nodes: &[u32], links: &str) -> Links {
    let mut text = String::new();
    let mut device = 0;
    for (node, &n_devices) in nodes.iter().enumerate() {
        for _ in 0..n_devices {
            write!(text, "[[device]]\nname = \"d{device}\"\nnode = \"n{node}\"\n")
                .expect("a string takes any text");
            device += 1;
        }
    }
    Links(Cluster::from_toml(&format!("{text}{links}")).expect("it is legal"))
}

fn networks(within: &str, between: &str) -> String {
    format!(
        "[[network]]\nbetween = \"devices\"\nlatency = \"1 us\"\nbandwidth = \"{within}\"\n\
         [[network]]\nbetween = \"nodes\"\nlatency = \"10 us\"\nbandwidth = \"{between}\"\n"
    )
}

fn group(costs: &Links) -> Vec<DeviceId> {
    (0..costs.0.devices().len()).map(DeviceId::from_idx).collect()
}

fn by_node(costs: &Links) -> Vec<Vec<DeviceId>> {
    let group = group(costs);
    group
        .chunk_by(|&a, &b| costs.0.device(a).node() == costs.0.device(b).node())
        .map(<[DeviceId]>::to_vec)
        .collect()
}

fn reduced(costs: &Links, bytes: Bytes) -> Nanos {
    let node = |device| costs.0.device(device).node();
    all_reduce(costs, Reduction::Ring, &group(costs), node, bytes)
}

const BYTES: Bytes = Bytes(240_000_000);

/// `2 (g-1)/g B/in + 2 (N-1)/N (B/g)/(nic/g)` and the latencies: all rails of a node pass its NIC.
#[test]
fn the_rails_of_a_node_share_its_nic() {
    for (n, g) in [(2, 2), (2, 4), (3, 4), (4, 8)] {
        let costs = cluster(&vec![g; n], &networks("100 GB/s", "1 GB/s"));
        let (n, g) = (n as u64, u64::from(g));
        let within = 2 * (g - 1) * BYTES.0 / g / 100;
        let between = 2 * (n - 1) * BYTES.0 / n;
        let latency = 2 * (g - 1) * 1_000 + 2 * (n - 1) * 10_000;
        let expected = Nanos(within + between + latency);
        assert_eq!(hierarchical_all_reduce(&costs, &by_node(&costs), BYTES), Some(expected));
        assert_eq!(reduced(&costs, BYTES), expected, "{n} nodes of {g}");
        // The ring enters and leaves each node once.
        let ring = 2 * (n * g - 1) * (BYTES.0 / (n * g) + 10_000);
        assert_eq!(ring_all_reduce(&costs, &group(&costs), BYTES), Nanos(ring));
    }
}

/// `2 (g-1)/g B/in + 2 (N-1)/N (B/g)/rail`, where each device has its own way out.
#[test]
fn rails_of_their_own_carry_a_part_each() {
    let rails = "[link]\nbandwidth = \"1 GB/s\"\n\
                 [[network]]\nbetween = \"devices\"\nbandwidth = \"100 GB/s\"\n";
    let costs = cluster(&[4, 4], rails);
    let expected = 2 * 3 * BYTES.0 / 4 / 100 + 2 * BYTES.0 / 4 / 2;
    assert_eq!(reduced(&costs, BYTES), Nanos(expected));
}

#[test]
fn the_ring_is_taken_where_it_is_cheaper_or_alone_possible() {
    // As slow within a node as between nodes: the parts within are sent in vain.
    let slow = cluster(&[4, 4], &networks("1 GB/s", "1 GB/s"));
    let ring = ring_all_reduce(&slow, &group(&slow), BYTES);
    assert!(hierarchical_all_reduce(&slow, &by_node(&slow), BYTES).is_some_and(|h| h > ring));
    assert_eq!(reduced(&slow, BYTES), ring);
    // Uneven nodes, one node, nodes of one device.
    for nodes in [&[3, 1][..], &[4], &[1, 1, 1]] {
        let costs = cluster(nodes, "[link]\nlatency = \"5 us\"\nbandwidth = \"1 GB/s\"\n");
        assert_eq!(hierarchical_all_reduce(&costs, &by_node(&costs), BYTES), None);
        let n = costs.0.devices().len() as u64;
        let expected = 2 * (n - 1) * (BYTES.0 / n + 5_000);
        assert_eq!(reduced(&costs, BYTES), Nanos(expected), "{nodes:?}");
    }
}

/// A ring that goes to and fro between two nodes passes each NIC once a member.
#[test]
fn a_ring_in_a_bad_order_divides_the_nics() {
    let costs = cluster(&[2, 2], &networks("100 GB/s", "1 GB/s"));
    let to_and_fro = [0, 2, 1, 3].map(DeviceId);
    let expected = 2 * 3 * (2 * BYTES.0 / 4 + 10_000);
    assert_eq!(ring_all_reduce(&costs, &to_and_fro, BYTES), Nanos(expected));
}

#[test]
fn one_alone_and_nobody_take_no_time() {
    let costs = cluster(&[2, 2], &networks("100 GB/s", "1 GB/s"));
    for members in [&[][..], &[DeviceId(1)]] {
        for reduction in Reduction::ALL {
            let time = all_reduce(&costs, reduction, members, |device| device, BYTES);
            assert_eq!(time, Nanos::ZERO, "{reduction}");
        }
        assert_eq!(all_gather(&costs, members, BYTES), Nanos::ZERO);
    }
    // Three times 8 bytes at one byte a nanosecond, and the latency between nodes.
    assert_eq!(all_gather(&costs, &group(&costs), Bytes(8)), Nanos(3 * 8 + 10_000));
}

/// `n` nodes of one device each, and `links`.
fn apart(n: u64, links: &str) -> Links {
    cluster(&vec![1; n as usize], links)
}

/// The single-port model: what a node sends passes one port, and so does what it receives.
const PORTS: &str = "[[network]]\nbetween = \"nodes\"\nbandwidth = \"1 GB/s\"\n";
/// The emulated one: each pair has its own link.
const PAIRS: &str = "[link]\nbandwidth = \"1 GB/s\"\n";

/// FireCaffe's `2 |W| log2(p) / BW`, in whole levels.
#[test]
fn a_tree_takes_two_messages_a_level() {
    for p in 2..=128 {
        let levels = (0..).find(|&level| 1 << level >= p).expect("it is a power of two or below");
        for costs in [apart(p, PORTS), apart(p, PAIRS)] {
            let time = tree_all_reduce(&costs, &group(&costs), BYTES);
            assert_eq!(time, Nanos(2 * BYTES.0 * levels), "{p}");
        }
    }
    let slow = apart(8, &format!("{PAIRS}latency = \"3 us\"\n"));
    let expected = Nanos(2 * 3 * (BYTES.0 + 3_000));
    assert_eq!(tree_all_reduce(&slow, &group(&slow), BYTES), expected);
}

/// FireCaffe's `|W| p / BW`, of a server beside `p` workers, in each direction; and that of all,
/// of which the server is one.
#[test]
fn a_server_passes_a_copy_for_each_of_the_others() {
    for p in 2..=128 {
        for direction in ["in", "out"] {
            let of = "between = \"nodes\"\nof = \"n0\"";
            let port = format!(
                "[[network]]\n{of}\n{direction} = \"1 GB/s\"\n[[network]]\nbetween = \"nodes\"\n"
            );
            let costs = apart(p + 1, &port);
            let time = server_all_reduce(&costs, &group(&costs), BYTES);
            assert_eq!(time, Nanos(BYTES.0 * p), "{p} workers, {direction}");
        }
        let time = |links: &str| {
            let costs = apart(p, links);
            server_all_reduce(&costs, &group(&costs), BYTES)
        };
        assert_eq!(time(PORTS), Nanos(2 * (p - 1) * BYTES.0), "{p} with a port each");
        assert_eq!(time(PAIRS), Nanos(p * BYTES.0), "{p} with links of their own");
        let latency = "latency = \"3 us\"\n";
        assert_eq!(time(&format!("{PORTS}{latency}")), time(PORTS) + Nanos(2 * 3_000));
        assert_eq!(time(&format!("{PAIRS}{latency}")), time(PAIRS) + Nanos(2 * 3_000));
    }
}

/// Over links of their own the tree wins for `p > 4`, as in FireCaffe: with 2 and 4 they are equal,
/// and between powers of two a level is paid whole. Through one port it wins from 4 on.
#[test]
fn the_tree_overtakes_the_server() {
    let compared = |p, links: &str| {
        let costs = apart(p, links);
        let reduced = |how| all_reduce(&costs, how, &group(&costs), |device| device, BYTES);
        reduced(Reduction::Tree).cmp(&reduced(Reduction::Server))
    };
    for p in 2..=128_u64 {
        let over_pairs = match p {
            2 | 4 | 6 => Ordering::Equal,
            3 | 5 => Ordering::Greater,
            _ => Ordering::Less,
        };
        assert_eq!(compared(p, PAIRS), over_pairs, "{p} with links of their own");
        let through_ports = if p < 4 { Ordering::Equal } else { Ordering::Less };
        assert_eq!(compared(p, PORTS), through_ports, "{p} with a port each");
    }
}

/// A server at the narrow end of a link is as slow as that link, and a tree once a level.
#[test]
fn the_slowest_link_is_paid_for_each_message_that_passes_it() {
    let links = format!("{PAIRS}[[links]]\nfrom = \"d0\"\nto = \"d1\"\nbandwidth = \"100 MB/s\"\n");
    let costs = apart(4, &links);
    let time = |how| all_reduce(&costs, how, &group(&costs), |device| device, BYTES);
    assert_eq!(time(Reduction::Server), Nanos(10 * BYTES.0 + 12 * BYTES.0));
    assert_eq!(time(Reduction::Tree), Nanos(2 * (10 * BYTES.0 + BYTES.0)));
}
