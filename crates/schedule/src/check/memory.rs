//! A bound of each device's memory that holds whatever the timing.
//!
//! A value can be alive while the device computes its `k`-th op if the op that makes it need not
//! wait for that one, and if the op that frees it need not come before. Both are read off the
//! dependence graph, so a slow link that lets activations pile up is counted, and so is a peer
//! that runs ahead.
//!
//! Time is counted in half steps: `2k + 1` is "during the k-th op on the compute lane", `2k` the
//! gap before it.

use super::{ActionId, CheckError, CheckedSchedule};
use crate::op::{Lane, Op};
use crate::value::Value;
use cavalcade_units::{Bytes, DeviceId};

/// How large things are. The schedule itself knows no sizes.
pub trait MemoryModel {
    /// Bytes that are alive on `device` from beginning to end, whatever the schedule.
    fn base(&self, device: DeviceId) -> Bytes {
        let _ = device;
        Bytes::ZERO
    }
    /// Bytes of `value` on `device`.
    fn bytes(&self, device: DeviceId, value: Value) -> Bytes;
    /// Bytes of `value` on `device` after it was changed in place: a stash between the halves of
    /// its backward.
    fn updated(&self, device: DeviceId, value: Value) -> Bytes {
        self.bytes(device, value)
    }
    /// Bytes that `op` needs while it runs, beyond the values it makes.
    fn workspace(&self, device: DeviceId, op: Op) -> Bytes;
    /// Bytes that `device` has, if they are limited.
    fn capacity(&self, device: DeviceId) -> Option<Bytes>;
}

pub(super) fn check(
    checked: &CheckedSchedule,
    order: &[ActionId],
    model: &dyn MemoryModel,
) -> Result<(), CheckError> {
    for (device_idx, (needed, at)) in bounds(checked, order, model).into_iter().enumerate() {
        let device = DeviceId::from_idx(device_idx);
        match (model.capacity(device), at) {
            (Some(capacity), Some(at)) if needed > capacity => {
                let place = checked.describe(at);
                return Err(CheckError::Memory { device, place, needed, capacity });
            }
            _ => {}
        }
    }
    Ok(())
}

/// For each device the bound, and the compute op at (or before) which it is reached.
pub(super) fn bounds(
    checked: &CheckedSchedule,
    order: &[ActionId],
    model: &dyn MemoryModel,
) -> Vec<(Bytes, Option<ActionId>)> {
    let mut instances_of = vec![Vec::new(); checked.n_devices()];
    for (idx, instance) in checked.instances.iter().enumerate() {
        let maker = instance.made_by.map(|action| checked.device_of(action));
        let holder = || {
            let chunk = instance.value.persistent_chunk()?;
            Some(checked.schedule.chunks[chunk.idx()].device)
        };
        if let Some(owner) = maker.or_else(holder) {
            instances_of[owner.idx()].push(idx);
        }
    }
    let of_device = |idx: usize| {
        let device = DeviceId::from_idx(idx);
        // Of a large cluster most devices may have nothing to do.
        match checked.actions_of(device).is_empty() && instances_of[idx].is_empty() {
            true => (model.base(device), None),
            false => device_bound(checked, order, device, &instances_of[idx], model),
        }
    };
    (0..checked.n_devices()).map(of_device).collect()
}

fn device_bound(
    checked: &CheckedSchedule,
    order: &[ActionId],
    device: DeviceId,
    instances: &[usize],
    model: &dyn MemoryModel,
) -> (Bytes, Option<ActionId>) {
    let timeline = Timeline::new(checked, order, device);
    let n_points = 2 * timeline.computes.len() + 1;
    let mut change = vec![0i128; n_points + 1];
    change[0] = i128::from(model.base(device).0);
    let mut occupy = |from: usize, to: usize, bytes: Bytes| {
        change[from] += i128::from(bytes.0);
        change[to.max(from) + 1] -= i128::from(bytes.0);
    };
    for &idx in instances {
        let instance = &checked.instances[idx];
        let from = instance.made_by.map_or(0, |a| timeline.earliest(a));
        let to = match instance.is_freed {
            true => instance.touched_by.iter().map(|&a| timeline.latest(a)).max(),
            false => None,
        };
        let to = to.unwrap_or(n_points - 1);
        let (made, updated) =
            (model.bytes(device, instance.value), model.updated(device, instance.value));
        match instance.updated_by.filter(|_| made != updated) {
            None => occupy(from, to, made),
            // As large as it ever is while it changes.
            Some(update) => {
                let (first, last) = (timeline.earliest(update), timeline.latest(update));
                if from < first {
                    occupy(from, first - 1, made);
                }
                occupy(first.max(from), last, made.max(updated));
                if last < to {
                    occupy(last + 1, to, updated);
                }
            }
        }
    }
    for action in checked.actions_of(device).map(ActionId) {
        let bytes = model.workspace(device, checked.op_on(device, action));
        occupy(timeline.earliest(action), timeline.latest(action), bytes);
    }
    let (mut now, mut peak, mut at) = (0i128, 0i128, 0);
    for (point, delta) in change[..n_points].iter().enumerate() {
        now += delta;
        if now > peak {
            (peak, at) = (now, point);
        }
    }
    let place = timeline.computes.get((at / 2).min(timeline.computes.len().saturating_sub(1)));
    let peak = u64::try_from(peak).expect("a sum of sizes is never negative");
    (Bytes(peak), place.copied())
}

