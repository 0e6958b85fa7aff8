//! What is left of a run that a fault has ended.

use crate::disturbance::{Fault, Trouble};
use cavalcade_schedule::{ActionId, CheckedSchedule, Op};
use cavalcade_units::{DeviceId, Nanos};
use std::fmt;

/// A run that cannot go on: which fault ended it, how far it had come, and who waits for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The first fault that holds something up.
    pub fault: Fault,
    /// When it had happened and the last action that could finish had finished.
    pub at: Nanos,
    /// Actions of the step that had finished.
    pub n_finished: usize,
    /// Actions of the step.
    pub n_actions: usize,
    /// By living device that is not done, the first of its ops that waits.
    pub waits: Vec<Wait>,
}

/// An op that waits for something that will not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// On which device.
    pub device: DeviceId,
    /// Which op, as people read it: `device 2, op 14 (R7)`.
    pub op: String,
    /// For what.
    pub waits_for: WaitsFor,
}

/// What an op waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A fault: a dead device or a stalled link.
    Fault(Fault),
    /// A device that waits itself.
    Device(DeviceId),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, at, n_finished, n_actions, waits } = self;
        write!(
            f,
            "{fault}; at {at} nothing could go on, {n_finished} of {n_actions} ops were done"
        )?;
        waits.iter().try_for_each(|wait| write!(f, "\n{wait}"))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, waits_for, .. } = self;
        match waits_for {
            WaitsFor::Fault(Fault::DeviceDies { device, at }) => {
                write!(f, "{op} waits for device {device}, which died at {at}")
            }
            WaitsFor::Fault(Fault::LinkStalls { from, to, at, .. }) => {
                let link = format!("the link from device {from} to device {to}");
                write!(f, "{op} waits for {link}, which stalled at {at}")
            }
            WaitsFor::Device(device) => {
                write!(f, "{op} waits for device {device}, which waits itself")
            }
        }
    }
}

/// How far an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waits,
    Started,
    Finished,
}

/// The verdict on a step whose last action ended at `last_end`; none if no fault holds it up.
pub(crate) fn verdict(
    schedule: &CheckedSchedule,
    trouble: &Trouble,
    progress: &[Progress],
    last_end: Nanos,
) -> Option<Verdict> {
    let is_unfinished = |&a: &ActionId| progress[a.idx()] != Progress::Finished;
    let is_started = |&a: &ActionId| progress[a.idx()] == Progress::Started;
    let mut faults = Vec::new();
    let mut waits = Vec::new();
    for device in (0..schedule.n_devices()).map(DeviceId::from_idx) {
        let mut unfinished = schedule.actions_of(device).map(ActionId).filter(is_unfinished);
        let first = unfinished.clone().find(is_started);
        let dead = trouble.death(device).filter(|_| unfinished.next().is_some());
        if let Some(death) = dead {
            faults.push(death);
        } else if let Some(action) = first {
            let waits_for = waits_for(schedule, trouble, progress, device, action);
            let op = schedule.describe(action);
            waits.push(Wait { device, op, waits_for });
        }
    }
    faults.extend(waits.iter().filter_map(|wait| match wait.waits_for {
        WaitsFor::Fault(fault) => Some(fault),
        WaitsFor::Device(_) => None,
    }));
    let fault = faults.into_iter().min_by_key(|fault| fault.at())?;
    let n_finished = progress.iter().filter(|&&p| p == Progress::Finished).count();
    let at = last_end.max(fault.at());
    Some(Verdict { fault, at, n_finished, n_actions: progress.len(), waits })
}

/// What a started action of a living device waits for.
fn waits_for(
    schedule: &CheckedSchedule,
    trouble: &Trouble,
    progress: &[Progress],
    device: DeviceId,
    action: ActionId,
) -> WaitsFor {
    let other_side =
        |other: DeviceId| trouble.death(other).map_or(WaitsFor::Device(other), WaitsFor::Fault);
    let link = |from, to| trouble.last_stop((from, to)).map(WaitsFor::Fault);
    match schedule.op_on(device, action) {
        Op::Send(id) => {
            let to = schedule.schedule().transfers[id.idx()].to;
            link(device, to).unwrap_or(WaitsFor::Device(to))
        }
        Op::Recv(id) => {
            let from = schedule.schedule().transfers[id.idx()].from;
            let is_sending = progress[schedule.ends(id).0.idx()] == Progress::Started;
            let stalled = is_sending.then(|| link(from, device)).flatten();
            stalled.unwrap_or_else(|| other_side(from))
        }
        Op::Collective(id) => {
            let members = schedule.members(id).iter().copied();
            let of = |member: ActionId| schedule.device_of(member);
            let dead = members.clone().map(of).find(|&other| trouble.death(other).is_some());
            let late = members.filter(|m| progress[m.idx()] == Progress::Waits).map(of).next();
            other_side(dead.or(late).unwrap_or(device))
        }
        Op::Push(id) => {
            let to = schedule.schedule().server_of(id);
            link(device, to).unwrap_or(WaitsFor::Device(to))
        }
        Op::Pull(id) => {
            let server = schedule.schedule().server_of(id);
            let pushes = schedule.pushes_before(action);
            let late = pushes.filter(|push| progress[push.idx()] != Progress::Finished);
            let mut late = late.map(|push| schedule.device_of(push)).peekable();
            let first = late.peek().copied();
            let dead = late.find(|&other| trouble.death(other).is_some());
            let stalled = link(server, device).filter(|_| first.is_none());
            stalled.unwrap_or_else(|| other_side(dead.or(first).unwrap_or(server)))
        }
        // Nothing but its own device holds these up.
        Op::Compute { .. }
        | Op::Merge(_)
        | Op::OptimizerStep { .. }
        | Op::Offload { .. }
        | Op::Prefetch { .. } => other_side(device),
    }
}
