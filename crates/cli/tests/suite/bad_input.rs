//! Bad input: one line that names the place, what was found and what is legal; exit code 2, or 3
//! where no plan fits; and nothing left behind.

use crate::process::{run, workers};
use crate::support::{Configuration, Room};
use expect_test::{Expect, expect};
use std::net::TcpListener;

/// One pipeline of two devices, one of one.
pub(crate) fn motley() -> Configuration {
    Configuration::new(&[&["a", "b"], &["c"]])
}

/// The exit code and the message of `train c.toml --out new/r` with `more`.
pub(crate) fn refusal(room: &Room, more: &str) -> String {
    let ended = run(room.cavalcade(&format!("train c.toml --out new/r --json {more}")));
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(room.there(&["new", "runs", "profile.json"]), Vec::<&str>::new());
    assert!(workers(room).is_empty());
    room.masked(&format!("{}: {}", ended.code.unwrap(), ended.stderr))
}

#[expect(clippy::needless_pass_by_value, reason = "so that a literal can be given")]
pub(crate) fn check(configuration: Configuration, expected: Expect) {
    expected.assert_eq(&refusal(&Room::new(&configuration), ""));
}

#[expect(clippy::needless_pass_by_value, reason = "so that a literal can be given")]
fn check_set(overrides: &str, expected: Expect) {
    expected.assert_eq(&refusal(&Room::new(&motley()), overrides));
}

