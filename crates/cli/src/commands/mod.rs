//! One module a command.

mod bench;
mod generate;
mod input;
mod probe;
mod progress;
mod replay;
mod schedule;
mod simulate;
mod train;
mod verify;
mod worker;

use crate::arguments::Command;
use anyhow::Result;

/// Runs a command; returns its exit code.
pub(crate) fn run(command: Command) -> Result<u8> {
    match command {
        Command::Train(arguments) => train::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Schedule(arguments) => schedule::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Worker(arguments) => worker::run(&arguments.config),
    }
}
