//! `verify`: worker processes against one process.

use crate::process::{Ended, run, workers};
use crate::support::{Configuration, Room};
use toml::{Table, Value};

fn verify(configuration: &Configuration, more: &str) -> Ended {
    let room = Room::new(configuration);
    let ended = run(room.cavalcade(&format!("verify c.toml --steps 3 --json {more}")));
    assert!(workers(&room).is_empty());
    ended
}

/// Two replicas of two stages, tied and clipped.
fn square() -> Configuration {
    let configuration = Configuration::new(&[&["a", "b"], &["c", "d"]]);
    configuration
        .layers(0, &["0..2", "2..4"])
        .layers(1, &["0..1", "1..4"])
        .set("train.clip_norm", 0.1)
}

#[test]
fn tied_and_clipped_replicas_equal_one_process() {
    let result = verify(&square(), "").ok().last_json();
    assert_eq!(result["passed"], true);
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3);
    for (idx, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], idx + 1);
        assert_eq!(step["clipped"], true, "{step}");
        assert!(step["loss"].as_f64().unwrap() > 0.5, "{step}");
        for difference in ["loss_difference", "gradient_difference", "weight_difference"] {
            assert!(step[difference].as_f64().unwrap() <= 1e-5, "{step}");
        }
    }
}

#[test]
fn replicas_of_unlike_depth_equal_one_process() {
    let configuration = Configuration::new(&[&["a"], &["b", "c", "d"]])
        .set("model.layers", 3)
        .layers(1, &["0..1", "1..3", "3..5"])
        .set("pipeline.0.microbatches", 1);
    assert_eq!(verify(&configuration, "").ok().last_json()["passed"], true);
}

#[test]
fn split_and_recomputed_passes_equal_one_process() {
    let recomputed = square().set("plan.recompute", "all");
    for configuration in [
        square().set("plan.schedule", "zb-h1"),
        square().set("plan.split_backward", true),
        recomputed.set("plan.split_backward", true).set("plan.offload", 1),
    ] {
        assert_eq!(verify(&configuration, "").ok().last_json()["passed"], true);
    }
}

#[test]
fn sums_by_tree_and_by_server_equal_one_process() {
    for way in ["tree", "server"] {
        let configuration = square().set("plan.reduce", way);
        assert_eq!(verify(&configuration, "").ok().last_json()["passed"], true, "{way}");
    }
}

/// One model over four processes, in the way that each kind of schedule wants its stages to lie.
#[test]
fn every_schedule_with_a_flush_equals_one_process() {
    let there = ["a", "b", "c", "d"];
    let back = there.into_iter().rev();
    let folded: Vec<&str> = there.into_iter().chain(back.clone()).collect();
    let pipelines = |rows: &[Vec<&str>]| {
        let row = |row: &Vec<&str>| Table::from_iter([("devices".to_owned(), row.clone().into())]);
        Value::Array(rows.iter().map(|names| Value::Table(row(names))).collect())
    };
    let apart = pipelines(&[there.to_vec()]);
    let layouts = [
        ("gpipe 1f1b 1f1b:a2 1f1b:b geo:2+2 zb-h1 zb-h2 solve solve:6", &apart),
        ("interleaved", &pipelines(&[there.repeat(2)])),
        ("zb-v v-half v-min dualpipe-v", &pipelines(&[folded])),
        ("chimera", &pipelines(&[there.to_vec(), back.collect()])),
    ];
    for (kinds, pipelines) in layouts {
        for kind in kinds.split(' ') {
            let configuration = Configuration::new(&[&there])
                .set("model.layers", 6)
                .set("train.microbatch", 1)
                .set("pipeline", pipelines.clone())
                .set("plan.schedule", kind);
            let result = verify(&configuration, "").ok().last_json();
            assert_eq!(result["passed"], true, "{kind}: {result}");
        }
    }
}

#[test]
fn a_difference_beyond_the_tolerance_is_exit_code_1() {
    let ended = verify(&square(), "--tolerance 0");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let result = ended.last_json();
    assert_eq!(result["passed"], false);
    assert_eq!(result["tolerance"], 0.0);
}

#[test]
fn a_person_gets_a_table_and_a_verdict() {
    let room = Room::new(&square());
    let said = run(room.cavalcade("verify c.toml --steps 2")).ok().stdout;
    assert!(said.contains("d gradient") && said.contains("\nequal to one process"), "{said}");
    assert_eq!(room.there(&["runs", "profile.json"]), Vec::<&str>::new());
}
