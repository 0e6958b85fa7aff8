//! Prints the measured figures of a small GPT's layers, and how well their sums predict the memory
//! of a chunk of several: `cargo bench -p cavalcade-nn [-- WIDTH HEADS SEQUENCE BATCH]`.
#![allow(clippy::print_stdout, reason = "a report is what this program is for")]

use cavalcade_model::{GptConfig, Network};
use cavalcade_nn::profile_layers;
use cavalcade_nn::{Activation, Chunk, ChunkInput, ChunkOutput, Measured, gpt_chunk};
use cavalcade_profile::{ClockMeter, LayerProfile, Meter};
use cavalcade_units::{Bytes, MicrobatchId, Nanos};
use peak_alloc::PeakAlloc;
use std::fmt::Display;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The clock, and the bytes that went through the allocator.
struct AllocatorMeter(ClockMeter);

impl Meter for AllocatorMeter {
    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn live_bytes(&self) -> Bytes {
        Bytes(ALLOCATOR.current_usage() as u64)
    }

    fn peak_bytes(&self) -> Bytes {
        Bytes(ALLOCATOR.peak_usage() as u64)
    }

    fn reset_peak(&self) {
        ALLOCATOR.reset_peak_usage();
    }
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let [width, heads, sequence, batch] = sizes[..] else { return report(128, 4, 128, 8) };
    report(width, heads, sequence, batch);
}

fn report(width: usize, heads: usize, sequence: usize, batch: usize) {
    let config = GptConfig::new(65, sequence, width, heads, 4, true, true)
        .expect("the sizes are those of a GPT");
    let meter = AllocatorMeter(ClockMeter::start());
    let start = meter.now();
    let measured = profile_layers(&Network::Gpt(config.clone()), batch, &meter)
        .expect("a layer takes its own input");
    println!("width {width}, {heads} heads, sequence {sequence}, batch {batch}, one thread");
    println!("measuring took {}", meter.now().saturating_sub(start));
    let names = [
        "forward",
        "backward",
        "b. input",
        "b. weight",
        "saved",
        "deferred",
        "workspace",
        "split w.",
        "output",
    ];
    println!("{:<10}{}", "", names.iter().map(column).collect::<String>());
    for layer in &measured.layers {
        let times = [layer.forward, layer.backward, layer.backward_input, layer.backward_weight];
        let held = [layer.saved, layer.deferred];
        let bytes = [layer.workspace, layer.split_workspace, layer.output];
        let cells = times.iter().map(column).chain(held.iter().chain(&bytes).map(column));
        println!("{:<10}{}", layer.name, cells.collect::<String>());
    }
    println!("optimizer, a million parameters: {}", measured.optimizer_per_million);
    predict(&config, &measured, batch, sequence, &meter);
}

fn column(cell: &impl Display) -> String {
    format!(" {:>10}", cell.to_string())
}

/// A chunk of all blocks: measured against the sums of its layers.
fn predict(
    config: &GptConfig,
    measured: &Measured,
    batch: usize,
    sequence: usize,
    meter: &AllocatorMeter,
) {
    let blocks = &measured.layers[1..=config.layers];
    let time = |of: fn(&LayerProfile) -> Nanos| blocks.iter().map(of).sum::<Nanos>();
    let bytes = |of: fn(&LayerProfile) -> Bytes| blocks.iter().map(of).sum::<Bytes>();
    let mut chunk = gpt_chunk(config, 1..1 + config.layers as u32, 0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread starts");
    let sample = pool.install(|| {
        run(&mut *chunk, config, batch, sequence, meter);
        run(&mut *chunk, config, batch, sequence, meter)
    });
    println!("{} blocks in one chunk, predicted and measured:", config.layers);
    for (name, predicted, found) in [
        ("forward", time(|layer| layer.forward), sample.forward),
        ("backward", time(|layer| layer.backward), sample.backward),
        ("b. input", time(|layer| layer.backward_input), sample.backward_input),
        ("b. weight", time(|layer| layer.backward_weight), sample.backward_weight),
    ] {
        println!("{name:<10}{}{}", column(&predicted), column(&found));
    }
    let saved = bytes(|layer| layer.saved) + blocks[0].output * 2;
    for (name, predicted, found) in [
        ("saved", saved, sample.saved),
        ("deferred", bytes(|layer| layer.deferred), sample.deferred),
        ("workspace", blocks[0].workspace, sample.workspace),
    ] {
        println!("{name:<10}{}{}", column(&predicted), column(&found));
    }
}

struct Sample {
    forward: Nanos,
    backward: Nanos,
    backward_input: Nanos,
    backward_weight: Nanos,
    saved: Bytes,
    deferred: Bytes,
    workspace: Bytes,
}

fn run(
    chunk: &mut dyn Chunk,
    config: &GptConfig,
    batch: usize,
    sequence: usize,
    meter: &AllocatorMeter,
) -> Sample {
    let microbatch = MicrobatchId(0);
    let before = meter.live_bytes();
    let (forward, gradient) = run_forward(chunk, config, batch, sequence, meter);
    let after = meter.live_bytes();
    let saved = after.saturating_sub(before).saturating_sub(Bytes::of_f32(gradient.data.len()));
    meter.reset_peak();
    let start = meter.now();
    chunk.backward(microbatch, Some(gradient)).expect("the gradient fits");
    let backward = meter.now().saturating_sub(start);
    let workspace = meter.peak_bytes().saturating_sub(after);

    let before = meter.live_bytes();
    let (_, gradient) = run_forward(chunk, config, batch, sequence, meter);
    let start = meter.now();
    let returned = chunk.backward_input(microbatch, Some(gradient)).expect("the gradient fits");
    let backward_input = meter.now().saturating_sub(start);
    drop(returned);
    let deferred = meter.live_bytes().saturating_sub(before);
    let start = meter.now();
    chunk.backward_weight(microbatch).expect("the other half came before");
    let backward_weight = meter.now().saturating_sub(start);
    Sample { forward, backward, backward_input, backward_weight, saved, deferred, workspace }
}

/// The time of a forward pass, and its output.
fn run_forward(
    chunk: &mut dyn Chunk,
    config: &GptConfig,
    batch: usize,
    sequence: usize,
    meter: &AllocatorMeter,
) -> (Nanos, Activation) {
    let shape = [batch, sequence, config.width];
    let n_values: usize = shape.iter().product();
    let data = (0..n_values).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
    let start = meter.now();
    let input = ChunkInput::Activation(Activation { data, shape });
    let output = chunk.forward(MicrobatchId(0), input, None, 1.0).expect("the input fits");
    let time = meter.now().saturating_sub(start);
    let ChunkOutput::Activation(output) = output else { unreachable!("blocks have no loss") };
    (time, output)
}
