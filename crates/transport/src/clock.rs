//! The only place here that knows what time it is.

use cavalcade_units::Nanos;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A source of time that can also wait. Tests give one that they move by hand.
pub trait Clock: Send + Sync {
    /// Time since an origin of the clock's own.
    fn now(&self) -> Nanos;

    /// Returns once `now()` is at least `at`.
    fn sleep_until(&self, at: Nanos);
}

/// The operating system's monotonic clock, from the moment of its making.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that reads zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        self.origin.elapsed().into()
    }

    fn sleep_until(&self, at: Nanos) {
        loop {
            let left = at.saturating_sub(self.now());
            if left == Nanos::ZERO {
                return;
            }
            thread::sleep(left.into());
        }
    }
}

/// A point of time on a clock, by which something must have happened.
#[derive(Clone)]
pub struct Deadline {
    clock: Arc<dyn Clock>,
    at: Nanos,
}

impl Deadline {
    /// `span` from now.
    pub fn after(clock: Arc<dyn Clock>, span: Nanos) -> Self {
        let at = Nanos(clock.now().0.saturating_add(span.0));
        Self { clock, at }
    }

    /// The earlier of this one and `span` from now.
    pub fn at_most(&self, span: Nanos) -> Self {
        let sooner = Self::after(Arc::clone(&self.clock), span);
        if sooner.at < self.at { sooner } else { self.clone() }
    }

    /// What is left, or nothing if it is over.
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.at.saturating_sub(self.clock.now());
        (left > Nanos::ZERO).then(|| left.into())
    }

    /// Waits for `span`, or until the deadline if that is sooner.
    pub(crate) fn pause(&self, span: Nanos) {
        let at = self.clock.now() + span;
        self.clock.sleep_until(at.min(self.at));
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deadline(at {}, now {})", self.at, self.clock.now())
    }
}
