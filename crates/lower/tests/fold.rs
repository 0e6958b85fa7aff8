//! Which replicas fold into one.

use cavalcade_cluster::Cluster;
use cavalcade_lower::Folded;
use cavalcade_plan::{Pipeline, Plan, Stage};
use cavalcade_schedule::Kind;
use cavalcade_units::DeviceId;

/// Two pipelines over two of `a`, `b`, `c`, `d` each.
fn plan(second: [u32; 2], cut: u32, microbatches: u32) -> Plan {
    let pipeline = |devices: [u32; 2], cut, microbatches| {
        let stage = |device, layers| Stage::new(DeviceId(device), layers);
        let stages = vec![stage(devices[0], 0..cut), stage(devices[1], cut..6)];
        Pipeline::new(stages, microbatches)
    };
    let pipelines = vec![pipeline([0, 1], 3, 4), pipeline(second, cut, microbatches)];
    Plan::new(pipelines, 1, Kind::OneFOneB, 6, 4).expect("it is a plan")
}

fn cluster(devices: [&str; 4], rest: &str) -> Cluster {
    let device = |(name, more): (&str, &str)| format!("[[device]]\nname = \"{name}\"\n{more}\n");
    let devices = ["a", "b", "c", "d"].into_iter().zip(devices).map(device);
    Cluster::from_toml(&(devices.collect::<String>() + rest)).expect("it is a cluster")
}

fn copies(plan: &Plan, cluster: &Cluster) -> u32 {
    let folded = Folded::new(plan, cluster);
    let n_left = plan.pipelines().len() as u32 - folded.copies;
    assert_eq!(folded.plan.pipelines(), &plan.pipelines()[..n_left as usize]);
    let n_alike: usize = folded.alike.iter().map(Vec::len).sum();
    assert_eq!(n_alike, 4 + 2 * folded.copies as usize);
    folded.copies
}

#[test]
fn what_does_the_same_on_like_devices_folds() {
    let alike = cluster([""; 4], "");
    assert_eq!(copies(&plan([2, 3], 3, 4), &alike), 1);
    assert_eq!(copies(&plan([3, 2], 3, 4), &alike), 1);
    assert_eq!(copies(&plan([2, 3], 2, 4), &alike), 0, "another cut");
    assert_eq!(copies(&plan([2, 3], 3, 5), &alike), 0, "another share");
    let slow = cluster(["", "", "", "speed = 0.5"], "");
    assert_eq!(copies(&plan([2, 3], 3, 4), &slow), 0, "another speed");
}

#[test]
fn links_must_be_alike_and_ports_apart() {
    let plan = plan([2, 3], 3, 4);
    let pair = |from: &str, to: &str, ms: u32| {
        format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nlatency = \"{ms} ms\"\n")
    };
    let links = |c_d| cluster([""; 4], &(pair("a", "b", 2) + &pair("c", "d", c_d)));
    assert_eq!(copies(&plan, &links(2)), 1);
    assert_eq!(copies(&plan, &links(3)), 0, "another latency");
    let nodes = |places: [&str; 4]| {
        let nodes = places.map(|node| format!("node = \"{node}\""));
        let nics = "[[network]]\nbetween = \"nodes\"\nbandwidth = \"1 Gbit/s\"\n";
        cluster(nodes.each_ref().map(String::as_str), nics)
    };
    assert_eq!(copies(&plan, &nodes(["w", "x", "y", "z"])), 1, "a NIC each");
    assert_eq!(copies(&plan, &nodes(["w", "x", "w", "x"])), 0, "they share NICs");
}
