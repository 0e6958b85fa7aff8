//! A heap of events as a [`World`].
//!
//! ```text
//! compute      now ---- cost ----> end
//! send         now -- bytes/bandwidth --> end -- latency --> arrival
//! receive      now ........ waits ......................... end = later of now and arrival
//! collective   now .... waits for the last member .... -- cost --> end, for all members
//! ```
//!
//! Sends of one device to one peer follow each other because they share a lane.

use crate::costs::Costs;
use cavalcade_engine::{Action, Finished, Ledger, OverCapacity, Record, World};
use cavalcade_schedule::{ActionId, CheckedSchedule, Op};
use cavalcade_units::{Bytes, DeviceId, Nanos};
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
}

impl<'a, C: Costs> VirtualWorld<'a, C> {
    /// A world in which device `d` is free from `ready_at[d]` on.
    ///
    /// # Panics
    /// If `ready_at` has another length than the schedule has devices.
    pub fn new(schedule: &'a CheckedSchedule, costs: &'a C, ready_at: Vec<Nanos>) -> Self {
        assert_eq!(ready_at.len(), schedule.n_devices(), "one starting time a device");
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
        }
    }

    /// The most bytes that each device held so far.
    pub fn peaks(&self) -> Vec<Bytes> {
        self.ledger.peaks()
    }

    fn end_at(&mut self, action: ActionId, end: Nanos) {
        self.events.push(Reverse((end, action)));
    }

    fn send(&mut self, action: Action, transfer: usize, start: Nanos) {
        let ends = &self.schedule.schedule().transfers[transfer];
        let link = self.costs.link(ends.from, ends.to);
        let end = start + link.busy(self.costs.bytes(ends.from, ends.value));
        let arrival = end + link.latency;
        if let Transit::ReceiverWaits = self.transits[transfer] {
            let receiver = self.schedule.ends(cavalcade_units::TransferId(transfer as u32)).1;
            self.n_waiting -= 1;
            self.end_at(receiver, arrival);
        }
        self.transits[transfer] = Transit::ArrivesAt(arrival);
        self.end_at(action.id, end);
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
}

impl<C: Costs> World for VirtualWorld<'_, C> {
    type Error = Stalled;

    fn start(&mut self, action: Action) -> Result<(), Stalled> {
        let start = self.now.max(self.ready_at[action.device.idx()]);
        self.started[action.id.idx()] = start;
        self.ledger.start(action.device, action.id)?;
        match action.op {
            Op::Compute { .. } | Op::OptimizerStep { .. } => {
                let cost = self.costs.compute(action.device, action.op);
                self.end_at(action.id, start + cost);
            }
            Op::Offload { .. } | Op::Prefetch { .. } => {
                let cost = self.costs.to_host(action.device, action.op);
                self.end_at(action.id, start + cost);
            }
            Op::Send(id) => self.send(action, id.idx(), start),
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
                    members.iter().for_each(|&member| self.end_at(member, end));
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Finished, Stalled> {
        let stalled = Stalled::NothingLeft { at: self.now, n_waiting: self.n_waiting };
        let Reverse((end, id)) = self.events.pop().ok_or(stalled)?;
        self.now = end;
        let device: DeviceId = self.schedule.device_of(id);
        self.ledger.finish(device, id)?;
        Ok(Finished { id, record: Record { start: self.started[id.idx()], end } })
    }
}