/// For every action, between which compute ops of one device it can be under way.
struct Timeline {
    computes: Vec<ActionId>,
    first: u32,
    /// By action of the device: half step of its earliest start and of its latest finish.
    span: Vec<(usize, usize)>,
}

impl Timeline {
    fn new(checked: &CheckedSchedule, order: &[ActionId], device: DeviceId) -> Self {
        let actions = checked.actions_of(device);
        let is_compute =
            |a: &ActionId| checked.lanes(device)[checked.lane_of(*a).0 as usize] == Lane::Compute;
        let computes: Vec<ActionId> =
            actions.clone().map(ActionId).filter(|a| is_compute(a)).collect();
        let mut own_point = vec![None; checked.n_actions()];
        for (k, action) in computes.iter().enumerate() {
            own_point[action.idx()] = Some(2 * k + 1);
        }
        let earliest = earliest(checked, order, &own_point);
        let latest = latest(checked, order, &own_point, 2 * computes.len());
        let span = actions.clone().map(|a| (earliest[a as usize], latest[a as usize])).collect();
        Self { computes, first: actions.start, span }
    }

    fn earliest(&self, action: ActionId) -> usize {
        self.span[(action.0 - self.first) as usize].0
    }

    fn latest(&self, action: ActionId) -> usize {
        self.span[(action.0 - self.first) as usize].1
    }
}

/// The half step after the last compute op that must have finished before each action starts;
/// for a receive, before its value can have arrived.
fn earliest(checked: &CheckedSchedule, order: &[ActionId], own: &[Option<usize>]) -> Vec<usize> {
    let mut after = vec![0usize; own.len()];
    let mut start = 0;
    while start < order.len() {
        let together = members(checked, order[start]);
        let group = &order[start..start + together];
        let joined = group.iter().map(|a| after[a.idx()]).max().unwrap_or(0);
        for &action in group {
            let done = own[action.idx()].map_or(joined, |point| point + 1);
            for later in checked.successors(action) {
                after[later.idx()] = after[later.idx()].max(done);
            }
            if let Op::Send(id) = checked.op(action) {
                let recv = checked.ends(id).1;
                after[recv.idx()] = after[recv.idx()].max(done);
            }
            for pull in checked.graph.pulls_after(action) {
                after[pull.idx()] = after[pull.idx()].max(done);
            }
        }
        start += together;
    }
    for (idx, point) in own.iter().enumerate() {
        after[idx] = point.unwrap_or(after[idx]);
    }
    after
}

/// The half step before the first compute op that cannot start until each action has finished.
fn latest(
    checked: &CheckedSchedule,
    order: &[ActionId],
    own: &[Option<usize>],
    end: usize,
) -> Vec<usize> {
    let mut before = vec![end; own.len()];
    let mut stop = order.len();
    while stop > 0 {
        let together = members(checked, order[stop - 1]);
        let group = &order[stop - together..stop];
        let mut soonest = end;
        for &action in group {
            let mut follow = |later: ActionId| {
                let point = own[later.idx()].map_or(before[later.idx()], |point| point - 1);
                soonest = soonest.min(point);
            };
            checked.successors(action).iter().for_each(|&later| follow(later));
            if let Op::Send(id) = checked.op(action) {
                follow(checked.ends(id).1);
            }
            checked.graph.pulls_after(action).for_each(&mut follow);
        }
        for &action in group {
            before[action.idx()] = soonest;
        }
        stop -= together;
    }
    for (idx, point) in own.iter().enumerate() {
        before[idx] = point.unwrap_or(before[idx]);
    }
    before
}

/// How many actions finish together with this one: the members of its collective, or itself.
fn members(checked: &CheckedSchedule, action: ActionId) -> usize {
    match checked.op(action) {
        Op::Collective(id) => checked.members(id).len(),
        _ => 1,
    }
}
