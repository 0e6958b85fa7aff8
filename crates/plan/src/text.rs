//! A plan as TOML, for people to read, change and keep.
//!
//! ```toml
//! version = 1
//! schedule = "1f1b"
//! microbatch_size = 2
//!
//! [[pipeline]]
//! microbatches = 4
//!
//! [[pipeline.stage]]
//! device = "titan"
//! layers = "0..3"
//! ```
//!
//! Replicas that exchange waves (`schedule = "hetpipe:4"`) have `[waves]` with `distance` and
//! `servers`, `"local"` or `"round-robin"`.
//!
//! Devices have their names here, so that a plan survives a cluster file whose rows moved.

use crate::{Pipeline, Plan, PlanError, Stage, Waves};
use cavalcade_units::DeviceId;
use serde::{Deserialize, Serialize};
use std::ops::Range;

const VERSION: u32 = 1;

#[derive(Deserialize)]
struct VersionLine {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    version: u32,
    schedule: String,
    microbatch_size: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waves: Option<WavesFile>,
    #[serde(default)]
    pipeline: Vec<PipelineFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WavesFile {
    distance: u32,
    servers: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PipelineFile {
    microbatches: u32,
    #[serde(default)]
    stage: Vec<StageFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StageFile {
    device: String,
    layers: String,
}

impl Plan {
    /// The plan's text. `devices` are the cluster's device names, by id.
    ///
    /// # Panics
    /// If a device of the plan has no name in `devices`: it belongs to another cluster.
    pub fn to_toml<S: AsRef<str>>(&self, devices: &[S]) -> String {
        let stage = |stage: &Stage| {
            let Range { start, end } = stage.layers();
            let name = devices.get(stage.device().idx()).expect("the plan is of this cluster");
            StageFile { device: name.as_ref().to_owned(), layers: format!("{start}..{end}") }
        };
        let pipeline = |pipeline: &Pipeline| PipelineFile {
            microbatches: pipeline.microbatches(),
            stage: pipeline.stages().iter().map(stage).collect(),
        };
        let file = PlanFile {
            version: VERSION,
            schedule: self.schedule().to_string(),
            microbatch_size: self.microbatch_size(),
            waves: self.waves().map(|waves| WavesFile {
                distance: waves.distance,
                servers: waves.servers.to_string(),
            }),
            pipeline: self.pipelines().iter().map(pipeline).collect(),
        };
        toml::to_string(&file).expect("plain fields and tables are always TOML")
    }

    /// Reads a plan's text for a model of `n_layers` on the cluster whose device names, by id,
    /// are `devices`.
    ///
    /// # Errors
    /// The text is not TOML of this form and version, names an unknown device or schedule, or
    /// what it describes is refused by [`Plan::new`].
    pub fn from_toml<S: AsRef<str>>(
        text: &str,
        devices: &[S],
        n_layers: u32,
    ) -> Result<Self, PlanError> {
        let VersionLine { version } = toml::from_str(text)?;
        if version != VERSION {
            return Err(PlanError::Version { found: version, legal: VERSION });
        }
        let file: PlanFile = toml::from_str(text)?;
        let mut pipelines = Vec::new();
        for (pipeline_idx, pipeline) in file.pipeline.into_iter().enumerate() {
            let stages = pipeline.stage.into_iter().enumerate();
            let stages: Result<_, _> = stages
                .map(|(idx, stage)| parse_stage((pipeline_idx, idx), stage, devices))
                .collect();
            pipelines.push(Pipeline::new(stages?, pipeline.microbatches));
        }
        let schedule = file.schedule.parse()?;
        let plan = Self::new(pipelines, file.microbatch_size, schedule, n_layers, devices.len())?;
        let Some(WavesFile { distance, servers }) = file.waves else { return Ok(plan) };
        plan.with_waves(Waves { distance, servers: servers.parse()? })
    }
}

fn parse_stage<S: AsRef<str>>(
    (pipeline, stage): (usize, usize),
    file: StageFile,
    devices: &[S],
) -> Result<Stage, PlanError> {
    let Some(layers) = parse_range(&file.layers) else {
        return Err(PlanError::Layers { pipeline, stage, found: file.layers });
    };
    let Some(device) = devices.iter().position(|name| name.as_ref() == file.device) else {
        let legal = devices.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
        return Err(PlanError::UnknownDevice { pipeline, stage, found: file.device, legal });
    };
    Ok(Stage::new(DeviceId::from_idx(device), layers))
}

fn parse_range(text: &str) -> Option<Range<u32>> {
    let (start, end) = text.split_once("..")?;
    Some(start.trim().parse().ok()?..end.trim().parse().ok()?)
}
