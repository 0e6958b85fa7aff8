//! Who computes what, in what order: what generators make. It cannot hold communication.

use crate::generators::Shape;
use crate::op::Pass;
use crate::tables::{Chunk, Tie};
use crate::ticks::Ticks;
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId};
use std::collections::BTreeSet;
use std::ops::Range;

/// What a generator is told: which devices form which pipelines over which layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Layers of the model.
    pub n_layers: u32,
    /// Devices of the cluster; some may have nothing to do.
    pub n_devices: u32,
    /// Parameters that layers share.
    pub ties: Vec<Tie>,
    /// The replicas.
    pub pipelines: Vec<Pipeline>,
    /// How long passes and messages take, for kinds that weigh one order against another.
    pub ticks: Ticks,
}

/// One replica of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Its stages, first to last.
    pub stages: Vec<Stage>,
    /// How many micro-batches of a step pass through it.
    pub microbatches: u32,
}

impl Pipeline {
    /// What its schedule depends on.
    pub fn shape(&self) -> Shape {
        let devices: BTreeSet<DeviceId> = self.stages.iter().map(|stage| stage.device).collect();
        Shape {
            n_stages: self.stages.len() as u32,
            n_devices: devices.len() as u32,
            n_microbatches: self.microbatches,
        }
    }
}

/// One position of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The device.
    pub device: DeviceId,
    /// Its layers.
    pub layers: Range<u32>,
}

/// One pass of one chunk over one micro-batch.
pub(crate) type ComputeOp = (Pass, ChunkId, MicrobatchId);

/// Most micro-batches between their forward and the end of their backward, in one chunk's `passes`.
pub(crate) fn most_in_flight(passes: impl IntoIterator<Item = Pass>) -> u32 {
    let (mut now, mut most) = (0u32, 0);
    for pass in passes {
        match pass {
            Pass::Forward => now += 1,
            Pass::Backward | Pass::BackwardWeight => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Chunks, paths, and for each device its passes in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeOrder {
    pub(crate) name: String,
    pub(crate) n_layers: u32,
    pub(crate) ties: Vec<Tie>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) paths: Vec<Vec<ChunkId>>,
    pub(crate) microbatches: Vec<u32>,
    pub(crate) programs: Vec<Vec<ComputeOp>>,
    /// See [`crate::Schedule`], as the two after it.
    pub(crate) staleness: Option<u32>,
    pub(crate) detours: Option<u32>,
    pub(crate) second_order: bool,
    pub(crate) makespan: Option<u64>,
}

impl ComputeOrder {
    /// When the last pass ends by the layout's [`Ticks`], as far as the generator weighed them: the
    /// figure that it made small. None of a kind that looks at no ticks.
    pub fn makespan(&self) -> Option<u64> {
        self.makespan
    }

    /// One chunk a stage, one path a pipeline, micro-batches numbered pipeline by pipeline, and no
    /// pass yet.
    pub(crate) fn without_passes(name: String, layout: &Layout) -> Self {
        let mut order = Self {
            name,
            n_layers: layout.n_layers,
            ties: layout.ties.clone(),
            chunks: Vec::new(),
            paths: Vec::new(),
            microbatches: Vec::new(),
            programs: vec![Vec::new(); layout.n_devices as usize],
            staleness: None,
            detours: None,
            second_order: false,
            makespan: None,
        };
        for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
            let first = order.chunks.len();
            let path = first..first + pipeline.stages.len();
            order.paths.push(path.map(ChunkId::from_idx).collect());
            let chunks = pipeline.stages.iter();
            let chunks = chunks.map(|stage| Chunk {
                device: stage.device,
                layers: stage.layers.clone(),
                recompute: false,
            });
            order.chunks.extend(chunks);
            let paths = std::iter::repeat_n(path_idx as u32, pipeline.microbatches as usize);
            order.microbatches.extend(paths);
        }
        order
    }

    /// Adds a pass of a stage to the end of its device's program; `microbatch` is the index within
    /// the pipeline.
    pub(crate) fn push(&mut self, pipeline: usize, stage: u32, pass: Pass, microbatch: u32) {
        let chunk = self.paths[pipeline][stage as usize];
        let first = self.microbatches.partition_point(|&path| (path as usize) < pipeline) as u32;
        let device = self.chunks[chunk.idx()].device;
        self.programs[device.idx()].push((pass, chunk, MicrobatchId(first + microbatch)));
    }

    /// Every stage by itself: `program(stage_idx, n_stages, n_microbatches)` gives its passes. For
    /// layouts in which a device has one stage.
    pub(crate) fn by_stage(
        name: String,
        layout: &Layout,
        program: impl Fn(u32, u32, u32) -> Vec<(Pass, u32)>,
    ) -> Self {
        let mut order = Self::without_passes(name, layout);
        for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
            let n_stages = pipeline.stages.len() as u32;
            for stage_idx in 0..n_stages {
                for (pass, microbatch) in program(stage_idx, n_stages, pipeline.microbatches) {
                    order.push(path_idx, stage_idx, pass, microbatch);
                }
            }
        }
        order
    }
}
