//! What can be wrong with a plan.

use crate::UnknownPlacement;
use cavalcade_schedule::{LayoutError, UnknownKind};
use cavalcade_units::DeviceId;
use std::ops::Range;
use thiserror::Error;

/// A plan that cannot be carried out, or a text that is no plan. Pipelines and stages are counted
/// from 0, in the plan's order.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// The plan has no pipeline.
    #[error("the plan has no pipeline; add at least one")]
    NoPipelines,
    /// A pipeline has no stage.
    #[error("pipeline {pipeline} has no stage; give it at least one, or remove the pipeline")]
    NoStages {
        /// The pipeline.
        pipeline: usize,
    },
    /// A pipeline takes no micro-batch.
    #[error(
        "pipeline {pipeline} takes 0 micro-batches of a step; give it at least 1, or remove the \
         pipeline"
    )]
    NoMicrobatches {
        /// The pipeline.
        pipeline: usize,
    },
    /// Waves are of another schedule.
    #[error(
        "waves are exchanged by the schedule `hetpipe:N`, not by `{schedule}`; change the \
         schedule, or remove [waves]"
    )]
    NoWaves {
        /// The schedule.
        schedule: String,
    },
    /// Pipelines have unlike or broken waves.
    #[error(
        "pipeline {pipeline} takes {found} micro-batches of a step, but pipelines that exchange \
         waves of {length} take equally many (the first takes {first}), in whole waves"
    )]
    UnevenWaves {
        /// The pipeline.
        pipeline: usize,
        /// Its micro-batches.
        found: u32,
        /// Those of the first.
        first: u32,
        /// Micro-batches of a wave.
        length: u32,
    },
    /// A placement of servers that there is not.
    #[error("[waves] servers: {0}")]
    Placement(#[from] UnknownPlacement),
    /// Micro-batches hold no sample.
    #[error("the micro-batch size is 0; use at least 1")]
    EmptyMicrobatches,
    /// A stage holds no layer.
    #[error(
        "stage {stage} of pipeline {pipeline} holds no layer ({}..{}); give it at least one, or \
         remove the stage", layers.start, layers.end
    )]
    EmptyStage {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// Its layers as given.
        layers: Range<u32>,
    },
    /// A stage does not continue where the one before it ended: layers are dropped or doubled.
    #[error(
        "stage {stage} of pipeline {pipeline} begins at layer {found}, but layer {expected} is \
         the next; make it {expected}..{end} or change the stage before it"
    )]
    Gap {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// Where it begins.
        found: u32,
        /// Where it has to begin.
        expected: u32,
        /// Where it ends.
        end: u32,
    },
    /// The last stage of a pipeline ends before or after the model's last layer.
    #[error(
        "stage {stage} of pipeline {pipeline}, its last, ends at layer {found}, but the model has \
         {n_layers} layers; end it at {n_layers}"
    )]
    End {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// Where it ends.
        found: u32,
        /// The model's layers.
        n_layers: u32,
    },
    /// A stage is on a device that does not exist.
    #[error(
        "stage {stage} of pipeline {pipeline} is on device {device}, but the cluster has \
         {n_devices} devices, counted from 0; use one of them"
    )]
    NoSuchDevice {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// The device.
        device: DeviceId,
        /// The cluster's devices.
        n_devices: usize,
    },
    /// The pipelines do not have the form that the schedule needs.
    #[error(transparent)]
    Form(#[from] LayoutError),
    /// A word that names no kind of schedule.
    #[error(transparent)]
    UnknownSchedule(#[from] UnknownKind),
    /// The text is not TOML of this form; names the field, the line and the column.
    #[error("not a plan: {0}")]
    Toml(#[from] toml::de::Error),
    /// The text has another version.
    #[error("the plan has version {found}; this build reads version {legal}: plan again")]
    Version {
        /// The version found.
        found: u32,
        /// The version that is read.
        legal: u32,
    },
    /// A stage names a device that the cluster lacks.
    #[error(
        "stage {stage} of pipeline {pipeline} is on `{found}`, which the cluster does not have; \
         its devices are {legal}"
    )]
    UnknownDevice {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// The name.
        found: String,
        /// The names there are, separated by commas.
        legal: String,
    },
    /// A stage's layers are not a range.
    #[error(
        "stage {stage} of pipeline {pipeline} has layers = {found:?}; write the first layer and \
         the one after the last, such as \"0..3\""
    )]
    Layers {
        /// The pipeline.
        pipeline: usize,
        /// The stage.
        stage: usize,
        /// The text.
        found: String,
    },
}
