//! The steps of `cargo xtask ci`, and running them.

use crate::{edges, tidy};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One check that a change has to pass.
struct Step {
    name: &'static str,
    about: &'static str,
    work: Work,
}

enum Work {
    /// cargo with these arguments and variables.
    Cargo { args: &'static [&'static str], vars: &'static [(&'static str, &'static str)] },
    /// As `Cargo`, but only where the subcommand, the first argument, is installed.
    Installed { args: &'static [&'static str], remedy: &'static str },
    /// A check of our own over the workspace's root.
    Own(fn(&Path) -> Result<(), String>),
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ok,
    Failed,
    Skipped(&'static str),
}

/// Every step, the quick ones first.
const STEPS: [Step; 7] = [
    Step {
        name: "fmt",
        about: "rustfmt has nothing to change",
        work: Work::Cargo { args: &["fmt", "--all", "--check"], vars: &[] },
    },
    Step {
        name: "tidy",
        about: "the rules on files that no other tool checks",
        work: Work::Own(tidy::check),
    },
    Step {
        name: "edges",
        about: "no crate depends on one that it may not depend on",
        work: Work::Own(edges::check),
    },
    Step {
        name: "deny",
        about: "licenses, banned crates and sources (needs cargo-deny)",
        work: Work::Installed {
            args: &["deny", "check", "licenses", "bans", "sources"],
            remedy: "not installed; `cargo install cargo-deny --locked` takes some minutes",
        },
    },
    Step {
        name: "clippy",
        about: "no warnings in any target",
        work: Work::Cargo {
            args: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            vars: &[],
        },
    },
    Step {
        name: "doc",
        about: "no warnings in the documentation, private items included",
        work: Work::Cargo {
            args: &["doc", "--workspace", "--no-deps", "--document-private-items"],
            vars: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    },
    Step {
        name: "test",
        about: "all tests",
        work: Work::Cargo { args: &["test", "--workspace"], vars: &[] },
    },
];

/// The steps with what each checks, a line each.
pub(crate) fn steps_text() -> String {
    let line = |step: &Step| format!("  {:<8}{}\n", step.name, step.about);
    STEPS.iter().map(line).collect()
}

/// Runs all steps, or those that `only` names, separated by commas. A step that fails does not
/// stop the next.
///
/// # Errors
/// Names the steps that failed, or a word that is no step.
pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<(), String> {
    let steps = choose(only)?;
    let mut results = Vec::new();
    for step in steps {
        println!("== {}: {}", step.name, step.about);
        let begin = Instant::now();
        let outcome = step.work.run(root);
        results.push((step.name, begin.elapsed(), outcome));
    }
    println!("\n{}", summary(&results));
    let failed = results.iter().filter(|(_, _, outcome)| *outcome == Outcome::Failed);
    let failed: Vec<&str> = failed.map(|(name, _, _)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn choose(only: Option<&str>) -> Result<Vec<&'static Step>, String> {
    let Some(only) = only else { return Ok(STEPS.iter().collect()) };
    let find = |name: &str| {
        STEPS.iter().find(|step| step.name == name).ok_or_else(|| {
            let legal: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            format!("`{name}` is not a step; the steps are {}", legal.join(", "))
        })
    };
    only.split(',').map(find).collect()
}

fn summary(results: &[(&str, Duration, Outcome)]) -> String {
    let mut text = format!("{:<8}{:>8}  outcome\n", "step", "seconds");
    for (name, time, outcome) in results {
        let outcome = match outcome {
            Outcome::Ok => "ok".to_owned(),
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        };
        let seconds = time.as_secs_f64();
        writeln!(text, "{name:<8}{seconds:>8.1}  {outcome}").expect("a string takes any text");
    }
    text
}

impl Work {
    fn run(&self, root: &Path) -> Outcome {
        let is_ok = match *self {
            Self::Cargo { args, vars } => cargo(root, args, vars),
            Self::Installed { args, remedy } => {
                let mut probe = Command::new("cargo");
                probe.args([args[0], "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
                if !probe.status().is_ok_and(|status| status.success()) {
                    return Outcome::Skipped(remedy);
                }
                cargo(root, args, &[])
            }
            Self::Own(check) => match check(root) {
                Ok(()) => true,
                Err(problems) => {
                    eprintln!("{problems}");
                    false
                }
            },
        };
        if is_ok { Outcome::Ok } else { Outcome::Failed }
    }
}

fn cargo(root: &Path, args: &[&str], vars: &[(&str, &str)]) -> bool {
    println!("cargo {}", args.join(" "));
    let status = Command::new("cargo").args(args).envs(vars.to_vec()).current_dir(root).status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo does not start: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, choose, summary};
    use std::time::Duration;

    #[test]
    fn steps_are_chosen_by_name() {
        let names = |only| choose(only).map(|steps| steps.iter().map(|s| s.name).collect());
        assert_eq!(names(Some("test,fmt")), Ok(vec!["test", "fmt"]));
        assert_eq!(names(None).unwrap().len(), super::STEPS.len());
        let error = names(Some("fmt,lint")).unwrap_err();
        assert!(error.starts_with("`lint` is not a step; the steps are fmt, tidy"), "{error}");
    }

    #[test]
    fn the_summary_has_a_row_for_every_step() {
        let text = summary(&[
            ("fmt", Duration::from_millis(1240), Outcome::Ok),
            ("deny", Duration::ZERO, Outcome::Skipped("not installed")),
            ("test", Duration::from_secs(61), Outcome::Failed),
        ]);
        let wanted = "step     seconds  outcome\n\
                      fmt          1.2  ok\n\
                      deny         0.0  skipped: not installed\n\
                      test        61.0  FAILED\n";
        assert_eq!(text, wanted);
    }
}
