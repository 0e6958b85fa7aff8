//! What the binary says of itself.

use crate::process::run;
use crate::support::{Configuration, Room};
use expect_test::expect;

#[test]
fn every_command_explains_itself() {
    let room = Room::new(&Configuration::new(&[&["a"]]));
    let help = run(room.cavalcade("--help")).ok().stdout;
    assert!(help.contains("Exit codes: 0 ok, 1 the check failed, 2 bad input"), "{help}");
    for command in ["train", "verify", "generate", "probe", "schedule", "worker"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let text = run(room.cavalcade(&format!("{command} --help"))).ok().stdout;
        assert!(text.contains(&format!("Usage: cavalcade {command}")), "{text}");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.len() > 20 && help.contains(first), "{command}: {first}");
    }
}

#[test]
fn the_version_is_the_workspaces() {
    let room = Room::new(&Configuration::new(&[&["a"]]));
    let said = run(room.cavalcade("--version")).ok().stdout;
    assert_eq!(said, format!("cavalcade {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn nonsense_on_the_command_line_is_bad_input() {
    let room = Room::new(&Configuration::new(&[&["a"]]));
    let first_line = |arguments: &str| {
        let ended = run(room.cavalcade(arguments));
        assert_eq!(ended.stdout, "");
        format!("{:?} {}", ended.code, ended.stderr.lines().next().unwrap_or_default())
    };
    expect!["Some(2) error: unrecognized subcommand 'fly'; see --help"]
        .assert_eq(&first_line("fly"));
    expect!["Some(2) error: unexpected argument '--fast' found; see --help"]
        .assert_eq(&first_line("train --fast"));
    let said = first_line("verify c.toml --steps 0");
    assert!(said.starts_with("Some(2) error: invalid value '0' for '--steps <STEPS>'"), "{said}");
}
