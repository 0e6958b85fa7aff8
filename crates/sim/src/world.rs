//! A heap of events as a [`World`].
//!
//! ```text
//! compute      now ---- cost ----> end
//! send         now -- bytes/rate --> end -- latency --> arrival
//! receive      now ........ waits ......................... end = later of now and arrival
//! push, pull   as a send, and as what is sent back when the server has what was asked for
//! collective   now .... waits for the last member .... -- cost --> end, for all members
//! ```
//!
//! Sends of one device to one peer follow each other because they share a lane. The rate of a send
//! is its link's, unless it passes something that other messages pass too: see `flows`.

use crate::costs::Costs;
use crate::disturbance::Trouble;
use crate::flows::{Flows, Message, Moved};
use crate::servers::Servers;
use crate::usage::exchange_ends;
use crate::verdict::{Progress, Verdict, verdict};
use cavalcade_engine::{Action, Finished, Ledger, OverCapacity, Record, World};
use cavalcade_schedule::{ActionId, CheckedSchedule, Op, Value};
use cavalcade_units::{Bytes, DeviceId, ExchangeId, Nanos, TransferId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thiserror::Error;

/// Why a virtual run ends early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stalled {
    /// Nothing that is under way can finish.
    #[error("nothing can finish any more at {at}: {n_waiting} actions wait for another side")]
    NothingLeft {
        /// Virtual time.
        at: Nanos,
        /// Actions that have started and wait.
        n_waiting: usize,
    },
    /// A device died or a link stalled, and in the end all the others waited.
    #[error("{0}")]
    Fault(Box<Verdict>),
    /// A device ran out of memory.
    #[error(transparent)]
    Memory(#[from] OverCapacity),
}

/// Progress of a transfer.
#[derive(Clone, Copy)]
enum Transit {
    NotSent,
    ReceiverWaits,
    ArrivesAt(Nanos),
}

/// What only a world has whose messages share something.
struct Sharing {
    flows: Flows,
    /// Messages that begin later than they were handed over: their device was not free.
    later: BinaryHeap<Reverse<(Nanos, Moved)>>,
    /// When links stop or go on, the next one last.
    changes: Vec<Nanos>,
}

/// What happens next to the flows. At one point of time, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    End,
    Change,
    Start,
}

/// What only a disturbed world has.
struct Disturbed<'a> {
    trouble: &'a Trouble,
    step: u32,
    progress: Vec<Progress>,
    /// When an action last finished.
    last_end: Nanos,
}

/// The virtual world of one step.
pub struct VirtualWorld<'a, C: Costs> {
    schedule: &'a CheckedSchedule,
    costs: &'a C,
    ledger: Ledger<'a>,
    ready_at: Vec<Nanos>,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, ActionId)>>,
    started: Vec<Nanos>,
    transits: Vec<Transit>,
    /// By collective: how many members have begun, and when the last of them did.
    begun: Vec<(usize, Nanos)>,
    n_waiting: usize,
    sharing: Option<Box<Sharing>>,
    servers: Option<Box<Servers>>,
    disturbed: Option<Box<Disturbed<'a>>>,
}

impl<'a, C: Costs> VirtualWorld<'a, C> {
    /// A world in which device `d` is free from `ready_at[d]` on.
    ///
    /// # Panics
    /// If `ready_at` has another length than the schedule has devices.
    pub fn new(schedule: &'a CheckedSchedule, costs: &'a C, ready_at: Vec<Nanos>) -> Self {
        assert_eq!(ready_at.len(), schedule.n_devices(), "one starting time a device");
        let resources = costs.resources();
        let sharing = (!resources.is_empty()).then(|| {
            let flows = Flows::new(resources.iter().map(|resource| resource.bandwidth));
            Box::new(Sharing { flows, later: BinaryHeap::new(), changes: Vec::new() })
        });
        Self {
            schedule,
            costs,
            ledger: Ledger::new(schedule, costs),
            now: ready_at.iter().copied().min().unwrap_or_default(),
            ready_at,
            events: BinaryHeap::new(),
            started: vec![Nanos::ZERO; schedule.n_actions()],
            transits: vec![Transit::NotSent; schedule.schedule().transfers.len()],
            begun: vec![(0, Nanos::ZERO); schedule.schedule().collectives.len()],
            n_waiting: 0,
            sharing,
            servers: Servers::of(schedule).map(Box::new),
            disturbed: None,
        }
    }

    /// The same world with `trouble`; `step` tells the draws of one step from another's.
    ///
    /// # Panics
    /// If the trouble was checked for another number of devices.
    pub fn disturbed(mut self, trouble: &'a Trouble, step: u32) -> Self {
        assert_eq!(trouble.n_devices(), self.schedule.n_devices(), "trouble of these devices");
        let progress = vec![Progress::Waits; self.schedule.n_actions()];
        self.disturbed = Some(Box::new(Disturbed { trouble, step, progress, last_end: self.now }));
        if let Some(sharing) = &mut self.sharing {
            sharing.changes = trouble.changes();
            sharing.changes.reverse();
        }
        self
    }

