//! Runs that end too early: what is said, what is left behind, and that nobody lives on.

use crate::process::{Running, run, signal, wait_for_workers_to_end, workers};
use crate::support::{Configuration, Room};
use expect_test::expect;
use serde_json::Value;
use std::fs::File;
use std::time::Instant;

/// More steps than any test waits for.
const ENDLESS: i64 = 1_000_000;

fn square() -> Configuration {
    Configuration::new(&[&["a", "b"], &["c", "d"]]).set("train.steps", ENDLESS)
}

/// A run that has done some steps.
fn under_way(room: &Room) -> Running {
    let mut running = Running::start(room.cavalcade("train c.toml --out r --json"));
    running.wait_for_step(3);
    running
}

/// What an ended run leaves is whole, and says nothing of a success.
fn assert_whole(room: &Room) {
    for name in ["config.toml", "plan.toml"] {
        room.read(&format!("r/{name}")).parse::<toml::Table>().unwrap();
    }
    assert!(room.read("r/schedule.txt").starts_with("cavalcade schedule 1\n"));
    let metrics = room.read("r/metrics.jsonl");
    assert!(metrics.ends_with('\n'), "{metrics}");
    for (idx, line) in metrics.lines().enumerate() {
        let step: Value = serde_json::from_str(line).unwrap();
        assert_eq!(step["step"], idx + 1);
    }
    let mut names: Vec<String> = std::fs::read_dir(room.path("r"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let first = ["config.toml", "metrics.jsonl", "plan.toml", "profile.json", "schedule.txt"];
    assert_eq!(names, first);
}

#[test]
fn a_killed_worker_is_named_and_ends_the_run() {
    for rank in 0..4 {
        let room = Room::new(&square());
        let running = under_way(&room);
        let victims = workers(&room);
        assert_eq!(victims.len(), 4);
        assert_eq!(victims[rank].variable("RANK"), Some(&rank.to_string()[..]));
        let killed = Instant::now();
        signal(victims[rank].pid, "KILL");
        let ended = running.end();
        eprintln!("rank {rank}: the run ended {:?} after its worker", killed.elapsed());
        assert_eq!(ended.code, Some(4));
        let device = ["a", "b", "c", "d"][rank];
        let expected = format!(
            "error: rank {rank} (device {device}) ended during the run: killed by signal 9 \
             (SIGKILL)\n"
        );
        assert_eq!(ended.stderr, expected);
        assert!(workers(&room).is_empty(), "{:?}", workers(&room));
        assert_whole(&room);
    }
}

#[test]
fn an_interrupted_run_ends_its_workers() {
    for name in ["INT", "TERM"] {
        let room = Room::new(&square());
        let running = under_way(&room);
        signal(running.pid(), name);
        let ended = running.end();
        assert_eq!(ended.code, Some(4), "{name}");
        let said = "interrupted: ending the workers\nerror: interrupted\n";
        assert_eq!(ended.stderr, said);
        assert!(workers(&room).is_empty(), "{:?}", workers(&room));
        assert_whole(&room);
    }
}

#[test]
fn workers_end_when_their_launcher_is_killed() {
    for pipelines in [&[&["a", "b"][..], &["c"]][..], &[&["a"]]] {
        let room = Room::new(&Configuration::new(pipelines).set("train.steps", ENDLESS));
        let running = under_way(&room);
        assert!(!workers(&room).is_empty());
        signal(running.pid(), "KILL");
        assert_eq!(running.end().code, None);
        wait_for_workers_to_end(&room);
        assert_whole(&room);
    }
}

#[test]
fn a_worker_that_cannot_begin_is_quoted() {
    // Only the launcher has this input: each worker's own is empty.
    let room = Room::new(&Configuration::new(&[&["a"]]));
    let mut command = room.cavalcade("train c.toml --out r --json --set data.path=/dev/stdin");
    command.stdin(File::open(room.path("text.txt")).unwrap());
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""));
    expect![[r#"
        error: rank 0 (device a) ended during the run: exit status: 2; it said: error:
        /dev/stdin is empty; leave it out, or name a file with text"#]]
    .assert_eq(&room.masked(&ended.stderr));
    assert!(workers(&room).is_empty());
}

#[test]
fn a_run_that_diverges_says_so() {
    let configuration = Configuration::new(&[&["a", "b"], &["c", "d", "e"]])
        .set("model.layers", 3)
        .set("optimizer.learning_rate", 1e30)
        .set("train.clip_norm", 0.0)
        .set("train.steps", ENDLESS);
    let room = Room::new(&configuration);
    let ended = run(room.cavalcade("train c.toml --out r --json"));
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let said = &ended.stderr;
    assert!(said.contains("failed: the") && said.contains("optimizer.learning_rate"), "{said}");
    assert!(workers(&room).is_empty());
    assert_whole(&room);
}

#[test]
fn results_that_cannot_be_written_are_a_failed_run() {
    let room = Room::new(&Configuration::new(&[&["a"]]).set("train.steps", 2000));
    let running = under_way(&room);
    room.write("r/model", "a file where the folder has to be");
    let ended = running.end();
    assert_eq!(ended.code, Some(4));
    expect!["error: r/model: cannot be written: File exists (os error 17)"]
        .assert_eq(&room.masked(&ended.stderr));
    assert_eq!(room.there(&["r/summary.json", "r/trace.json"]), Vec::<&str>::new());
}
