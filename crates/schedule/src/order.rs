//! Who computes what, in what order: what generators make. It cannot hold communication.

use crate::op::Pass;
use crate::tables::{Chunk, Tie};
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId};
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
}

/// One replica of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Its stages, first to last.
    pub stages: Vec<Stage>,
    /// How many micro-batches of a step pass through it.
    pub microbatches: u32,
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

/// Chunks, paths, and for each device its passes in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeOrder {
    pub(crate) name: &'static str,
    pub(crate) n_layers: u32,
    pub(crate) ties: Vec<Tie>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) paths: Vec<Vec<ChunkId>>,
    pub(crate) microbatches: Vec<u32>,
    pub(crate) programs: Vec<Vec<ComputeOp>>,
}

impl ComputeOrder {
    /// One chunk a stage and one path a pipeline, micro-batches numbered pipeline by pipeline;
    /// `program(stage_idx, n_stages, n_microbatches)` gives each stage's passes, by the index of
    /// the micro-batch within its pipeline.
    pub(crate) fn by_stage(
        name: &'static str,
        layout: &Layout,
        program: impl Fn(u32, u32, u32) -> Vec<(Pass, u32)>,
    ) -> Self {
        let mut order = Self {
            name,
            n_layers: layout.n_layers,
            ties: layout.ties.clone(),
            chunks: Vec::new(),
            paths: Vec::new(),
            microbatches: Vec::new(),
            programs: vec![Vec::new(); layout.n_devices as usize],
        };
        for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
            let n_stages = pipeline.stages.len() as u32;
            let first_microbatch = order.microbatches.len() as u32;
            let mut path = Vec::new();
            for (stage_idx, stage) in pipeline.stages.iter().enumerate() {
                let chunk = ChunkId::from_idx(order.chunks.len());
                path.push(chunk);
                order.chunks.push(Chunk { device: stage.device, layers: stage.layers.clone() });
                let passes = program(stage_idx as u32, n_stages, pipeline.microbatches);
                order.programs[stage.device.idx()].extend(passes.into_iter().map(
                    |(pass, microbatch)| (pass, chunk, MicrobatchId(first_microbatch + microbatch)),
                ));
            }
            order.paths.push(path);
            order
                .microbatches
                .extend(std::iter::repeat_n(path_idx as u32, pipeline.microbatches as usize));
        }
        order
    }
}
