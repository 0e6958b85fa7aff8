//! The small layers: a table of rows, a linear map, a layer norm, GELU.

use crate::WeightPass;
use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::Int;
use burn::tensor::activation::sigmoid;
use burn::tensor::module::{embedding, layer_norm};

/// GPT-2's.
const EPSILON: f64 = 1e-5;

/// A matrix of one row an entry: embeddings, and the head that scores against them.
#[derive(Module, Debug)]
pub(super) struct Table {
    /// `[entries, W]`.
    pub(super) weight: Param<Tensor<2>>,
}

impl Table {
    pub(super) fn n_rows(&self) -> usize {
        self.weight.val().dims()[0]
    }

    /// Ids `[B, T]` to rows `[B, T, W]`.
    pub(super) fn look_up(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        embedding(self.weight.val(), ids)
    }

    /// The first `n_rows` rows, `[n_rows, W]`.
    pub(super) fn first_rows(&self, n_rows: usize) -> Tensor<2> {
        self.weight.val().narrow(0, 0, n_rows)
    }

    /// The products of activations `[B, T, W]` with every row, `[B, T, entries]`.
    pub(super) fn scores(&self, x: Tensor<3>, weight_pass: &WeightPass) -> Tensor<3> {
        weight_pass.scores(x, self.weight.val(), None)
    }
}

/// `x @ weight + bias`.
#[derive(Module, Debug)]
pub(super) struct Linear {
    /// `[in, out]`, as GPT-2 stores it.
    pub(super) weight: Param<Tensor<2>>,
    pub(super) bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// `[B, T, in]` to `[B, T, out]`.
    pub(super) fn forward(&self, x: Tensor<3>, weight_pass: &WeightPass) -> Tensor<3> {
        weight_pass.linear(x, self.weight.val(), self.bias.as_ref().map(|bias| bias.val()))
    }
}

/// Normalization over the width, with a learned scale and possibly a shift.
#[derive(Module, Debug)]
pub(super) struct LayerNorm {
    /// `[W]`.
    pub(super) weight: Param<Tensor<1>>,
    /// `[W]`.
    pub(super) bias: Option<Param<Tensor<1>>>,
}

impl LayerNorm {
    pub(super) fn width(&self) -> usize {
        self.weight.val().dims()[0]
    }

    /// `[B, T, W]` to the same.
    pub(super) fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        layer_norm(x, self.weight.val(), self.bias.as_ref().map(|bias| bias.val()), EPSILON)
    }
}

/// GELU by its tanh approximation, "gelu_new" (Hendrycks and Gimpel, arXiv:1606.08415, section 2).
///
/// `x/2 (1 + tanh(z))` is `x sigmoid(2 z)`: two fewer passes over memory, the same function.
pub(super) fn gelu(x: Tensor<3>) -> Tensor<3> {
    // 2 sqrt(2 / pi), and that times 0.044715.
    const LINEAR: f32 = 1.595_769;
    const CUBIC: f32 = 0.071_354_82;
    let gate = (x.clone() * x.clone()).mul_scalar(CUBIC).add_scalar(LINEAR) * x.clone();
    x * sigmoid(gate)
}
