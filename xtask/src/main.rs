//! Automation: `cargo xtask ci` is what a change has to pass, `cargo xtask edges` shows which
//! crate may depend on which.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program only prints")]

mod ci;
mod edges;
mod figures;
mod schedules;
mod tidy;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask COMMAND

Commands:
  ci [--only STEP[,STEP]]   run the checks that a change has to pass; all of them run, and the
                            exit code is 1 if any fails
  edges [--markdown]        check the dependencies between the crates; with --markdown, print the
                            table of those that are allowed
  figures [RUNS]            run the default training RUNS times (3) and print the table that
                            docs/benchmarks keeps
  schedules [STEPS SPEED]   train STEPS steps (30) with every kind of schedule on four emulated
                            devices of SPEED (0.1) and print predicted and measured step times
  help                      this text

Steps of ci:
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
    let outcome = match words[..] {
        ["ci"] => ci::run(root, None),
        ["ci", "--only", steps] => ci::run(root, Some(steps)),
        ["figures"] => figures::run(root, 3),
        ["figures", runs] => match runs.parse() {
            Ok(runs @ 1..=100) => figures::run(root, runs),
            _ => Err(format!("`{runs}` is not a number of runs from 1 to 100")),
        },
        ["schedules"] => schedules::run(root, 30, 0.1),
        ["schedules", steps, speed] => match (steps.parse(), speed.parse()) {
            (Ok(steps @ 1..=10_000), Ok(speed)) => schedules::run(root, steps, speed),
            _ => Err(format!("`{steps} {speed}` are not a number of steps and a speed")),
        },
        ["edges"] => edges::check(root),
        ["edges", "--markdown"] => {
            print!("{}", edges::markdown());
            Ok(())
        }
        [] | ["help" | "--help" | "-h"] | ["ci", "--help" | "-h"] => {
            print!("{HELP}{}", ci::steps_text());
            Ok(())
        }
        _ => {
            eprintln!("`{}` is not a command\n\n{HELP}{}", words.join(" "), ci::steps_text());
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}
