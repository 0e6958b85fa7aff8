//! `cavalcade bench`: comparisons on a cluster of one's own, simulated and, if asked for, measured.

use super::input;
use super::progress::Quiet;
use crate::arguments::{Bench, BenchHetPipe};
use crate::{exit, output};
use anyhow::{Context, Result};
use cavalcade::{
    Bytes, Case, Config, Dataset, Error, Interrupt, Meter, Prepared, Profile, RunFolder,
    StepMetrics, Throughput, Trainer, all_reduce_case, bytes_between_nodes, hetpipe_cases,
    network_of, probe, throughput,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The cluster that is used when none is named.
const DEFAULT: &str = "examples/clusters/hetpipe.toml";
/// Reports over which a loss is averaged before it is compared with the target.
const SMOOTHED: usize = 5;

pub(crate) fn run(arguments: &Bench) -> Result<u8> {
    match arguments {
        Bench::Hetpipe(arguments) => hetpipe(arguments),
    }
}

/// What every case is made of and run with.
struct Ground {
    config: Config,
    data: Dataset,
    profile: Profile,
    meter: Arc<dyn Meter>,
    interrupt: Interrupt,
    json: bool,
}

fn hetpipe(arguments: &BenchHetPipe) -> Result<u8> {
    let mut named = arguments.config.clone();
    named.config = Some(named.config.unwrap_or_else(|| PathBuf::from(DEFAULT)));
    let config = input::config(&named)?;
    let interrupt = input::interrupt()?;
    let (meter, shared) = input::meter();
    let data = Dataset::read(&config)?;
    let profile = match &config.profile {
        Some(path) => Profile::read(path).map_err(Error::from)?,
        None => probe(&config, &data, &*meter, &mut |_| {})?,
    };
    let ground = Ground { config, data, profile, meter: shared, interrupt, json: arguments.json };
    let network = network_of(&ground.config, &ground.data)?;
    let mut tables: Vec<(&'static str, Vec<Row>)> = Vec::new();
    for case in hetpipe_cases(&ground.config, &network, &ground.profile)? {
        let table = case.table;
        let row = ground.row(case, arguments)?;
        if !ground.json {
            output::remark(&format!("{table}: {}", row.cells().join("  ")));
        }
        match tables.last_mut().filter(|(name, _)| *name == table) {
            Some((_, rows)) => rows.push(row),
            None => tables.push((table, vec![row])),
        }
    }
    let races = match arguments.target {
        Some(target) => ground.races(target, arguments.seeds, arguments.reports)?,
        None => Vec::new(),
    };
    if ground.json {
        let rows = tables.iter().flat_map(|(_, rows)| rows.iter().map(Row::json));
        let races = races.iter().map(Race::json).collect::<Vec<_>>();
        output::print(&json!({ "cases": rows.collect::<Vec<_>>(), "races": races }).to_string());
        return Ok(exit::OK);
    }
    for (name, rows) in &tables {
        let refusals = rows.iter().filter_map(|row| row.outcome.as_ref().err().map(|e| (row, e)));
        let notes = refusals.map(|(row, why)| format!("\n{}: {why}", row.case.name));
        let notes: String = notes.collect();
        let rows: Vec<_> = rows.iter().map(Row::cells).collect();
        output::print(&format!("\nby {name}\n\n{}{notes}", output::table(&HEAD, &rows)));
    }
    if !races.is_empty() {
        let rows: Vec<_> = races.iter().map(Race::cells).collect();
        let head = ["run", "seed", "seconds to the target", "reports", "samples/s"];
        output::print(&format!("\ntime to the target loss\n\n{}", output::table(&head, &rows)));
    }
    Ok(exit::OK)
}

const HEAD: [&str; 10] = [
    "case",
    "pipelines",
    "in flight",
    "samples/s",
    "wait a pull",
    "held up",
    "values",
    "parameters",
    "measured",
    "difference",
];

/// A case and what came of it.
struct Row {
    case: Case,
    outcome: Result<Outcome, String>,
}

struct Outcome {
    n_pipelines: usize,
    in_flight: Option<u32>,
    expected: Throughput,
    /// Between nodes, a micro-batch: values and parameters.
    bytes: [Bytes; 2],
    measured: Option<Throughput>,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(_) => {
                let mut cells = vec![self.case.name.clone(), "does not fit".to_owned()];
                cells.resize(HEAD.len(), String::new());
                return cells;
            }
        };
        let expected = outcome.expected;
        let measured = outcome.measured.map(|found| found.samples_per_s);
        vec![
            self.case.name.clone(),
            outcome.n_pipelines.to_string(),
            outcome.in_flight.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            format!("{:.1}", expected.samples_per_s),
            format!("{:.1} ms", expected.wait.as_millis_f64()),
            format!("{:.1} %", expected.idle * 100.0),
            outcome.bytes[0].to_string(),
            outcome.bytes[1].to_string(),
            measured.map_or_else(String::new, |found| format!("{found:.1}")),
            measured.map_or_else(String::new, |found| {
                format!("{:+.1} %", (found / expected.samples_per_s - 1.0) * 100.0)
            }),
        ]
    }

    fn json(&self) -> Value {
        let figures = |found: Throughput| {
            json!({
                "samples_per_s": found.samples_per_s,
                "wait_ms": found.wait.as_millis_f64(),
                "held_up": found.idle,
            })
        };
        let (table, name) = (self.case.table, &self.case.name);
        match &self.outcome {
            Err(why) => json!({ "table": table, "case": name, "does_not_fit": why }),
            Ok(outcome) => json!({
                "table": table,
                "case": name,
                "pipelines": outcome.n_pipelines,
                "in_flight": outcome.in_flight,
                "predicted": figures(outcome.expected),
                "measured": outcome.measured.map(figures),
                "bytes_between_nodes": {
                    "values": outcome.bytes[0].0,
                    "parameters": outcome.bytes[1].0,
                },
            }),
        }
    }
}

