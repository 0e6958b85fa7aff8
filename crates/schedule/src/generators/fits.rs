//! Whether a layout has the form that a kind of schedule needs.

use super::{Form, Kind};
use crate::order::{Pipeline, Stage};
use cavalcade_units::DeviceId;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A layout over which a kind of schedule cannot run. Pipelines and stages are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// Nothing to do, or nobody to do it.
    #[error("pipeline {pipeline} has no stage or takes no micro-batch; give it at least one")]
    Empty {
        /// The pipeline.
        pipeline: usize,
    },
    /// A device serves two stages, where it may serve one.
    #[error(
        "device {device} serves stage {} of pipeline {} and stage {} of pipeline {}; a device \
         serves one stage: choose another device for one of them, or join the two stages",
        first.1, first.0, second.1, second.0
    )]
    DeviceTwice {
        /// The device.
        device: DeviceId,
        /// Pipeline and stage of its first use.
        first: (usize, usize),
        /// Pipeline and stage of its second use.
        second: (usize, usize),
    },
    /// The stages of an interleaved pipeline do not go round its devices.
    #[error(
        "stage {stage} of pipeline {pipeline} is on device {device}, but interleaved stages go \
         round their devices in one order, every device as often as the others: here it is the \
         turn of device {expected}"
    )]
    NotRound {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// Its device.
        device: DeviceId,
        /// The device whose turn it is.
        expected: DeviceId,
    },
    /// The last round over an interleaved pipeline's devices is not whole.
    #[error(
        "pipeline {pipeline} has {n_stages} stages on {n_devices} devices; interleaved, every \
         device serves as many stages as the others"
    )]
    BrokenRound {
        /// The pipeline.
        pipeline: usize,
        /// Its stages.
        n_stages: usize,
        /// Its devices.
        n_devices: usize,
    },
    /// The stages of a pipeline do not go over its devices and back.
    #[error(
        "pipeline {pipeline} goes over its devices and back, so it has two stages for each device \
         and lists the devices of the first half in the opposite order in the second; stage \
         {stage} is on device {device}"
    )]
    NotFolded {
        /// The pipeline.
        pipeline: usize,
        /// The first stage out of place; the last one if their number is odd.
        stage: usize,
        /// Its device.
        device: DeviceId,
    },
    /// Pipelines that share their devices are cut differently.
    #[error(
        "stage {stage} of pipeline {pipeline} is unlike that of pipeline 0; the pipelines of a \
         schedule that skips are cut at the same layers, so that any of them can serve the \
         micro-batches of the others"
    )]
    UnlikeCuts {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
    },
    /// A pipeline without one in the other direction.
    #[error(
        "chimera runs pipelines in pairs, one in each direction over the same devices; there are \
         {n_pipelines}"
    )]
    Unpaired {
        /// How many there are.
        n_pipelines: usize,
    },
    /// An odd number of stages.
    #[error("chimera needs an even number of stages; pipeline {pipeline} has {n_stages}")]
    OddStages {
        /// The pipeline.
        pipeline: usize,
        /// Its stages.
        n_stages: usize,
    },
    /// The second pipeline of a pair does not run the other way.
    #[error(
        "pipelines {} and {pipeline} are a pair of chimera, so {pipeline} lists the devices of {} \
         in the opposite order", pipeline - 1, pipeline - 1
    )]
    NotMirrored {
        /// The second of the pair.
        pipeline: usize,
    },
}

/// Checks that `pipelines` have the form that `kind` needs: what [`generate`](super::generate)
/// checks before it begins.
///
/// # Errors
/// The first thing that does not fit.
pub fn fits(kind: Kind, pipelines: &[Pipeline]) -> Result<(), LayoutError> {
    let is_empty = |p: &Pipeline| p.stages.is_empty() || p.microbatches == 0;
    if let Some(pipeline) = pipelines.iter().position(is_empty) {
        return Err(LayoutError::Empty { pipeline });
    }
    match kind.form() {
        Form::Apart => {
            let stages = pipelines.iter().map(|p| &p.stages[..]).enumerate();
            distinct(stages)
        }
        Form::Round => {
            let mut rounds = Vec::new();
            for (idx, pipeline) in pipelines.iter().enumerate() {
                rounds.push((idx, round(idx, &pipeline.stages)?));
            }
            distinct(rounds.into_iter())
        }
        Form::Folded => {
            let mut halves = Vec::new();
            for (idx, pipeline) in pipelines.iter().enumerate() {
                halves.push((idx, half(idx, &pipeline.stages)?));
            }
            distinct(halves.into_iter())
        }
        Form::Alike => alike(pipelines),
        Form::Mirrored => {
            for (idx, pair) in pipelines.chunks(2).enumerate() {
                mirrored(2 * idx, pair, pipelines.len())?;
            }
            let downs = pipelines.iter().map(|p| &p.stages[..]).enumerate();
            distinct(downs.step_by(2))
        }
    }
}

