//! One error type for the front door, and which exit code each kind deserves.

use crate::config::ConfigError;
use cavalcade_checkpoint::CheckpointError;
use cavalcade_cluster::ClusterError;
use cavalcade_data::DataError;
use cavalcade_model::ModelError;
use cavalcade_profile::ProfileError;
use cavalcade_runtime::{LaunchError, RunError};
use cavalcade_schedule::CheckError;
use std::path::PathBuf;
use thiserror::Error;

/// Why something could not be done.
#[derive(Debug, Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The text cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model's description is wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A model's files cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The planned layers, shares or devices do not fit together.
    #[error("{path}: {problem}", path = path.display())]
    Plan {
        /// The configuration file.
        path: PathBuf,
        /// What is wrong, what is legal, the remedy.
        problem: String,
    },
    /// No way of placing the model fits into the devices' memory.
    #[error("no plan fits: {0}")]
    NoPlan(String),
    /// The schedule of a plan fails the check, for another reason than memory.
    #[error("the plan has no valid schedule: {0}")]
    Schedule(CheckError),
    /// A simulated run that does not come to its end.
    #[error("the run ends early: {0}")]
    Stopped(String),
    /// A cluster's description is wrong.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The run failed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// This rank failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file of the run folder cannot be written.
    #[error("{path}: cannot be written: {reason}", path = path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
}

/// What kind of failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input is wrong: exit code 2.
    BadInput,
    /// The input is right, but nothing fits: exit code 3.
    NoPlan,
    /// The run failed: exit code 4.
    Run,
}

impl Error {
    /// What kind of failure this is.
    pub fn failure(&self) -> Failure {
        match self {
            Self::NoPlan(_) => Failure::NoPlan,
            Self::Launch(LaunchError::Bind { .. }) => Failure::BadInput,
            Self::Launch(_) | Self::Run(_) | Self::Stopped(_) => Failure::Run,
            _ => Failure::BadInput,
        }
    }
}
