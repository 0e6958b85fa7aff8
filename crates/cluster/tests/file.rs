//! The text form of a cluster: what it reads, what it refuses, that it loses nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use cavalcade_cluster::{Cluster, ClusterError, Device, Link, LinkSpec};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use expect_test::{Expect, expect};
use proptest::prelude::*;

const FULL: &str = r#"
[[device]]
name = "titan"
speed = 2
memory = "64 MiB"
threads = 2

[[device]]
name = "pi"
speed = 0.25

[[device]]
name = "host"

[link]
latency = "200 us"
bandwidth = "1 Gbit/s"

[[links]]
from = "titan"
to = "pi"
latency = "1.5 ms"

[[links]]
from = "host"
to = "pi"
bandwidth = "10 MB/s"
oneway = true
"#;

fn refuse(text: &str, message: Expect) {
    message.assert_eq(&Cluster::from_toml(text).unwrap_err().to_string());
}

#[test]
fn a_file_means_what_it_says() {
    let cluster = Cluster::from_toml(FULL).unwrap();
    let titan = cluster.device(DeviceId(0));
    assert_eq!((titan.speed, titan.memory, titan.threads), (Some(2.0), Some(Bytes(64 << 20)), 2));
    let host = cluster.device(DeviceId(2));
    assert_eq!((host.speed, host.memory, host.threads), (None, None, 1));
    let slow = LinkSpec { latency: Nanos(1_500_000), bandwidth: None };
    assert_eq!(cluster.link(DeviceId(1), DeviceId(0)), Some(slow));
    let rate = |text: &str| Some(text.parse().unwrap());
    let oneway = LinkSpec { latency: Nanos::ZERO, bandwidth: rate("80 Mbit/s") };
    assert_eq!(cluster.link(DeviceId(2), DeviceId(1)), Some(oneway));
    let default = LinkSpec { latency: Nanos(200_000), bandwidth: rate("1 Gbit/s") };
    assert_eq!(cluster.link(DeviceId(1), DeviceId(2)), Some(default));
}

#[test]
fn text_is_written_in_one_form() {
    expect![[r#"
        [[device]]
        name = "titan"
        speed = 2.0
        memory = "64 MiB"
        threads = 2

        [[device]]
        name = "pi"
        speed = 0.25
        threads = 1

        [[device]]
        name = "host"
        threads = 1

        [link]
        latency = "200 us"
        bandwidth = "1 Gbit/s"

        [[links]]
        from = "titan"
        to = "pi"
        latency = "1500 us"

        [[links]]
        from = "host"
        to = "pi"
        latency = "0 ns"
        bandwidth = "80 Mbit/s"
        oneway = true
    "#]]
    .assert_eq(&Cluster::from_toml(FULL).unwrap().to_toml());
}

#[test]
fn nonsense_is_refused_with_its_place() {
    refuse("", expect!["the cluster has no devices; add a `[[device]]` with a name"]);
    refuse(
        "[[device]]\nname = \"a\"\nmemory = \"64\"",
        expect![
            "device `a`, memory: `64` is not an amount of memory; write a number and a unit, such as `64 MiB`"
        ],
    );
    refuse(
        "[[device]]\nname = \"a\"\n[link]\nlatency = \"5 GB\"",
        expect![
            "[link], latency: `5 GB` is not a span of time; write a number and a unit, such as `100 us`"
        ],
    );
    refuse(
        "[[device]]\nname = \"a\"\n[[links]]\nfrom = \"a\"\nto = \"b\"\nbandwidth = \"0 B/s\"",
        expect![
            "link from `a` to `b`, bandwidth: `0 B/s` is not a bandwidth above zero; write a number and a unit, such as `10 Gbit/s`"
        ],
    );
    for (text, place) in [
        ("[[device]]\nname = \"a\"\nsped = 1", "line 3, column 1"),
        ("[[device]]\nname = \"a\"\n[links]\nfrom = 1", "line 3"),
        ("[[device]]\nspeed = 1", "name"),
        ("[[device]]\nname = \"a\"\nthreads = -1", "line 3, column 11"),
        ("[[device]\n", "line 1"),
    ] {
        let error = Cluster::from_toml(text).unwrap_err();
        assert!(matches!(error, ClusterError::Syntax(_)), "{text}: {error}");
        assert!(error.to_string().contains(place), "{text}: {error}");
    }
}

#[test]
fn a_wrong_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.toml");
    let error = Cluster::read(&path).unwrap_err();
    assert!(matches!(error, ClusterError::File { .. }), "{error}");
    assert!(error.to_string().contains("cluster.toml"), "{error}");
    std::fs::write(&path, "[link]").unwrap();
    let error = Cluster::read(&path).unwrap_err().to_string();
    assert!(error.contains("cluster.toml: the cluster has no devices"), "{error}");
    std::fs::write(&path, FULL).unwrap();
    assert_eq!(Cluster::read(&path).unwrap(), Cluster::from_toml(FULL).unwrap());
}

fn link_spec() -> impl Strategy<Value = LinkSpec> {
    let bandwidth = (1e-3..1e12).prop_map(Bandwidth::from_bytes_per_second);
    (0..1_u64 << 50, proptest::option::of(bandwidth))
        .prop_map(|(latency, bandwidth)| LinkSpec { latency: Nanos(latency), bandwidth })
}

fn device(idx: usize) -> impl Strategy<Value = Device> {
    let speed = proptest::option::of(1e-9..1000.0_f64);
    let memory = proptest::option::of((1..1_u64 << 50).prop_map(Bytes));
    (speed, memory, 1..9_usize, "[a-z\"\\\\ ]{0,3}").prop_map(
        move |(speed, memory, threads, letters)| Device {
            speed,
            memory,
            threads,
            ..Device::named(format!("{letters}{idx}"))
        },
    )
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let pairs = [(0, 1), (0, 2), (1, 2)]
        .map(|pair| (Just(pair), link_spec(), any::<bool>(), proptest::option::of(any::<bool>())));
    let devices = (device(0), device(1), device(2));
    (devices, proptest::option::of(link_spec()), pairs).prop_map(|(devices, default, pairs)| {
        let devices = vec![devices.0, devices.1, devices.2];
        let mut links = Vec::new();
        for ((a, b), spec, is_reversed, oneway) in pairs {
            if let Some(oneway) = oneway {
                let (a, b) = if is_reversed { (b, a) } else { (a, b) };
                let (from, to) = (devices[a].name.clone(), devices[b].name.clone());
                links.push(Link { from, to, spec, oneway });
            }
        }
        Cluster::new(devices, default, &links).unwrap()
    })
}

proptest! {
    #[test]
    fn text_gives_the_cluster_back(cluster in cluster()) {
        let text = cluster.to_toml();
        prop_assert_eq!(Cluster::from_toml(&text).unwrap(), cluster, "{}", text);
    }
}
