//! From a schedule and its costs to what a step will be like.

use crate::costs::Costs;
use crate::world::{Stalled, VirtualWorld};
use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{ActionId, CheckedSchedule};
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// A step in the steady state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// From the end of one step to the end of the next.
    pub step_time: Nanos,
    /// When each action runs; the step's first action starts at zero. Longer than `step_time`
    /// where the steps of different devices overlap.
    pub trace: Trace,
    /// Share of the step that devices stand idle.
    pub bubble_fraction: f64,
    /// The most bytes that each device holds.
    pub peak_bytes: Vec<Bytes>,
}

/// Simulates two steps, the second beginning on each device as soon as it is done with the first:
/// a device whose last op is short begins early, as it does in a real run.
///
/// # Errors
/// If a device has too little memory.
pub fn predict<C: Costs>(schedule: &CheckedSchedule, costs: &C) -> Result<Prediction, Stalled> {
    let devices: Vec<DeviceId> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    let first = interpret(schedule, &devices, &mut world)?;
    let done_at = |device: DeviceId| {
        let actions = schedule.actions_of(device).map(ActionId);
        actions.filter_map(|a| first.get(a)).map(|record| record.end).max().unwrap_or_default()
    };
    let ready_at = devices.iter().map(|&device| done_at(device)).collect();
    let mut world = VirtualWorld::new(schedule, costs, ready_at);
    let second = interpret(schedule, &devices, &mut world)?;
    let step_time = second.end() - first.end();
    Ok(Prediction {
        step_time,
        bubble_fraction: second.bubble_fraction(schedule, step_time),
        peak_bytes: world.peaks(),
        trace: second.from_zero(),
    })
}
