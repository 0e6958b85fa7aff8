//! Counts what the process has allocated, so that measured memory is what is really alive.

use cavalcade::{Bytes, ClockMeter, Meter, Nanos};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The system's clock and this process's allocator.
pub(crate) struct ProcessMeter {
    clock: ClockMeter,
}

impl ProcessMeter {
    pub(crate) fn start() -> Self {
        Self { clock: ClockMeter::start() }
    }
}

impl Meter for ProcessMeter {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
    fn live_bytes(&self) -> Bytes {
        Bytes(ALLOCATOR.current_usage() as u64)
    }
    fn peak_bytes(&self) -> Bytes {
        Bytes(ALLOCATOR.peak_usage() as u64)
    }
    fn reset_peak(&self) {
        ALLOCATOR.reset_peak_usage();
    }
}
