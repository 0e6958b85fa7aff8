//! The interpreter.
//!
//! ```text
//!            start(action)                        next()
//! ready  ------------------->  under way  ------------------->  finished
//!   ^                                                              |
//!   '------------ last predecessor on this device finished <-------'
//! ```
//!
//! A device's actions wait only for actions of the same device. What lies between devices (a
//! receive for its send, a collective for its members) is the world's: it finishes such an
//! action when the other side is there. So a worker that runs one device and a simulator that
//! runs all of them need nothing different from this function.

use crate::trace::{Record, Trace};
use cavalcade_schedule::{ActionId, CheckedSchedule, LaneIdx, Op};
use cavalcade_units::DeviceId;

/// An action that may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its id; results are reported under it.
    pub id: ActionId,
    /// Where it runs.
    pub device: DeviceId,
    /// On which of the device's lanes.
    pub lane: LaneIdx,
    /// What it does.
    pub op: Op,
}

/// An action that has finished, and when it ran on the world's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which.
    pub id: ActionId,
    /// When and how long.
    pub record: Record,
}

/// That in which actions happen.
pub trait World {
    /// What can go wrong.
    type Error;

    /// Begins `action` and returns without waiting for it.
    ///
    /// # Errors
    /// If it cannot begin.
    fn start(&mut self, action: Action) -> Result<(), Self::Error>;

    /// Waits for the next action to finish.
    ///
    /// # Errors
    /// If one fails, or if none that is under way can ever finish.
    fn next(&mut self) -> Result<Finished, Self::Error>;
}

/// Runs one step of `schedule` on `devices` in `world`.
///
/// # Errors
/// The first error of the world; actions under way are then abandoned.
pub fn interpret<W: World>(
    schedule: &CheckedSchedule,
    devices: &[DeviceId],
    world: &mut W,
) -> Result<Trace, W::Error> {
    let mut trace = Trace::empty(schedule.n_actions());
    let mut missing = vec![0u32; schedule.n_actions()];
    let mut n_left = 0;
    let mut ready = Vec::new();
    for &device in devices {
        for action in schedule.actions_of(device).map(ActionId) {
            missing[action.idx()] = schedule.n_predecessors(action);
            n_left += 1;
            if missing[action.idx()] == 0 {
                ready.push((device, action));
            }
        }
    }
    loop {
        for (device, id) in ready.drain(..) {
            let lane = schedule.lane_of(id);
            world.start(Action { id, device, lane, op: schedule.op_on(device, id) })?;
        }
        if n_left == 0 {
            return Ok(trace);
        }
        let finished = world.next()?;
        trace.set(finished.id, finished.record);
        n_left -= 1;
        let successors = schedule.successors(finished.id);
        let device = successors.first().map(|_| schedule.device_of(finished.id));
        for later in successors {
            missing[later.idx()] -= 1;
            if missing[later.idx()] == 0 {
                ready.extend(device.map(|device| (device, *later)));
            }
        }
    }
}
