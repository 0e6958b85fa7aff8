//! What is kept: tensors by name, and facts about them by key.

use std::collections::BTreeMap;

/// Tensors by name, in the order of their names.
pub type Tensors = BTreeMap<String, Tensor>;

/// What a checkpoint says about itself, such as its step.
pub type Metadata = BTreeMap<String, String>;

/// A dense tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Tensor {
    /// A tensor of `shape` with `values` in row-major order. An empty shape is a single value.
    ///
    /// # Panics
    /// If the shape does not hold that many values.
    pub fn new(shape: Vec<usize>, values: Vec<f32>) -> Self {
        let n_values: usize = shape.iter().product();
        assert_eq!(values.len(), n_values, "a tensor of shape {shape:?} holds {n_values} values");
        Self { shape, values }
    }

    /// Its sizes by dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its values, row-major.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Its values, row-major.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}
