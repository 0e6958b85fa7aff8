//! Which crate may depend on which: the one table, and the check of the manifests against it.
//!
//! The table says what is *allowed*; a crate need not use all of it. Tests and benches may use
//! what their crate may, and `testkit` besides.

use crate::workspace::{Crate, crates};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// A row of the table.
struct Row {
    folder: &'static str,
    duty: &'static str,
    may_use: &'static [&'static str],
}

const fn row(folder: &'static str, duty: &'static str, may_use: &'static [&'static str]) -> Row {
    Row { folder, duty, may_use }
}

/// Everything but the binary, the front door itself, and what serves only tests.
const BEHIND_THE_FRONT_DOOR: &[&str] = &[
    "units",
    "cluster",
    "model",
    "profile",
    "schedule",
    "plan",
    "lower",
    "engine",
    "sim",
    "planner",
    "transport",
    "data",
    "checkpoint",
    "nn",
    "runtime",
];

/// The table, a crate before those that use it.
const TABLE: [Row; 19] = [
    row("units", "bytes, time, rates; ids of devices, ranks, chunks, micro-batches", &[]),
    row("cluster", "devices and links; cluster files", &["units"]),
    row("model", "layers, parameters and initial values; reads `config.json`", &["units"]),
    row("profile", "measured layer and link times, and the formula over them", &["units"]),
    row("schedule", "who does what in what order: generators, passes, check, text", &["units"]),
    row(
        "plan",
        "what goes where; checked once; text form",
        &["units", "cluster", "model", "schedule"],
    ),
    row(
        "lower",
        "plan to schedule, profile to costs",
        &["units", "cluster", "model", "profile", "schedule", "plan"],
    ),
    row("engine", "the interpreter, `World` and `Trace`", &["units", "schedule"]),
    row(
        "sim",
        "the virtual world: links, contention, memory",
        &["units", "cluster", "model", "profile", "schedule", "plan", "lower", "engine"],
    ),
    row(
        "planner",
        "layers over stages, micro-batches over pipelines",
        &["units", "cluster", "model", "profile", "plan", "lower", "sim"],
    ),
    row("transport", "messages and collectives between ranks", &["units"]),
    row("data", "tokenizers, corpora, the global order of samples", &["units"]),
    row("checkpoint", "logical tensors on disk", &["units", "model"]),
    row("nn", "executable chunks on Burn", &["units", "model", "profile", "transport"]),
    row(
        "runtime",
        "the real world: workers, coordinator, optimizers",
        &[
            "units",
            "cluster",
            "model",
            "profile",
            "schedule",
            "plan",
            "lower",
            "engine",
            "transport",
            "data",
            "checkpoint",
            "nn",
        ],
    ),
    row("cavalcade", "the library's front door", BEHIND_THE_FRONT_DOOR),
    row("cli", "the binary `cavalcade`", &["cavalcade"]),
    row(
        "testkit",
        "generators for tests; only a dev-dependency",
        &["units", "cluster", "model", "profile", "schedule", "plan"],
    ),
    row("xtask", "automation", &[]),
];

/// Foreign crates that only some of ours may use: errors without a type and command lines end at
/// the binary, so that the library can be used without them.
const ONLY_IN: [(&str, &[&str]); 3] = [("anyhow", &["cli"]), ("clap", &["cli"]), ("burn", &["nn"])];

/// Pairs that never reach each other, however long the way: a prediction that could see the
/// run, or a run that could see the prediction, would prove nothing.
const APART: [(&str, &str); 2] = [("sim", "runtime"), ("runtime", "sim")];

/// What `schedule` may reach at all: it knows no model, tensor, hardware or time.
const SCHEDULE_REACHES: [&str; 1] = ["units"];

/// Checks the workspace at `root`.
///
/// # Errors
/// A line for each crate or dependency that the table does not allow.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let problems = problems(&crates(root)?);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The table in Markdown, as ARCHITECTURE.md has it.
pub(crate) fn markdown() -> String {
    let mut text = "| crate | its one duty | may depend on |\n|---|---|---|\n".to_owned();
    for Row { folder, duty, may_use } in &TABLE {
        let may_use = match *may_use {
            [] => "nothing".to_owned(),
            all if all == BEHIND_THE_FRONT_DOOR => "all above".to_owned(),
            some => some.join(", "),
        };
        writeln!(text, "| {folder} | {duty} | {may_use} |").expect("a string takes any text");
    }
    text
}

