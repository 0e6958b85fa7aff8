//! The profile of a model on devices on which nothing was measured: from counts alone.
//!
//! ```text
//! forward            work * tokens / rate
//! backward, input    the same, and what attention itself takes once more: its products have two
//!                    factors, neither of which is a weight
//! backward, weights  the same without attention itself
//! saved by a block   a token: 34 activations of the model's width, 2 rows of scores a head
//! saved by the head  a token: its input, and 2 rows of the vocabulary
//! ```
//!
//! Values are 32-bit numbers. The counts of saved activations are fitted to what `cavalcade probe`
//! measures of this project's blocks (widths 128 and 384, contexts 64 and 128, within 7 %), whose
//! attention keeps its scores; Korthikanti et al. (2023) count others for theirs in the same way.
//! Nothing is charged for memory traffic, launches or the optimizer's arithmetic, so times are
//! those of a device that reaches its rate in every product: an optimist's.

use cavalcade_model::{GptConfig, Model};
use cavalcade_profile::{LayerProfile, LinkProfile, ParamBytes, Profile};
use cavalcade_units::{Bandwidth, Bytes, FlopRate, Nanos};

/// Activations of the model's width that a block keeps a token.
const WIDTHS: u64 = 34;

/// The profile of `config` in micro-batches of `microbatch_size` sequences of its whole context, on
/// a device whose products run at `rate`.
pub fn nominal(
    config: &GptConfig,
    microbatch_size: u32,
    param_bytes: ParamBytes,
    rate: FlopRate,
) -> Profile {
    let sizes = [config.width, config.context, config.heads, config.vocab];
    let [width, context, heads, vocab] = sizes.map(|size| size as u64);
    let tokens = u64::from(microbatch_size) * context;
    let floats = |a_token: u64| Bytes(4 * tokens * a_token);
    let time = |a_token: u64| rate.time_for(tokens.saturating_mul(a_token));
    let model = Model::gpt(config);
    let n_layers = model.layers.len();
    let layer = |(idx, layer): (usize, &cavalcade_model::Layer)| {
        let is_block = idx > 0 && idx + 1 < n_layers;
        let of_scores = if is_block { 4 * context * width } else { 0 };
        let (input, weight) = (layer.work + of_scores, layer.work - of_scores);
        let (saved, deferred, workspace) = match idx {
            0 => (0, 0, width),
            _ if is_block => (
                WIDTHS * width + 2 * heads * context,
                // The inputs of the four products and the gradients of their outputs.
                16 * width,
                8 * width + 2 * heads * context,
            ),
            _ => (width + 2 * vocab, width + vocab, 2 * vocab),
        };
        LayerProfile {
            name: layer.name.clone(),
            forward: time(layer.work),
            backward: time(input + weight),
            backward_input: time(input),
            backward_weight: time(weight),
            saved: floats(saved),
            deferred: floats(deferred),
            workspace: floats(workspace),
            split_workspace: floats(workspace),
            output: if idx + 1 < n_layers { floats(width) } else { Bytes::ZERO },
        }
    };
    let free = Bandwidth::from_bytes_per_second(1e18);
    Profile {
        model: config.fingerprint(),
        microbatch_size,
        sequence: config.context as u32,
        layers: model.layers.iter().enumerate().map(layer).collect(),
        optimizer_per_million: Nanos::ZERO,
        param_bytes,
        base: Bytes::ZERO,
        loopback: LinkProfile { latency: Nanos::ZERO, bandwidth: free },
        op_overhead: Nanos::ZERO,
        jitter: 0.0,
    }
}
