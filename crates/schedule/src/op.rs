//! What a device can be told to do, and the lane on which it does it.

use crate::tables::Schedule;
use cavalcade_units::{ChunkId, CollectiveId, DeviceId, GroupId, MicrobatchId, TransferId};

/// One instruction of a device's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Run one pass of one chunk over one micro-batch.
    Compute {
        /// Which pass.
        pass: Pass,
        /// Of which chunk; it is held by the device whose program this is.
        chunk: ChunkId,
        /// Over which micro-batch.
        microbatch: MicrobatchId,
    },
    /// Hand a value to its other end.
    Send(TransferId),
    /// Take a value from its other end.
    Recv(TransferId),
    /// Take part in a collective.
    Collective(CollectiveId),
    /// Turn a chunk's gradients into new parameters.
    OptimizerStep {
        /// Whose parameters.
        chunk: ChunkId,
    },
}

/// A pass of a chunk over a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Inputs to outputs, keeping what the backward needs.
    Forward,
    /// Output gradients to input gradients and parameter gradients.
    Backward,
}

/// Where an op runs: ops on one lane of a device run in list order, lanes overlap.
///
/// Receive lanes are by peer: with a single one, a pipeline can deadlock on the order in which
/// two peers happen to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// The device's arithmetic.
    Compute,
    /// Values that leave for one peer.
    ToPeer(DeviceId),
    /// Values that come from one peer.
    FromPeer(DeviceId),
    /// Collectives of one group.
    Group(GroupId),
}

impl Op {
    /// The lane of this op.
    ///
    /// # Panics
    /// If the op names an entry that `schedule` does not have.
    pub fn lane(self, schedule: &Schedule) -> Lane {
        match self {
            Self::Compute { .. } | Self::OptimizerStep { .. } => Lane::Compute,
            Self::Send(id) => Lane::ToPeer(schedule.transfers[id.idx()].to),
            Self::Recv(id) => Lane::FromPeer(schedule.transfers[id.idx()].from),
            Self::Collective(id) => Lane::Group(schedule.collectives[id.idx()].group),
        }
    }
}
