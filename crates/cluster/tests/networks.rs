//! Networks that pairs of devices share: what a message passes, what is refused, the text form.

use cavalcade_cluster::Cluster;
use cavalcade_units::DeviceId;
use expect_test::{Expect, expect};
use std::fmt::Write;

/// Two sites; the first has a node of two devices and a device by itself.
const DEVICES: &str = r#"
[[device]]
name = "a"
node = "tower"
site = "home"
[[device]]
name = "b"
node = "tower"
site = "home"
[[device]]
name = "c"
site = "home"
[[device]]
name = "d"
site = "away"
"#;

const NETWORKS: &str = r#"
[[network]]
between = "devices"
bandwidth = "80 Gbit/s"
[[network]]
between = "nodes"
latency = "10 us"
bandwidth = "8 Gbit/s"
[[network]]
between = "nodes"
of = "c"
latency = "50 us"
out = "800 Mbit/s"
[[network]]
between = "sites"
latency = "30 ms"
out = "8 Mbit/s"
in = "80 Mbit/s"
"#;

fn cluster(more: &str) -> Cluster {
    Cluster::from_toml(&format!("{DEVICES}{more}")).expect("it is legal")
}

/// A line for each pair of devices.
fn routes(cluster: &Cluster) -> String {
    let mut text = String::new();
    let n_devices = cluster.devices().len() as u32;
    for (from, to) in (0..n_devices).flat_map(|from| (0..n_devices).map(move |to| (from, to))) {
        let name = |id| &cluster.device(DeviceId(id)).name;
        let Some(route) = cluster.route(DeviceId(from), DeviceId(to)) else { continue };
        let rate = route.bandwidth.map(|rate| rate.to_string());
        let legs = route.legs.iter().map(|&leg| cluster.resources()[leg].name.as_str());
        let ways = rate.as_deref().into_iter().chain(legs).collect::<Vec<_>>().join("; ");
        writeln!(text, "{} to {}: {}, {ways}", name(from), name(to), route.latency)
            .expect("a string takes any text");
    }
    text
}

