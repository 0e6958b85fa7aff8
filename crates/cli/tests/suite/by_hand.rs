//! Ranks that are started by hand or by another launcher, and those that do not belong.

use crate::process::{Ended, Running, run, workers};
use crate::support::{Configuration, Room};
use expect_test::expect;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

const SECRET: &str = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2";
const OTHER_SECRET: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Rank 1 of the two is not started by the launcher.
fn external(port: u16) -> Room {
    let configuration = Configuration::new(&[&["a", "b"]])
        .layers(0, &["0..2", "2..4"])
        .set("launch.external_ranks", vec![1])
        .set("launch.port", i64::from(port));
    Room::new(&configuration)
}

/// The environment that launchers give to a rank of two.
fn placed(mut command: Command, rank: u32, port: u16, secret: &str) -> Command {
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2").env("MASTER_ADDR", "127.0.0.1");
    command.env("MASTER_PORT", port.to_string()).env("CAVALCADE_SECRET", secret);
    command
}

/// Rank 1, started by hand.
fn rank_1(room: &Room, port: u16, secret: &str, more: &str) -> Running {
    let config = room.path("c.toml").display().to_string();
    let command = room.cavalcade(&format!("worker {config} {more}"));
    Running::start(placed(command, 1, port, secret))
}

fn launcher(room: &Room, arguments: &str) -> Running {
    let mut command = room.cavalcade(arguments);
    command.env("CAVALCADE_SECRET", SECRET);
    Running::start(command)
}

fn losses(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["loss"].clone()).filter(|loss| !loss.is_null()).collect()
}

#[test]
fn a_rank_started_by_hand_does_the_same() {
    let port = free_port();
    let room = external(port);
    let waiting = launcher(&room, "train c.toml --out r --json");
    let worker = rank_1(&room, port, SECRET, "");
    let by_hand = waiting.end().ok();
    worker.end().ok();
    assert!(by_hand.stderr.contains("for ranks [1]"), "{}", by_hand.stderr);
    let alone = run(room.cavalcade("train c.toml --out r2 --json --set launch.external_ranks=[]"));
    assert_eq!(losses(&by_hand), losses(&alone.ok()));
    assert_eq!(losses(&by_hand).len(), 8);
}

#[test]
fn a_rank_started_by_hand_can_be_verified() {
    let port = free_port();
    let room = external(port);
    // The rank may be there before its coordinator.
    let worker = rank_1(&room, port, SECRET, "");
    let verification = launcher(&room, "verify c.toml --steps 3 --json").end().ok();
    worker.end().ok();
    assert_eq!(verification.last_json()["passed"], true);
}

#[test]
fn all_ranks_started_alike_find_each_other() {
    let port = free_port();
    let room = Room::new(&Configuration::new(&[&["a", "b"]]));
    let start = |rank| {
        let command = room.cavalcade("train c.toml --out r --json");
        Running::start(placed(command, rank, port, SECRET))
    };
    let (second, first) = (start(1), start(0));
    let (first, second) = (first.end().ok(), second.end().ok());
    assert_eq!(losses(&first).len(), 8);
    assert_eq!(second.stdout, "");
    assert!(room.path("r/summary.json").exists());
}

#[test]
fn a_rank_that_differs_is_named_and_ends_the_run() {
    let port = free_port();
    let room = external(port);
    room.write("other.txt", room.read("text.txt").replace("mat", "tam"));
    let refused = |more: &str| {
        let waiting = launcher(&room, "train c.toml --json");
        let worker = rank_1(&room, port, SECRET, more).end();
        assert_eq!(worker.code, Some(4), "{}", worker.stderr);
        assert_eq!(worker.stderr.lines().count(), 1, "{}", worker.stderr);
        let ended = waiting.end();
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(workers(&room).is_empty());
        ended.stderr.lines().last().unwrap().to_owned()
    };
    let said = "error: rank 1 has the setting `model.width = 32`, but the run has \
                `model.width = 16`; start all ranks alike";
    assert_eq!(refused("--set model.width=32"), said);
    let said = refused("--set data.path=other.txt");
    assert!(said.starts_with("error: rank 1 has training text "), "{said}");
    assert!(said.contains("every rank reads data.path for itself"), "{said}");
}

#[test]
fn a_wrong_secret_keeps_nobody_else_out() {
    let port = free_port();
    let room = external(port);
    let waiting = launcher(&room, "train c.toml --out r --json");
    let stranger = rank_1(&room, port, OTHER_SECRET, "").end();
    assert_eq!(stranger.code, Some(4), "{}", stranger.stderr);
    assert_eq!(stranger.stderr.lines().count(), 1, "{}", stranger.stderr);
    assert!(stranger.stderr.contains("secret"), "{}", stranger.stderr);
    assert!(!stranger.stderr.contains(OTHER_SECRET), "{}", stranger.stderr);
    let worker = rank_1(&room, port, SECRET, "");
    assert_eq!(losses(&waiting.end().ok()).len(), 8);
    worker.end().ok();
}

#[test]
fn the_secret_is_on_no_command_line_and_in_no_file() {
    let configuration = Configuration::new(&[&["a", "b"]]).set("train.steps", 1_000_000);
    let room = Room::new(&configuration);
    let mut running = Running::start(room.cavalcade("train c.toml --out r --json"));
    running.wait_for_step(1);
    let workers = workers(&room);
    assert_eq!(workers.len(), 2);
    let secret = workers[0].variable("CAVALCADE_SECRET").unwrap();
    assert_eq!(secret.len(), 64);
    assert!(workers.iter().all(|worker| !worker.command_line.contains(secret)));
    for entry in std::fs::read_dir(room.path("r")).unwrap() {
        let name = format!("r/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(!room.read(&name).contains(secret), "{name}");
    }
}

#[test]
fn a_place_that_makes_no_sense_is_bad_input() {
    let room = external(0);
    let refused = |command: Command| {
        let ended = run(command);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        assert_eq!(room.there(&["r", "runs"]), Vec::<&str>::new());
        room.masked(&ended.stderr)
    };
    let train = || room.cavalcade("train c.toml --out r --json");
    let wide = |mut command: Command| {
        command.env("WORLD_SIZE", "3");
        command
    };
    expect![[r#"
        error: launch.external_ranks is set: neither CAVALCADE_SECRET_FILE nor
        CAVALCADE_SECRET is set: all ranks of a run share 64 hexadecimal digits, such as
        those of `openssl rand -hex 32`"#]]
    .assert_eq(&refused(train()));
    expect!["error: WORLD_SIZE=3, but the plan uses 2 devices"].assert_eq(&refused(wide(placed(
        train(),
        0,
        1,
        SECRET,
    ))));
    expect!["error: RANK=2 but WORLD_SIZE=2: ranks are 0..2"].assert_eq(&refused(placed(
        train(),
        2,
        1,
        SECRET,
    )));
    expect!["error: the run's secret is not 64 hexadecimal digits"].assert_eq(&refused(placed(
        train(),
        0,
        1,
        "5ec2e7",
    )));
    expect![[r#"
        error: RANK is not set: a launcher sets it, or you do when starting a rank by
        hand"#]]
    .assert_eq(&refused(room.cavalcade("worker c.toml")));
}
