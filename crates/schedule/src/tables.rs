//! The schedule itself: tables that say what ids mean, and one program a device.

use crate::op::Op;
use crate::reduction::Reduction;
use crate::value::{Direction, Value};
use cavalcade_units::{ChunkId, DeviceId, ExchangeId, GroupId, MicrobatchId};
use std::ops::Range;

/// A whole schedule of one training step, not yet checked.
///
/// Text form: [`std::fmt::Display`] and [`std::str::FromStr`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// What made it, such as `1f1b`; one word, for people.
    pub name: String,
    /// Layers of the model: every path covers `0..n_layers`.
    pub n_layers: u32,
    /// For a step with a flush, none: one optimizer step a chunk at the end. Without a flush, the
    /// local staleness: a micro-batch's forward on a chunk may lack the updates of that many
    /// micro-batches before it on its path; each is followed by an update of its own.
    pub staleness: Option<u32>,
    /// Micro-batches of a wave, after which each path exchanges its updates with the others over
    /// parameter servers; none if there are no servers.
    pub wave: Option<u32>,
    /// Most layers that a path may leave out, and leave to visit the others in any order but for
    /// the first chunk and the last; none if every path visits all layers in order.
    pub detours: Option<u32>,
    /// Whether the objective holds gradients by the input: every chunk of a path then has an
    /// adjoint and a double backward between its forward and its backward.
    pub second_order: bool,
    /// How many more copies of everything here run on devices of their own, alike in every step:
    /// symmetric replicas, of which only one is written down. Gradients are summed over all.
    pub copies: u32,
    /// How all sums of gradients are made.
    pub reduction: Reduction,
    /// Parameters that several layers share.
    pub ties: Vec<Tie>,
    /// All chunks on all devices.
    pub chunks: Vec<Chunk>,
    /// The ways through the model: each a sequence of chunks from the first layer to the last.
    pub paths: Vec<Vec<ChunkId>>,
    /// For each micro-batch, the index of its path.
    pub microbatches: Vec<u32>,
    /// The parts into which parameters fall, such that all of a part has the same holders.
    pub buckets: Vec<Bucket>,
    /// Values that move between devices.
    pub transfers: Vec<Transfer>,
    /// Sets of devices that take part in collectives.
    pub groups: Vec<Vec<DeviceId>>,
    /// Collective operations.
    pub collectives: Vec<Collective>,
    /// Exchanges with parameter servers.
    pub exchanges: Vec<Exchange>,
    /// For each device, its ops in list order.
    pub programs: Vec<Vec<Op>>,
}

/// Layers that share one parameter, such as an embedding and the output layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The layers, in ascending order.
    pub layers: Vec<u32>,
}

/// A consecutive run of layers on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its device.
    pub device: DeviceId,
    /// Its layers.
    pub layers: Range<u32>,
    /// Whether it keeps its input alone and runs the forward once more before the backward.
    pub recompute: bool,
}

/// Index of a [`Bucket`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub u32);

impl BucketId {
    /// The id as an index.
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// A part of the model's parameters, and every chunk that has a copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Which parameters.
    pub unit: ParamUnit,
    /// The chunks that hold a copy, in ascending order. The first one is the owner: what is to
    /// be counted once over the model is counted there.
    pub holders: Vec<ChunkId>,
    /// The device on which the server of its parameters is, in a schedule with waves.
    pub server: Option<DeviceId>,
}

/// What a chunk and the server of one of its buckets say to each other around a wave: before the
/// forward of the wave's last micro-batch the chunk has weights that hold all waves of all paths
/// but the last `lag` before this one, and after the wave it hands over the sum of its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The chunk.
    pub chunk: ChunkId,
    /// Which of its parameters.
    pub bucket: BucketId,
    /// The wave, counted on the chunk's path.
    pub wave: u32,
    /// The first wave whose changes are handed over; those before it have been.
    pub since: u32,
    /// How many waves before this one the weights may lack.
    pub lag: u32,
}

impl Exchange {
    /// How many complete waves the pulled weights hold at least, of those of this schedule.
    pub fn least(&self) -> u32 {
        self.wave.saturating_sub(self.lag)
    }
}

/// The parameters of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamUnit {
    /// What these layers have for themselves.
    Layers(Range<u32>),
    /// The shared parameter of the tie with this index.
    Tie(u32),
}

