//! A chunk of a network of any family.

use crate::{Chunk, conv_chunk, gpt_chunk};
use cavalcade_model::Network;
use std::ops::Range;

/// A chunk of the layers `layers` of `network` with the initial weights of `seed`.
///
/// # Panics
/// If the range is empty or reaches past the last layer.
pub fn network_chunk(network: &Network, layers: Range<u32>, seed: u64) -> Box<dyn Chunk> {
    match network {
        Network::Gpt(config) => gpt_chunk(config, layers, seed),
        Network::Conv(config) => conv_chunk(config, layers, seed),
    }
}
