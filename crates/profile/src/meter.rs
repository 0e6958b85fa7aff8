//! Where times and memory come from, so that nothing else reads a clock or an allocator.

use cavalcade_units::{Bytes, Nanos};
use std::time::Instant;

/// A clock and a count of the process's memory.
pub trait Meter: Send + Sync {
    /// Time since the meter's origin; never runs backward.
    fn now(&self) -> Nanos;

    /// Bytes that are allocated now.
    fn live_bytes(&self) -> Bytes;

    /// The most bytes that were allocated at once since the last [`Meter::reset_peak`].
    fn peak_bytes(&self) -> Bytes;

    /// Forgets the peak: it becomes what is allocated now.
    fn reset_peak(&self);
}

/// The operating system's monotonic clock, from the moment of its making. It sees no memory: all
/// its byte counts are zero, since only the binary can count its allocator.
#[derive(Clone, Copy, Debug)]
pub struct ClockMeter {
    origin: Instant,
}

impl ClockMeter {
    /// A meter whose time starts at zero now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Meter for ClockMeter {
    fn now(&self) -> Nanos {
        self.origin.elapsed().into()
    }

    fn live_bytes(&self) -> Bytes {
        Bytes::ZERO
    }

    fn peak_bytes(&self) -> Bytes {
        Bytes::ZERO
    }

    fn reset_peak(&self) {}
}
