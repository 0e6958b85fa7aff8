//! The layers of a convolutional network, with VGG's names and initial values after He.
//!
//! Sources: "Very Deep Convolutional Networks for Large-Scale Image Recognition" (Simonyan and
//! Zisserman, arXiv:1409.1556), with one convolution between two poolings and without dropout;
//! "Delving Deep into Rectifiers" (He et al., arXiv:1502.01852), section 2.2: a layer before a ReLU
//! starts with the variance 2 / inputs. Names and shapes are those of PyTorch's `nn.Sequential`s:
//! `features` of convolution, ReLU, pooling, `classifier` of linear, ReLU, dropout.

use crate::layer::spec;
use crate::{ConvConfig, Init, Layer, Model, ParamSpec};

/// Height and width of a convolution's kernel.
const KERNEL: usize = 3;
/// Modules of a `Sequential` for each of our layers.
const MODULES: usize = 3;

pub(crate) fn model(config: &ConvConfig) -> Model {
    let convolutions = (0..config.convolutions.len()).map(|idx| convolution(config, idx));
    let dense = config.dense();
    let n_dense = dense.len();
    let dense = dense.into_iter().enumerate();
    let dense = dense.map(|(idx, [inputs, outputs])| {
        // No ReLU follows the classes.
        let gain = if idx + 1 < n_dense { 2.0 } else { 1.0 };
        let name = format!("classifier.{}", MODULES * idx);
        let params = params(&name, &[outputs, inputs], gain);
        Layer { name, params, work: 2 * inputs as u64 * outputs as u64 }
    });
    Model { layers: convolutions.chain(dense).collect(), ties: Vec::new() }
}

fn convolution(config: &ConvConfig, idx: usize) -> Layer {
    let (inputs, outputs) = (config.channels_into(idx), config.convolutions[idx]);
    let name = format!("features.{}", MODULES * idx);
    let params = params(&name, &[outputs, inputs, KERNEL, KERNEL], 2.0);
    let n_pixels = config.side_after(idx).pow(2) as u64;
    let work = 2 * n_pixels * params[0].n_values() as u64;
    Layer { name, params, work }
}

/// A weight whose first axis is that of the outputs, and its bias.
fn params(name: &str, shape: &[usize], gain: f32) -> Vec<ParamSpec> {
    let n_inputs: usize = shape[1..].iter().product();
    let std = (gain / n_inputs as f32).sqrt();
    vec![
        spec(&format!("{name}.weight"), shape, Init::Normal { std }),
        spec(&format!("{name}.bias"), &shape[..1], Init::Zeros),
    ]
}

#[cfg(test)]
mod tests {
    use crate::conv_config::tests::small;
    use crate::{ConvConfig, Init, Model};

    #[test]
    fn names_and_shapes_are_those_of_a_vgg() {
        let model = Model::conv(&small());
        let lines = model.params_of(0..4).into_iter().map(|param| {
            assert_eq!(param.tie, None);
            format!("{} {} {:?}", param.layer, param.spec.name, param.spec.shape)
        });
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "0 features.0.weight [4, 3, 3, 3]",
                "0 features.0.bias [4]",
                "1 features.3.weight [6, 4, 3, 3]",
                "1 features.3.bias [6]",
                "2 classifier.0.weight [10, 24]",
                "2 classifier.0.bias [10]",
                "3 classifier.3.weight [5, 10]",
                "3 classifier.3.bias [5]",
            ]
        );
        let names: Vec<&str> = model.layers.iter().map(|layer| &layer.name[..]).collect();
        assert_eq!(names, ["features.0", "features.3", "classifier.0", "classifier.3"]);
        let work: Vec<u64> = model.layers.iter().map(|layer| layer.work).collect();
        let first = 2 * 64 * (3 * 9 * 4);
        assert_eq!(work, [first, 2 * 16 * (4 * 9 * 6), 2 * 24 * 10, 2 * 10 * 5]);
    }

    #[test]
    fn the_fully_connected_part_of_vgg_has_its_published_size() {
        let config = ConvConfig {
            image: 224,
            channels: 3,
            convolutions: vec![64, 128, 256, 512, 512],
            hidden: vec![4096, 4096],
            classes: 1000,
        };
        let model = Model::conv(&config);
        let n_params: usize = model.params_of(5..8).iter().map(|p| p.spec.n_values()).sum();
        assert_eq!(n_params, 123_642_856);
    }

    #[test]
    fn weights_start_by_their_inputs_and_biases_at_zero() {
        let model = Model::conv(&small());
        let inits = |layer: u32| {
            let params = model.params_of(layer..layer + 1).into_iter();
            params.map(|param| param.spec.init).collect::<Vec<_>>()
        };
        let of = |variance: f32| vec![Init::Normal { std: variance.sqrt() }, Init::Zeros];
        assert_eq!(inits(0), of(2.0 / 27.0));
        assert_eq!(inits(2), of(2.0 / 24.0));
        assert_eq!(inits(3), of(1.0 / 10.0));
    }
}
