//! The books of memory: what is alive on each device as actions start and finish.
//!
//! A value is booked when the action that makes it starts (a received one when it has arrived), in
//! another size when one that changes it in place finishes, and struck off when the last action
//! that touches it finishes, all by the schedule's own account of who touches what. The same books
//! are kept in the virtual and in the real world.

use cavalcade_schedule::{ActionId, CheckedSchedule, MemoryModel, Op};
use cavalcade_units::{Bytes, DeviceId};
use thiserror::Error;

/// A device would hold more than it has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("device {device} holds {needed} during {place}, but has {capacity}")]
pub struct OverCapacity {
    /// The device.
    pub device: DeviceId,
    /// The action.
    pub place: String,
    /// What it would hold.
    pub needed: Bytes,
    /// What it has.
    pub capacity: Bytes,
}

/// Bytes alive by device, now and at most.
pub struct Ledger<'a> {
    schedule: &'a CheckedSchedule,
    model: &'a dyn MemoryModel,
    touches_left: Vec<u32>,
    now: Vec<u64>,
    peak: Vec<u64>,
}

impl<'a> Ledger<'a> {
    /// Opens the books with what is there before the first op.
    pub fn new(schedule: &'a CheckedSchedule, model: &'a dyn MemoryModel) -> Self {
        let devices = (0..schedule.n_devices()).map(DeviceId::from_idx);
        let mut ledger = Self {
            schedule,
            model,
            touches_left: Vec::with_capacity(schedule.n_instances()),
            now: devices.map(|device| model.base(device).0).collect(),
            peak: Vec::new(),
        };
        for idx in 0..schedule.n_instances() as u32 {
            let (value, made_by, n_touches, _) = schedule.instance(idx);
            ledger.touches_left.push(n_touches as u32);
            if let (None, Some(chunk)) = (made_by, value.persistent_chunk()) {
                let device = schedule.schedule().chunks[chunk.idx()].device;
                ledger.now[device.idx()] += model.bytes(device, value).0;
            }
        }
        ledger.peak.clone_from(&ledger.now);
        ledger
    }

    /// Books what `action` needs while it runs and what it makes.
    ///
    /// # Errors
    /// If the device then holds more than it has.
    pub fn start(&mut self, device: DeviceId, action: ActionId) -> Result<(), OverCapacity> {
        let op = self.schedule.op_on(device, action);
        let mut bytes = self.model.workspace(device, op).0;
        if !matches!(op, Op::Recv(_) | Op::Pull(_)) {
            bytes += self.made(device, action);
        }
        self.book(device, action, bytes)
    }

    /// Books what arrived with `action` and strikes off what no later action touches.
    ///
    /// # Errors
    /// If the device holds more than it has.
    pub fn finish(&mut self, device: DeviceId, action: ActionId) -> Result<(), OverCapacity> {
        let op = self.schedule.op_on(device, action);
        if matches!(op, Op::Recv(_) | Op::Pull(_)) {
            let bytes = self.made(device, action);
            self.book(device, action, bytes)?;
        }
        self.now[device.idx()] -= self.model.workspace(device, op).0;
        let mut grown = 0;
        for &idx in self.schedule.touched(action) {
            self.touches_left[idx as usize] -= 1;
            let (value, _, _, is_freed) = self.schedule.instance(idx);
            let updated_by = self.schedule.updated_by(idx);
            if updated_by == Some(action) {
                self.now[device.idx()] -= self.model.bytes(device, value).0;
                grown += self.model.updated(device, value).0;
            }
            if self.touches_left[idx as usize] == 0 && is_freed {
                let bytes = match updated_by {
                    Some(_) => self.model.updated(device, value),
                    None => self.model.bytes(device, value),
                };
                self.now[device.idx()] -= bytes.0;
            }
        }
        if grown == 0 { Ok(()) } else { self.book(device, action, grown) }
    }

    /// The most that each device held so far.
    pub fn peaks(&self) -> Vec<Bytes> {
        self.peak.iter().copied().map(Bytes).collect()
    }

    fn made(&self, device: DeviceId, action: ActionId) -> u64 {
        let instances = self.schedule.touched(action).iter();
        let made = instances.filter_map(|&idx| {
            let (value, made_by, ..) = self.schedule.instance(idx);
            (made_by == Some(action)).then(|| self.model.bytes(device, value).0)
        });
        made.sum()
    }

    fn book(&mut self, device: DeviceId, action: ActionId, bytes: u64) -> Result<(), OverCapacity> {
        let now = &mut self.now[device.idx()];
        *now += bytes;
        let needed = Bytes(*now);
        self.peak[device.idx()] = self.peak[device.idx()].max(*now);
        match self.model.capacity(device) {
            Some(capacity) if needed > capacity => {
                let place = self.schedule.describe(action);
                Err(OverCapacity { device, place, needed, capacity })
            }
            _ => Ok(()),
        }
    }
}
