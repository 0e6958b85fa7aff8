//! What can be wrong with a schedule.

use crate::op::Op;
use cavalcade_units::{Bytes, DeviceId};
use thiserror::Error;

/// A schedule that must not be run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckError {
    /// An id that its table does not have, or an op on a device that does not own it.
    #[error("{place}: {problem}")]
    Misplaced {
        /// Device and op.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A path does not visit every layer exactly once, in order.
    #[error(
        "path {path}: chunk {chunk} holds layers {start}..{end} where layer {expected} is next; \
         a path visits layers 0..{n_layers} once each, in order"
    )]
    Layers {
        /// Index of the path.
        path: usize,
        /// The chunk at fault.
        chunk: u32,
        /// Its first layer.
        start: u32,
        /// One past its last.
        end: u32,
        /// The layer that should come.
        expected: u32,
        /// Layers of the model.
        n_layers: u32,
    },
    /// Something is done too often or not at all.
    #[error("{what} is done {found} times; it must be done exactly {expected} times")]
    Count {
        /// The thing.
        what: String,
        /// How often it is in the programs.
        found: usize,
        /// How often it must be.
        expected: usize,
    },
    /// A gradient would be used before all devices' shares are in it.
    #[error("bucket {bucket}: {problem}")]
    Bucket {
        /// Index of the bucket.
        bucket: usize,
        /// What is wrong.
        problem: String,
    },
    /// An op needs a value that nothing before it makes.
    #[error("{place} needs {value}, which no earlier op of this device makes")]
    ReadBeforeWrite {
        /// Device and op.
        place: String,
        /// The value.
        value: String,
    },
    /// A value is made while the one before it is still waited for.
    #[error("{place} makes {value} again before anything consumed it")]
    Overwritten {
        /// Device and op.
        place: String,
        /// The value.
        value: String,
    },
    /// A gradient is used before all shares are in it.
    #[error(
        "{place} comes too late for {value}: shares are added first, then summed over devices, \
         then read for the norm, then used by the optimizer"
    )]
    PartialGradient {
        /// Device and op.
        place: String,
        /// The gradient.
        value: String,
    },
    /// A forward in a schedule without a flush would use weights that are too old.
    #[error(
        "{place} uses weights without the update of micro-batch {missing}; the schedule's \
         staleness {bound} allows to lack the last {bound} before it at most"
    )]
    Stale {
        /// Device and op.
        place: String,
        /// The latest micro-batch whose update must be there and is not.
        missing: u32,
        /// How many may be lacking.
        bound: u32,
    },
    /// Without a flush, gradients of two micro-batches in one update, or an update without any.
    #[error(
        "{place} comes while the gradients of {found} wait for their update; without a flush every \
         micro-batch's gradients are used by its own update, before those of the next are made"
    )]
    MixedGradients {
        /// Device and op.
        place: String,
        /// Whose gradients there are: `micro-batch 3`, or `no micro-batch`.
        found: String,
    },
    /// A path with detours begins or ends elsewhere, visits a layer twice, or skips too many.
    #[error("path {path}: {problem}")]
    Detour {
        /// Index of the path.
        path: usize,
        /// What is wrong.
        problem: String,
    },
    /// A value is made and never used.
    #[error("device {device}: {value} is made and nothing consumes it")]
    NeverConsumed {
        /// The device.
        device: DeviceId,
        /// The value.
        value: String,
    },
    /// Ops that wait for each other.
    #[error("deadlock: {}", cycle.join(" waits for "))]
    Deadlock {
        /// The cycle, op by op; the first is repeated at the end.
        cycle: Vec<String>,
    },
    /// A device could run out of memory.
    #[error(
        "device {device} may need {needed} during {place}, but has {capacity}; give it fewer \
         layers or micro-batches in flight, or a device with more memory"
    )]
    Memory {
        /// The device.
        device: DeviceId,
        /// The op at which the bound is highest.
        place: String,
        /// The bound.
        needed: Bytes,
        /// What the device has.
        capacity: Bytes,
    },
}

/// An op at its place, for messages.
pub(super) fn place(device: DeviceId, op_idx: usize, op: Op) -> String {
    format!("device {device}, op {op_idx} ({op})")
}
