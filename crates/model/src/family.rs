//! The families of networks, and what everybody asks a network whichever it is.

use crate::{ConvConfig, GptConfig, Model, ModelError};
use sha2::{Digest, Sha256};

/// A network of one of the families that can be trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A language model: token ids in, the next token out.
    Gpt(GptConfig),
    /// A classifier of images: pixels in, a class out.
    Conv(ConvConfig),
}

impl Network {
    /// Its layers and parameters.
    pub fn model(&self) -> Model {
        match self {
            Self::Gpt(config) => Model::gpt(config),
            Self::Conv(config) => Model::conv(config),
        }
    }

    /// The number of layers.
    pub fn n_layers(&self) -> u32 {
        let n_layers = match self {
            Self::Gpt(config) => config.layers + 2,
            Self::Conv(config) => config.convolutions.len() + config.hidden.len() + 1,
        };
        u32::try_from(n_layers).expect("checked sizes fit in 32 bits")
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// A size that is not legal.
    pub fn check(&self) -> Result<(), ModelError> {
        match self {
            Self::Gpt(config) => config.check(),
            Self::Conv(config) => config.check(),
        }
    }

    /// A short text that differs between networks. A profile carries it, so that it is not used for
    /// another one.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Gpt(config) => config.fingerprint(),
            Self::Conv(config) => config.fingerprint(),
        }
    }

    /// What is told apart: token ids or classes.
    pub fn classes(&self) -> usize {
        match self {
            Self::Gpt(config) => config.vocab,
            Self::Conv(config) => config.classes,
        }
    }

    /// What is predicted of a sample: a token at each place of a window, or one class.
    pub fn predictions(&self) -> usize {
        match self {
            Self::Gpt(config) => config.context,
            Self::Conv(_) => 1,
        }
    }

    /// What its predictions are counted in.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Gpt(_) => "tokens",
            Self::Conv(_) => "images",
        }
    }

    /// The shape of what leaves `layer` for `batch` samples: `[batch, tokens, width]` of a whole
    /// window, or `[batch, pixels, channels]`, and `[batch, 1, width]` after a fully connected
    /// layer. The last layer's are logits, as many as there are [`Self::classes`].
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn output_shape(&self, layer: u32, batch: usize) -> [usize; 3] {
        assert!(layer < self.n_layers(), "layer {layer} of {} exists", self.n_layers());
        let is_last = layer + 1 == self.n_layers();
        match self {
            Self::Gpt(config) if is_last => [batch, config.context, config.vocab],
            Self::Gpt(config) => [batch, config.context, config.width],
            Self::Conv(config) => {
                let (layer, n_convolutions) = (layer as usize, config.convolutions.len());
                if layer < n_convolutions {
                    let side = config.side_after(layer + 1);
                    return [batch, side * side, config.convolutions[layer]];
                }
                let hidden = config.hidden.get(layer - n_convolutions);
                [batch, 1, *hidden.unwrap_or(&config.classes)]
            }
        }
    }

    /// The shape of what enters `layer`; none of the first one of a family that takes token ids.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn input_shape(&self, layer: u32, batch: usize) -> Option<[usize; 3]> {
        match (self, layer.checked_sub(1)) {
            (_, Some(before)) => Some(self.output_shape(before, batch)),
            (Self::Gpt(_), None) => None,
            (Self::Conv(config), None) => Some([batch, config.image.pow(2), config.channels]),
        }
    }

    /// Whether all layers but the ends take what any of them puts out, so that one can be left out.
    pub fn is_uniform(&self) -> bool {
        matches!(self, Self::Gpt(_))
    }
}

/// 16 hexadecimal digits of the SHA-256 of a text.
pub(crate) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes())[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::Network;
    use crate::GptConfig;
    use crate::conv_config::tests::small;

    #[test]
    fn shapes_follow_the_layers() {
        let conv = Network::Conv(small());
        let shapes: Vec<_> = (0..conv.n_layers()).map(|l| conv.output_shape(l, 7)).collect();
        assert_eq!(shapes, [[7, 16, 4], [7, 4, 6], [7, 1, 10], [7, 1, 5]]);
        assert_eq!(conv.input_shape(0, 7), Some([7, 64, 3]));
        assert_eq!(conv.input_shape(2, 7), Some([7, 4, 6]));
        let gpt = Network::Gpt(GptConfig::new(65, 16, 32, 4, 2, true, true).unwrap());
        let shapes: Vec<_> = (0..4).map(|l| gpt.output_shape(l, 2)).collect();
        assert_eq!(shapes, [[2, 16, 32], [2, 16, 32], [2, 16, 32], [2, 16, 65]]);
        assert_eq!((gpt.input_shape(0, 2), gpt.input_shape(1, 2)), (None, Some([2, 16, 32])));
        for network in [conv, gpt] {
            assert_eq!(network.n_layers(), network.model().n_layers());
            let last = network.output_shape(network.n_layers() - 1, 3);
            assert_eq!(last, [3, network.predictions(), network.classes()]);
        }
    }

    /// What goes into a layer of weights is as large as what comes out of the one before.
    #[test]
    fn weights_fit_the_shapes() {
        let conv = Network::Conv(small());
        for (layer, described) in (0..).zip(&conv.model().layers) {
            let [_, rows, width] = conv.input_shape(layer, 1).unwrap();
            let shape = &described.params[0].shape;
            let inputs = if shape.len() == 4 { width } else { rows * width };
            assert_eq!(shape[1], inputs, "{}", described.name);
            assert_eq!(shape[0], conv.output_shape(layer, 1)[2], "{}", described.name);
        }
    }
}
