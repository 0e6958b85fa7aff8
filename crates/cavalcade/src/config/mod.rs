//! The configuration of a run: one TOML file, with the same words as the library's types.
//!
//! `file` is what is written (serde, defaults, unknown keys refused); `checked` is what is meant;
//! `network` that part of it that says what is trained, and on what; `agreed` is what of it all
//! ranks must have alike.
//!
//! `--set key=value` changes the written form before it is read, so that a wrong override gets
//! the same message as a wrong line.

mod agreed;
mod checked;
mod error;
mod file;
mod network;
mod overrides;
mod sync;
mod varied;

pub use checked::{Config, LaunchConfig, PipelineConfig, PlanConfig};
pub use error::ConfigError;
pub use network::{DataConfig, ImagesConfig, TextConfig, TokenizerKind};
pub use sync::{SyncConfig, WavesConfig};
