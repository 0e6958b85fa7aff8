//! What can be wrong with a configuration.

use std::path::PathBuf;
use thiserror::Error;

/// A configuration that cannot be used, and why.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The file is not TOML of the right shape.
    #[error("{}:{line}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there and what is legal.
        problem: String,
    },
    /// An override is not `key=value`, or does not fit.
    #[error("--set {text}: {problem}")]
    Override {
        /// The override.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value has the right type but makes no sense.
    #[error("{}: {key}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key, in dotted form.
        key: String,
        /// What was found, what is legal, the remedy.
        problem: String,
    },
}