#[test]
fn unknown_keys() {
    check(
        motley().set("train.stepz", 3),
        expect![[r#"
        2: error: c.toml:35: unknown field `stepz`, expected one of `steps`,
        `global_batch`, `microbatch`, `clip_norm`, `validation_windows`"#]],
    );
    check(
        motley().set("pipeline.0.layer", 3),
        expect![[r#"
        2: error: c.toml:27: unknown field `layer`, expected one of `devices`, `layers`,
        `microbatches`"#]],
    );
    check(
        motley().set("device.1.sped", 3),
        expect![[r#"
            2: error: c.toml:11: unknown field `sped`, expected one of `name`, `speed`,
            `memory`, `threads`, `flops`, `efficiency`, `node`, `site`"#]],
    );
    check(
        motley().set("modle.width", 3),
        expect![[r#"
            2: error: c.toml:21: unknown field `modle`, expected one of `seed`, `profile`,
            `model`, `data`, `train`, `optimizer`, `plan`, `sync`, `launch`, `pipeline`,
            `device`, `link`, `links`, `network`"#]],
    );
}

#[test]
fn wrong_types() {
    check(
        motley().set("train.steps", "many"),
        expect![[r#"
            2: error: c.toml:34: invalid type: string "many", expected a whole number of at
            least 0"#]],
    );
    check(
        motley().set("train.steps", -1),
        expect![[r#"
            2: error: c.toml:34: invalid value: integer `-1`, expected a whole number of at
            least 0"#]],
    );
    check(
        motley().set("model.tied", 1),
        expect!["2: error: c.toml:19: invalid type: integer `1`, expected a boolean"],
    );
    check(
        motley().set("data.path", 1),
        expect!["2: error: c.toml:4: data.path has to be a path or a list of paths"],
    );
    check(
        motley().set("data.tokenizer", "bpe"),
        expect!["2: error: c.toml:5: unknown variant `bpe`, expected `byte` or `char`"],
    );
    check(
        motley().set("device.1.memory", "much"),
        expect![[r#"
        2: error: c.toml: device: device `b`, memory: `much` is not an amount of memory;
        write a number and a unit, such as `64 MiB`"#]],
    );
    check(
        motley().set("link.latency", "5"),
        expect![[r#"
        2: error: c.toml: link: [link], latency: `5` is not a span of time; write a
        number and a unit, such as `100 us`"#]],
    );
    check(
        motley().set("launch.bind", "here"),
        expect!["2: error: c.toml: launch.bind: `here` is not an IP address such as 127.0.0.1"],
    );
}

#[test]
fn overrides() {
    check_set(
        "--set train.steps",
        expect!["2: error: --set train.steps: expected key=value, such as train.steps=50"],
    );
    check_set(
        "--set train.stepz=3",
        expect![[r#"
        2: error: --set train.stepz=3: unknown field `stepz`, expected one of `steps`,
        `global_batch`, `microbatch`, `clip_norm`, `validation_windows`"#]],
    );
    check_set(
        "--set train.steps=many",
        expect![[r#"
            2: error: --set train.steps=many: invalid type: string "many", expected a whole
            number of at least 0"#]],
    );
    check_set(
        "--set train.steps=0",
        expect!["2: error: c.toml: (with --set) train.steps: 0 steps; at least 1 is needed"],
    );
    check_set(
        "--set data.path=nowhere.txt",
        expect!["2: error: there is no file or folder FOLDER/nowhere.txt; check the path"],
    );
    check_set(
        "--set profile=nowhere.json",
        expect![[r#"
        2: error: cannot access the profile FOLDER/nowhere.json: No such file or
        directory (os error 2); check the path and its permissions"#]],
    );
}

#[test]
fn files_of_configuration() {
    let room = Room::new(&motley());
    let mut config = room.read("c.toml");
    config.push_str("\n[model\n");
    room.write("c.toml", config);
    expect!["2: error: c.toml:37: unclosed table, expected `]`"].assert_eq(&refusal(&room, ""));
    room.write("c.toml", [0xff, 0xfe]);
    expect!["2: error: c.toml: cannot be read: stream did not contain valid UTF-8"]
        .assert_eq(&refusal(&room, ""));
    std::fs::remove_file(room.path("c.toml")).unwrap();
    expect!["2: error: c.toml: cannot be read: No such file or directory (os error 2)"]
        .assert_eq(&refusal(&room, ""));
}

#[test]
fn texts() {
    let room = Room::new(&motley());
    room.write("text.txt", "");
    expect!["2: error: FOLDER/text.txt is empty; leave it out, or name a file with text"]
        .assert_eq(&refusal(&room, ""));
    room.write("text.txt", b"good line\nbad \xff byte\n");
    expect![[r#"
        2: error: FOLDER/text.txt: the byte 0xFF at offset 14 (line 2) is not UTF-8;
        convert the file to UTF-8 or leave it out"#]]
    .assert_eq(&refusal(&room, ""));
    room.write("text.txt", "too short");
    expect![[r#"
        2: error: the text gives 9 training tokens; a window of 16 tokens and the target
        of its last need 17: use more text or a shorter context"#]]
    .assert_eq(&refusal(&room, ""));
    std::fs::remove_file(room.path("text.txt")).unwrap();
    expect!["2: error: there is no file or folder FOLDER/text.txt; check the path"]
        .assert_eq(&refusal(&room, ""));
    expect![[r#"
        2: error: `FOLDER/*.text` matches no file below FOLDER; `*` stays within a
        folder, `**/` goes below, and folders named target, .git or runs are left out"#]]
    .assert_eq(&refusal(&room, "--set data.path=*.text"));
}

#[test]
fn a_profile_of_another_model() {
    let room = Room::new(&motley());
    run(room.cavalcade("probe c.toml --out p.json --set model.width=32")).ok();
    let said = refusal(&room, "--set profile=p.json");
    assert!(said.starts_with("2: error: FOLDER/p.json: the profile is of model "), "{said}");
    assert!(said.ends_with("measure it again with `cavalcade probe`"), "{said}");
    room.write("p.json", "{}");
    expect![[r#"
        2: error: FOLDER/p.json: not a profile: missing field `version` at line 1 column
        2; measure it again"#]]
    .assert_eq(&refusal(&room, "--set profile=p.json"));
}

#[test]
fn a_busy_port() {
    let room = Room::new(&motley());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let said = refusal(&room, &format!("--set launch.port={port}"));
    expect![[r#"
        2: error: launch.bind and launch.port: 127.0.0.1:PORT cannot be used: listening
        on 127.0.0.1:PORT failed: Address already in use (os error 98); choose another
        address, or port 0 for any free one"#]]
    .assert_eq(&said.replace(&port.to_string(), "PORT"));
    // A folder that was there stays, and stays empty.
    std::fs::create_dir(room.path("empty")).unwrap();
    let arguments = format!("train c.toml --out empty --set launch.port={port}");
    assert_eq!(run(room.cavalcade(&arguments)).code, Some(2));
    assert_eq!(std::fs::read_dir(room.path("empty")).unwrap().count(), 0);
}

#[test]
fn folders_that_a_run_cannot_have() {
    let room = Room::new(&motley());
    let refused = |out: &str| {
        let ended = run(room.cavalcade(&format!("train c.toml --json --out {out}")));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        room.masked(&ended.stderr)
    };
    expect![[r#"
        error: text.txt/deep/r: cannot be written: Not a directory (os error 20); name
        another folder"#]]
    .assert_eq(&refused("text.txt/deep/r"));
    expect![[r#"
        error: text.txt: cannot be written: Not a directory (os error 20); name another
        folder"#]]
    .assert_eq(&refused("text.txt"));
    std::fs::create_dir(room.path("taken")).unwrap();
    room.write("taken/notes.txt", "mine");
    expect![[r#"
        error: taken: cannot be written: it is there already and not empty; name another
        folder"#]]
    .assert_eq(&refused("taken"));
    assert_eq!(room.read("taken/notes.txt"), "mine");
    assert_eq!(std::fs::read_dir(room.path("taken")).unwrap().count(), 1);
}
