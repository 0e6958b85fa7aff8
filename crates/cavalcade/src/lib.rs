//! The front door: everything that the binary does, for programs.
//!
//! ```no_run
//! use cavalcade::{ClockMeter, Config, Dataset, Interrupt, Meter, Prepared, Trainer, probe};
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! let config = Config::read(Path::new("examples/motley.toml"), &[])?;
//! let data = Dataset::read(&config)?;
//! let meter: Arc<dyn Meter> = Arc::new(ClockMeter::start());
//! let profile = probe(&config, &data, &*meter, &mut |_| {})?;
//! let prepared = Prepared::new(config, data, profile)?;
//! println!("a step will take {}", prepared.prediction.step_time);
//! let trainer = Trainer::new(prepared, meter, Interrupt::default());
//! # let _ = trainer;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | step | module |
//! |---|---|
//! | a TOML file becomes a checked configuration | `config` |
//! | text becomes tokens, or images are made | `dataset`, `text` |
//! | the host is measured | `probe` |
//! | devices form pipelines by a policy | `allocation` |
//! | a plan is made, lowered, checked, simulated | `prepare` |
//! | workers run it, files are written | `train`, `report` |
//! | it is compared with one process | `verify` |
//! | runs on a cluster are compared | `comparison` |
//! | a run without a flush is replayed | `replay` |
//! | the trained model meets held-out samples | `whole` |
//! | the model continues a text | `generate` |
//! | a schedule is looked at by itself | `schedule_study`, `draw` |
//! | a plan is simulated on devices that are not there | `simulation` |

mod allocation;
mod comparison;
mod config;
mod dataset;
mod draw;
mod error;
mod generate;
mod prepare;
mod probe;
mod replay;
mod report;
mod run_folder;
mod schedule_study;
mod simulation;
mod text;
mod train;
mod verify;
mod waves;
mod whole;

pub use cavalcade_cluster::Cluster;
pub use cavalcade_engine::Trace;
pub use cavalcade_model::{ConvConfig, GptConfig, Network};
pub use cavalcade_plan::Plan;
pub use cavalcade_profile::{ClockMeter, Meter, Profile};
pub use cavalcade_runtime::{Interrupt, Launch, Place, check_address};
pub use cavalcade_schedule::{CheckedSchedule, Kind, Reduction, Schedule};
pub use cavalcade_sim::Prediction;
pub use cavalcade_transport::Secret;
pub use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos, Rank};
pub use comparison::{
    Case, Throughput, all_reduce_case, bytes_between_nodes, hetpipe_cases, network_of, throughput,
};
pub use config::{
    Config, ConfigError, DataConfig, ImagesConfig, LaunchConfig, PipelineConfig, PlanConfig,
    SyncConfig, TextConfig, TokenizerKind, WavesConfig,
};
pub use dataset::{Dataset, Images};
pub use draw::{schedule_json, schedule_svg, schedule_text, schedule_trace, simulation_svg};
pub use error::{Error, Failure};
pub use generate::{Generator, Sampling};
pub use prepare::Prepared;
pub use probe::probe;
pub use replay::Replay;
pub use report::{RankSummary, StepMetrics, Summary, chrome_trace, simulation_json, timeline};
pub use run_folder::RunFolder;
pub use schedule_study::{ScheduleSize, ScheduleStudy, StageTimes, StudyError, compared_kinds};
pub use simulation::{Simulation, SimulationFiles, SimulationPasses, Trouble};
pub use text::Text;
pub use train::{Follower, Trained, Trainer, serve_rank};
pub use verify::{StepDifference, Verification};
