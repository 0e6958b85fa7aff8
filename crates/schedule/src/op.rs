//! What a device can be told to do, and the lane on which it does it.

use crate::tables::Schedule;
use cavalcade_units::{
    ChunkId, CollectiveId, DeviceId, ExchangeId, GroupId, MicrobatchId, TransferId,
};

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
    /// Move what a recomputed chunk keeps of a micro-batch from the device to its host.
    Offload {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// Move it back. It starts no earlier than the pass before it in the list has ended: at once
    /// after the offload it would save nothing.
    Prefetch {
        /// The chunk.
        chunk: ChunkId,
        /// The micro-batch.
        microbatch: MicrobatchId,
    },
    /// Hand the sum of a wave's updates to the parameters' server.
    Push(ExchangeId),
    /// Ask the server for parameters that hold at least the waves that the exchange names, and
    /// take them. It starts no earlier than the pass before it in the list has ended.
    Pull(ExchangeId),
    /// Put what was pulled in place of the parameters, and the own updates that it lacks on top.
    Merge(ExchangeId),
    /// Turn a chunk's gradients into new parameters.
    OptimizerStep {
        /// Whose parameters.
        chunk: ChunkId,
    },
}

/// A pass of a chunk over a micro-batch.
///
/// A step takes each chunk of a micro-batch's path through a forward and a backward, whole or in
/// its two parts. What else it takes depends on the schedule: see [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Inputs to outputs, keeping what the backward needs.
    Forward,
    /// The forward once more, of a chunk that kept its input alone.
    Recompute,
    /// Gradient of the output by the input, as part of the objective (a force is one of an
    /// energy): from the last chunk to the first.
    Adjoint,
    /// Backward of the adjoint pass: from the first chunk to the last.
    DoubleBackward,
    /// Output gradients to input gradients and parameter gradients.
    Backward,
    /// Output gradients to input gradients, keeping what the parameter gradients need.
    BackwardInput,
    /// What was kept to parameter gradients.
    BackwardWeight,
    /// The micro-batch's gradients to a change of the parameters, in a schedule without a flush.
    Update,
    /// Adds that change to the parameters.
    Apply,
}

impl Pass {
    /// All passes.
    pub const ALL: [Self; 9] = [
        Self::Forward,
        Self::Recompute,
        Self::Adjoint,
        Self::DoubleBackward,
        Self::Backward,
        Self::BackwardInput,
        Self::BackwardWeight,
        Self::Update,
        Self::Apply,
    ];

    /// Its letter in the text form.
    pub fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Recompute => 'X',
            Self::Adjoint => 'J',
            Self::DoubleBackward => 'K',
            Self::Backward => 'B',
            Self::BackwardInput => 'I',
            Self::BackwardWeight => 'W',
            Self::Update => 'U',
            Self::Apply => 'A',
        }
    }

    /// Its name in messages and pictures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Recompute => "recompute",
            Self::Adjoint => "adjoint",
            Self::DoubleBackward => "double backward",
            Self::Backward => "backward",
            Self::BackwardInput => "backward input",
            Self::BackwardWeight => "backward weight",
            Self::Update => "update",
            Self::Apply => "apply",
        }
    }
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
    /// What leaves for the parameter servers on one device.
    ToServers(DeviceId),
    /// What comes from them.
    FromServers(DeviceId),
    /// Values that leave for the device's host.
    ToHost,
    /// Values that come back from it.
    FromHost,
}

impl Op {
    /// The lane of this op.
    ///
    /// # Panics
    /// If the op names an entry that `schedule` does not have.
    pub fn lane(self, schedule: &Schedule) -> Lane {
        match self {
            Self::Compute { .. } | Self::Merge(_) | Self::OptimizerStep { .. } => Lane::Compute,
            Self::Send(id) => Lane::ToPeer(schedule.transfers[id.idx()].to),
            Self::Recv(id) => Lane::FromPeer(schedule.transfers[id.idx()].from),
            Self::Collective(id) => Lane::Group(schedule.collectives[id.idx()].group),
            Self::Push(id) => Lane::ToServers(schedule.server_of(id)),
            Self::Pull(id) => Lane::FromServers(schedule.server_of(id)),
            Self::Offload { .. } => Lane::ToHost,
            Self::Prefetch { .. } => Lane::FromHost,
        }
    }
}
