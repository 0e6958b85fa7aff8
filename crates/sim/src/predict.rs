//! From a schedule and its costs to what a step will be like.

use crate::costs::Costs;
use crate::critical_path::{Spent, critical_path};
use crate::disturbance::Trouble;
use crate::usage::{DeviceUse, LinkUse, Ready, of_devices, of_links};
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
    /// How each device spends the step.
    pub devices: Vec<DeviceUse>,
    /// What passes each link that messages pass, those of pairs first.
    pub links: Vec<LinkUse>,
    /// What the step's critical path is spent on, the most first.
    pub critical: Vec<(Spent, Nanos)>,
}

impl Prediction {
    /// The link that would be full first if there were more to send; none if no message passes a
    /// link that has a limit.
    pub fn busiest_link(&self) -> Option<&LinkUse> {
        let busy = self.links.iter().filter(|used| used.busy > 0.0);
        busy.reduce(|most, used| if used.busy > most.busy { used } else { most })
    }
}

/// Simulates two steps, the second beginning on each device as soon as it is done with the first:
/// a device whose last op is short begins early, as it does in a real run.
///
/// # Errors
/// If a device has too little memory.
pub fn predict<C: Costs>(schedule: &CheckedSchedule, costs: &C) -> Result<Prediction, Stalled> {
    simulate(schedule, costs, None)
}

/// As [`predict`], with `trouble`: both steps draw their own jitter, and the times of faults count
/// from the beginning of the first.
///
/// # Errors
/// If a device has too little memory, or a fault ends the run.
///
/// # Panics
/// If the trouble was checked for another number of devices.
pub fn predict_disturbed<C: Costs>(
    schedule: &CheckedSchedule,
    costs: &C,
    trouble: &Trouble,
) -> Result<Prediction, Stalled> {
    simulate(schedule, costs, Some(trouble))
}

fn simulate<C: Costs>(
    schedule: &CheckedSchedule,
    costs: &C,
    trouble: Option<&Trouble>,
) -> Result<Prediction, Stalled> {
    let devices: Vec<DeviceId> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let world = |ready_at: Vec<Nanos>, step: u32| {
        let world = VirtualWorld::new(schedule, costs, ready_at);
        match trouble {
            Some(trouble) => world.disturbed(trouble, step),
            None => world,
        }
    };
    let first = interpret(schedule, &devices, &mut world(vec![Nanos::ZERO; devices.len()], 0))?;
    let done_at = |device: DeviceId| {
        let actions = schedule.actions_of(device).map(ActionId);
        actions.filter_map(|a| first.get(a)).map(|record| record.end).max().unwrap_or_default()
    };
    let ready_at: Vec<Nanos> = devices.iter().map(|&device| done_at(device)).collect();
    let mut world = world(ready_at.clone(), 1);
    let second = interpret(schedule, &devices, &mut world)?;
    let step_time = second.end().saturating_sub(first.end());
    let ready = Ready::new(schedule, &second);
    Ok(Prediction {
        step_time,
        bubble_fraction: second.bubble_fraction(schedule, step_time),
        peak_bytes: world.peaks(),
        devices: of_devices(schedule, &second, &ready, &ready_at, step_time),
        links: of_links(schedule, costs, step_time),
        critical: critical_path(schedule, &second, &ready),
        trace: second.from_zero(),
    })
}
