//! Costs of a real cluster, as far as they were measured.

use crate::collective_cost::{all_gather, all_reduce, ring_all_reduce};
use crate::costs::{Costs, LinkCost};
use cavalcade_cluster::{LinkSpec, Resource};
use cavalcade_lower::{OpCosts, link};
use cavalcade_schedule::{CollectiveKind, MemoryModel, Op, Reduction, Value};
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// Arithmetic by the profile at each device's speed, links by the cluster: on top of what the
/// host's loopback takes where a run would emulate them, and as they are where devices share
/// networks, which no run emulates.
#[derive(Clone, Debug)]
pub struct ProfiledCosts {
    ops: OpCosts,
    /// By device, all that do the same in symmetric copies of the schedule; empty without copies.
    alike: Vec<Vec<DeviceId>>,
}

impl ProfiledCosts {
    /// Costs on the cluster of `ops`.
    pub fn new(ops: OpCosts) -> Self {
        Self { ops, alike: Vec::new() }
    }

    /// The same for a schedule with symmetric copies: device `d` stands for `alike[d]`, itself
    /// among them, and all of them take part in collectives.
    #[must_use]
    pub fn with_copies(self, alike: Vec<Vec<DeviceId>>) -> Self {
        Self { alike, ..self }
    }
}

impl MemoryModel for ProfiledCosts {
    fn base(&self, device: DeviceId) -> Bytes {
        self.ops.base(device)
    }
    fn bytes(&self, device: DeviceId, value: Value) -> Bytes {
        self.ops.bytes(device, value)
    }
    fn updated(&self, device: DeviceId, value: Value) -> Bytes {
        self.ops.updated(device, value)
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
        let LinkSpec { latency, bandwidth } =
            link(self.ops.profile(), self.ops.cluster(), from, to);
        LinkCost { latency, bandwidth }
    }

    fn resources(&self) -> &[Resource] {
        self.ops.cluster().resources()
    }

    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        self.ops.cluster().route(from, to).map(|route| route.legs).unwrap_or_default()
    }

    fn collective(&self, kind: CollectiveKind, group: &[DeviceId]) -> Nanos {
        let with_alike = |device: &DeviceId| match self.alike.get(device.idx()) {
            Some(alike) => alike.clone(),
            None => vec![*device],
        };
        let mut group: Vec<DeviceId> = group.iter().flat_map(with_alike).collect();
        if !self.alike.is_empty() {
            // As if all copies were written down.
            group.sort_unstable();
        }
        let group = &group[..];
        match kind {
            CollectiveKind::SumGradients(bucket) => {
                let cluster = self.ops.cluster();
                let node = |device| cluster.device(device).node();
                let bytes = self.ops.bucket_bytes(bucket);
                match self.ops.reduction() {
                    // What is emulated sums by the ring alone.
                    Reduction::Ring if !cluster.is_shared() => ring_all_reduce(self, group, bytes),
                    reduction => all_reduce(self, reduction, group, node, bytes),
                }
            }
            CollectiveKind::GradNorm => all_gather(self, group, Bytes(8)),
        }
    }
}