/// A value on its way from one device to another. Both ends name the transfer, so a peer is
/// never guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What moves.
    pub value: Value,
    /// Where it was made.
    pub from: DeviceId,
    /// Where it is needed.
    pub to: DeviceId,
}

/// An operation in which a whole group takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// What it does.
    pub kind: CollectiveKind,
    /// Index of the group that takes part.
    pub group: GroupId,
}

/// What a collective does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// Sum a bucket's gradients over its holders; all get the sum.
    SumGradients(BucketId),
    /// Square root of the sum of squares over all gradients of the model, each counted once.
    GradNorm,
}

impl Schedule {
    /// The chunks before and after `chunk` on the micro-batch's path.
    pub fn neighbors(
        &self,
        chunk: ChunkId,
        microbatch: MicrobatchId,
    ) -> (Option<ChunkId>, Option<ChunkId>) {
        let path = &self.paths[self.microbatches[microbatch.idx()] as usize];
        let Some(at) = path.iter().position(|&c| c == chunk) else { return (None, None) };
        (at.checked_sub(1).map(|i| path[i]), path.get(at + 1).copied())
    }

    /// The chunk that needs `value`, if it goes from chunk to chunk and its maker has a neighbor
    /// there.
    pub fn reader_of(&self, value: Value) -> Option<ChunkId> {
        let (maker, microbatch, direction) = value.message()?;
        let (before, after) = self.neighbors(maker, microbatch);
        match direction {
            Direction::Down => after,
            Direction::Up => before,
        }
    }

    /// The chunks that `device` holds, ascending.
    pub fn chunks_on(&self, device: DeviceId) -> impl Iterator<Item = ChunkId> {
        self.chunks
            .iter()
            .enumerate()
            .filter(move |(_, chunk)| chunk.device == device)
            .map(|(idx, _)| ChunkId::from_idx(idx))
    }

    /// The buckets of which `chunk` has a copy, ascending.
    pub fn buckets_of(&self, chunk: ChunkId) -> impl Iterator<Item = BucketId> {
        self.buckets
            .iter()
            .enumerate()
            .filter(move |(_, bucket)| bucket.holders.contains(&chunk))
            .map(|(idx, _)| BucketId(idx as u32))
    }

    /// The device on which the server of an exchange is.
    ///
    /// # Panics
    /// If the exchange or its bucket's server is not in the tables.
    pub fn server_of(&self, id: ExchangeId) -> DeviceId {
        let bucket = &self.buckets[self.exchanges[id.idx()].bucket.idx()];
        bucket.server.expect("a bucket that is exchanged has a server")
    }

    /// By micro-batch, the wave that it belongs to on its path; empty if there are no waves.
    pub fn wave_of_microbatches(&self) -> Vec<u32> {
        let Some(length) = self.wave else { return Vec::new() };
        self.places_on_paths().into_iter().map(|place| place / length.max(1)).collect()
    }

    /// By micro-batch, how many come before it on its path.
    pub fn places_on_paths(&self) -> Vec<u32> {
        let mut seen = vec![0; self.paths.len()];
        let place = |&path: &u32| {
            let before: &mut u32 = seen.get_mut(path as usize)?;
            *before += 1;
            Some(*before - 1)
        };
        self.microbatches.iter().map_while(place).collect()
    }

    /// By path, how many micro-batches take it.
    pub fn microbatches_of_paths(&self) -> Vec<u32> {
        let mut counts = vec![0; self.paths.len()];
        self.microbatches.iter().for_each(|&path| counts[path as usize] += 1);
        counts
    }

    /// Whether the gradients of a bucket are summed over several holders before the optimizer step,
    /// those of symmetric copies included.
    pub fn is_summed(&self, bucket: BucketId) -> bool {
        let has_others = self.buckets[bucket.idx()].holders.len() > 1 || self.copies > 0;
        has_others && self.staleness.is_none()
    }

    /// Whether the gradient is clipped by its norm before the optimizer.
    pub fn clips_gradients(&self) -> bool {
        self.collectives.iter().any(|c| c.kind == CollectiveKind::GradNorm)
    }

    /// Number of ops over all devices.
    pub fn n_ops(&self) -> usize {
        self.programs.iter().map(Vec::len).sum()
    }
}
