//! Collectives on clusters of several nodes, against their closed forms.

use cavalcade_cluster::{Cluster, Resource};
use cavalcade_schedule::{CollectiveKind, MemoryModel, Op, Value};
use cavalcade_sim::{
    Costs, LinkCost, all_gather, all_reduce, hierarchical_all_reduce, ring_all_reduce,
};
use cavalcade_units::{Bytes, DeviceId, Nanos};
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
    all_reduce(costs, &group(costs), |device| costs.0.device(device).node(), bytes)
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
        assert_eq!(all_reduce(&costs, members, |device| device, BYTES), Nanos::ZERO);
        assert_eq!(all_gather(&costs, members, BYTES), Nanos::ZERO);
    }
    // Three times 8 bytes at one byte a nanosecond, and the latency between nodes.
    assert_eq!(all_gather(&costs, &group(&costs), Bytes(8)), Nanos(3 * 8 + 10_000));
}
