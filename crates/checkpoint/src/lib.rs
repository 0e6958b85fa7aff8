//! Logical tensors on disk, as safetensors files.
//!
//! A checkpoint belongs to the model: it holds whole tensors by their names and says nothing of
//! the devices that wrote it, so any other plan can read it. Every file appears at once and
//! complete, or not at all ([`atomic_write`]).
//!
//! Absent: reading slices of a tensor, several files a checkpoint, and any element type but `f32`.

mod atomic;
mod error;
mod format;
mod read;
mod tensor;

pub use atomic::atomic_write;
pub use error::CheckpointError;
pub use format::write;
pub use read::{read, read_expected, read_metadata, read_named};
pub use tensor::{Metadata, Tensor, Tensors};
