//! Turns a [`Schedule`] into a [`CheckedSchedule`], or says what is wrong with it.
//!
//! In this order: every id names something and every op is on its chunk's device (`shape`);
//! every layer of every micro-batch once, every transfer with both ends, every gradient whole
//! (`coverage`); no weights older than the schedule says (`staleness`, `waves`); every value made
//! before it is used and used before it is lost (`hazards`); no cycle (`graph`); and, if sizes and
//! capacities are given, memory bounded whatever the timing (`memory`).

mod coverage;
mod error;
mod graph;
mod hazards;
mod memory;
mod shape;
mod staleness;
mod waves;

pub use error::CheckError;
pub use memory::MemoryModel;

use crate::op::{Lane, Op};
use crate::tables::Schedule;
use crate::value::Value;
use cavalcade_units::{Bytes, CollectiveId, DeviceId, ExchangeId, MicrobatchId, TransferId};
use graph::Graph;
use hazards::{DeviceHazards, Instance};
use std::ops::Range;

/// An op at its place: numbered device by device in list order, so that a record made under an
/// id by the simulator and one made by the runtime speak of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u32);

impl ActionId {
    /// The id as an index.
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// Index of a lane among the lanes of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneIdx(pub u32);

/// A schedule that finishes: dependencies resolved, no cycle, nothing dropped or done twice.
#[derive(Clone, Debug)]
pub struct CheckedSchedule {
    schedule: Schedule,
    first_action: Vec<u32>,
    lane_of: Vec<LaneIdx>,
    lanes: Vec<Vec<Lane>>,
    graph: Graph,
    instances: Vec<Instance>,
    touched: Vec<Vec<u32>>,
    places: Vec<u32>,
    counts: Vec<u32>,
}

/// Checks `schedule`; see the module for what that covers.
///
/// # Errors
/// The first fault found, naming the device, the op and the numbers.
pub fn check(
    schedule: Schedule,
    memory: Option<&dyn MemoryModel>,
) -> Result<CheckedSchedule, CheckError> {
    shape::check(&schedule)?;
    coverage::check(&schedule)?;
    staleness::check(&schedule)?;
    waves::check(&schedule)?;
    let index = crate::effects::EffectsIndex::new(&schedule);
    let mut first_action = vec![0u32];
    let mut lanes = Vec::new();
    let mut lane_of = Vec::with_capacity(schedule.n_ops());
    let mut edges = Vec::new();
    let mut instances = Vec::new();
    for device_idx in 0..schedule.programs.len() {
        let first = *first_action.last().expect("it begins with one entry");
        let device = DeviceId::from_idx(device_idx);
        let found = DeviceHazards::resolve(&schedule, &index, device, ActionId(first))?;
        first_action.push(first + schedule.programs[device_idx].len() as u32);
        lane_of.extend(found.lane_of);
        lanes.push(found.lanes);
        edges.extend(found.edges);
        instances.extend(found.instances);
    }
    let graph = Graph::new(&schedule, &first_action, edges);
    let mut touched = vec![Vec::new(); lane_of.len()];
    for (instance_idx, instance) in instances.iter().enumerate() {
        for action in &instance.touched_by {
            touched[action.idx()].push(instance_idx as u32);
        }
    }
    let (places, counts) = (schedule.places_on_paths(), schedule.microbatches_of_paths());
    let checked = CheckedSchedule {
        schedule,
        first_action,
        lane_of,
        lanes,
        graph,
        instances,
        touched,
        places,
        counts,
    };
    let order = checked.graph.finishing_order(&checked)?;
    if let Some(model) = memory {
        memory::check(&checked, &order, model)?;
    }
    Ok(checked)
}

impl CheckedSchedule {
    /// The tables and programs.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// How many micro-batches come before this one on its path, and how many take that path.
    pub fn place_on_path(&self, microbatch: MicrobatchId) -> (u32, u32) {
        let path = self.schedule.microbatches[microbatch.idx()];
        (self.places[microbatch.idx()], self.counts[path as usize])
    }

