//! Executable chunks on Burn tensors, their optimizers, and the measuring of their layers.
//!
//! The runtime sees a [`Chunk`]: host buffers in, host buffers out, weights and gradients as one
//! flat buffer each, one graph a micro-batch in flight. [`BurnChunk`] makes any Burn module one;
//! [`network_chunk`] builds a run of a network's layers.
//!
//! ```text
//!            ids or activation              activation or loss
//!                   |                              ^
//!   forward(m)      `--> leaf -> Burn graph of m --'        kept until backward(m)
//!                          |            ^
//!   backward(m)     dx <---'            `--- dy, or the scaled loss
//!                          `--> added into gradients(), flat
//! ```
//!
//! A backward pass can be split: `backward_input` returns dx and adds nothing, `backward_weight`
//! adds later. The products of weight gradients then run in the second alone ([`WeightPass`]).
//!
//! A chunk is driven by one thread; give it the threads of a rayon pool by calling it inside
//! `pool.install`. Each chunk makes its own leaves: two graphs that share one can deadlock.
//!
//! Absent: sharded (tensor-parallel) layers, fused operations, GPUs.

mod burn_chunk;
mod chunk;
mod conv;
mod error;
mod gpt;
mod layout;
mod leaves;
mod measure;
mod module;
mod network;
mod optimizer;
mod tap;
mod weight_pass;

pub use burn_chunk::{BurnChunk, ChunkEnds};
pub use chunk::{Activation, Chunk, ChunkInput, ChunkOutput, ChunkParam, Targets};
pub use conv::conv_chunk;
pub use error::ChunkError;
pub use gpt::gpt_chunk;
pub use measure::{Measured, profile_layers};
pub use module::{ChunkModule, ModuleInput, cross_entropy};
pub use network::network_chunk;
pub use optimizer::{AdamW, AdamWConfig, Optimizer, Sgd, decayed_ranges, squared_norm};
pub use weight_pass::WeightPass;
