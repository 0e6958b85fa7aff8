//! The two sorts of layers: a convolution with its pooling, and a fully connected one.

use crate::WeightPass;
use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::activation::relu;
use burn::tensor::module::{conv2d, max_pool2d};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};

/// A convolution of 3 x 3 that keeps the image's size, ReLU, and the largest of each 2 x 2 pixels.
#[derive(Module, Debug)]
pub(super) struct Convolution {
    /// `[C', C, 3, 3]`.
    pub(super) weight: Param<Tensor<4>>,
    /// `[C']`.
    pub(super) bias: Param<Tensor<1>>,
}

impl Convolution {
    /// `[B, C, S, S]` to `[B, C', S / 2, S / 2]`.
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let same_size = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        let x = conv2d(x, self.weight.val(), Some(self.bias.val()), same_size);
        max_pool2d(relu(x), MaxPoolOptions::new([2, 2]))
    }
}

/// `relu(weight @ x + bias)` of all that there is of a sample.
#[derive(Module, Debug)]
pub(super) struct Dense {
    /// `[W', P C]`.
    pub(super) weight: Param<Tensor<2>>,
    /// `[W']`.
    pub(super) bias: Param<Tensor<1>>,
    /// Whether ReLU follows: not after the classes.
    pub(super) is_hidden: bool,
}

impl Dense {
    /// `[B, P, C]` to `[B, 1, W']`.
    pub(super) fn forward(&self, x: Tensor<3>, weight_pass: &WeightPass) -> Tensor<3> {
        let [batch, pixels, channels] = x.dims();
        // An image is flattened channel by channel, as PyTorch has it.
        let x = x.swap_dims(1, 2).reshape([batch, 1, channels * pixels]);
        let x = weight_pass.scores(x, self.weight.val(), Some(self.bias.val()));
        if self.is_hidden { relu(x) } else { x }
    }
}

/// An image as chunks hand it on to one that convolutions take: `[B, S S, C]` to `[B, C, S, S]`.
pub(super) fn unfolded(x: Tensor<3>) -> Tensor<4> {
    let [batch, pixels, channels] = x.dims();
    let side = pixels.isqrt();
    x.reshape([batch, side, side, channels]).permute([0, 3, 1, 2])
}

/// And back.
pub(super) fn folded(x: Tensor<4>) -> Tensor<3> {
    let [batch, channels, height, width] = x.dims();
    x.permute([0, 2, 3, 1]).reshape([batch, height * width, channels])
}
