//! What can be said on the command line. Help texts are the documentation of each flag.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Train neural networks on whatever devices you have.
///
/// One tool that measures devices, plans how to split the work, predicts time and memory, trains
/// over several worker processes, and shows predicted and measured side by side.
///
/// Exit codes: 0 ok, 1 the check failed, 2 bad input, 3 no plan fits, 4 the run failed.
#[derive(Debug, Parser)]
#[command(name = "cavalcade", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model over worker processes, one a device
    Train(Train),
    /// Compare a planned run with one process on the whole batch
    Verify(Verify),
    /// Replay a run without a flush in one process
    ///
    /// Reads the run's folder, goes through its log of versions, and compares loss and final
    /// weights. Exits with 1 if they differ, or if weights were staler than the run allows.
    Replay(ReplayRun),
    /// Compare ways to train on a cluster, simulated and measured
    #[command(subcommand)]
    Bench(Bench),
    /// Continue a text with a trained model
    Generate(Generate),
    /// Measure layers and links on this machine and write a profile
    Probe(Probe),
    /// Check, simulate and draw a pipeline schedule, or compare them all
    ///
    /// KIND is gpipe, 1f1b, 1f1b:aN or 1f1b:bN (another warm-up, by DAPPLE's policies, for at
    /// most N stashes; `1f1b:b` for any number), geo:CUT+N (N more forwards ahead of the slow
    /// link to stage CUT), interleaved, chimera, zb-h1, zb-h2, zb-v, v-half, v-min or dualpipe-v
    /// (backwards in two parts, of which weight gradients fill the bubble; the last four go over
    /// the devices and back), hetpipe or hetpipe:N (no flush, N mini-batches at once), janus (four
    /// phases, for objectives with gradients by the input), solve or solve:N (the shortest order
    /// found for the times given, with at most N stashes a device; without N, as many as stages),
    /// skip:PERCENT or skip:PERCENT:straight (every micro-batch leaves out that share of the
    /// stages, and takes the others in any order unless straight), `file` for a schedule that you
    /// wrote, or `compare` for a table.
    ///
    /// Times are of one micro-batch on one whole stage; chunks share it equally. Write 1.5 (ms), or
    /// a unit: 800us, 2ms.
    Schedule(Schedule),
    /// Simulate a plan on a cluster that need not be there
    ///
    /// Says how long a step takes, what devices and links do in it, how much memory each device
    /// needs, and what limits the step. Layers take as long as a profile says that `cavalcade
    /// probe` has written, scaled by each device's `speed`; without one, as long as their products
    /// take at each device's `flops` times its `efficiency`. Replicas that do the same are
    /// simulated once.
    Simulate(Simulate),
    /// Be one rank of a run that is started elsewhere
    ///
    /// The place is read from the environment, as launchers set it: RANK, WORLD_SIZE, MASTER_ADDR,
    /// MASTER_PORT, and the run's secret from CAVALCADE_SECRET_FILE (a file) or CAVALCADE_SECRET.
    Worker(Worker),
}

/// A configuration file and changes to it.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigArguments {
    /// Configuration (TOML); without one, examples/motley.toml here or in a folder above
    pub(crate) config: Option<PathBuf>,
    /// Override a value, such as train.steps=50 or data.path=FILE; may be repeated
    ///
    /// Paths are relative to the current folder.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Folder for the results; by default runs/NAME-N in the current folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on without a replica that is lost, in a run that exchanges waves (sync.elastic)
    #[arg(long)]
    pub(crate) elastic: bool,
    /// Print one JSON object a step and the summary, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Steps to compare
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,
    /// Largest relative difference that passes
    #[arg(long, default_value_t = 1e-5, value_parser = tolerance)]
    pub(crate) tolerance: f64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReplayRun {
    /// Folder of a finished run
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Largest relative difference that passes
    #[arg(long, default_value_t = 1e-5, value_parser = tolerance)]
    pub(crate) tolerance: f64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Waves and parameter servers by policy, distance and devices, against an all-reduce
    ///
    /// Throughput, the mean wait of a pull, the share of their time that devices are held up by it,
    /// and what goes between nodes for each micro-batch: values of the computation, and parameters
    /// to and from their servers. The all-reduce is plain data parallelism over the devices that
    /// hold the whole model, one micro-batch each.
    Hetpipe(BenchHetPipe),
}

