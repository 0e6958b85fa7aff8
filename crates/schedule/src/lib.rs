//! The one intermediate form for "who does what, in what order": per-device programs of [`Op`]s
//! with tables of chunks, transfers and collectives, and everything that is derived from it.
//!
//! ```text
//! Layout --generators--> ComputeOrder --passes--> Schedule --check--> CheckedSchedule
//! ```
//!
//! The rules, each stated once:
//! 1. Ops on one [`Lane`] of one device run in list order; lanes overlap.
//! 2. An op may start when it heads its lane and every value it needs is there. "There" is
//!    resolved by list order: an op sees the value that the nearest earlier op of its device's
//!    program wrote. Nothing waits explicitly and a schedule holds no time.
//! 3. [`Op::effects`](Op) is the only place that says what an op reads, consumes and writes.
//!    Dependencies, the deadlock check, the memory bound, the simulator, the runtime and the
//!    pictures all follow from it.
//! 4. A consumed value is freed after its last reader.
//!
//! Invariant: this crate knows no model, tensor, hardware or unit of time. Layers are plain
//! numbers, and so are the durations that some generators weigh ([`Ticks`]).

mod check;
mod effects;
mod generators;
mod op;
mod order;
mod passes;
mod tables;
mod text;
mod ticks;
mod value;

pub use check::{ActionId, CheckError, CheckedSchedule, LaneIdx, MemoryModel, check};
pub use effects::{Access, Effect};
pub use generators::{Form, Kind, LayoutError, Shape, UnknownKind, WarmUp, fits, generate};
pub use op::{Lane, Op, Pass};
pub use order::{ComputeOrder, Layout, Pipeline, Stage};
pub use passes::{Options, Servers, Synchronize, Waves, build};
pub use tables::{
    Bucket, BucketId, Chunk, Collective, CollectiveKind, Exchange, ParamUnit, Schedule, Tie,
    Transfer,
};
pub use text::TextError;
pub use ticks::{StageTicks, Ticks};
pub use value::{Direction, Value};
