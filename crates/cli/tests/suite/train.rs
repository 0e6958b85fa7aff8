//! `train`, end to end: what a run prints and leaves behind.

use crate::process::{run, workers};
use crate::support::{Configuration, Room};
use serde_json::Value;
use std::collections::BTreeSet;

/// Two replicas of unlike depth.
fn motley() -> Configuration {
    Configuration::new(&[&["a", "b"], &["c"]]).set("train.steps", 30)
}

fn json(room: &Room, name: &str) -> Value {
    serde_json::from_str(&room.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn metrics(room: &Room, run: &str) -> Vec<Value> {
    let text = room.read(&format!("{run}/metrics.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_numbers(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value[key].as_f64().is_some_and(f64::is_finite), "{key} of {value}");
    }
}

#[test]
fn a_run_leaves_all_its_files() {
    let room = Room::new(&motley());
    let said = run(room.cavalcade("train c.toml --out r")).ok().stdout;
    assert!(workers(&room).is_empty());
    for part in ["device", "predicted step", "validation loss", "sample:", "written to r"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for name in ["config.toml", "plan.toml"] {
        let text = room.read(&format!("r/{name}"));
        text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(room.read("r/schedule.txt").starts_with("cavalcade schedule 1\n"));

    let steps = metrics(&room, "r");
    assert_eq!(steps.len(), 30);
    for (idx, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], idx + 1);
        assert_eq!(step["tokens"], (idx + 1) * 8 * 16);
        assert_numbers(step, &["loss", "grad_norm", "lr", "step_ms", "tokens_per_s", "bubble"]);
    }

    let summary = json(&room, "r/summary.json");
    assert_eq!(summary["first_loss"], steps[0]["loss"]);
    assert_eq!(summary["final_loss"], steps[29]["loss"]);
    assert_numbers(&summary, &["val_loss", "tokens_per_s", "predicted_step_ms"]);
    assert_numbers(&summary, &["measured_step_ms", "predicted_bubble", "measured_bubble"]);
    let loss = |key: &str| summary[key].as_f64().unwrap();
    assert!(loss("final_loss") < loss("first_loss") - 0.3, "{summary}");
    assert!(loss("val_loss") < loss("first_loss") - 0.3, "{summary}");
    let ranks = summary["ranks"].as_array().unwrap();
    let devices: Vec<&str> = ranks.iter().filter_map(|rank| rank["device"].as_str()).collect();
    assert_eq!(devices, ["a", "b", "c"]);
    for rank in ranks {
        assert_numbers(rank, &["rank", "predicted_peak_bytes", "measured_peak_bytes"]);
        assert!(rank["measured_peak_bytes"].as_u64() > Some(0), "{rank}");
    }

    let names = ["model/config.json", "model/model.safetensors", "model/tokenizer.json"];
    assert_eq!(
        room.there(&names.map(|name| format!("r/{name}")).each_ref().map(|n| &n[..])).len(),
        3
    );
    let hidden = std::fs::read_dir(room.path("r"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "no file is half-written");
}

#[test]
fn the_trace_has_predicted_beside_measured() {
    let room = Room::new(&motley());
    run(room.cavalcade("train c.toml --out r --json")).ok();
    let trace = json(&room, "r/trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let names: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    let groups = ["predicted: a", "predicted: b", "predicted: c"];
    assert_eq!(names[..3], groups);
    assert_eq!(names[3..], groups.map(|name| name.replace("predicted", "measured")));
    let actions = |is_measured: bool| -> BTreeSet<u64> {
        let of = events.iter().filter(|event| event["ph"] == "X");
        let of = of.filter(|event| (event["pid"].as_u64() >= Some(1000)) == is_measured);
        of.inspect(|event| assert_numbers(event, &["ts", "dur", "tid"]))
            .map(|event| event["args"]["action"].as_u64().unwrap())
            .collect()
    };
    assert!(actions(false).len() > 20);
    assert_eq!(actions(false), actions(true));
}

#[test]
fn json_is_all_that_is_printed_and_the_same_seed_gives_the_same_losses() {
    let room = Room::new(&motley());
    let first = run(room.cavalcade("train c.toml --out r1 --json")).ok();
    assert_eq!(first.stderr, "");
    let lines: Vec<Value> =
        first.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[..30], metrics(&room, "r1"));
    assert_eq!(lines[30..], [json(&room, "r1/summary.json")]);

    // The resolved configuration with the profile beside it is the same run again.
    let again = "train r1/config.toml --out r2 --json --set profile=r1/profile.json";
    run(room.cavalcade(again)).ok();
    assert_eq!(room.read("r1/plan.toml"), room.read("r2/plan.toml"));
    let losses = |name: &str| -> Vec<Value> {
        metrics(&room, name).iter().map(|step| step["loss"].clone()).collect()
    };
    assert_eq!(losses("r1"), losses("r2"));
    let bytes =
        |name: &str| std::fs::read(room.path(name).join("model/model.safetensors")).unwrap();
    assert!(bytes("r1") == bytes("r2"), "the same weights");

    run(room.cavalcade(&format!("{again} --out r3 --set seed=2").replace("--out r2 ", ""))).ok();
    assert_ne!(losses("r1"), losses("r3"));
}

#[test]
fn a_run_without_a_name_gets_the_next_number() {
    let room = Room::new(&Configuration::new(&[&["a"]]).set("train.steps", 1));
    run(room.cavalcade("train c.toml --json")).ok();
    run(room.cavalcade("train c.toml --json")).ok();
    assert_eq!(room.there(&["runs/c-001", "runs/c-002", "runs/c-003"]).len(), 2);
}

#[test]
fn a_profile_is_measured_once_and_used_again() {
    let room = Room::new(&motley().set("train.steps", 2));
    run(room.cavalcade("probe c.toml --out p.json")).ok();
    run(room.cavalcade("train c.toml --out r --json --set profile=p.json")).ok();
    assert_eq!(json(&room, "p.json"), json(&room, "r/profile.json"));
}
