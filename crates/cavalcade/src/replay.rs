//! The replay of a finished run: one process goes through the run's log of versions and must reach
//! the weights that the run has left.

use crate::config::Config;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::generate;
use crate::prepare::{self, Prepared};
use crate::report::StepMetrics;
use crate::run_folder::VERSIONS;
use crate::verify::difference;
use cavalcade_plan::Plan;
use cavalcade_profile::Profile;
use cavalcade_runtime::{VersionEvent, replay};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// How far a run is from its replay, and how stale its weights were.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// Waves that were replayed.
    pub waves: u64,
    /// Largest relative difference of the loss of a wave, up to the first that lacks a replica.
    pub loss_difference: f64,
    /// L2 of the difference of the final weights over L2 of the weights.
    pub weight_difference: f64,
    /// Most own updates that a micro-batch's weights lacked, and the most that they may.
    pub local_staleness: [u64; 2],
    /// Most updates of another replica that a micro-batch's weights lacked, and the most that they
    /// may.
    pub global_staleness: [u64; 2],
    /// Most waves that a replica was ahead of what it had of the others, and the most that it may.
    pub waves_ahead: [u64; 2],
    /// The largest difference that passes.
    pub tolerance: f64,
    /// Whether both differences pass and no bound is broken.
    pub passed: bool,
}

impl Replay {
    /// Replays the run in `folder`.
    ///
    /// # Errors
    /// If the folder is not one of a finished run that exchanged waves, or its files do not fit
    /// together. A difference is no error but in the result.
    pub fn of(folder: &Path, tolerance: f64) -> Result<Self, Error> {
        let config = Config::read(&folder.join("config.toml"), &[])?;
        if config.sync.waves.is_none() {
            return Err(Error::Argument(format!(
                "{}: the run summed its gradients at every step, so there is nothing to replay; \
                 compare it with one process by `cavalcade verify`",
                folder.display()
            )));
        }
        let data = Dataset::read(&config)?;
        let profile = Profile::read(&folder.join("profile.json"))?;
        let model = prepare::model(&config, &data)?;
        let n_layers = model.n_layers();
        let path = folder.join("plan.toml");
        let in_plan = |problem: String| Error::Plan { path: path.clone(), problem };
        let written = std::fs::read_to_string(&path).map_err(|e| in_plan(e.to_string()))?;
        let plan = Plan::from_toml(&written, &prepare::cluster_names(&config), n_layers)
            .map_err(|e| in_plan(e.to_string()))?;
        let prepared = Prepared::planned(config, data, profile, plan)?;
        let job = &prepared.job;
        let versions: Vec<VersionEvent> = lines(&folder.join(VERSIONS))?;
        let metrics: Vec<StepMetrics> = lines(&folder.join("metrics.jsonl"))?;
        let weights = generate::weights(&folder.join("model"), &prepared.model)?;
        let replayed = replay(job, &versions)?;
        if metrics.len() != replayed.losses.len() {
            return Err(Error::Argument(format!(
                "{}: the run reported {} waves of {}: it has not come to its end",
                folder.display(),
                metrics.len(),
                replayed.losses.len()
            )));
        }
        // What a replica had computed before it was lost is known in part.
        let n_whole = replayed.first_left.map_or(metrics.len(), |wave| wave as usize);
        let pairs = metrics.iter().zip(&replayed.losses).take(n_whole);
        let losses = pairs.map(|(found, expected)| (found.loss - expected).abs() / expected);
        let loss_difference = losses.fold(0.0, f64::max);
        let weight_difference = difference(&weights, &replayed.weights);
        let length = job.schedule.schedule().wave.map_or(1, u64::from);
        let distance = prepared.plan.waves().map_or(0, |waves| u64::from(waves.distance));
        let staleness = replayed.staleness;
        let local_staleness = [staleness.local, length - 1];
        let global_staleness = [staleness.global, (distance + 1) * length + length - 2];
        let waves_ahead = [staleness.waves_ahead, distance + 1];
        let is_within = |[found, most]: [u64; 2]| found <= most;
        let passed = loss_difference <= tolerance
            && weight_difference <= tolerance
            && [local_staleness, global_staleness, waves_ahead].into_iter().all(is_within);
        Ok(Self {
            waves: metrics.len() as u64,
            loss_difference,
            weight_difference,
            local_staleness,
            global_staleness,
            waves_ahead,
            tolerance,
            passed,
        })
    }
}

/// The entries of a file that has one JSON object a line.
fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let fail = |problem: String| Error::Argument(format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
    let lines = text.lines().enumerate();
    lines
        .map(|(idx, line)| {
            let entry = serde_json::from_str(line);
            entry.map_err(|e| fail(format!("line {}: {e}", idx + 1)))
        })
        .collect()
}
