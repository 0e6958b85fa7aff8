//! Layers, and the parameters that they own or share.

/// How a parameter's initial values are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Normal with mean zero.
    Normal {
        /// The standard deviation.
        std: f32,
    },
    /// All ones.
    Ones,
    /// All zeros.
    Zeros,
}

/// One parameter: a tensor of `f32` in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Its logical name, unique in the model: `h.0.attn.c_attn.weight`.
    pub name: String,
    /// Its shape. Of a GPT, matrices of linear layers are `[in, out]`, embeddings `[rows, width]`;
    /// of a convolutional network, `[out, in]` and `[out, in, height, width]`.
    pub shape: Vec<usize>,
    /// Its initial values.
    pub init: Init,
}

impl ParamSpec {
    /// The number of values.
    pub fn n_values(&self) -> usize {
        self.shape.iter().product()
    }
}

pub(crate) fn spec(name: &str, shape: &[usize], init: Init) -> ParamSpec {
    ParamSpec { name: name.to_owned(), shape: shape.to_vec(), init }
}

/// The smallest part of a model that a chunk can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name: `embedding`, `h.0`, `head`; `features.0`, `classifier.0`.
    pub name: String,
    /// The parameters that only this layer uses, in storage order.
    pub params: Vec<ParamSpec>,
    /// Work of the forward pass in FLOPs a token (of a convolutional network: an image): two for
    /// each multiply-add of a matrix product at the full context. Attention is counted without the
    /// half that a causal mask could save.
    pub work: u64,
}

/// A parameter that several layers use. Each device that holds one of them keeps a copy, and their
/// gradients are summed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tie {
    /// The parameter.
    pub param: ParamSpec,
    /// The layers that use it, ascending.
    pub layers: Vec<u32>,
}

/// A parameter as one chunk holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamRef<'m> {
    /// The parameter.
    pub spec: &'m ParamSpec,
    /// Its index in [`crate::Model::ties`], if several layers use it.
    pub tie: Option<u32>,
    /// The layer that owns it; of a tie, the first one within the chunk.
    pub layer: u32,
}
