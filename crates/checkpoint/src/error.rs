//! What can be wrong with a checkpoint.

use safetensors::{Dtype, SafeTensorError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A file that cannot be written, read or used.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// There is no such file.
    #[error("there is no file {path}; check the path, or the step that you want to load")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file exists and cannot be read.
    #[error("cannot read {path}: {source}; check its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be written. What was there before is untouched.
    #[error("cannot write {path}: {source}; check that its folder exists and has space")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content is not a safetensors file: cut short, or something else.
    #[error(
        "{path} ({n_bytes} bytes) is not a whole safetensors file: {source}; copy it again, or \
         load an older checkpoint"
    )]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// Its size.
        n_bytes: usize,
        /// What the format's reader says.
        source: SafeTensorError,
    },
    /// A tensor has another element type.
    #[error("{path}: the tensor `{tensor}` has type {found}; convert it to F32")]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: Dtype,
    },
    /// A tensor has another shape than the model's.
    #[error(
        "{path}: the tensor `{tensor}` has shape {found:?}, the model needs {expected:?}; load it \
         with the configuration that it was trained with"
    )]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// Its shape in the model.
        expected: Vec<usize>,
    },
    /// The model has tensors that the file lacks.
    #[error(
        "{path} lacks {}; load it with the configuration that it was trained with", list(.tensors)
    )]
    MissingTensors {
        /// The file.
        path: PathBuf,
        /// Their names, ascending.
        tensors: Vec<String>,
    },
    /// The file has tensors that the model lacks.
    #[error(
        "{path} has {}, which the model lacks; load it with the configuration that it was trained \
         with",
        list(.tensors)
    )]
    UnexpectedTensors {
        /// The file.
        path: PathBuf,
        /// Their names, ascending.
        tensors: Vec<String>,
    },
}

/// How many names a message shows.
const N_NAMES: usize = 3;

fn list(names: &[String]) -> String {
    let shown = names.iter().take(N_NAMES).map(|name| format!("`{name}`"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let noun = if names.len() == 1 { "the tensor" } else { "the tensors" };
    match names.len().saturating_sub(N_NAMES) {
        0 => format!("{noun} {shown}"),
        n_more => format!("{noun} {shown} and {n_more} more"),
    }
}