fn problems(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for Row { folder, .. } in &TABLE {
        if crates.iter().all(|found| found.folder != *folder) {
            problems.push(format!("{folder} has a row in xtask's table but no folder: remove it"));
        }
    }
    for found in crates {
        let folder = found.folder.as_str();
        let Some(row) = TABLE.iter().find(|row| row.folder == folder) else {
            problems.push(format!("{folder} has no row in xtask's table: add it to edges.rs"));
            continue;
        };
        for dependency in &found.dependencies {
            let name = dependency.name.as_str();
            let is_allowed = if dependency.is_ours {
                row.may_use.contains(&name) || (dependency.is_dev && name == "testkit")
            } else {
                let only = ONLY_IN.iter().find(|(foreign, _)| *foreign == name);
                only.is_none_or(|(_, folders)| folders.contains(&folder))
            };
            if !is_allowed {
                problems.push(format!(
                    "{folder} depends on {name}, which xtask's table does not allow: remove it \
                     from crates/{folder}/Cargo.toml, or argue for the edge in docs/decisions"
                ));
            }
        }
    }
    for (from, to) in APART {
        if reach(crates, from).contains(to) {
            problems.push(format!("{from} reaches {to}; the two never depend on each other"));
        }
    }
    for name in reach(crates, "schedule") {
        if !SCHEDULE_REACHES.contains(&name) {
            problems.push(format!("schedule reaches {name}; it may know units only"));
        }
    }
    problems
}

/// Our crates that `from` is built with, tests apart.
fn reach<'a>(crates: &'a [Crate], from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(folder) = next.pop() {
        let found = crates.iter().find(|found| found.folder == folder);
        for dependency in found.into_iter().flat_map(|found| &found.dependencies) {
            if dependency.is_ours && !dependency.is_dev && reached.insert(&*dependency.name) {
                next.push(&dependency.name);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::{TABLE, problems, reach};
    use crate::workspace::{Crate, Dependency};

    /// A workspace with a crate for each row of the table, and `edges` in it: `from > to` for one
    /// of ours, `from ~ to` for one of ours in tests, `from : to` for a foreign one.
    fn workspace(edges: &[&str]) -> Vec<Crate> {
        let dependencies = |folder: &str| {
            let parse = |edge: &&str| {
                let [from, kind, to] = edge.split(' ').collect::<Vec<_>>()[..] else { panic!() };
                let (is_ours, is_dev) = (kind != ":", kind == "~");
                (from == folder).then(|| Dependency { name: to.to_owned(), is_ours, is_dev })
            };
            edges.iter().filter_map(parse).collect()
        };
        let row =
            |folder: &str| Crate { folder: folder.to_owned(), dependencies: dependencies(folder) };
        TABLE.iter().map(|found| row(found.folder)).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let edges =
            ["sim > engine", "engine > schedule", "sim ~ testkit", "cli : clap", "data : serde"];
        assert_eq!(problems(&workspace(&edges)), [] as [&str; 0]);
    }

    #[test]
    fn forbidden_edges_are_named() {
        for (edge, wanted) in [
            ("units > model", "units depends on model"),
            ("sim > testkit", "sim depends on testkit"),
            ("units ~ sim", "units depends on sim"),
            ("data : anyhow", "data depends on anyhow"),
            ("sim > runtime", "sim reaches runtime"),
            ("schedule > model", "schedule reaches model"),
        ] {
            let problems = problems(&workspace(&[edge]));
            assert!(problems.iter().any(|p| p.starts_with(wanted)), "{edge}: {problems:?}");
        }
    }

    #[test]
    fn crates_and_rows_match() {
        let mut crates = workspace(&[]);
        crates[0].folder = "bytes".to_owned();
        let problems = problems(&crates);
        assert!(problems[0].starts_with("units has a row"), "{problems:?}");
        assert!(problems[1].starts_with("bytes has no row"), "{problems:?}");
    }

    #[test]
    fn long_ways_are_followed_and_tests_are_not() {
        let crates = workspace(&["sim > lower", "lower > plan", "lower ~ data"]);
        assert_eq!(reach(&crates, "sim").into_iter().collect::<Vec<_>>(), ["lower", "plan"]);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (idx, row) in TABLE.iter().enumerate() {
            for name in row.may_use {
                let is_above = TABLE[..idx].iter().any(|above| above.folder == *name);
                assert!(is_above, "{} uses {name}, which is not above it", row.folder);
            }
        }
    }
}
