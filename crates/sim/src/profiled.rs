//! Costs of a real cluster, as far as they were measured.

use crate::collective_cost::{all_gather, all_reduce};
use crate::costs::{Costs, LinkCost};
use cavalcade_lower::{OpCosts, link};
use cavalcade_schedule::{CollectiveKind, MemoryModel, Op, Value};
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// Arithmetic by the profile at each device's speed, links by the cluster on top of what the
/// host's loopback takes.
#[derive(Clone, Debug)]
pub struct ProfiledCosts {
    ops: OpCosts,
}

impl ProfiledCosts {
    /// Costs on the cluster of `ops`.
    pub fn new(ops: OpCosts) -> Self {
        Self { ops }
    }
}

impl MemoryModel for ProfiledCosts {
    fn base(&self, device: DeviceId) -> Bytes {
        self.ops.base(device)
    }
    fn bytes(&self, device: DeviceId, value: Value) -> Bytes {
        self.ops.bytes(device, value)
    }
    fn workspace(&self, device: DeviceId, op: Op) -> Bytes {
        self.ops.workspace(device, op)
    }
    fn capacity(&self, device: DeviceId) -> Option<Bytes> {
        self.ops.capacity(device)
    }
}

impl Costs for ProfiledCosts {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        self.ops.arithmetic(device, op) + self.ops.profile().op_overhead
    }

    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        let link = link(self.ops.profile(), self.ops.cluster(), from, to);
        LinkCost { latency: link.latency, bandwidth: Some(link.bandwidth) }
    }

    fn collective(&self, kind: CollectiveKind, group: &[DeviceId]) -> Nanos {
        let link = |from, to| self.link(from, to);
        match kind {
            CollectiveKind::SumGradients(bucket) => {
                all_reduce(group, self.ops.bucket_bytes(bucket), link)
            }
            CollectiveKind::GradNorm => all_gather(group, Bytes(8), link),
        }
    }
}
