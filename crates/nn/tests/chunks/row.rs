//! A row of chunks run as a pipeline would, in one thread: what the tests compare.

use cavalcade_model::{GptConfig, Network};
use cavalcade_nn::{Chunk, ChunkInput, ChunkOutput, Targets, network_chunk};
use cavalcade_units::MicrobatchId;
use std::collections::BTreeMap;

/// Consecutive chunks of one model.
pub(crate) struct Row(pub(crate) Vec<Box<dyn Chunk>>);

impl Row {
    /// The model cut before each layer of `cuts`.
    pub(crate) fn of(config: &GptConfig, cuts: &[u32]) -> Self {
        Self::of_network(&Network::Gpt(config.clone()), cuts)
    }

    /// The same of a network of any family.
    pub(crate) fn of_network(network: &Network, cuts: &[u32]) -> Self {
        let n_layers = network.n_layers();
        let starts = [0].iter().chain(cuts);
        let ends = cuts.iter().chain([&n_layers]);
        Self(starts.zip(ends).map(|(&start, &end)| network_chunk(network, start..end, 7)).collect())
    }

    /// The forward pass; the loss.
    pub(crate) fn forward(&mut self, microbatch: u32, batch: &Batch, loss_scale: f32) -> f64 {
        self.forward_of(microbatch, (batch.input(), batch.targets()), loss_scale)
    }

    /// The same of any input and targets.
    pub(crate) fn forward_of(
        &mut self,
        microbatch: u32,
        (mut input, targets): (ChunkInput, Targets),
        loss_scale: f32,
    ) -> f64 {
        let n_chunks = self.0.len();
        for (idx, chunk) in self.0.iter_mut().enumerate() {
            let targets = (idx + 1 == n_chunks).then(|| targets.clone());
            let output = chunk.forward(MicrobatchId(microbatch), input, targets, loss_scale);
            match output.unwrap() {
                ChunkOutput::Activation(activation) => input = ChunkInput::Activation(activation),
                ChunkOutput::Loss(loss) => return loss,
            }
        }
        panic!("the last chunk returns a loss");
    }

    /// The backward pass.
    pub(crate) fn backward(&mut self, microbatch: u32) {
        let mut gradient = None;
        for chunk in self.0.iter_mut().rev() {
            gradient = chunk.backward(MicrobatchId(microbatch), gradient).unwrap();
        }
        assert!(gradient.is_none(), "the data has no gradient");
    }

    /// The first half of the backward pass.
    pub(crate) fn backward_input(&mut self, microbatch: u32) {
        let mut gradient = None;
        for chunk in self.0.iter_mut().rev() {
            gradient = chunk.backward_input(MicrobatchId(microbatch), gradient).unwrap();
        }
        assert!(gradient.is_none(), "the data has no gradient");
    }

    /// The second half.
    pub(crate) fn backward_weight(&mut self, microbatch: u32) {
        for chunk in &mut self.0 {
            chunk.backward_weight(MicrobatchId(microbatch)).unwrap();
        }
    }

    /// The gradients by name, copies of a tied parameter summed.
    pub(crate) fn gradients(&self) -> BTreeMap<String, Vec<f32>> {
        let mut sums: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for chunk in &self.0 {
            for param in chunk.params() {
                let found = &chunk.gradients()[param.offset..param.offset + param.n_values()];
                let sum = sums.entry(param.name.clone()).or_insert_with(|| vec![0.0; found.len()]);
                sum.iter_mut().zip(found).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }
}

/// Token ids of one micro-batch.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) ids: Vec<u32>,
    pub(crate) next: Vec<u32>,
    pub(crate) sequence: usize,
}

impl Batch {
    /// `batch` sequences of arbitrary ids that differ with `seed`.
    pub(crate) fn new(config: &GptConfig, batch: usize, sequence: usize, seed: u32) -> Self {
        let mut state = seed.wrapping_mul(2_654_435_769).wrapping_add(12345);
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % config.vocab as u32
        };
        let mut ids = || (0..batch * sequence).map(|_| draw()).collect::<Vec<u32>>();
        Self { ids: ids(), next: ids(), sequence }
    }

    pub(crate) fn input(&self) -> ChunkInput {
        let (ids, sequence) = (self.ids.clone(), self.sequence);
        ChunkInput::Tokens { batch: ids.len() / sequence, ids, sequence }
    }

    pub(crate) fn targets(&self) -> Targets {
        Targets { ids: self.next.clone() }
    }
}

/// L2 norm of the difference over L2 norm of `wanted`, all parameters as one vector.
pub(crate) fn difference(
    found: &BTreeMap<String, Vec<f32>>,
    wanted: &BTreeMap<String, Vec<f32>>,
) -> f64 {
    assert!(found.keys().eq(wanted.keys()), "the same parameters");
    let pairs = found.values().flatten().zip(wanted.values().flatten());
    let square = |value: f64| value * value;
    let (above, below) = pairs.fold((0.0, 0.0), |(above, below), (&found, &wanted)| {
        let (found, wanted) = (f64::from(found), f64::from(wanted));
        (above + square(found - wanted), below + square(wanted))
    });
    assert!(below > 0.0, "there are gradients");
    (above / below).sqrt()
}