#[derive(Args, Debug)]
pub(crate) struct BenchHetPipe {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Run every case for this many waves or steps too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(4..=256))]
    pub(crate) measure: Option<u64>,
    /// Race to this loss: waves at distance 0 and 4, and the all-reduce
    #[arg(long, value_name = "LOSS")]
    pub(crate) target: Option<f64>,
    /// Seeds of the race
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// Waves or steps of the race, at most
    #[arg(long, value_name = "N", default_value_t = 250)]
    pub(crate) reports: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// Folder with config.json, model.safetensors and tokenizer.json: RUN/model
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// Text to continue
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: String,
    /// Tokens to add
    #[arg(long, default_value_t = 200)]
    pub(crate) tokens: usize,
    /// 0 takes the likeliest token; higher is freer
    #[arg(long, default_value_t = 0.8)]
    pub(crate) temperature: f64,
    /// Choose among this many likeliest tokens; 0 for all
    #[arg(long, default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Seed of the choices
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Probe {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Where to write the profile
    #[arg(long, value_name = "FILE", default_value = "profile.json")]
    pub(crate) out: PathBuf,
    /// Print the profile as JSON too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Schedule {
    /// Which schedule
    #[arg(value_name = "KIND")]
    pub(crate) kind: String,
    /// Devices of the pipeline, each with one stage or several chunks
    #[arg(long, value_name = "P")]
    pub(crate) stages: Option<u64>,
    /// Micro-batches of the step
    #[arg(long, value_name = "M")]
    pub(crate) microbatches: Option<u64>,
    /// Chunks a device, for interleaved; 2 if not given
    #[arg(long, value_name = "V")]
    pub(crate) chunks: Option<u64>,
    /// The schedule to read, for file: as --format text prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Time of a forward
    #[arg(long, value_name = "T", default_value = "1ms")]
    pub(crate) forward: String,
    /// Time of the input part of a backward; a whole backward takes both parts
    #[arg(long, value_name = "T", default_value = "1ms")]
    pub(crate) backward_input: String,
    /// Time of the weight part of a backward
    #[arg(long, value_name = "T", default_value = "1ms")]
    pub(crate) backward_weight: String,
    /// Time from the end of a pass until what it sends has arrived
    #[arg(long, value_name = "T", default_value = "0ms")]
    pub(crate) link: String,
    /// What to print: the schedule with its figures, JSON, a drawing, or a trace for Perfetto
    #[arg(long, value_enum, default_value_t = ScheduleFormat::Text)]
    pub(crate) format: ScheduleFormat,
    /// Where to write it instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// What goes where: as the plan.toml of a run folder
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: PathBuf,
    /// The model: a config.json
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Devices, links and networks (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster: PathBuf,
    /// Measured layers of this model, as `cavalcade probe` writes them
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Split whole backwards, so that gradients reach the stage before sooner
    #[arg(long)]
    pub(crate) split_backward: bool,
    /// Keep inputs alone and run forwards again before the backwards
    #[arg(long)]
    pub(crate) recompute: bool,
    /// With --recompute: keep those inputs on the host until N passes before their use
    #[arg(long, value_name = "N", requires = "recompute")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) offload: Option<u32>,
    /// How gradients are summed: ring, tree or server
    #[arg(long, value_name = "KIND", default_value = "ring")]
    pub(crate) reduce: String,
    /// Spread of every compute time over its mean, such as 0.1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) jitter: f64,
    /// Seed of the jitter
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// A device that computes FACTOR times as long; may be repeated
    #[arg(long, value_name = "DEVICE=FACTOR")]
    pub(crate) slow: Vec<String>,
    /// A device that dies at a time after the start, such as b=120ms; may be repeated
    #[arg(long, value_name = "DEVICE=TIME")]
    pub(crate) dies: Vec<String>,
    /// A link that stalls at a time, for good or for a while, such as a,b=120ms+50ms; may be
    /// repeated
    #[arg(long, value_name = "FROM,TO=TIME[+TIME]")]
    pub(crate) stalls: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the step as a trace for Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a drawing of the step
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScheduleFormat {
    Text,
    Json,
    Svg,
    Trace,
}

#[derive(Args, Debug)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_legal = value >= 0.0 && value.is_finite();
    is_legal.then_some(value).ok_or_else(|| "a tolerance is 0 or more".to_owned())
}
