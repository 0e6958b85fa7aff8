//! The critical path of a step: from its last end back to its first start, always by what was
//! waited for last. Whatever is not on it could be slower, and nothing would come later.

use crate::usage::{Ready, exchange_ends};
use cavalcade_engine::Trace;
use cavalcade_schedule::{ActionId, CheckedSchedule, Op};
use cavalcade_units::{DeviceId, GroupId, Nanos};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a part of the critical path is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spent {
    /// Passes and optimizer steps of a device.
    Computing(DeviceId),
    /// Messages from one device to another: bytes and latency.
    Messages {
        /// The sending device.
        from: DeviceId,
        /// The receiving device.
        to: DeviceId,
    },
    /// Collectives of one group of devices, once all of them are there.
    Collectives(GroupId),
    /// Values on their way between a device and its host.
    Host(DeviceId),
}

/// The parts of the critical path of a step, longest first.
pub(crate) fn critical_path(
    schedule: &CheckedSchedule,
    trace: &Trace,
    ready: &Ready,
) -> Vec<(Spent, Nanos)> {
    let mut spent: BTreeMap<Spent, Nanos> = BTreeMap::new();
    let last = trace.iter().max_by_key(|(_, record)| record.end).map(|(action, _)| action);
    let mut here = last;
    while let Some(action) = here {
        let Some((piece, before)) = step_back(schedule, trace, ready, action) else { break };
        if let Some((what, time)) = piece {
            *spent.entry(what).or_default() += time;
        }
        here = before;
    }
    let mut parts: Vec<_> = spent.into_iter().filter(|&(_, time)| time > Nanos::ZERO).collect();
    parts.sort_by_key(|&(what, time)| (Reverse(time), what));
    parts
}

type Piece = (Spent, Nanos);

/// What `action` adds to the path that ends with it, and the action that it waited for.
fn step_back(
    schedule: &CheckedSchedule,
    trace: &Trace,
    ready: &Ready,
    action: ActionId,
) -> Option<(Option<Piece>, Option<ActionId>)> {
    let record = trace.get(action)?;
    let took = record.end - record.start;
    let device = schedule.device_of(action);
    let last = ready.last[action.idx()];
    Some(match schedule.op(action) {
        Op::Compute { .. } | Op::Merge(_) | Op::OptimizerStep { .. } => {
            (Some((Spent::Computing(device), took)), last)
        }
        Op::Offload { .. } | Op::Prefetch { .. } => (Some((Spent::Host(device), took)), last),
        Op::Send(id) => {
            let to = schedule.schedule().transfers[id.idx()].to;
            (Some((Spent::Messages { from: device, to }, took)), last)
        }
        // It was there before it was asked for, or it came last of all.
        Op::Recv(_) if took == Nanos::ZERO => (None, last),
        Op::Recv(id) => {
            let send = schedule.ends(id).0;
            let from = schedule.device_of(send);
            let way = record.end.saturating_sub(trace.get(send)?.end);
            (Some((Spent::Messages { from, to: device }, way)), Some(send))
        }
        Op::Push(id) => {
            let [(from, to), _] = exchange_ends(schedule, id);
            (Some((Spent::Messages { from, to }, took)), last)
        }
        // As with a receive: what it waited for was there, or the last push came after it began.
        Op::Pull(_) if took == Nanos::ZERO => (None, last),
        Op::Pull(id) => {
            let [_, (from, to)] = exchange_ends(schedule, id);
            let end = |push: &ActionId| trace.get(*push).map(|record| record.end);
            let latest = schedule.pushes_before(action).max_by_key(end);
            let late = latest.filter(|push| end(push) > Some(record.start));
            let way = record.end.saturating_sub(late.and_then(|p| end(&p)).unwrap_or(record.start));
            (Some((Spent::Messages { from, to }, way)), late.or(last))
        }
        Op::Collective(id) => {
            let began = |member: &ActionId| trace.get(*member).map(|record| record.start);
            let latest = *schedule.members(id).iter().max_by_key(|member| began(member))?;
            let time = record.end.saturating_sub(began(&latest)?);
            let group = schedule.schedule().collectives[id.idx()].group;
            (Some((Spent::Collectives(group), time)), ready.last[latest.idx()])
        }
    })
}
