//! What devices and links do in a step: the part of a prediction that says why it takes so long.
//!
//! ```text
//! compute lane   |##F##|........|##F##|          idle while what comes next waits for a receive
//! receive        |=============|                 started, and waiting for its message
//! message            ready |---|                 made by the other device, then on its way
//!                          '---'  exposed: idle, and only because of the link
//! ```

use crate::costs::Costs;
use cavalcade_engine::Trace;
use cavalcade_schedule::{ActionId, CheckedSchedule, Lane, Op, Value};
use cavalcade_units::{Bytes, DeviceId, ExchangeId, Nanos};
use std::collections::BTreeMap;

/// How a device spends a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Computing.
    pub busy: Nanos,
    /// Not computing.
    pub idle: Nanos,
    /// Exposed communication, a part of `idle`: its next computation waits for a receive or a
    /// collective alone, for which the other side is ready. Before it is, the other side's
    /// computing is what the device waits for.
    pub exposed: Nanos,
}

/// What messages use: collectives are not counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkName {
    /// One direction between two devices, where it is theirs alone.
    Pair {
        /// The sending device.
        from: DeviceId,
        /// The receiving device.
        to: DeviceId,
    },
    /// A resource that several pairs share, by its name.
    Shared(String),
}

/// What passes a link in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// Which link.
    pub link: LinkName,
    /// How much passes it.
    pub bytes: Bytes,
    /// The share of the step that this takes at the link's full rate; zero without a limit.
    pub busy: f64,
}

/// What each device does in a step of `step_time`, in which it was free from `ready_at` on.
pub(crate) fn of_devices(
    schedule: &CheckedSchedule,
    trace: &Trace,
    ready: &Ready,
    ready_at: &[Nanos],
    step_time: Nanos,
) -> Vec<DeviceUse> {
    let devices = ready_at.iter().enumerate().map(|(idx, &ready_at)| {
        let device = DeviceId::from_idx(idx);
        let busy = trace.busy(schedule, device);
        let exposed = ready.exposed(schedule, trace, device, ready_at);
        DeviceUse { busy, idle: step_time.saturating_sub(busy), exposed }
    });
    devices.collect()
}

/// By action, which of those that it waits for ended last, and when its lane was all that it still
/// waited for.
pub(crate) struct Ready {
    pub(crate) last: Vec<Option<ActionId>>,
    at: Vec<Nanos>,
}

impl Ready {
    pub(crate) fn new(schedule: &CheckedSchedule, trace: &Trace) -> Self {
        let n_actions = schedule.n_actions();
        let mut ready = Self { last: vec![None; n_actions], at: vec![Nanos::ZERO; n_actions] };
        let end = |action: ActionId| trace.get(action).map_or(Nanos::ZERO, |record| record.end);
        for (action, record) in trace.iter() {
            for &later in schedule.successors(action) {
                let last = &mut ready.last[later.idx()];
                if last.is_none_or(|last| end(last) < record.end) {
                    *last = Some(action);
                }
                if schedule.lane_of(action) != schedule.lane_of(later) {
                    let at = &mut ready.at[later.idx()];
                    *at = record.end.max(*at);
                }
            }
        }
        ready
    }

    /// When nothing but links kept `action` from ending; none if it uses no link. What made the
    /// other side ready may have been on its way itself, such as the sum before a norm.
    fn on_its_way(&self, schedule: &CheckedSchedule, action: ActionId) -> Option<Nanos> {
        let latest = match schedule.op(action) {
            Op::Recv(id) => schedule.ends(id).0,
            Op::Collective(id) => {
                *schedule.members(id).iter().max_by_key(|member| self.at[member.idx()])?
            }
            Op::Pull(_) => {
                let pushes = schedule.pushes_before(action);
                pushes.max_by_key(|push| self.at[push.idx()]).unwrap_or(action)
            }
            Op::Compute { .. }
            | Op::Send(_)
            | Op::Push(_)
            | Op::Merge(_)
            | Op::OptimizerStep { .. }
            | Op::Offload { .. }
            | Op::Prefetch { .. } => return None,
        };
        let before = self.last[latest.idx()];
        let earlier = before.and_then(|before| self.on_its_way(schedule, before));
        Some(earlier.unwrap_or(self.at[latest.idx()]))
    }

    fn exposed(
        &self,
        schedule: &CheckedSchedule,
        trace: &Trace,
        device: DeviceId,
        ready_at: Nanos,
    ) -> Nanos {
        let lanes = schedule.lanes(device);
        let is_compute = |a: &ActionId| lanes[schedule.lane_of(*a).0 as usize] == Lane::Compute;
        let mut exposed = Nanos::ZERO;
        let mut free = ready_at;
        for action in schedule.actions_of(device).map(ActionId).filter(is_compute) {
            let Some(record) = trace.get(action) else { continue };
            let awaited = self.last[action.idx()].filter(|_| record.start > free);
            if let Some(since) = awaited.and_then(|awaited| self.on_its_way(schedule, awaited)) {
                exposed += record.start.saturating_sub(since.max(free));
            }
            free = record.end;
        }
        exposed
    }
}

/// From where to where a push and what is pulled go.
pub(crate) fn exchange_ends(
    schedule: &CheckedSchedule,
    id: ExchangeId,
) -> [(DeviceId, DeviceId); 2] {
    let server = schedule.schedule().server_of(id);
    let device = schedule.device_of(schedule.exchanged(id).0);
    [(device, server), (server, device)]
}

/// What passes each link that any message passes, those of pairs first.
pub(crate) fn of_links<C: Costs>(
    schedule: &CheckedSchedule,
    costs: &C,
    step_time: Nanos,
) -> Vec<LinkUse> {
    let resources = costs.resources();
    let mut pairs: BTreeMap<(DeviceId, DeviceId), (Bytes, Nanos)> = BTreeMap::new();
    let mut shared = vec![Bytes::ZERO; resources.len()];
    let transfers = schedule.schedule().transfers.iter();
    let transfers = transfers
        .map(|transfer| (transfer.from, transfer.to, costs.bytes(transfer.from, transfer.value)));
    let exchanges = (0..schedule.schedule().exchanges.len()).map(ExchangeId::from_idx);
    let exchanges = exchanges.flat_map(|id| {
        let [push, pull] = exchange_ends(schedule, id);
        let bytes = costs.bytes(push.0, Value::Pulled { exchange: id });
        [(push.0, push.1, bytes), (pull.0, pull.1, bytes)]
    });
    let exchanges = exchanges.filter(|(from, to, _)| from != to);
    for (from, to, bytes) in transfers.chain(exchanges) {
        let legs = costs.legs(from, to);
        if legs.is_empty() {
            let (sum, busy) = pairs.entry((from, to)).or_default();
            *sum += bytes;
            *busy += costs.link(from, to).busy(bytes);
        }
        legs.into_iter().for_each(|leg| shared[leg] += bytes);
    }
    let share = |busy: Nanos| match step_time {
        Nanos::ZERO => 0.0,
        step_time => busy.as_secs_f64() / step_time.as_secs_f64(),
    };
    let pairs = pairs.into_iter().map(|((from, to), (bytes, busy))| {
        let link = LinkName::Pair { from, to };
        LinkUse { link, bytes, busy: share(busy) }
    });
    let shared = resources.iter().zip(shared).map(|(resource, bytes)| {
        let link = LinkName::Shared(resource.name.clone());
        LinkUse { link, bytes, busy: share(resource.bandwidth.time_for(bytes)) }
    });
    pairs.chain(shared).filter(|used| used.bytes > Bytes::ZERO).collect()
}
