//! Equal devices over free links, for closed forms.

use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass, Value, build,
    check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// Times of one pass of one chunk. A stash weighs `stash` bytes, the input that a recomputed chunk
/// keeps one, and nothing else anything.
pub(crate) struct Equal {
    pub(crate) forward: u64,
    pub(crate) input: u64,
    pub(crate) weight: u64,
    pub(crate) stash: u64,
    /// Latency of the link to this device and back; the others are free.
    pub(crate) slow: Option<(DeviceId, u64)>,
}

impl Equal {
    /// A stash of one byte.
    pub(crate) const fn free(forward: u64, input: u64, weight: u64) -> Self {
        Self { forward, input, weight, stash: 1, slow: None }
    }
}

impl MemoryModel for Equal {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(match value {
            Value::Stash { .. } => self.stash,
            Value::Input { .. } => 1,
            _ => 0,
        })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Equal {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        Nanos(match op {
            Op::Compute { pass: Pass::Forward | Pass::Recompute | Pass::Adjoint, .. } => {
                self.forward
            }
            Op::Compute { pass: Pass::BackwardInput, .. } => self.input,
            Op::Compute { pass: Pass::BackwardWeight, .. } => self.weight,
            Op::Compute { pass: Pass::Backward | Pass::DoubleBackward, .. } => {
                self.input + self.weight
            }
            _ => 0,
        })
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        let is_slow = |cut: DeviceId| from.max(to) == cut;
        match self.slow {
            Some((cut, latency)) if is_slow(cut) => {
                LinkCost { latency: Nanos(latency), bandwidth: None }
            }
            _ => LinkCost::FREE,
        }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

pub(crate) fn schedule(kind: Kind, p: u32, v: u32, m: u32, options: &Options) -> CheckedSchedule {
    let order = generate(kind, &Layout::even(kind, p, v, m)).expect("it fits");
    check(build(order, options), None).expect("it is sound")
}

/// One step and the most that each device holds.
pub(crate) fn run(schedule: &CheckedSchedule, costs: &Equal) -> (Trace, Vec<u64>) {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    let trace = interpret(schedule, &devices, &mut world).expect("memory has no end");
    (trace, world.peaks().into_iter().map(|bytes| bytes.0).collect())
}
