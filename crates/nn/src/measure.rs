//! Measures the layers of a GPT on this host: each kind of layer once, as a chunk of its own.
//!
//! ```text
//! live bytes      before | forward .. peak | after | backward .. peak | after
//! saved           = after the forward pass - before - the output - the input activation
//!
//! live bytes      before the input | forward | backward input .. peak | after | backward weight ..
//! deferred        = after the backward-input pass - before the input, gradients dropped
//!
//! beyond          forward: peak - after, backward and backward weight: peak - before,
//!                 backward input: peak - the larger of before and after
//! workspace       = the larger one of forward and backward
//! split workspace = the largest one of forward and the two halves of backward
//! ```

use crate::{
    Activation, AdamW, AdamWConfig, Chunk, ChunkError, ChunkInput, ChunkOutput, Optimizer, Targets,
    decayed_ranges, gpt_chunk,
};
use cavalcade_model::{GptConfig, Model};
use cavalcade_profile::{LayerProfile, Meter};
use cavalcade_units::{Bytes, MicrobatchId, Nanos};
use rayon::ThreadPoolBuilder;

/// What [`profile_layers`] finds: the part of a profile that needs no second process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Every layer of the model, in order.
    pub layers: Vec<LayerProfile>,
    /// Time of an AdamW step for a million parameters, with the upload of the new weights and the
    /// zeroing of the gradients.
    pub optimizer_per_million: Nanos,
    /// Bytes that a thread keeps once it has computed: the buffers in which matrix products pack
    /// their operands, and the like.
    pub resident: Bytes,
}

/// Passes before any counts: they fill caches and the allocator's lists.
const N_WARM_UP: usize = 2;
/// Passes that count; the lower quartile of them is taken.
const N_REPEATS: usize = 15;

/// Measures each kind of layer (embedding, block, head) of a GPT on one thread, for micro-batches
/// of `microbatch_size` sequences of `sequence` tokens. Bytes are zero if `meter` sees no memory.
///
/// # Errors
/// The sequence is longer than the model's context.
///
/// # Panics
/// If the operating system refuses a thread.
pub fn profile_layers(
    config: &GptConfig,
    microbatch_size: usize,
    sequence: usize,
    meter: &dyn Meter,
) -> Result<Measured, ChunkError> {
    if sequence > config.context {
        return Err(ChunkError::Sequence { found: sequence, max: config.context });
    }
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    pool.install(|| Bench { config, batch: microbatch_size, sequence, meter }.run())
}

struct Bench<'a> {
    config: &'a GptConfig,
    batch: usize,
    sequence: usize,
    meter: &'a dyn Meter,
}

/// Each pass once.
struct Sample {
    forward: Nanos,
    backward: Nanos,
    backward_input: Nanos,
    backward_weight: Nanos,
    saved: Bytes,
    deferred: Bytes,
    workspace: Bytes,
    split_workspace: Bytes,
    output: Bytes,
}

/// Time and memory of one pass.
struct Span {
    time: Nanos,
    before: Bytes,
    peak: Bytes,
    after: Bytes,
}

