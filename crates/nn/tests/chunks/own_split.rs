//! The halves of a backward pass through Burn modules of one's own: one that puts its weight
//! gradients off, and the same one that does not.

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use cavalcade_nn::{
    Activation, BurnChunk, Chunk, ChunkEnds, ChunkError, ChunkInput, ChunkModule, ModuleInput,
    WeightPass,
};
use cavalcade_units::MicrobatchId;

/// Maps with a ReLU after each.
#[derive(Module, Debug)]
struct Maps {
    maps: Vec<Linear>,
    puts_off: bool,
}

impl Maps {
    fn run(&self, input: ModuleInput, weight_pass: &WeightPass) -> Result<Tensor<3>, ChunkError> {
        let mut x = input.activation()?;
        for map in &self.maps {
            let bias = map.bias.as_ref().map(|bias| bias.val());
            x = relu(weight_pass.linear(x, map.weight.val(), bias));
        }
        Ok(x)
    }
}

impl ChunkModule for Maps {
    fn forward(&self, input: ModuleInput) -> Result<Tensor<3>, ChunkError> {
        self.run(input, &WeightPass::none())
    }

    fn forward_split(
        &self,
        input: ModuleInput,
        weight_pass: &WeightPass,
    ) -> Result<Tensor<3>, ChunkError> {
        if self.puts_off { self.run(input, weight_pass) } else { self.forward(input) }
    }
}

/// Three maps that are clones of one, so that Burn gives their parameters the same ids; `frozen`
/// is the number of the one whose weight is not trained.
fn chunk(puts_off: bool, is_first: bool, frozen: Option<usize>) -> BurnChunk<Maps> {
    let device = Device::flex().autodiff();
    let constant = Initializer::Constant { value: 0.3 };
    let map = LinearConfig::new(3, 3).with_initializer(constant).init(&device);
    let mut maps = vec![map; 3];
    if let Some(map) = frozen.map(|idx| &mut maps[idx]) {
        map.weight = map.weight.clone().set_require_grad(false);
    }
    let mut chunk = BurnChunk::new(
        Maps { maps, puts_off },
        &device,
        ChunkEnds { first: is_first, last: false },
    );
    let n_weights = chunk.weights().len();
    let weights: Vec<f32> = (0..n_weights).map(|at| (at as f32 * 0.7).sin() * 0.5 + 0.3).collect();
    chunk.set_weights(&weights).unwrap();
    chunk
}

fn activation(seed: u32) -> Activation {
    let values = (0..24).map(|at| ((at + 31 * seed) as f32 * 0.9).cos() * 0.5 + 0.6);
    Activation { data: values.collect(), shape: [2, 4, 3] }
}

/// The gradients of three micro-batches, and what the last returned.
fn train(mut chunk: BurnChunk<Maps>, is_split: bool) -> (Vec<f32>, Option<Activation>) {
    let mut returned = None;
    for idx in 0..3 {
        let input = ChunkInput::Activation(activation(idx));
        chunk.forward(MicrobatchId(idx), input, None, 1.0).unwrap();
    }
    for idx in 0..3 {
        let (microbatch, gradient) = (MicrobatchId(idx), Some(activation(idx + 7)));
        returned = match is_split {
            true => chunk.backward_input(microbatch, gradient).unwrap(),
            false => chunk.backward(microbatch, gradient).unwrap(),
        };
    }
    if is_split {
        assert!(chunk.gradients().iter().all(|&value| value == 0.0));
        (0..3).for_each(|idx| chunk.backward_weight(MicrobatchId(idx)).unwrap());
    }
    (chunk.gradients().to_vec(), returned)
}

#[test]
fn a_module_of_ones_own_splits_whether_it_puts_off_or_not() {
    // A first chunk that starts with a map: its data is no leaf.
    for is_first in [true, false] {
        for frozen in [None, Some(0), Some(1), Some(2)] {
            let [put_off, plain] = [true, false].map(|puts_off| {
                let [whole, split] = [false, true]
                    .map(|is_split| train(chunk(puts_off, is_first, frozen), is_split));
                assert_eq!(whole, split, "puts off {puts_off}, first {is_first}, {frozen:?}");
                assert_eq!(whole.1.is_none(), is_first);
                whole
            });
            let n_weights = chunk(true, is_first, frozen).weights().len();
            assert_eq!(n_weights, if frozen.is_some() { 27 } else { 36 });
            let largest = plain.0.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
            for (idx, (found, wanted)) in put_off.0.iter().zip(&plain.0).enumerate() {
                let is_near = (found - wanted).abs() <= 1e-6 * largest;
                assert!(is_near && *wanted != 0.0, "{idx}: {found}, by Burn's own {wanted}");
            }
            assert_eq!(put_off.1, plain.1);
        }
    }
}
