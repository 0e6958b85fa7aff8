//! From an error to an exit code.

use cavalcade::{Error, Failure};

/// 0 ok, 1 the check failed.
pub(crate) const OK: u8 = 0;
pub(crate) const CHECK_FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const NO_PLAN: u8 = 3;
const RUN_FAILED: u8 = 4;

pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Error>().map(Error::failure) {
        Some(Failure::BadInput) | None => BAD_INPUT,
        Some(Failure::NoPlan) => NO_PLAN,
        Some(Failure::Run) => RUN_FAILED,
    }
}
