//! A Burn module that is no GPT and takes no tokens, as two chunks.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use cavalcade_nn::{
    Activation, BurnChunk, Chunk, ChunkEnds, ChunkError, ChunkInput, ChunkModule, ChunkOutput,
    ModuleInput, Optimizer, Sgd, Targets,
};
use cavalcade_units::MicrobatchId;

/// A layer of a classifier: `hidden` is followed by a ReLU in all but the last.
#[derive(Module, Debug)]
struct Dense {
    hidden: Linear,
    is_last: bool,
}

impl ChunkModule for Dense {
    fn forward(&self, input: ModuleInput) -> Result<Tensor<3>, ChunkError> {
        let output = self.hidden.forward(input.activation()?);
        Ok(if self.is_last { output } else { relu(output) })
    }

    /// The probability that is missing from the right class: a loss of the user's own.
    fn loss(&self, output: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<1> {
        let chosen = burn::tensor::activation::softmax(output, 2);
        let chosen = chosen.gather(2, targets.unsqueeze_dim(2));
        chosen.mean().neg().add_scalar(1.0)
    }
}

fn chunk(input: usize, output: usize, is_last: bool) -> BurnChunk<Dense> {
    // Made without autodiff: the chunk turns it on.
    let device = Device::flex();
    let dense = Dense { hidden: LinearConfig::new(input, output).init(&device), is_last };
    let mut chunk = BurnChunk::new(dense, &device, ChunkEnds { first: !is_last, last: is_last });
    let weights: Vec<f32> =
        (0..chunk.weights().len()).map(|at| ((at * 37 % 19) as f32 - 9.0) / 12.0).collect();
    chunk.set_weights(&weights).unwrap();
    chunk
}

/// The class is the larger of two numbers.
fn data() -> (ChunkInput, Targets) {
    let data = vec![0.9, 0.1, -0.5, 0.7, 0.3, -0.2, 0.1, 0.8];
    let ids = data.chunks(2).map(|pair| u32::from(pair[1] > pair[0])).collect();
    (ChunkInput::Activation(Activation { data, shape: [4, 1, 2] }), Targets { ids })
}

#[test]
fn any_burn_module_is_a_chunk_and_learns() {
    let (mut first, mut last) = (chunk(2, 8, false), chunk(8, 2, true));
    let names: Vec<&str> = first.params().iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["hidden.weight", "hidden.bias"]);
    let mut losses = Vec::new();
    for step in 1..=30 {
        let (input, targets) = data();
        let microbatch = MicrobatchId(0);
        let hidden = match first.forward(microbatch, input, None, 1.0).unwrap() {
            ChunkOutput::Activation(hidden) => ChunkInput::Activation(hidden),
            ChunkOutput::Loss(_) => panic!("the first chunk has no loss"),
        };
        match last.forward(microbatch, hidden, Some(targets), 1.0).unwrap() {
            ChunkOutput::Loss(loss) => losses.push(loss),
            ChunkOutput::Activation(_) => panic!("the last chunk has a loss"),
        }
        let gradient = last.backward(microbatch, None).unwrap();
        assert!(gradient.is_some(), "a later chunk returns the gradient of its input");
        assert_eq!(first.backward(microbatch, gradient).unwrap(), None);
        for chunk in [&mut first, &mut last] {
            chunk.update(&mut |weights, gradients| Sgd.step(weights, gradients, 1.0, step));
            chunk.zero_gradients();
        }
    }
    assert!(losses[29] < 0.1 * losses[0], "from {} to {}", losses[0], losses[29]);
}

#[test]
fn a_call_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut last = chunk(8, 2, true);
    let microbatch = MicrobatchId(3);
    let hidden = || ChunkInput::Activation(Activation { data: vec![0.5; 16], shape: [2, 1, 8] });
    let targets = |ids: &[u32]| Some(Targets { ids: ids.to_vec() });
    let tokens = ChunkInput::Tokens { ids: vec![1], batch: 1, sequence: 1 };
    let short = ChunkInput::Activation(Activation { data: vec![0.5; 15], shape: [2, 1, 8] });
    for (input, targets, wanted) in [
        (hidden(), None, "targets are missing"),
        (hidden(), targets(&[0]), "the targets holds 1 values and 2 are needed"),
        (hidden(), targets(&[0, 2]), "token id 2 is outside the vocabulary of 2"),
        (tokens, targets(&[0]), "got token ids as its input and takes an activation"),
        (short, targets(&[0, 1]), "the input activation holds 15 values"),
    ] {
        let error = last.forward(microbatch, input, targets, 1.0).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        let error = last.backward(microbatch, None).unwrap_err();
        assert_eq!(error, ChunkError::NotInFlight { microbatch });
    }
    last.forward(microbatch, hidden(), targets(&[0, 1]), 1.0).unwrap();
    let again = last.forward(microbatch, hidden(), targets(&[0, 1]), 1.0);
    assert_eq!(again, Err(ChunkError::InFlight { microbatch }));
    let gradient = Activation { data: vec![0.0; 4], shape: [2, 1, 2] };
    let error = last.backward(microbatch, Some(gradient)).unwrap_err().to_string();
    assert!(error.contains("an output gradient is given"), "{error}");
    last.discard(microbatch).unwrap();
    assert_eq!(last.discard(microbatch), Err(ChunkError::NotInFlight { microbatch }));
    assert!(last.gradients().iter().all(|&value| value == 0.0));
}
