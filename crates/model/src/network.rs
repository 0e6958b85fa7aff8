//! The whole model as a row of layers.

use crate::{ConvConfig, GptConfig, Layer, ParamRef, Tie, conv, gpt};
use std::ops::Range;

/// A model: a row of layers, and the parameters that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The layers in the order of the forward pass.
    pub layers: Vec<Layer>,
    /// The parameters that several layers use. They are in no layer's own list.
    pub ties: Vec<Tie>,
}

impl Model {
    /// The layers of a GPT: embedding, `config.layers` blocks, head.
    pub fn gpt(config: &GptConfig) -> Self {
        gpt::model(config)
    }

    /// The layers of a convolutional network: its convolutions, each with ReLU and pooling, and its
    /// fully connected layers, the one to the classes last.
    pub fn conv(config: &ConvConfig) -> Self {
        conv::model(config)
    }

    /// The number of layers. Layer indices are 32-bit numbers throughout.
    pub fn n_layers(&self) -> u32 {
        u32::try_from(self.layers.len()).expect("a model has fewer than 2^32 layers")
    }

    /// The number of parameters, each tied one counted once.
    pub fn n_params(&self) -> usize {
        let own = self.layers.iter().flat_map(|layer| &layer.params);
        own.chain(self.ties.iter().map(|tie| &tie.param)).map(|spec| spec.n_values()).sum()
    }

    /// The parameters of a chunk in the one order that every crate stores them in: the layers' own
    /// ones by layer, then each tie that touches the chunk, once.
    ///
    /// # Panics
    /// If the range reaches past the last layer.
    pub fn params_of(&self, layers: Range<u32>) -> Vec<ParamRef<'_>> {
        assert!(layers.end <= self.n_layers(), "layers {layers:?} of {} exist", self.n_layers());
        let own = layers.clone().flat_map(|layer| {
            let params = &self.layers[layer as usize].params;
            params.iter().map(move |spec| ParamRef { spec, tie: None, layer })
        });
        let ties = (0..).zip(&self.ties).filter_map(|(idx, tie)| {
            let layer = *tie.layers.iter().find(|layer| layers.contains(layer))?;
            Some(ParamRef { spec: &tie.param, tie: Some(idx), layer })
        });
        own.chain(ties).collect()
    }
}