/// A run until its loss is low enough.
struct Race {
    name: String,
    seed: u64,
    /// Seconds and reports until then, if it came to that.
    reached: Option<(f64, usize)>,
    samples_per_s: f64,
}

impl Race {
    fn cells(&self) -> Vec<String> {
        let (seconds, reports) = match self.reached {
            Some((seconds, reports)) => (format!("{seconds:.1}"), reports.to_string()),
            None => ("not reached".to_owned(), String::new()),
        };
        let rate = format!("{:.1}", self.samples_per_s);
        vec![self.name.clone(), self.seed.to_string(), seconds, reports, rate]
    }

    fn json(&self) -> Value {
        json!({
            "run": self.name,
            "seed": self.seed,
            "seconds": self.reached.map(|reached| reached.0),
            "reports": self.reached.map(|reached| reached.1),
            "samples_per_s": self.samples_per_s,
        })
    }
}

impl Ground {
    fn row(&self, case: Case, arguments: &BenchHetPipe) -> Result<Row> {
        let case = match arguments.measure {
            Some(reports) => {
                let steps = reports.to_string();
                let config = case.config.varied(&[("train.steps", &steps)]).map_err(Error::from)?;
                Case { config, ..case }
            }
            None => case,
        };
        let prepared = match case.prepare(&self.data, &self.profile) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Row { case, outcome: Err(error.to_string()) }),
        };
        let expected = case.expected(&prepared)?;
        let bytes = bytes_between_nodes(&prepared);
        let n_pipelines = prepared.plan.pipelines().len();
        let in_flight = prepared.plan.waves_of_step().map(|(_, length)| length);
        // Varying compute times cannot be asked of a host.
        let measured = match arguments.measure.filter(|_| case.jitter == 0.0) {
            Some(_) => Some(self.measured(prepared)?.0),
            None => None,
        };
        let outcome = Ok(Outcome { n_pipelines, in_flight, expected, bytes, measured });
        Ok(Row { case, outcome })
    }

    /// Runs it in a folder that is gone afterwards.
    fn measured(&self, prepared: Prepared) -> Result<(Throughput, Vec<StepMetrics>)> {
        let folder = input::TemporaryFolder::create("bench")?;
        let out = folder.path.join("run");
        let n_ranks = prepared.job.devices().len();
        let launch = input::launch(&prepared.config, &out.join("config.toml"), n_ranks)?;
        let mut run = RunFolder::create(&out, &prepared)?;
        let mut follower = Quiet::new(launch.external_ranks.clone());
        let trainer = Trainer::new(prepared, Arc::clone(&self.meter), self.interrupt.clone());
        let trained = trainer.train(&launch, &mut run, &mut follower)?;
        let text = std::fs::read_to_string(out.join("metrics.jsonl"))
            .with_context(|| format!("{}: cannot be read", out.display()))?;
        let metrics: Result<Vec<StepMetrics>, _> = text.lines().map(serde_json::from_str).collect();
        let mut found = trained
            .last_trace
            .as_ref()
            .map(|trace| throughput(trainer.prepared(), trace))
            .unwrap_or_default();
        let per_report = trainer.prepared().job.reported_batch() as f64;
        found.samples_per_s = per_report / (trained.summary.measured_step_ms / 1e3);
        Ok((found, metrics?))
    }

    /// Waves of distance 4 against an all-reduce, each with several seeds.
    fn races(&self, target: f64, seeds: u64, reports: u64) -> Result<Vec<Race>> {
        let mut races = Vec::new();
        let reports = reports.to_string();
        for seed in 1..=seeds {
            let seed_text = seed.to_string();
            let common = [("seed", &seed_text[..]), ("train.steps", &reports[..])];
            let config = self.config.varied(&common).map_err(Error::from)?;
            let data = Dataset::read(&config)?;
            let network = network_of(&config, &data)?;
            let summed = all_reduce_case(&config, &network, &self.profile)?;
            let mut runs = Vec::new();
            for distance in ["0", "4"] {
                let config = config.varied(&[("sync.distance", distance)]).map_err(Error::from)?;
                runs.push((format!("waves, D = {distance}"), config));
            }
            runs.extend(summed.map(|config| ("all-reduce".to_owned(), config)));
            for (name, config) in runs {
                let prepared = Prepared::new(config, data.clone(), self.profile.clone())?;
                let (found, metrics) = self.measured(prepared)?;
                let reached = reached(&metrics, target);
                let race = Race { name, seed, reached, samples_per_s: found.samples_per_s };
                if !self.json {
                    output::remark(&race.cells().join("  "));
                }
                races.push(race);
            }
        }
        Ok(races)
    }
}

/// When the mean loss of the last few reports first was at most `target`.
fn reached(metrics: &[StepMetrics], target: f64) -> Option<(f64, usize)> {
    let mean = |window: &[StepMetrics]| {
        window.iter().map(|step| step.loss).sum::<f64>() / window.len() as f64
    };
    let at = metrics.windows(SMOOTHED).position(|window| mean(window) <= target)?;
    let n = at + SMOOTHED;
    Some((metrics[..n].iter().map(|step| step.step_ms).sum::<f64>() / 1e3, n))
}
