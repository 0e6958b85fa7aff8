//! Causal self-attention with plain Burn operations (Vaswani et al., arXiv:1706.03762, 3.2).

use super::layers::Linear;
use crate::WeightPass;
use burn::Tensor;
use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, TensorData};

/// What a masked score has added: far below any real one, and finite, so that no row becomes NaN.
const MASKED: f32 = -1e9;

/// Multi-head attention in which a token sees itself and those before it.
#[derive(Module, Debug)]
pub(super) struct Attention {
    /// `[W, 3 W]`: queries, keys, values.
    pub(super) c_attn: Linear,
    /// `[W, W]`.
    pub(super) c_proj: Linear,
    pub(super) n_heads: usize,
}

impl Attention {
    /// `x` `[B, T, W]` to the same; `mask` is [`causal_mask`].
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        mask: &Tensor<4>,
        weight_pass: &WeightPass,
    ) -> Tensor<3> {
        let [batch, sequence, width] = x.dims();
        let depth = width / self.n_heads;
        // [B, T, 3 W] -> three of [B, H, T, D].
        let qkv = self.c_attn.forward(x, weight_pass);
        let part = |idx: usize| {
            let part = qkv.clone().narrow(2, idx * width, width);
            part.reshape([batch, sequence, self.n_heads, depth]).swap_dims(1, 2)
        };
        let query = part(0).mul_scalar(1.0 / (depth as f32).sqrt());
        let scores = query.matmul(part(1).transpose()) + mask.clone();
        let mixed = softmax(scores, 3).matmul(part(2));
        let mixed = mixed.swap_dims(1, 2).reshape([batch, sequence, width]);
        self.c_proj.forward(mixed, weight_pass)
    }
}

/// `[1, 1, T, T]`: zero where column <= row, else a large negative number.
pub(super) fn causal_mask(sequence: usize, device: &Device) -> Tensor<4> {
    let mask = (0..sequence * sequence)
        .map(|at| if at % sequence <= at / sequence { 0.0 } else { MASKED })
        .collect::<Vec<f32>>();
    Tensor::from_data(TensorData::new(mask, [1, 1, sequence, sequence]), device)
}
