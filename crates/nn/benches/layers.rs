//! Prints the measured figures of a small GPT's layers, and how well their sums predict the memory
//! of a chunk of several: `cargo bench -p cavalcade-nn [-- WIDTH HEADS SEQUENCE BATCH]`.
#![allow(clippy::print_stdout, reason = "a report is what this program is for")]

use cavalcade_model::GptConfig;
use cavalcade_nn::profile_layers;
use cavalcade_nn::{Activation, Chunk, ChunkInput, ChunkOutput, Measured, gpt_chunk};
use cavalcade_profile::{ClockMeter, Meter};
use cavalcade_units::{Bytes, MicrobatchId, Nanos};
use peak_alloc::PeakAlloc;

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
    let measured = profile_layers(&config, batch, sequence, &meter).expect("the sequence fits");
    println!("width {width}, {heads} heads, sequence {sequence}, batch {batch}, one thread");
    println!("measuring took {}", meter.now().saturating_sub(start));
    println!(
        "{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "forward", "backward", "saved", "workspace", "output"
    );
    for layer in &measured.layers {
        println!(
            "{:<10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            layer.name, layer.forward, layer.backward, layer.saved, layer.workspace, layer.output
        );
    }
    println!("optimizer, a million parameters: {}", measured.optimizer_per_million);
    predict(&config, &measured, batch, sequence, &meter);
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
    let saved: Bytes = blocks.iter().map(|layer| layer.saved).sum::<Bytes>() + blocks[0].output * 2;
    let mut chunk = gpt_chunk(config, 1..1 + config.layers as u32, 0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread starts");
    let sample = pool.install(|| {
        run(&mut *chunk, config, batch, sequence, meter);
        run(&mut *chunk, config, batch, sequence, meter)
    });
    let forward: Nanos = blocks.iter().map(|layer| layer.forward).sum();
    let backward: Nanos = blocks.iter().map(|layer| layer.backward).sum();
    println!("{} blocks in one chunk, predicted and measured:", config.layers);
    println!("forward   {:>10} {:>10}", forward, sample.forward);
    println!("backward  {:>10} {:>10}", backward, sample.backward);
    println!("saved     {:>10} {:>10}", saved, sample.saved);
    println!("workspace {:>10} {:>10}", blocks[0].workspace, sample.workspace);
}

struct Sample {
    forward: Nanos,
    backward: Nanos,
    saved: Bytes,
    workspace: Bytes,
}

fn run(
    chunk: &mut dyn Chunk,
    config: &GptConfig,
    batch: usize,
    sequence: usize,
    meter: &AllocatorMeter,
) -> Sample {
    let before = meter.live_bytes();
    let shape = [batch, sequence, config.width];
    let n_values: usize = shape.iter().product();
    let data = (0..n_values).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
    let start = meter.now();
    let input = ChunkInput::Activation(Activation { data, shape });
    let output = chunk.forward(MicrobatchId(0), input, None, 1.0).expect("the input fits");
    let forward = meter.now().saturating_sub(start);
    let ChunkOutput::Activation(gradient) = output else { unreachable!("blocks have no loss") };
    let after = meter.live_bytes();
    let saved = after.saturating_sub(before).saturating_sub(Bytes::of_f32(gradient.data.len()));
    meter.reset_peak();
    let start = meter.now();
    chunk.backward(MicrobatchId(0), Some(gradient)).expect("the gradient fits");
    let backward = meter.now().saturating_sub(start);
    let workspace = meter.peak_bytes().saturating_sub(after);
    Sample { forward, backward, saved, workspace }
}