    /// The most bytes that each device held so far.
    pub fn peaks(&self) -> Vec<Bytes> {
        self.ledger.peaks()
    }

    fn end_at(&mut self, action: ActionId, end: Nanos) {
        if let Some(disturbed) = &self.disturbed {
            let device = self.schedule.device_of(action);
            if disturbed.trouble.is_dead_after(device, end) {
                return;
            }
        }
        self.events.push(Reverse((end, action)));
    }

    fn compute(&mut self, action: Action, start: Nanos) {
        let mut cost = self.costs.compute(action.device, action.op);
        if let Some(Disturbed { trouble, step, .. }) = self.disturbed.as_deref() {
            cost = trouble.slowed(*step, action.device, action.id, cost);
        }
        self.end_at(action.id, start + cost);
    }

    /// Where a message goes from and to, and its size.
    fn message(&self, what: Moved) -> (DeviceId, DeviceId, Bytes) {
        let of_exchange = |exchange| self.costs.bytes(DeviceId(0), Value::Pulled { exchange });
        match what {
            Moved::Transfer(id) => {
                let ends = &self.schedule.schedule().transfers[id.idx()];
                (ends.from, ends.to, self.costs.bytes(ends.from, ends.value))
            }
            Moved::Push(id) => {
                let [(from, to), _] = exchange_ends(self.schedule, id);
                (from, to, of_exchange(id))
            }
            Moved::Pull(id) => {
                let [_, (from, to)] = exchange_ends(self.schedule, id);
                (from, to, of_exchange(id))
            }
        }
    }

    fn send(&mut self, what: Moved, start: Nanos) {
        let (from, to, bytes) = self.message(what);
        if from == to {
            return self.sent(what, start, Nanos::ZERO);
        }
        let link = self.costs.link(from, to);
        if let Some(sharing) = &mut self.sharing
            && bytes > Bytes::ZERO
        {
            let legs = self.costs.legs(from, to);
            if !legs.is_empty() {
                if start > self.now {
                    sharing.later.push(Reverse((start, what)));
                } else {
                    let limit = link.bandwidth;
                    let message = Message { what, ends: (from, to), legs, limit, bytes };
                    let trouble = self.disturbed.as_ref().map(|disturbed| disturbed.trouble);
                    let is_stopped = trouble.is_some_and(|t| t.is_stopped((from, to), start));
                    sharing.flows.start(message, is_stopped, start);
                }
                return;
            }
        }
        if let Some(servers) = &mut self.servers
            && self.sharing.is_none()
            && start > self.now
        {
            servers.put_off(what, start);
            return;
        }
        let busy = link.busy(bytes);
        // Without servers, all that a pair's own link carries is on one lane.
        let start = match &mut self.servers {
            Some(servers) => servers.take_link((from, to), start, busy),
            None => start,
        };
        let end = match &self.disturbed {
            None => Some(start + busy),
            Some(disturbed) => disturbed.trouble.sent((from, to), start, busy),
        };
        if let Some(end) = end {
            self.sent(what, end, link.latency);
        }
    }

    /// The last byte of a message leaves at `end`.
    fn sent(&mut self, what: Moved, end: Nanos, latency: Nanos) {
        let arrival = end + latency;
        match what {
            Moved::Transfer(id) => self.handed_over(id, end, arrival),
            Moved::Push(id) => {
                self.end_at(self.schedule.exchanged(id).0, end);
                let servers = self.servers.as_mut().expect("who pushes has a server");
                for (pull, at) in servers.pushed(self.schedule, id, arrival) {
                    self.send(Moved::Pull(pull), at);
                }
            }
            Moved::Pull(id) => {
                self.n_waiting -= 1;
                self.end_at(self.schedule.exchanged(id).1, arrival);
            }
        }
    }

    fn handed_over(&mut self, id: TransferId, end: Nanos, arrival: Nanos) {
        let (sender, receiver) = self.schedule.ends(id);
        if let Transit::ReceiverWaits = self.transits[id.idx()] {
            self.n_waiting -= 1;
            // The receiving device may not have been free when the message came.
            self.end_at(receiver, arrival.max(self.started[receiver.idx()]));
        }
        self.transits[id.idx()] = Transit::ArrivesAt(arrival);
        self.end_at(sender, end);
    }

    /// Asks a server.
    fn pull(&mut self, id: ExchangeId, start: Nanos) {
        self.n_waiting += 1;
        let [(device, server), _] = exchange_ends(self.schedule, id);
        let servers = self.servers.as_mut().expect("who pulls has a server");
        let asked = match device == server {
            true => start,
            false => {
                let latency = self.costs.link(device, server).latency;
                servers.take_link((device, server), start, Nanos::ZERO) + latency
            }
        };
        if let Some(at) = servers.asked(self.schedule, id, asked) {
            self.send(Moved::Pull(id), at);
        }
    }

