//! How many micro-batches every virtual worker can keep in flight.
//!
//! HetPipe's Nm (Park et al. 2020, section on pipelined model parallelism): the same in every
//! virtual worker, and at most what the memory of the weakest allows, with the order and the cut
//! chosen anew for each count. Counts are tried from the top: memory usually grows with the count,
//! but nothing here depends on it.

use std::error::Error;
use thiserror::Error;

/// The most micro-batches in flight, and how each virtual worker carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight<A> {
    /// Micro-batches in flight in each virtual worker, at least 1.
    pub n_microbatches: u32,
    /// Each virtual worker's arrangement.
    pub arrangements: Vec<A>,
    /// A virtual worker that does not carry one more; None if all might, but no more were wanted.
    pub bound_by: Option<usize>,
}

/// No count fits. Virtual workers are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InFlightError<E: Error + 'static> {
    /// A virtual worker fits with no count.
    #[error(
        "virtual worker {worker} fits with none of 1 to {most} micro-batches in flight; with 1: \
         {source}"
    )]
    Worker {
        /// The first such virtual worker.
        worker: usize,
        /// The most that were tried.
        most: u32,
        /// What it lacks with one micro-batch.
        source: E,
    },
    /// Each virtual worker fits with some count, but all together with none. That takes memory
    /// that falls as the count grows.
    #[error(
        "each virtual worker fits with some of 1 to {most} micro-batches in flight, but no count \
         fits all of them; give each more memory, or let memory grow with the count"
    )]
    NoCommon {
        /// The most that were tried.
        most: u32,
    },
}

/// The largest count up to `most` with which each of `n_workers` virtual workers has an
/// arrangement. `arrange(worker, count)` gives it, or what it lacks.
///
/// # Errors
/// There is no such count.
///
/// # Panics
/// If there is no virtual worker, or `most` is 0.
pub fn most_in_flight<A, E: Error + 'static>(
    n_workers: usize,
    most: u32,
    arrange: &dyn Fn(usize, u32) -> Result<A, E>,
) -> Result<InFlight<A>, InFlightError<E>> {
    assert!(n_workers > 0 && most > 0, "there is a virtual worker and a micro-batch for it");
    let mut bound_by = None;
    for n_microbatches in (1..=most).rev() {
        // Who lacked memory for one more probably does again, so the others need not be tried.
        let again = bound_by.and_then(|worker| arrange(worker, n_microbatches).err());
        if again.is_some() {
            continue;
        }
        let mut arrangements = Vec::with_capacity(n_workers);
        let lacks = (0..n_workers).find(|&worker| match arrange(worker, n_microbatches) {
            Ok(arrangement) => {
                arrangements.push(arrangement);
                false
            }
            Err(_) => true,
        });
        match lacks {
            None => return Ok(InFlight { n_microbatches, arrangements, bound_by }),
            Some(_) => bound_by = lacks,
        }
    }
    for worker in 0..n_workers {
        if (2..=most).all(|count| arrange(worker, count).is_err())
            && let Err(source) = arrange(worker, 1)
        {
            return Err(InFlightError::Worker { worker, most, source });
        }
    }
    Err(InFlightError::NoCommon { most })
}
