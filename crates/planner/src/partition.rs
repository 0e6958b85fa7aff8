//! Where to cut a model's layers into the stages of one pipeline.
//!
//! ```text
//! layers    0 1 2 3 4 5 6 7        time of a stage = sum over its layers on its device
//! stages   |--a--|b|---c---|       the slowest stage paces the pipeline: make it fast
//! ```
//!
//! Dynamic programming over prefixes, as in PipeDream (Narayanan et al. 2019, section 3.1), with
//! HetPipe's memory limit (Park et al. 2020, its partitioning algorithm): each stage's own device
//! bounds what it may hold. Ours differs in two ways: devices keep the caller's order, so the
//! result is exact for that order, and ties are settled by a second pass instead of by chance. The
//! first pass finds the least possible time of the slowest stage; the second one, among the cuts
//! that reach it, the one with the least time over all stages, which is the time to fill the
//! pipeline.
//!
//! Time: stages * layers^2 steps.

use crate::stage::{Place, StageTimes, ends};
use cavalcade_units::{Bytes, Nanos};
use std::ops::Range;
use thiserror::Error;

/// Layers that cannot be divided over the stages. Stages and layers are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// There are more stages than layers.
    #[error(
        "{n_stages} stages need a layer each, but there are {n_layers} layers; use fewer devices"
    )]
    TooFewLayers {
        /// The layers.
        n_layers: u32,
        /// The stages.
        n_stages: usize,
    },
    /// One layer alone is more than any device holds.
    #[error(
        "layer {layer} alone does not fit on any stage: on stage {stage}, the nearest, it needs \
         {needed} of {available}; use smaller or fewer micro-batches, or a device with more memory"
    )]
    Layer {
        /// The layer.
        layer: u32,
        /// The stage that lacks least.
        stage: usize,
        /// What the layer needs there.
        needed: Bytes,
        /// What that stage's device has.
        available: Bytes,
    },
    /// Every way to cut the layers before a stage leaves it with more than it holds.
    #[error(
        "no cut fits: stage {stage} would hold at least layers {}..{}, which need {needed} of \
         {available}; use smaller or fewer micro-batches, more devices, or more memory",
        layers.start, layers.end
    )]
    Stage {
        /// The stage.
        stage: usize,
        /// The layers with the least memory that the stages before can leave to it.
        layers: Range<u32>,
        /// What they need.
        needed: Bytes,
        /// What its device has.
        available: Bytes,
    },
}

/// Cuts `0..n_layers` into one consecutive, non-empty run for each entry of `capacity`.
///
/// `time(stage, layer)` is the time of that layer, forward and backward, on the stage's device;
/// `bytes(stage, layers)` the most memory that the stage uses if it holds those layers, with all
/// its micro-batches in flight; `capacity[stage]` what it has, None for no limit.
///
/// The slowest stage is as fast as it can be within the memory. Of the cuts that reach that, the
/// one with the least sum of all stages' times is taken; of those, the one whose last stage
/// begins earliest, then the stage before it, and so on.
///
/// # Errors
/// There are more stages than layers, or no cut fits.
///
/// # Panics
/// If there is no stage.
pub fn partition(
    time: &dyn Fn(usize, u32) -> Nanos,
    bytes: &dyn Fn(usize, Range<u32>) -> Bytes,
    capacity: &[Option<Bytes>],
    n_layers: u32,
) -> Result<Vec<Range<u32>>, PartitionError> {
    let times = StageTimes::new(time, bytes, capacity, capacity.len(), n_layers);
    let place = |stage| Place { stage, before: None, own: stage, after: None };
    cut(&|stage, range| times.time(place(stage), range), bytes, capacity, n_layers)
}

/// The best cut where `times(stage, layers)` is all of a stage's time, None where they do not fit;
/// the rest as in [`partition`], which explains what is best.
pub(crate) fn cut(
    times: &dyn Fn(usize, Range<usize>) -> Option<Nanos>,
    bytes: &dyn Fn(usize, Range<u32>) -> Bytes,
    capacity: &[Option<Bytes>],
    n_layers: u32,
) -> Result<Vec<Range<u32>>, PartitionError> {
    let n_stages = capacity.len();
    assert!(n_stages > 0, "there is a stage to hold the layers");
    if n_stages > n_layers as usize {
        return Err(PartitionError::TooFewLayers { n_layers, n_stages });
    }
    let layers = n_layers as usize;
    let fastest = Table::fill(times, n_stages, layers, Nanos::max);
    let Some(slowest) = fastest.best[n_stages - 1][layers] else {
        return Err(explain(bytes, capacity, n_layers, &fastest));
    };
    let within = |stage: usize, range: Range<usize>| times(stage, range).filter(|&t| t <= slowest);
    let shortest = Table::fill(&within, n_stages, layers, |before, own| before + own);
    Ok(shortest.cuts(layers))
}