    fn receive(&mut self, action: ActionId, transfer: usize, start: Nanos) {
        match self.transits[transfer] {
            Transit::ArrivesAt(arrival) => self.end_at(action, start.max(arrival)),
            Transit::NotSent | Transit::ReceiverWaits => {
                self.n_waiting += 1;
                self.transits[transfer] = Transit::ReceiverWaits;
            }
        }
    }

    /// Lets happen to the flows what happens before the next event.
    fn pass_flows(&mut self) {
        while let Some(sharing) = &mut self.sharing {
            let times = [
                (sharing.flows.next_end(), Next::End),
                (sharing.changes.last().copied(), Next::Change),
                (sharing.later.peek().map(|Reverse((at, _))| *at), Next::Start),
            ];
            let next = times.into_iter().filter_map(|(at, next)| Some((at?, next))).min();
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let soonest = next.map(|(at, _)| at).into_iter().chain(event).min();
            if sharing.flows.is_changed() && soonest.is_none_or(|at| at > self.now) {
                sharing.flows.settle(self.now);
                continue;
            }
            let Some((at, next)) = next.filter(|&(at, _)| event.is_none_or(|event| at <= event))
            else {
                return;
            };
            self.now = self.now.max(at);
            match next {
                Next::End => {
                    let what = sharing.flows.end_next().expect("its end was seen above");
                    let (from, to, _) = self.message(what);
                    let latency = self.costs.link(from, to).latency;
                    self.sent(what, at, latency);
                }
                Next::Change => {
                    sharing.changes.pop();
                    if let Some(disturbed) = &self.disturbed {
                        sharing.flows.stop(|ends| disturbed.trouble.is_stopped(ends, at));
                    }
                }
                Next::Start => {
                    if let Some(Reverse((start, what))) = sharing.later.pop() {
                        self.send(what, start);
                    }
                }
            }
        }
    }

    /// Why there is no event any more.
    fn stalled(&self) -> Stalled {
        let of_fault = self.disturbed.as_ref().and_then(|disturbed| {
            let Disturbed { trouble, progress, last_end, .. } = &**disturbed;
            verdict(self.schedule, trouble, progress, *last_end)
        });
        let nothing = Stalled::NothingLeft { at: self.now, n_waiting: self.n_waiting };
        of_fault.map_or(nothing, |verdict| Stalled::Fault(Box::new(verdict)))
    }
}

impl<C: Costs> World for VirtualWorld<'_, C> {
    type Error = Stalled;

    fn start(&mut self, action: Action) -> Result<(), Stalled> {
        let start = self.now.max(self.ready_at[action.device.idx()]);
        self.started[action.id.idx()] = start;
        self.ledger.start(action.device, action.id)?;
        if let Some(disturbed) = &mut self.disturbed {
            disturbed.progress[action.id.idx()] = Progress::Started;
        }
        match action.op {
            Op::Compute { .. } | Op::Merge(_) | Op::OptimizerStep { .. } => {
                self.compute(action, start)
            }
            Op::Offload { .. } | Op::Prefetch { .. } => {
                let cost = self.costs.to_host(action.device, action.op);
                self.end_at(action.id, start + cost);
            }
            Op::Send(id) => self.send(Moved::Transfer(id), start),
            Op::Push(id) => self.send(Moved::Push(id), start),
            Op::Pull(id) => self.pull(id, start),
            Op::Recv(id) => self.receive(action.id, id.idx(), start),
            Op::Collective(id) => {
                let schedule = self.schedule;
                let (n_begun, latest) = &mut self.begun[id.idx()];
                *n_begun += 1;
                *latest = start.max(*latest);
                self.n_waiting += 1;
                let members = schedule.members(id);
                if *n_begun == members.len() {
                    let entry = &schedule.schedule().collectives[id.idx()];
                    let group = &schedule.schedule().groups[entry.group.idx()];
                    let end = *latest + self.costs.collective(entry.kind, group);
                    self.n_waiting -= members.len();
                    let dies = |trouble: &Trouble| {
                        group.iter().any(|&device| trouble.is_dead_after(device, end))
                    };
                    // Without one of them nobody's ends.
                    if !self.disturbed.as_ref().is_some_and(|d| dies(d.trouble)) {
                        members.iter().for_each(|&member| self.end_at(member, end));
                    }
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Finished, Stalled> {
        if self.sharing.is_some() {
            self.pass_flows();
        }
        while let Some(servers) = &mut self.servers {
            let next = self.events.peek().map(|Reverse((at, _))| *at);
            let Some((at, what)) = servers.begun_by(next) else { break };
            self.now = self.now.max(at);
            self.send(what, at);
        }
        let Some(Reverse((end, id))) = self.events.pop() else { return Err(self.stalled()) };
        self.now = end;
        let device: DeviceId = self.schedule.device_of(id);
        self.ledger.finish(device, id)?;
        if let Some(disturbed) = &mut self.disturbed {
            disturbed.progress[id.idx()] = Progress::Finished;
            disturbed.last_end = end;
        }
        Ok(Finished { id, record: Record { start: self.started[id.idx()], end } })
    }
}
