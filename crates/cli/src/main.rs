//! The binary `cavalcade`: arguments in, text out, exit codes.
//!
//! Exit codes: 0 ok, 1 the check failed, 2 bad input, 3 no plan fits, 4 the run failed.
//!
//! Invariant: nothing is decided here that a user of the library could not have too.

mod arguments;
mod commands;
mod exit;
mod memory;
mod output;
mod place;
mod times;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::explain(&error),
    };
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(exit::code_of(&error))
        }
    }
}
