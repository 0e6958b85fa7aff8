//! The real world: ranks that run a schedule on real chunks over a real transport.
//!
//! ```text
//!   launcher process                     worker process (one a device)
//!   coordinator  <-- control, one each -->  worker --> interpret(schedule, RealWorld)
//!        |                                      |            a thread a lane
//!     observer                                  '-- transport mesh between the ranks
//! ```
//!
//! The same interpreter as in the simulator decides what runs when; the same costs pace emulated
//! devices. Invariant: this crate and the simulator never depend on each other, and neither reads
//! the environment: places, secrets and clocks are arguments.

mod coordinator;
mod device;
mod error;
mod events;
mod exchange;
mod fingerprint;
mod job;
mod launch;
mod local;
mod lock;
mod pacing;
mod protocol;
mod reference;
mod replay;
mod samples;
mod server_rule;
mod servers;
mod settings;
mod steps;
mod versions;
mod worker;
mod world;

pub use coordinator::{Captured, Observer, StepSummary};
pub use error::{LaunchError, RunError};
pub use events::Interrupt;
pub use fingerprint::fingerprint;
pub use job::{Job, WavesOfRun};
pub use launch::{Launch, check_address, launch};
pub use local::{ThreadRun, run_threads};
pub use protocol::{Hello, Values, Welcome};
pub use reference::{Reference, ReferenceStep};
pub use replay::{Replayed, Staleness, replay};
pub use samples::{Samples, images, windows};
pub use server_rule::{Combine, ServerOptimizer, ServerSettings};
pub use settings::{LearningRate, OptimizerSettings, Settings};
pub use versions::VersionEvent;
pub use worker::{Place, work};