#[test]
fn a_message_passes_the_ports_of_the_lowest_level_that_joins_its_ends() {
    expect![[r#"
        a to b: 0 ns, port of device `a`, out; port of device `b`, in
        a to c: 50.0 us, NIC of node `tower`, out
        a to d: 30.0 ms, NIC of node `tower`, out; uplink of site `home`, out; uplink of site `away`, in; NIC of node `d`, in
        b to a: 0 ns, port of device `b`, out; port of device `a`, in
        b to c: 50.0 us, NIC of node `tower`, out
        b to d: 30.0 ms, NIC of node `tower`, out; uplink of site `home`, out; uplink of site `away`, in; NIC of node `d`, in
        c to a: 50.0 us, NIC of node `c`, out; NIC of node `tower`, in
        c to b: 50.0 us, NIC of node `c`, out; NIC of node `tower`, in
        c to d: 30.0 ms, NIC of node `c`, out; uplink of site `home`, out; uplink of site `away`, in; NIC of node `d`, in
        d to a: 30.0 ms, NIC of node `d`, out; uplink of site `away`, out; uplink of site `home`, in; NIC of node `tower`, in
        d to b: 30.0 ms, NIC of node `d`, out; uplink of site `away`, out; uplink of site `home`, in; NIC of node `tower`, in
        d to c: 30.0 ms, NIC of node `d`, out; uplink of site `away`, out; uplink of site `home`, in
    "#]]
    .assert_eq(&routes(&cluster(NETWORKS)));
}

/// A pair's own link goes before a network, and a network before the default link.
#[test]
fn links_of_pairs_keep_their_meaning() {
    let cluster = cluster(
        r#"
[link]
latency = "1 ms"
[[links]]
from = "a"
to = "d"
bandwidth = "1 Mbit/s"
[[network]]
between = "nodes"
of = "c"
latency = "2 us"
"#,
    );
    assert!(cluster.is_shared());
    expect![[r#"
        a to b: 1.0 ms, 
        a to c: 2.0 us, 
        a to d: 0 ns, 1.0 Mbit/s
        b to a: 1.0 ms, 
        b to c: 2.0 us, 
        b to d: 1.0 ms, 
        c to a: 2.0 us, 
        c to b: 2.0 us, 
        c to d: 2.0 us, 
        d to a: 0 ns, 1.0 Mbit/s
        d to b: 1.0 ms, 
        d to c: 2.0 us, 
    "#]]
    .assert_eq(&routes(&cluster));
}

#[test]
fn without_networks_a_route_is_the_link_of_the_pair() {
    let links = "[link]\nlatency = \"1 ms\"\n[[links]]\nfrom = \"a\"\nto = \"b\"\n";
    for links in ["", links] {
        let cluster = cluster(links);
        assert!(!cluster.is_shared() && cluster.resources().is_empty());
        for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
            let (from, to) = (DeviceId(from), DeviceId(to));
            let route = cluster.route(from, to);
            assert!(route.as_ref().is_none_or(|route| route.legs.is_empty()));
            let of_route = route.map(|route| (route.latency, route.bandwidth));
            let of_link = cluster.link(from, to).map(|link| (link.latency, link.bandwidth));
            assert_eq!(of_route, of_link);
        }
    }
}

#[test]
fn text_gives_the_cluster_back() {
    let made = cluster(NETWORKS);
    let text = made.to_toml();
    assert_eq!(Cluster::from_toml(&text).expect("it was written"), made);
    let start = text.find("[[network]]").expect("there are networks");
    expect![[r#"
        [[network]]
        between = "devices"
        latency = "0 ns"
        bandwidth = "80 Gbit/s"

        [[network]]
        between = "nodes"
        latency = "10 us"
        bandwidth = "8 Gbit/s"

        [[network]]
        between = "nodes"
        of = "c"
        latency = "50 us"
        out = "800 Mbit/s"

        [[network]]
        between = "sites"
        latency = "30 ms"
        out = "8 Mbit/s"
        in = "80 Mbit/s"
    "#]]
    .assert_eq(&text[start..]);
}

#[test]
fn nonsense_is_refused() {
    let refuse = |text: String, message: Expect| {
        let error = Cluster::from_toml(&text).map(|_| ()).expect_err("it makes no sense");
        message.assert_eq(&error.to_string());
    };
    let with = |more: &str| format!("{DEVICES}[[network]]\n{more}");
    refuse(
        with("between = \"nodes\"\nof = \"a\""),
        expect!["a network between nodes is of `a`, which is none; the nodes are tower, c, d"],
    );
    refuse(
        with("between = \"sites\"\n[[network]]\nbetween = \"sites\"\nlatency = \"1 s\""),
        expect!["there are two networks between sites; remove one, or tell them apart by `of`"],
    );
    refuse(
        with("between = \"sites\"\nof = \"home\"\n[[network]]\nbetween = \"sites\"\nof = \"home\""),
        expect![
            "there are two networks between sites of `home`; remove one, or tell them apart by `of`"
        ],
    );
    refuse(
        with("between = \"sites\"\nbandwidth = \"1 MB/s\"\nin = \"1 MB/s\""),
        expect![
            "network between sites has `bandwidth` and `in`; write `bandwidth` for both directions, or `out` and `in`"
        ],
    );
    refuse(
        with("between = \"sites\"\nof = \"home\"\nout = \"fast\""),
        expect![
            "network between sites of `home`, out: `fast` is not a bandwidth above zero; write a number and a unit, such as `10 Gbit/s`"
        ],
    );
    let two = |a: &str, b: &str| {
        format!("[[device]]\nname = \"a\"\n{a}\n[[device]]\nname = \"b\"\n{b}\n")
    };
    let joins = |level: &str| format!("[[network]]\nbetween = \"{level}\"");
    refuse(
        two("", "") + &joins("devices"),
        expect![
            "a network joins devices, but no two devices are in one node; give several devices the same `node`, or remove the network"
        ],
    );
    refuse(
        two("node = \"b\"", "") + &joins("nodes"),
        expect![
            "a network joins nodes, but no two devices are in different nodes; give devices different nodes, or remove the network"
        ],
    );
    refuse(
        two("", "") + &joins("sites"),
        expect![
            "a network joins sites, but no two devices are at different sites; give devices a `site`, or remove the network"
        ],
    );
    refuse(
        two("site = \"x\"", ""),
        expect![
            "device `b` has no `site`, but others have; give each device a site, or none of them"
        ],
    );
    refuse(
        two("node = \"n\"\nsite = \"x\"", "node = \"n\"\nsite = \"y\""),
        expect!["node `n` has `a` and `b` at different sites; a node stands at one site"],
    );
    refuse(
        two("node = \" \"", ""),
        expect!["device `a` has a node with a blank name; name it, or leave it out"],
    );
    let error = Cluster::from_toml(&(two("", "") + &joins("planets"))).map(|_| ());
    let error = error.expect_err("there is no such level").to_string();
    assert!(error.contains("unknown variant `planets`"), "{error}");
}