impl Bench<'_> {
    fn run(&self) -> Result<Measured, ChunkError> {
        let before = self.meter.live_bytes();
        let model = Model::gpt(self.config);
        let head = model.n_layers() - 1;
        let (embedding, _) = self.layer(&model, 0)?;
        let (block, optimizer_per_million) = self.layer(&model, 1)?;
        let (last, _) = self.layer(&model, head)?;
        let mut layers = vec![embedding];
        layers.extend(
            model.layers[1..head as usize]
                .iter()
                .map(|layer| LayerProfile { name: layer.name.clone(), ..block.clone() }),
        );
        layers.push(last);
        drop(model);
        let resident = self.meter.live_bytes().saturating_sub(before);
        Ok(Measured { layers, optimizer_per_million, resident })
    }

    /// The layer's figures, and the optimizer's time for a million of its parameters.
    fn layer(&self, model: &Model, layer: u32) -> Result<(LayerProfile, Nanos), ChunkError> {
        let mut chunk = gpt_chunk(self.config, layer..layer + 1, 0);
        for _ in 0..N_WARM_UP {
            self.sample(&mut *chunk, layer)?;
        }
        let samples = (0..N_REPEATS)
            .map(|_| self.sample(&mut *chunk, layer))
            .collect::<Result<Vec<_>, _>>()?;
        let profile = LayerProfile {
            name: model.layers[layer as usize].name.clone(),
            forward: lower_quartile(samples.iter().map(|sample| sample.forward)),
            backward: lower_quartile(samples.iter().map(|sample| sample.backward)),
            backward_input: lower_quartile(samples.iter().map(|sample| sample.backward_input)),
            backward_weight: lower_quartile(samples.iter().map(|sample| sample.backward_weight)),
            saved: lower_quartile(samples.iter().map(|sample| sample.saved)),
            deferred: lower_quartile(samples.iter().map(|sample| sample.deferred)),
            workspace: lower_quartile(samples.iter().map(|sample| sample.workspace)),
            split_workspace: lower_quartile(samples.iter().map(|sample| sample.split_workspace)),
            output: lower_quartile(samples.iter().map(|sample| sample.output)),
        };
        Ok((profile, self.optimizer(&mut *chunk)))
    }

    fn sample(&self, chunk: &mut dyn Chunk, layer: u32) -> Result<Sample, ChunkError> {
        let microbatch = MicrobatchId(0);
        let (input, targets) = (self.input(layer), self.targets(layer));
        // An activation is alive before the pass and stays; the layer's figure leaves it out.
        let (result, forward) = self.pass(|| chunk.forward(microbatch, input, targets, 1.0))?;
        let gradient = output_gradient(result);
        let output = gradient.as_ref().map_or(Bytes::ZERO, |it| Bytes::of_f32(it.data.len()));
        // Both the returned copy of the output and the graph's own are not counted as saved.
        let saved = forward.after.saturating_sub(forward.before).saturating_sub(output * 2);
        let (_, backward) = self.pass(|| chunk.backward(microbatch, gradient))?;

        let before = self.meter.live_bytes();
        let (input, targets) = (self.input(layer), self.targets(layer));
        let gradient = output_gradient(chunk.forward(microbatch, input, targets, 1.0)?);
        let (returned, input_half) = self.pass(|| chunk.backward_input(microbatch, gradient))?;
        drop(returned);
        let deferred = self.meter.live_bytes().saturating_sub(before);
        let ((), weight_half) = self.pass(|| chunk.backward_weight(microbatch))?;

        let beyond = |span: &Span, alive: Bytes| span.peak.saturating_sub(alive);
        let of_forward = beyond(&forward, forward.after);
        let of_input_half = beyond(&input_half, input_half.before.max(input_half.after));
        let of_weight_half = beyond(&weight_half, weight_half.before);
        Ok(Sample {
            forward: forward.time,
            backward: backward.time,
            backward_input: input_half.time,
            backward_weight: weight_half.time,
            saved,
            deferred,
            workspace: of_forward.max(beyond(&backward, backward.before)),
            split_workspace: of_forward.max(of_input_half).max(of_weight_half),
            output,
        })
    }

    /// Runs one pass.
    fn pass<T>(
        &self,
        pass: impl FnOnce() -> Result<T, ChunkError>,
    ) -> Result<(T, Span), ChunkError> {
        let before = self.meter.live_bytes();
        self.meter.reset_peak();
        let start = self.meter.now();
        let result = pass()?;
        let time = self.meter.now().saturating_sub(start);
        let (peak, after) = (self.meter.peak_bytes(), self.meter.live_bytes());
        Ok((result, Span { time, before, peak, after }))
    }

    fn optimizer(&self, chunk: &mut dyn Chunk) -> Nanos {
        let n_params = chunk.weights().len();
        let decayed = decayed_ranges(chunk.params(), 0..n_params);
        let mut optimizer = AdamW::new(AdamWConfig::default(), n_params, decayed);
        let times = (1..=(N_WARM_UP + N_REPEATS) as u64).map(|step| {
            let start = self.meter.now();
            chunk.update(&mut |weights, gradients| {
                optimizer.step(weights, gradients, 1e-3, step);
                gradients.fill(0.0);
            });
            self.meter.now().saturating_sub(start)
        });
        let time = lower_quartile(times.skip(N_WARM_UP));
        Nanos((time.0 as f64 * 1e6 / n_params as f64).round() as u64)
    }

    fn input(&self, layer: u32) -> ChunkInput {
        let (batch, sequence) = (self.batch, self.sequence);
        if layer == 0 {
            return ChunkInput::Tokens { ids: self.ids(), batch, sequence };
        }
        let shape = [batch, sequence, self.config.width];
        // Any values of ordinary size do: the arithmetic takes as long for all of them.
        let data = (0..shape.iter().product::<usize>()).map(|at| (at % 17) as f32 / 8.0 - 1.0);
        ChunkInput::Activation(Activation { data: data.collect(), shape })
    }

    fn targets(&self, layer: u32) -> Option<Targets> {
        let is_head = layer as usize == self.config.layers + 1;
        is_head.then(|| Targets { ids: self.ids() })
    }

    fn ids(&self) -> Vec<u32> {
        let n_ids = self.batch * self.sequence;
        (0..n_ids).map(|at| (at % self.config.vocab) as u32).collect()
    }
}

/// What stands in for the gradient of a pass's output: the output itself.
fn output_gradient(output: ChunkOutput) -> Option<Activation> {
    match output {
        ChunkOutput::Activation(activation) => Some(activation),
        ChunkOutput::Loss(_) => None,
    }
}

/// What else runs on the host can only add to a time, so the middle would depend on it; the
/// smallest one may be a stroke of luck.
fn lower_quartile<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values[values.len() / 4]
}