/// For each stage and each end of its layers, the best of all ways to cut up to there.
struct Table {
    /// `best[stage][end]`: the cost of stages `0..=stage` holding layers `0..end`.
    best: Vec<Vec<Option<Nanos>>>,
    /// `start[stage][end]`: where the stage begins in that way.
    start: Vec<Vec<usize>>,
}

impl Table {
    fn fill(
        times: &dyn Fn(usize, Range<usize>) -> Option<Nanos>,
        n_stages: usize,
        n_layers: usize,
        join: impl Fn(Nanos, Nanos) -> Nanos,
    ) -> Self {
        let mut best = vec![vec![None; n_layers + 1]; n_stages];
        let mut starts = vec![vec![0; n_layers + 1]; n_stages];
        for stage in 0..n_stages {
            for end in ends(stage, n_stages, n_layers) {
                for start in stage..end {
                    let Some(before) = before(&best, stage, start) else { continue };
                    let Some(own) = times(stage, start..end) else { continue };
                    let cost = join(before, own);
                    if best[stage][end].is_none_or(|best| cost < best) {
                        (best[stage][end], starts[stage][end]) = (Some(cost), start);
                    }
                }
            }
        }
        Self { best, start: starts }
    }

    /// The best way to cut all layers, read backwards.
    fn cuts(&self, n_layers: usize) -> Vec<Range<u32>> {
        let mut end = n_layers;
        let mut cuts = Vec::with_capacity(self.start.len());
        for start in self.start.iter().rev() {
            cuts.push(as_layers(start[end]..end));
            end = start[end];
        }
        cuts.reverse();
        cuts
    }
}

/// The cost of all stages before `stage` if they hold exactly layers `0..start`.
fn before(best: &[Vec<Option<Nanos>>], stage: usize, start: usize) -> Option<Nanos> {
    match stage.checked_sub(1) {
        Some(previous) => best[previous][start],
        None => (start == 0).then_some(Nanos::ZERO),
    }
}

/// What does not fit, when no cut does.
fn explain(
    bytes: &dyn Fn(usize, Range<u32>) -> Bytes,
    capacity: &[Option<Bytes>],
    n_layers: u32,
    table: &Table,
) -> PartitionError {
    for layer in 0..n_layers {
        let lacks = |stage: usize| {
            let (needed, available) = (bytes(stage, layer..layer + 1), capacity[stage]?);
            (needed > available).then_some((needed, available))
        };
        let lacks: Vec<Option<(Bytes, Bytes)>> = (0..capacity.len()).map(lacks).collect();
        let nearest = lacks.iter().enumerate().min_by_key(|(_, lack)| lack.map(|(n, a)| n - a));
        if let Some((stage, &Some((needed, available)))) = nearest {
            return PartitionError::Layer { layer, stage, needed, available };
        }
    }
    let n_layers = n_layers as usize;
    let stuck = table.best.iter().position(|best| best.iter().all(Option::is_none));
    let stage = stuck.expect("a table without an answer has a stage without one");
    let mut least: Option<(Bytes, Range<u32>)> = None;
    for end in ends(stage, capacity.len(), n_layers) {
        for start in (stage..end).filter(|&start| before(&table.best, stage, start).is_some()) {
            let needed = bytes(stage, as_layers(start..end));
            if least.as_ref().is_none_or(|(least, _)| needed < *least) {
                least = Some((needed, as_layers(start..end)));
            }
        }
    }
    let (needed, layers) = least.expect("the stages before this one have an answer");
    let available = capacity[stage].expect("a stage without a limit holds anything");
    PartitionError::Stage { stage, layers, needed, available }
}

fn as_layers(range: Range<usize>) -> Range<u32> {
    let layer = |idx: usize| u32::try_from(idx).expect("layers were counted in 32 bits");
    layer(range.start)..layer(range.end)
}
