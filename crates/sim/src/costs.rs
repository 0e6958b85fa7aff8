//! What things cost: the questions that the virtual world asks.

use cavalcade_cluster::Resource;
use cavalcade_schedule::{CollectiveKind, MemoryModel, Op};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// From the end of sending to arrival.
    pub latency: Nanos,
    /// Bytes a second that the link takes; none for a link that is never busy.
    pub bandwidth: Option<Bandwidth>,
}

impl LinkCost {
    /// A link that costs nothing.
    pub const FREE: Self = Self { latency: Nanos::ZERO, bandwidth: None };

    /// How long `bytes` keep the link busy.
    pub fn busy(self, bytes: Bytes) -> Nanos {
        self.bandwidth.map_or(Nanos::ZERO, |bandwidth| bandwidth.time_for(bytes))
    }
}

/// Times and sizes of everything in a schedule.
pub trait Costs: MemoryModel {
    /// How long a pass or an optimizer step takes on `device`.
    fn compute(&self, device: DeviceId, op: Op) -> Nanos;

    /// How long an offload or a prefetch keeps the link between `device` and its host busy.
    fn to_host(&self, device: DeviceId, op: Op) -> Nanos {
        let _ = (device, op);
        Nanos::ZERO
    }

    /// The link over which `from` sends to `to`: its latency, and what it takes by itself.
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost;

    /// What messages share with each other; nothing, unless an implementation says so.
    fn resources(&self) -> &[Resource] {
        &[]
    }

    /// The resources that a message from `from` to `to` passes, in order, each once: indices into
    /// [`Self::resources`].
    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        let _ = (from, to);
        Vec::new()
    }

    /// How long a collective takes once all of `group` have begun it. It shares nothing with
    /// messages under way.
    fn collective(&self, kind: CollectiveKind, group: &[DeviceId]) -> Nanos;
}
