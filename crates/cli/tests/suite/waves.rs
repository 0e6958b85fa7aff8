//! Replicas that exchange waves: what a run leaves behind, its replay, and replicas that are lost.

use crate::bad_input::check;
use crate::process::{Running, run, signal, workers};
use crate::support::{Configuration, Room};
use expect_test::expect;
use serde_json::Value;

/// Two replicas of two stages and one of one.
fn waves() -> Configuration {
    Configuration::new(&[&["a", "b"], &["c", "d"], &["e"]])
        .set("sync.mode", "wsp")
        .set("sync.distance", 1)
        .set("sync.in_flight", 2)
        .set("sync.combine", "average")
        .set("model.tied", false)
        .set("train.clip_norm", 0)
        .set("train.steps", 20)
}

fn replayed(room: &Room) -> Value {
    let said = run(room.cavalcade("replay r --json")).ok().stdout;
    serde_json::from_str(&said).unwrap()
}

#[test]
fn a_run_is_the_same_as_its_replay_in_one_process() {
    for (key, word) in [("sync.servers", "local"), ("sync.servers", "round-robin")] {
        let room = Room::new(&waves().set(key, word));
        let said = run(room.cavalcade("train c.toml --out r")).ok().stdout;
        for part in ["waves of 2 micro-batches", "predicted wave", "validation loss"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let metrics = room.read("r/metrics.jsonl");
        assert_eq!(metrics.lines().count(), 20);
        let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
        // Three replicas, two micro-batches of two sequences of 16 tokens.
        assert_eq!(last["tokens"], 20 * 3 * 2 * 2 * 16);
        let replay = replayed(&room);
        assert_eq!(replay["passed"], true, "{replay}");
        assert_eq!(replay["waves"], 20);
        assert_eq!(replay["local_staleness"], serde_json::json!([1, 1]));
        assert_eq!(replay["global_staleness"][1], 4);
    }
}

#[test]
fn a_changed_weight_or_log_is_found() {
    let room = Room::new(&waves());
    run(room.cavalcade("train c.toml --out r")).ok();
    let log = room.read("r/versions.jsonl");
    // Another version than the run went on with, and not too old a one.
    let at = "\"wave\":9,\"version\":";
    let (before, after) = log.split_once(at).unwrap();
    let (version, rest) = after.split_once('}').unwrap();
    let other = if version == "9" { 8 } else { 9 };
    room.write("r/versions.jsonl", format!("{before}{at}{other}}}{rest}"));
    let ended = run(room.cavalcade("replay r"));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("NOT equal"), "{}", ended.stdout);
    room.write("r/versions.jsonl", "{}\n");
    let ended = run(room.cavalcade("replay r"));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("versions.jsonl: line 1"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let room = Room::new(&Configuration::new(&[&["a"]]));
    run(room.cavalcade("train c.toml --out r")).ok();
    let ended = run(room.cavalcade("replay r"));
    assert_eq!(ended.code, Some(2));
    expect![[r#"
        error: r: the run summed its gradients at every step, so there is nothing to replay; compare it with one process by `cavalcade verify`
    "#]]
    .assert_eq(&ended.stderr);
}

#[test]
fn settings_that_make_no_sense_without_a_flush() {
    let refusals = [
        (
            waves().set("train.clip_norm", 1),
            expect![[r#"
            2: error: c.toml: train.clip_norm: the norm of a whole gradient is known only at
            a flush, and sync.mode exchanges waves without one; set train.clip_norm to 0"#]],
        ),
        (
            waves().set("model.tied", true),
            expect![[r#"
            2: error: c.toml: model.tied: true, but the two copies of a tied embedding on a
            pipeline would drift apart without a flush; set model.tied to false"#]],
        ),
        (
            waves().set("plan.schedule", "gpipe"),
            expect![[r#"
            2: error: c.toml: plan.schedule: `gpipe` ends every step with a flush, and
            sync.mode exchanges waves without one; leave plan.schedule out, or set sync.mode
            to "flush""#]],
        ),
        (
            waves().set("plan.schedule", "hetpipe:3"),
            expect![[r#"
            2: error: c.toml: sync.in_flight: 2, but plan.schedule is `hetpipe:3`; say how
            many are in flight in one place"#]],
        ),
        (
            waves().set("sync.mode", "async"),
            expect![[r#"
            2: error: c.toml: sync.in_flight: sync.mode "async" hands over every micro-batch
            before the next one begins: leave this out, or use "wsp""#]],
        ),
        (
            waves().set("sync.servers", "everywhere"),
            expect![[r#"
            2: error: c.toml: sync.servers: `everywhere` is not a placement of servers; use
            local or round-robin"#]],
        ),
        (
            waves().set("sync.beta1", 1),
            expect!["2: error: c.toml: sync.beta1: 1 is not at least 0 and below 1"],
        ),
        (
            waves().set("pipeline.0.microbatches", 4),
            expect![[r#"
            2: error: c.toml: pipeline[0].microbatches is set, but replicas that exchange
            waves take sync.in_flight micro-batches a wave each; leave it out"#]],
        ),
        (
            Configuration::new(&[&["a"]]).set("sync.elastic", true),
            expect![[r#"
            2: error: c.toml: sync.elastic: true, but without waves every replica is needed
            in every step; set sync.mode to "wsp", or this to false"#]],
        ),
        (
            waves().set("plan.recompute", "all"),
            expect![[r#"
            2: error: c.toml: plan.recompute: "all", but without a flush a forward that runs
            again would meet newer weights than the first time; set it to "none""#]],
        ),
        (
            waves().set("sync.distance", 4_294_967_295_i64),
            expect!["2: error: c.toml: sync.distance: 4294967295 waves; at most 1024 can be"],
        ),
    ];
    for (configuration, expected) in refusals {
        check(configuration, expected);
    }
}

/// A run that is long enough to lose a replica on the way.
fn long() -> Configuration {
    waves().set("train.steps", 3000)
}

fn kill(room: &Room, rank: usize) -> Running {
    let mut running = Running::start(room.cavalcade("train c.toml --out r --json"));
    running.wait_for_step(5);
    let victims = workers(room);
    assert_eq!(victims[rank].variable("RANK"), Some(&rank.to_string()[..]));
    signal(victims[rank].pid, "KILL");
    running
}

#[test]
fn an_elastic_run_goes_on_without_a_replica_and_replays() {
    for (rank, others) in [(3, "2, 3"), (4, "4")] {
        let room = Room::new(&long().set("sync.elastic", true).set("train.steps", 600));
        let ended = kill(&room, rank).end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let said = format!("going on without ranks {others}");
        assert!(ended.stderr.contains(&said), "{}", ended.stderr);
        assert!(ended.stderr.contains("killed by signal 9 (SIGKILL)"), "{}", ended.stderr);
        assert!(workers(&room).is_empty());
        assert!(room.read("r/versions.jsonl").contains("\"left\""));
        assert_eq!(replayed(&room)["passed"], true);
    }
}

#[test]
fn a_lost_replica_ends_a_run_that_is_not_elastic_and_a_lost_server_any() {
    for (elastic, rank, device) in [(false, 3, "d"), (true, 0, "a"), (true, 1, "b")] {
        let room = Room::new(&long().set("sync.elastic", elastic));
        let ended = kill(&room, rank).end();
        assert_eq!(ended.code, Some(4));
        let expected = format!("error: rank {rank} (device {device}) ended during the run: killed");
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
        assert!(workers(&room).is_empty());
    }
}
