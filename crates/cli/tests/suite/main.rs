//! The command line, through the built binary and with real worker processes.
//!
//! Models are tiny, so that what is tested is everything around the arithmetic: arguments, exit
//! codes, messages, processes, files.

#![expect(clippy::unwrap_used, reason = "helpers of tests are test code too")]

mod bad_input;
mod bad_plan;
mod bench;
mod by_hand;
mod endings;
mod generate;
mod help;
mod images;
mod process;
mod support;
mod train;
mod verify;
mod waves;