    /// Number of devices.
    pub fn n_devices(&self) -> usize {
        self.schedule.programs.len()
    }

    /// Number of actions over all devices.
    pub fn n_actions(&self) -> usize {
        self.lane_of.len()
    }

    /// The actions of one device, in list order.
    pub fn actions_of(&self, device: DeviceId) -> Range<u32> {
        self.first_action[device.idx()]..self.first_action[device.idx() + 1]
    }

    /// The device on which `action` runs.
    pub fn device_of(&self, action: ActionId) -> DeviceId {
        let after = self.first_action.partition_point(|&first| first <= action.0);
        DeviceId::from_idx(after - 1)
    }

    /// What `action` does.
    pub fn op(&self, action: ActionId) -> Op {
        let device = self.device_of(action);
        self.op_on(device, action)
    }

    /// What `action`, an action of `device`, does.
    pub fn op_on(&self, device: DeviceId, action: ActionId) -> Op {
        self.schedule.programs[device.idx()][(action.0 - self.first_action[device.idx()]) as usize]
    }

    /// The lanes of a device.
    pub fn lanes(&self, device: DeviceId) -> &[Lane] {
        &self.lanes[device.idx()]
    }

    /// The lane of an action, as an index into [`Self::lanes`] of its device.
    pub fn lane_of(&self, action: ActionId) -> LaneIdx {
        self.lane_of[action.idx()]
    }

    /// How many actions of the same device must finish before this one may start.
    pub fn n_predecessors(&self, action: ActionId) -> u32 {
        self.graph.n_predecessors[action.idx()]
    }

    /// The actions of the same device that wait for this one.
    pub fn successors(&self, action: ActionId) -> &[ActionId] {
        self.graph.successors(action)
    }

    /// The two ends of a transfer.
    pub fn ends(&self, id: TransferId) -> (ActionId, ActionId) {
        self.graph.ends[id.idx()]
    }

    /// The actions that together are a collective, one a member of its group.
    pub fn members(&self, id: CollectiveId) -> &[ActionId] {
        &self.graph.members[id.idx()]
    }

    /// The push and the pull of an exchange.
    pub fn exchanged(&self, id: ExchangeId) -> (ActionId, ActionId) {
        self.graph.exchanged[id.idx()]
    }

    /// The pushes that a pull waits for, one of each holder of its bucket.
    pub fn pushes_before(&self, pull: ActionId) -> impl Iterator<Item = ActionId> {
        self.graph.pushes_before(pull)
    }

    /// Number of value instances over all devices: see [`Self::instance`].
    pub fn n_instances(&self) -> usize {
        self.instances.len()
    }

    /// One life of a value: the value, the action that makes it (none if it is there from the
    /// beginning), how many actions touch it, and whether it is freed after the last of them.
    pub fn instance(&self, idx: u32) -> (Value, Option<ActionId>, usize, bool) {
        let instance = &self.instances[idx as usize];
        let n_touches = instance.touched_by.len();
        (instance.value, instance.made_by, n_touches, instance.is_freed)
    }

    /// The first action that changes an instance in place: from its end on the value has the size
    /// that [`MemoryModel::updated`] says.
    pub fn updated_by(&self, idx: u32) -> Option<ActionId> {
        self.instances[idx as usize].updated_by
    }

    /// The instances that an action touches.
    pub fn touched(&self, action: ActionId) -> &[u32] {
        &self.touched[action.idx()]
    }

    /// An upper bound of each device's memory over all possible timings, under `model`.
    pub fn peak_bound(&self, model: &dyn MemoryModel) -> Vec<Bytes> {
        let order = self
            .graph
            .finishing_order(self)
            .expect("a checked schedule has no cycle: the constructor proved it");
        memory::bounds(self, &order, model).into_iter().map(|(bytes, _)| bytes).collect()
    }

    /// An action as people read it: `device 1, op 3 (R5)`.
    pub fn describe(&self, action: ActionId) -> String {
        let device = self.device_of(action);
        let op_idx = action.0 - self.first_action[device.idx()];
        error::place(device, op_idx as usize, self.op_on(device, action))
    }
}