/// Every device serves one of `stages` only.
fn distinct<'a>(stages: impl Iterator<Item = (usize, &'a [Stage])>) -> Result<(), LayoutError> {
    let mut uses = BTreeMap::new();
    for (pipeline_idx, stages) in stages {
        for (stage_idx, stage) in stages.iter().enumerate() {
            let second = (pipeline_idx, stage_idx);
            if let Some(first) = uses.insert(stage.device, second) {
                return Err(LayoutError::DeviceTwice { device: stage.device, first, second });
            }
        }
    }
    Ok(())
}

/// All pipelines are cut alike, and every device serves the same stage of all of them.
fn alike(pipelines: &[Pipeline]) -> Result<(), LayoutError> {
    let mut uses = BTreeMap::new();
    for (pipeline_idx, pipeline) in pipelines.iter().enumerate() {
        let model = &pipelines[0].stages;
        for (stage_idx, stage) in pipeline.stages.iter().enumerate() {
            let is_alike = model.get(stage_idx).is_some_and(|first| first.layers == stage.layers);
            if !is_alike || pipeline.stages.len() != model.len() {
                return Err(LayoutError::UnlikeCuts { pipeline: pipeline_idx, stage: stage_idx });
            }
            let second = (pipeline_idx, stage_idx);
            let first = *uses.entry(stage.device).or_insert(second);
            if first.1 != stage_idx {
                return Err(LayoutError::DeviceTwice { device: stage.device, first, second });
            }
        }
    }
    Ok(())
}

/// The stages of the first round over the devices of an interleaved pipeline.
fn round(pipeline: usize, stages: &[Stage]) -> Result<&[Stage], LayoutError> {
    let devices: BTreeSet<DeviceId> = stages.iter().map(|stage| stage.device).collect();
    let n_devices = devices.len();
    for (idx, stage) in stages.iter().enumerate().skip(n_devices) {
        let expected = stages[idx - n_devices].device;
        if stage.device != expected {
            let device = stage.device;
            return Err(LayoutError::NotRound { pipeline, stage: idx, device, expected });
        }
    }
    if stages.len().is_multiple_of(n_devices) {
        Ok(&stages[..n_devices])
    } else {
        Err(LayoutError::BrokenRound { pipeline, n_stages: stages.len(), n_devices })
    }
}

/// The stages of the way there of a pipeline that goes over its devices and back.
fn half(pipeline: usize, stages: &[Stage]) -> Result<&[Stage], LayoutError> {
    let n_devices = stages.len() / 2;
    let opposite = |stage: usize| stages.len() - 1 - stage;
    let mut second = n_devices..stages.len();
    match second.find(|&at| opposite(at) == at || stages[at].device != stages[opposite(at)].device)
    {
        None => Ok(&stages[..n_devices]),
        Some(stage) => {
            let device = stages[stage].device;
            Err(LayoutError::NotFolded { pipeline, stage, device })
        }
    }
}

fn mirrored(first: usize, pair: &[Pipeline], n_pipelines: usize) -> Result<(), LayoutError> {
    let [down, up] = pair else { return Err(LayoutError::Unpaired { n_pipelines }) };
    for (pipeline, stages) in [(first, &down.stages), (first + 1, &up.stages)] {
        if !stages.len().is_multiple_of(2) {
            return Err(LayoutError::OddStages { pipeline, n_stages: stages.len() });
        }
    }
    let forth = down.stages.iter().map(|stage| stage.device);
    let back = up.stages.iter().rev().map(|stage| stage.device);
    if forth.eq(back) { Ok(()) } else { Err(LayoutError::NotMirrored { pipeline: first + 1 }) }
}
