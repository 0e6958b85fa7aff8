//! Emulated devices: the real arithmetic, then sleep until the emulated device would be done.

use cavalcade_profile::Meter;
use cavalcade_units::Nanos;

/// Waits out what is left of an emulated duration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer;

impl Pacer {
    /// Returns at `until`, or at once if it has passed; then by how much it has.
    pub(crate) fn wait_until(self, meter: &dyn Meter, until: Nanos) -> Nanos {
        loop {
            let now = meter.now();
            if now >= until {
                return now - until;
            }
            std::thread::sleep((until - now).into());
        }
    }
}
