//! One transformer block: attention and a feed-forward part, each after a norm and around a
//! residual (pre-norm, as GPT-2).

use super::Leaves;
use super::attention::Attention;
use super::layers::{LayerNorm, Linear, gelu};
use crate::WeightPass;
use burn::Tensor;
use burn::module::Module;

#[derive(Module, Debug)]
pub(super) struct Block {
    ln_1: LayerNorm,
    attn: Attention,
    ln_2: LayerNorm,
    mlp: FeedForward,
}

#[derive(Module, Debug)]
struct FeedForward {
    /// `[W, 4 W]`.
    c_fc: Linear,
    /// `[4 W, W]`.
    c_proj: Linear,
}

impl Block {
    /// The block whose parameters' names start with `name`.
    pub(super) fn new(leaves: &Leaves<'_>, name: &str, n_heads: usize) -> Self {
        let linear = |part: &str| Linear {
            weight: leaves.get(&format!("{name}.{part}.weight")),
            bias: leaves.find(&format!("{name}.{part}.bias")),
        };
        Self {
            ln_1: leaves.norm(&format!("{name}.ln_1")),
            attn: Attention {
                c_attn: linear("attn.c_attn"),
                c_proj: linear("attn.c_proj"),
                n_heads,
            },
            ln_2: leaves.norm(&format!("{name}.ln_2")),
            mlp: FeedForward { c_fc: linear("mlp.c_fc"), c_proj: linear("mlp.c_proj") },
        }
    }

    pub(super) fn first_norm(&self) -> &LayerNorm {
        &self.ln_1
    }

    /// `x` `[B, T, W]` to the same.
    pub(super) fn forward(
        &self,
        x: Tensor<3>,
        mask: &Tensor<4>,
        weight_pass: &WeightPass,
    ) -> Tensor<3> {
        let x = x.clone() + self.attn.forward(self.ln_1.forward(x), mask, weight_pass);
        let hidden = self.mlp.c_fc.forward(self.ln_2.forward(x.clone()), weight_pass);
        x + self.mlp.c_proj.forward(gelu(hidden), weight_pass)
    }
}
