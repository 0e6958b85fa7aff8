//! `bench`: what its tables hold, and what it refuses.

use crate::process::{run, workers};
use crate::support::{Configuration, Room};
use serde_json::Value;

/// Two nodes of two devices.
fn cluster() -> Configuration {
    let mut cluster = Configuration::without_pipelines(&["a0", "a1", "b0", "b1"])
        .set("plan.allocation", "ed")
        .set("sync.mode", "wsp")
        .set("sync.combine", "average")
        .set("model.tied", false)
        .set("train.clip_norm", 0);
    for (idx, node) in ["a", "a", "b", "b"].into_iter().enumerate() {
        cluster = cluster.set(&format!("device.{idx}.node"), node);
    }
    cluster
}

#[test]
fn every_case_is_predicted_and_measured_and_the_race_has_a_winner() {
    let room = Room::new(&cluster());
    let arguments = "bench hetpipe c.toml --json --measure 4 --target 2.6 --seeds 1 --reports 30";
    let said = run(room.cavalcade(arguments)).ok().stdout;
    let found: Value = serde_json::from_str(&said).unwrap();
    let cases = found["cases"].as_array().unwrap();
    // Five policies, four distances, waves and an all-reduce on one node and on both.
    assert_eq!(cases.len(), 5 + 4 + 4, "{said}");
    for case in cases {
        assert!(case["predicted"]["samples_per_s"].as_f64().unwrap() > 0.0, "{case}");
        let is_varied = case["table"].as_str().unwrap().starts_with("distance");
        assert_eq!(case["measured"].is_null(), is_varied, "{case}");
    }
    let by_name = |name: &str| cases.iter().find(|case| case["case"] == name).unwrap();
    let bytes = |name: &str| by_name(name)["bytes_between_nodes"]["parameters"].as_u64().unwrap();
    assert_eq!(bytes("ed, servers local"), 0);
    assert!(bytes("ed, servers round-robin") > 0);
    let values = &by_name("np, servers local")["bytes_between_nodes"]["values"];
    assert_eq!(values.as_u64(), Some(0));
    assert_eq!(found["races"].as_array().unwrap().len(), 3);
    assert!(workers(&room).is_empty());
}

#[test]
fn what_has_nothing_to_compare_is_refused() {
    let room = Room::new(&Configuration::new(&[&["a", "b"]]));
    let ended = run(room.cavalcade("bench hetpipe c.toml"));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("set plan.allocation and sync.mode"), "{}", ended.stderr);
}

#[test]
fn policies_and_distances_that_make_no_sense_are_refused() {
    for (configuration, said) in [
        (cluster().set("plan.allocation", "best"), "`best`"),
        (cluster().set("plan.schedule", "chimera").set("sync.mode", "flush"), "`chimera`"),
        (Configuration::new(&[&["a"]]).set("plan.allocation", "np"), "has [[pipeline]] too"),
        (cluster().set("sync.distance", "soon"), "sync.distance has to be a number of waves"),
        (cluster().set("device.3.node", "a"), "plan.allocation"),
    ] {
        let room = Room::new(&configuration);
        let ended = run(room.cavalcade("train c.toml --out r"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
        assert!(room.there(&["r"]).is_empty());
    }
}

#[test]
fn a_distance_by_the_measured_jitter_and_devices_by_a_search() {
    let room = Room::new(&cluster().set("sync.distance", "auto").set("plan.allocation", "auto"));
    run(room.cavalcade("train c.toml --out r")).ok();
    let plan: toml::Table = room.read("r/plan.toml").parse().unwrap();
    assert!(plan["waves"]["distance"].as_integer().is_some_and(|d| (0..=8).contains(&d)));
    let replay: Value =
        serde_json::from_str(&run(room.cavalcade("replay r --json")).ok().stdout).unwrap();
    assert_eq!(replay["passed"], true, "{replay}");
}
