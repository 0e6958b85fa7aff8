//! Resolves list order into dependencies between lanes, device by device.
//!
//! A program means what it would mean if it ran op by op in list order. Lanes overlap as far as
//! that meaning allows, exactly as an out-of-order processor overlaps instructions:
//!
//! ```text
//! read after write      an op needs what the nearest earlier op made
//! write after read      an op that changes a value waits for those that read the old one
//! ```
//!
//! A prefetch also waits for the pass before it, and so does a pull: see [`Op::Prefetch`].

use super::error::{CheckError, place};
use super::{ActionId, LaneIdx};
use crate::effects::{Access, EffectsIndex};
use crate::op::{Lane, Op};
use crate::tables::Schedule;
use crate::value::Value;
use cavalcade_units::DeviceId;
use std::collections::HashMap;

/// One life of a value on a device.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) value: Value,
    pub(crate) made_by: Option<ActionId>,
    pub(crate) touched_by: Vec<ActionId>,
    /// The first action that changes it in place.
    pub(crate) updated_by: Option<ActionId>,
    pub(crate) is_freed: bool,
}

/// What one device's program amounts to.
pub(super) struct DeviceHazards {
    pub(super) lanes: Vec<Lane>,
    pub(super) lane_of: Vec<LaneIdx>,
    /// (earlier, later), without repetition; lane order included.
    pub(super) edges: Vec<(ActionId, ActionId)>,
    pub(super) instances: Vec<Instance>,
}

/// The value's present life while the program is read.
struct Live {
    instance: usize,
    changed_by: Option<ActionId>,
    readers: Vec<ActionId>,
    latest: Access,
}

struct Scan<'a> {
    schedule: &'a Schedule,
    device: DeviceId,
    live: HashMap<Value, Live>,
    instances: Vec<Instance>,
}

impl DeviceHazards {
    pub(super) fn resolve(
        schedule: &Schedule,
        index: &EffectsIndex<'_>,
        device: DeviceId,
        first: ActionId,
    ) -> Result<Self, CheckError> {
        let program = &schedule.programs[device.idx()];
        let mut scan = Scan::new(schedule, device);
        let mut lanes: Vec<Lane> = Vec::new();
        let mut last_on_lane: Vec<ActionId> = Vec::new();
        let mut lane_of: Vec<LaneIdx> = Vec::with_capacity(program.len());
        let mut edges = Vec::with_capacity(program.len() * 2);
        let mut effects = Vec::new();
        for (op_idx, &op) in program.iter().enumerate() {
            let action = ActionId(first.0 + op_idx as u32);
            let lane = op.lane(schedule);
            let lane_idx = lanes.iter().position(|&l| l == lane).unwrap_or_else(|| {
                lanes.push(lane);
                last_on_lane.push(action);
                lanes.len() - 1
            });
            // The latest action on each lane that this one must wait for: waiting for the
            // latest is waiting for all before it.
            let mut waits: Vec<Option<ActionId>> = vec![None; lanes.len()];
            waits[lane_idx] = Some(last_on_lane[lane_idx]).filter(|&last| last != action);
            if let (Op::Prefetch { .. } | Op::Pull(_), Some(compute)) =
                (op, lanes.iter().position(|&lane| lane == Lane::Compute))
            {
                waits[compute] = Some(last_on_lane[compute]);
            }
            effects.clear();
            op.effects(index, device, &mut |effect| effects.push(effect));
            for effect in &effects {
                scan.touch(op_idx, action, effect.access, effect.value, &mut |earlier| {
                    let lane = lane_of[(earlier.0 - first.0) as usize].0 as usize;
                    if lane != lane_idx {
                        waits[lane] = waits[lane].max(Some(earlier));
                    }
                })?;
            }
            edges.extend(waits.into_iter().flatten().map(|earlier| (earlier, action)));
            lane_of.push(LaneIdx(lane_idx as u32));
            last_on_lane[lane_idx] = action;
        }
        let instances = scan.finish()?;
        Ok(Self { lanes, lane_of, edges, instances })
    }
}

impl<'a> Scan<'a> {
    fn new(schedule: &'a Schedule, device: DeviceId) -> Self {
        let mut scan = Self { schedule, device, live: HashMap::new(), instances: Vec::new() };
        for chunk in schedule.chunks_on(device) {
            scan.begin(Value::Params { chunk }, None);
            scan.begin(Value::OptState { chunk }, None);
        }
        scan
    }

    fn begin(&mut self, value: Value, made_by: Option<ActionId>) {
        let instance = self.instances.len();
        self.instances.push(Instance {
            value,
            made_by,
            touched_by: made_by.into_iter().collect(),
            updated_by: None,
            is_freed: false,
        });
        let live =
            Live { instance, changed_by: made_by, readers: Vec::new(), latest: Access::Write };
        self.live.insert(value, live);
    }

    fn touch(
        &mut self,
        op_idx: usize,
        action: ActionId,
        access: Access,
        value: Value,
        wait_for: &mut dyn FnMut(ActionId),
    ) -> Result<(), CheckError> {
        let place =
            || place(self.device, op_idx, self.schedule.programs[self.device.idx()][op_idx]);
        let Some(live) = self.live.get_mut(&value) else {
            if access.needs_value() {
                return Err(CheckError::ReadBeforeWrite {
                    place: place(),
                    value: value.to_string(),
                });
            }
            self.begin(value, Some(action));
            return Ok(());
        };
        live.changed_by.into_iter().filter(|&a| a != action).for_each(&mut *wait_for);
        if access.changes_value() {
            live.readers.iter().copied().filter(|&a| a != action).for_each(wait_for);
        }
        let instance = &mut self.instances[live.instance];
        let is_gone = instance.is_freed;
        if matches!(value, Value::ParamGrad { .. }) && !is_gone && !keeps_whole(live.latest, access)
        {
            return Err(CheckError::PartialGradient { place: place(), value: value.to_string() });
        }
        live.latest = access;
        match access {
            Access::Read | Access::Consume => {
                live.readers.push(action);
                // Several ops of one program may consume a value (every optimizer step uses the
                // norm): it goes after the last of them.
                instance.is_freed |= access == Access::Consume;
                instance.touched_by.push(action);
            }
            Access::Update if is_gone => {
                return Err(CheckError::ReadBeforeWrite {
                    place: place(),
                    value: value.to_string(),
                });
            }
            Access::Write if !is_gone => {
                return Err(CheckError::Overwritten { place: place(), value: value.to_string() });
            }
            Access::Write | Access::Accumulate if is_gone => self.begin(value, Some(action)),
            Access::Write | Access::Accumulate | Access::Update => {
                live.changed_by = Some(action);
                live.readers.clear();
                instance.touched_by.push(action);
                if access == Access::Update {
                    instance.updated_by.get_or_insert(action);
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Instance>, CheckError> {
        match self.instances.iter().find(|i| !i.is_freed && i.value.persistent_chunk().is_none()) {
            Some(lost) => Err(CheckError::NeverConsumed {
                device: self.device,
                value: lost.value.to_string(),
            }),
            None => Ok(self.instances),
        }
    }
}

/// Whether a gradient stays whole: shares are added first, then it is summed over devices, then
/// it is read, and never the other way round.
fn keeps_whole(before: Access, now: Access) -> bool {
    let phase = |access| match access {
        Access::Write | Access::Accumulate => 0,
        Access::Update => 1,
        Access::Read => 2,
        Access::Consume => 3,
    };
    phase(before) <= phase(now)
}
