//! How a run fails.

use cavalcade_nn::ChunkError;
use cavalcade_transport::TransportError;
use cavalcade_units::{Bytes, DeviceId, MicrobatchId, Rank, TransferId};
use thiserror::Error;

/// What ends a run on one rank.
#[derive(Debug, Error)]
pub enum RunError {
    /// A chunk refused its input: the schedule and the model disagree.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// A peer is gone or sent something wrong.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A transfer brought another size than the schedule says.
    #[error(
        "transfer {transfer} from device {from} brought {found} values, but its shape is {shape:?} \
         (batch, rows, width): the two ranks run different models"
    )]
    WrongSize {
        /// The transfer.
        transfer: TransferId,
        /// Its sender.
        from: DeviceId,
        /// Values that came.
        found: usize,
        /// The shape that was expected.
        shape: [usize; 3],
    },
    /// An exchange with a server brought another number of values than its parameters are.
    #[error(
        "rank {from} exchanged {found} values, but the parameters are {expected}: the two ranks \
         run different models"
    )]
    WrongPush {
        /// The other side.
        from: Rank,
        /// Values that came.
        found: usize,
        /// Values of the bucket.
        expected: usize,
    },
    /// The loss is infinite or not a number.
    #[error(
        "the loss of step {step}, micro-batch {microbatch} is {loss}; lower \
         optimizer.learning_rate or set train.clip_norm"
    )]
    NotFinite {
        /// The step, from 0.
        step: u64,
        /// The micro-batch.
        microbatch: MicrobatchId,
        /// The loss.
        loss: f64,
    },
    /// The gradient is infinite or not a number.
    #[error("the gradient of step {step} is not finite; lower optimizer.learning_rate")]
    NormNotFinite {
        /// The step, from 0.
        step: u64,
    },
    /// The process holds more than its device has.
    #[error(
        "device {device} holds {found} after step {step}, but has {capacity}; give it fewer \
         layers, a smaller micro-batch, or a device with more memory"
    )]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// The step, from 0.
        step: u64,
        /// The most that was alive.
        found: Bytes,
        /// What the device has.
        capacity: Bytes,
    },
    /// A lane ended without a word.
    #[error("a lane of this device ended before its work was done")]
    LaneGone,
    /// A defect of this program.
    #[error("this is a defect of cavalcade, please report it: {message}")]
    Bug {
        /// What the defect said of itself.
        message: String,
    },
    /// What the coordinator or a file said cannot be used.
    #[error("{0}")]
    Setup(String),
    /// The coordinator ended the run.
    #[error("the run was ended: {reason}")]
    Aborted {
        /// Why.
        reason: String,
    },
}

/// Why a run as a whole failed.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A worker process ended when it should not have.
    #[error("rank {rank} (device {device}) ended during the run: {status}{}", said(message))]
    WorkerDied {
        /// Its rank.
        rank: Rank,
        /// The name of its device.
        device: String,
        /// Its exit status or signal.
        status: String,
        /// The last thing it said.
        message: Option<String>,
    },
    /// A worker reported an error.
    #[error("rank {rank} (device {device}) failed: {message}")]
    WorkerFailed {
        /// Its rank.
        rank: Rank,
        /// The name of its device.
        device: String,
        /// The error.
        message: String,
    },
    /// A worker does not fit the others.
    #[error("rank {rank} has {what} {found}, but the run has {expected}; {}", remedy(what))]
    Mismatch {
        /// Its rank.
        rank: Rank,
        /// What differs: version, a setting, configuration, training text, schedule.
        what: &'static str,
        /// What the rank has.
        found: String,
        /// What the coordinator has.
        expected: String,
    },
    /// Not all ranks came.
    #[error("after {waited}, ranks {missing} had not joined; see launch.join_timeout")]
    NotJoined {
        /// How long was waited.
        waited: String,
        /// Which.
        missing: String,
    },
    /// The address cannot be listened on.
    #[error(
        "launch.bind and launch.port: {address} cannot be used: {reason}; choose another address, \
         or port 0 for any free one"
    )]
    Bind {
        /// The address.
        address: String,
        /// The system's words.
        reason: String,
    },
    /// A worker process cannot be started.
    #[error("rank {rank} cannot be started: {reason}")]
    Spawn {
        /// Its rank.
        rank: Rank,
        /// The system's words.
        reason: std::io::Error,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// The observer of the run could not go on, such as for a full disk.
    #[error("{0}")]
    Observer(String),
}

/// What helps against a difference in `what`.
fn remedy(what: &str) -> &'static str {
    match what {
        "training text" => {
            "every rank reads data.path for itself: give all the same files, and leave them \
             unchanged while the run starts"
        }
        _ => "start all ranks alike",
    }
}

fn said(message: &Option<String>) -> String {
    message.as_ref().map(|message| format!("; it said: {message}")).unwrap_or_default()
}
