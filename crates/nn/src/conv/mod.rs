//! A run of a convolutional network's layers as one Burn module and one chunk.
//!
//! Shape letters of this module: B images, S height and width in pixels, P = S S pixels, C
//! channels, W width of a fully connected layer. Between chunks an image is `[B, P, C]`, what a
//! fully connected layer puts out `[B, 1, W]`.

mod layers;

use crate::burn_chunk::{BurnChunk, ChunkEnds};
use crate::layout::Layout;
use crate::leaves::Leaves;
use crate::{Chunk, ChunkError, ChunkModule, ModuleInput, WeightPass};
use burn::Tensor;
use burn::module::Module;
use burn::tensor::Device;
use cavalcade_model::{ConvConfig, Network};
use layers::{Convolution, Dense, folded, unfolded};
use std::ops::Range;

/// Consecutive layers of a convolutional network. Field names are VGG's, so that a parameter's path
/// is its logical name but for the number of the layer.
#[derive(Module, Debug)]
struct ConvLayers {
    features: Vec<Convolution>,
    classifier: Vec<Dense>,
    /// P and C of what comes in.
    pixels: usize,
    channels: usize,
}

/// A chunk of the layers `layers` of a convolutional network (its convolutions, then its fully
/// connected layers, the one to the classes last) with the initial weights of `seed`. The first one
/// takes images `[B, P, C]`, the last one's logits are `[B, 1, classes]`. Weight gradients of fully
/// connected layers can be put off; those of convolutions are there with the input's.
///
/// # Panics
/// If the range is empty or reaches past the last layer.
pub fn conv_chunk(config: &ConvConfig, layers: Range<u32>, seed: u64) -> Box<dyn Chunk> {
    Box::new(burn_chunk(config, layers, seed))
}

fn burn_chunk(config: &ConvConfig, layers: Range<u32>, seed: u64) -> BurnChunk<ConvLayers> {
    let network = Network::Conv(config.clone());
    let model = network.model();
    assert!(!layers.is_empty(), "a chunk holds at least one layer, not {layers:?}");
    let refs = model.params_of(layers.clone());
    let device = Device::flex().autodiff();
    let leaves = Leaves { refs: &refs, seed, device: &device };
    let ends = ChunkEnds { first: layers.start == 0, last: layers.end == model.n_layers() };
    let input = network.input_shape(layers.start, 1).expect("every layer takes activations");
    let held = layers.start as usize..layers.end as usize;
    let names: Vec<&str> = model.layers[held].iter().map(|layer| &layer.name[..]).collect();
    let (features, classifier): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| name.starts_with("features."));
    let last_dense = classifier.len().checked_sub(usize::from(ends.last));
    let module = ConvLayers {
        features: features
            .iter()
            .map(|name| Convolution {
                weight: leaves.get(&format!("{name}.weight")),
                bias: leaves.get(&format!("{name}.bias")),
            })
            .collect(),
        classifier: classifier
            .iter()
            .enumerate()
            .map(|(idx, name)| Dense {
                weight: leaves.get(&format!("{name}.weight")),
                bias: leaves.get(&format!("{name}.bias")),
                is_hidden: Some(idx) < last_dense,
            })
            .collect(),
        pixels: input[1],
        channels: input[2],
    };
    let logical = |path: &str| logical(path, &features, &classifier);
    let layout = Layout::of_params(&module, leaves.stored(), &logical);
    BurnChunk::with_layout(module, &device, ends, layout)
}

/// The logical name of a field's path in a chunk of the layers of these names.
fn logical(path: &str, features: &[&str], classifier: &[&str]) -> String {
    let mut parts = path.split('.');
    let mut part = || parts.next().expect("a path is a list, a place in it and a parameter");
    let (list, place, param) = (part(), part(), part());
    let place: usize = place.parse().expect("Burn numbers the entries of a Vec");
    let names = if list == "features" { features } else { classifier };
    format!("{}.{param}", names[place])
}

impl ChunkModule for ConvLayers {
    fn forward(&self, input: ModuleInput) -> Result<Tensor<3>, ChunkError> {
        self.forward_split(input, &WeightPass::none())
    }

    fn forward_split(
        &self,
        input: ModuleInput,
        weight_pass: &WeightPass,
    ) -> Result<Tensor<3>, ChunkError> {
        let mut x = input.activation()?;
        let (found, wanted) = (x.dims(), [x.dims()[0], self.pixels, self.channels]);
        if found != wanted {
            return Err(ChunkError::Shape { what: "the input", found, wanted });
        }
        if !self.features.is_empty() {
            let image = self.features.iter().fold(unfolded(x), |x, layer| layer.forward(x));
            x = folded(image);
        }
        Ok(self.classifier.iter().fold(x, |x, layer| layer.forward(x, weight_pass)))
    }
}
