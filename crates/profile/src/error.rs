//! What can be wrong with a profile's file.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A profile that cannot be read or written.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The file could not be read or written.
    #[error("cannot access the profile {path}: {source}; check the path and its permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text is not JSON of this form; names the field, the line and the column.
    #[error("not a profile: {0}; measure it again")]
    Json(#[from] serde_json::Error),
    /// The file has another version.
    #[error("the profile has version {found}; this build reads version {legal}: measure it again")]
    Version {
        /// The version found.
        found: u64,
        /// The version that is read.
        legal: u64,
    },
    /// A value makes no sense.
    #[error("{field} of the profile is {found}; it has to be {legal}: measure it again")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What is legal.
        legal: &'static str,
    },
    /// A file was read, and its content is wrong.
    #[error("{path}: {source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<ProfileError>,
    },
}
