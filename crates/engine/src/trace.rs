//! When each action ran: under the same ids whether simulated or measured, so that predicted
//! against measured is a join.

use cavalcade_schedule::{ActionId, CheckedSchedule, Lane};
use cavalcade_units::{DeviceId, Nanos};

/// Start and end of an action on the world's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it started.
    pub start: Nanos,
    /// When it finished.
    pub end: Nanos,
}

/// The records of one step. Actions of devices that were not run have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    records: Vec<Option<Record>>,
}

impl Trace {
    /// A trace of `n_actions` without any record.
    pub fn empty(n_actions: usize) -> Self {
        Self { records: vec![None; n_actions] }
    }

    /// Sets the record of an action.
    ///
    /// # Panics
    /// If the schedule of this trace has no such action.
    pub fn set(&mut self, action: ActionId, record: Record) {
        self.records[action.idx()] = Some(record);
    }

    /// The record of an action, if it was run.
    pub fn get(&self, action: ActionId) -> Option<Record> {
        self.records[action.idx()]
    }

    /// All records that are there, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ActionId, Record)> {
        let indexed = self.records.iter().enumerate();
        indexed.filter_map(|(idx, record)| Some((ActionId(idx as u32), (*record)?)))
    }

    /// The same records on a clock that is zero at the earliest start.
    pub fn from_zero(mut self) -> Self {
        let origin = self.start();
        for record in self.records.iter_mut().flatten() {
            *record = Record { start: record.start - origin, end: record.end - origin };
        }
        self
    }

    /// Latest end; zero if there is no record.
    pub fn end(&self) -> Nanos {
        self.iter().map(|(_, record)| record.end).max().unwrap_or_default()
    }

    /// Earliest start; zero if there is no record.
    pub fn start(&self) -> Nanos {
        self.iter().map(|(_, record)| record.start).min().unwrap_or_default()
    }

    /// From the first start to the last end.
    pub fn makespan(&self) -> Nanos {
        self.end() - self.start()
    }

    /// How long `device` computed.
    pub fn busy(&self, schedule: &CheckedSchedule, device: DeviceId) -> Nanos {
        let lanes = schedule.lanes(device);
        let is_compute = |a: &ActionId| lanes[schedule.lane_of(*a).0 as usize] == Lane::Compute;
        let actions = schedule.actions_of(device).map(ActionId).filter(is_compute);
        actions.filter_map(|a| self.get(a)).map(|record| record.end - record.start).sum()
    }

    /// The share of `step_time` that devices stand idle: 1 - busy time over available time, over
    /// all devices that have anything to do.
    pub fn bubble_fraction(&self, schedule: &CheckedSchedule, step_time: Nanos) -> f64 {
        let devices = (0..schedule.n_devices()).map(DeviceId::from_idx);
        let devices: Vec<_> = devices.filter(|&d| !schedule.actions_of(d).is_empty()).collect();
        let available = step_time.as_secs_f64() * devices.len() as f64;
        let busy: Nanos = devices.iter().map(|&device| self.busy(schedule, device)).sum();
        if available > 0.0 { (1.0 - busy.as_secs_f64() / available).max(0.0) } else { 0.0 }
    }
}
