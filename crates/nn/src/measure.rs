//! Measures the layers of a network on this host: each kind of layer once, as a chunk of its own.
//!
//! ```text
//! live bytes      before | forward .. peak | after | backward .. peak | after
//! saved           = after the forward pass - before - the output - the input activation, but
//!                   with it where the layer keeps it although it is not its chunk's first
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
    decayed_ranges, network_chunk,
};
use cavalcade_model::{Layer, Model, Network};
use cavalcade_profile::{LayerProfile, Meter};
use cavalcade_units::{Bytes, MicrobatchId, Nanos};
use rayon::ThreadPoolBuilder;

/// What [`profile_layers`] finds: the part of a profile that needs no second process.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Every layer of the model, in order.
    pub layers: Vec<LayerProfile>,
    /// Time of an AdamW step for a million parameters, with the upload of the new weights and the
    /// zeroing of the gradients.
    pub optimizer_per_million: Nanos,
    /// Bytes that a thread keeps once it has computed: the buffers in which matrix products pack
    /// their operands, and the like.
    pub resident: Bytes,
    /// Standard deviation of a whole pass's time over its mean, over all layers, each weighed by
    /// its time.
    pub jitter: f64,
}

/// Passes before any counts: they fill caches and the allocator's lists.
const N_WARM_UP: usize = 2;
/// Passes that count; the lower quartile of them is taken.
const N_REPEATS: usize = 15;

/// Measures each kind of layer of `network` on one thread, for micro-batches of `microbatch_size`
/// samples: images, or windows of the whole context. Layers of the same sizes, such as a GPT's
/// blocks, are measured once. Bytes are zero if `meter` sees no memory.
///
/// # Errors
/// If a layer refuses its input.
///
/// # Panics
/// If the operating system refuses a thread.
pub fn profile_layers(
    network: &Network,
    microbatch_size: usize,
    meter: &dyn Meter,
) -> Result<Measured, ChunkError> {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    pool.install(|| Bench { network, batch: microbatch_size, meter }.run())
}

struct Bench<'a> {
    network: &'a Network,
    batch: usize,
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

/// How long something takes, and how much that varies, in seconds.
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(times: &[f64]) -> Self {
        let n = times.len().max(1) as f64;
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / n;
        Self { mean, deviation: variance.sqrt() }
    }
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
        let model = self.network.model();
        let mut layers: Vec<LayerProfile> = Vec::new();
        let (mut deviations, mut means) = (0.0, 0.0);
        for layer in 0..model.n_layers() {
            let name = model.layers[layer as usize].name.clone();
            layers.push(match (0..layer).find(|&other| self.is_alike(&model, other, layer)) {
                Some(other) => LayerProfile { name, ..layers[other as usize].clone() },
                None => {
                    let (measured, spread) = self.layer(name, layer)?;
                    deviations += spread.deviation;
                    means += spread.mean;
                    measured
                }
            });
        }
        let optimizer_per_million = self.optimizer(typical(&model));
        drop(model);
        let resident = self.meter.live_bytes().saturating_sub(before);
        let jitter = if means > 0.0 { deviations / means } else { 0.0 };
        Ok(Measured { layers, optimizer_per_million, resident, jitter })
    }

    /// Whether two layers between the ends do the same to tensors of the same sizes.
    fn is_alike(&self, model: &Model, one: u32, other: u32) -> bool {
        let sizes = |layer: u32| {
            let Layer { params, work, .. } = &model.layers[layer as usize];
            let params: Vec<&[usize]> = params.iter().map(|spec| &spec.shape[..]).collect();
            (params, work, self.network.input_shape(layer, 1), self.network.output_shape(layer, 1))
        };
        let is_inner = |layer: u32| layer > 0 && layer + 1 < model.n_layers();
        is_inner(one) && is_inner(other) && sizes(one) == sizes(other)
    }

    fn layer(&self, name: String, layer: u32) -> Result<(LayerProfile, Spread), ChunkError> {
        let mut chunk = network_chunk(self.network, layer..layer + 1, 0);
        for _ in 0..N_WARM_UP {
            self.sample(&mut *chunk, layer)?;
        }
        let samples = (0..N_REPEATS)
            .map(|_| self.sample(&mut *chunk, layer))
            .collect::<Result<Vec<_>, _>>()?;
        let whole = samples.iter().map(|sample| (sample.forward + sample.backward).as_secs_f64());
        let spread = Spread::of(&whole.collect::<Vec<f64>>());
        let profile = LayerProfile {
            name,
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
        Ok((profile, spread))
    }

    fn sample(&self, chunk: &mut dyn Chunk, layer: u32) -> Result<Sample, ChunkError> {
        let microbatch = MicrobatchId(0);
        let (input, targets) = (self.input(layer), self.targets(layer));
        // An activation is alive before the pass and stays. A GPT's layers keep what their norms
        // make of it, so that their figures leave it out. A product keeps it, also inside a chunk;
        // and if it is the data, nobody else counts it.
        let kept = match (self.network, &input) {
            (Network::Conv(_), ChunkInput::Activation(it)) => Bytes::of_f32(it.data.len()),
            _ => Bytes::ZERO,
        };
        let (result, forward) = self.pass(|| chunk.forward(microbatch, input, targets, 1.0))?;
        let gradient = output_gradient(result);
        let output = gradient.as_ref().map_or(Bytes::ZERO, |it| Bytes::of_f32(it.data.len()));
        // Both the returned copy of the output and the graph's own are not counted as saved.
        let saved = forward.after.saturating_sub(forward.before).saturating_sub(output * 2) + kept;
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

    /// The optimizer's time for a million parameters, on those of `layer`.
    fn optimizer(&self, layer: u32) -> Nanos {
        let mut chunk = network_chunk(self.network, layer..layer + 1, 0);
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
        let Some(shape) = self.network.input_shape(layer, self.batch) else {
            let (batch, sequence) = (self.batch, self.network.predictions());
            return ChunkInput::Tokens { ids: self.ids(), batch, sequence };
        };
        // Any values of ordinary size do: the arithmetic takes as long for all of them.
        let data = (0..shape.iter().product::<usize>()).map(|at| (at % 17) as f32 / 8.0 - 1.0);
        ChunkInput::Activation(Activation { data: data.collect(), shape })
    }

    fn targets(&self, layer: u32) -> Option<Targets> {
        let is_last = layer + 1 == self.network.n_layers();
        is_last.then(|| Targets { ids: self.ids() })
    }

    fn ids(&self) -> Vec<u32> {
        let n_ids = self.batch * self.network.predictions();
        (0..n_ids).map(|at| (at % self.network.classes()) as u32).collect()
    }
}

/// The layer with the most parameters, without the ends where there are others: the cost of a
/// million depends on whether they stay in the caches, and chunks are larger than one layer.
fn typical(model: &Model) -> u32 {
    let n_layers = model.n_layers();
    let inner = if n_layers > 2 { 1..n_layers - 1 } else { 0..n_layers };
    let n_params = |&layer: &u32| {
        let params = model.params_of(layer..layer + 1);
        params.iter().map(|param| param.spec.n_values()).sum::<usize>()
    };
    inner.rev().max_by_key(n_params).expect("a model has layers")
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
