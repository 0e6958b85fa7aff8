//! What can be wrong with a model's description.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A description of a model that cannot be used.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A size is zero or beyond what this crate counts without overflow.
    #[error("{what} is {found}; use a value from 1 to {max}")]
    Size {
        /// The size, by its field's name.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The largest legal value.
        max: usize,
    },
    /// The width cannot be split evenly into heads.
    #[error("width {width} does not divide into {heads} heads; use a multiple of {heads}")]
    Heads {
        /// The model's width.
        width: usize,
        /// The number of attention heads.
        heads: usize,
    },
    /// The image cannot be halved as often as there are convolutions.
    #[error(
        "an image of {image} x {image} pixels cannot be halved {times} times, once a convolution; \
         use a multiple of 2^{times}, or fewer convolutions"
    )]
    Halvings {
        /// Height and width of the image.
        image: usize,
        /// The number of convolutions.
        times: usize,
    },
    /// A `config.json` lacks fields that have no default.
    #[error("the model config lacks {missing}; add it as Hugging Face's GPT-2 config writes it")]
    Missing {
        /// The fields, separated by commas.
        missing: String,
    },
    /// A `config.json` asks for a variant that is not built here.
    #[error("the model config has {field} = {found}; only {legal} is supported")]
    Unsupported {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The legal value.
        legal: String,
    },
    /// A `config.json` is not JSON, or a field has the wrong type.
    #[error("the model config is not valid JSON of its form: {0}")]
    Json(#[from] serde_json::Error),
    /// A file could not be read or written.
    #[error("cannot access the model config {path}: {source}; check the path and its permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file was read, and its content is wrong.
    #[error("{path}: {source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<ModelError>,
    },
}
