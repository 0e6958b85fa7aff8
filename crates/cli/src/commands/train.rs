//! `cavalcade train`: the plan and what to expect of it, the run, predicted against measured.

use super::input;
use super::progress::{JsonLines, Progress};
use crate::arguments::Train;
use crate::{exit, output, place};
use anyhow::{Context, Result};
use cavalcade::{Bytes, Follower, Prepared, RunFolder, Sampling, Summary, Trainer, timeline};
use std::path::{Path, PathBuf};

/// Columns of the drawing of a step.
const COLUMNS: usize = 72;
/// Tokens of the sample at the end.
const SAMPLE_TOKENS: usize = 240;
/// Above this share of held-up time a run says that the host is too busy.
const OVERRUN_MAX: f64 = 0.02;

pub(crate) fn run(arguments: &Train) -> Result<u8> {
    if place::from_environment()?.is_some_and(|place| place.rank.0 != 0) {
        return super::worker::run(&arguments.config);
    }
    let mut set = arguments.config.clone();
    if arguments.elastic {
        set.set.push("sync.elastic=true".to_owned());
    }
    let config = input::config(&set)?;
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => next_folder(&config.path)?,
    };
    RunFolder::check_free(&out)?;
    let interrupt = input::interrupt()?;
    let (meter, shared) = input::meter();
    let prepared = input::prepare(config, &meter)?;
    let resolved = std::path::absolute(out.join("config.toml"))
        .with_context(|| format!("{} has no absolute path", out.display()))?;
    let n_ranks = prepared.job.devices().len();
    let launch = input::launch(&prepared.config, &resolved, n_ranks)?;
    let mut folder = RunFolder::create(&out, &prepared)?;
    if !arguments.json {
        output::print(&introduction(&prepared));
    }
    let steps = prepared.config.settings.steps;
    let trainer = Trainer::new(prepared, shared, interrupt);
    let mut progress = Progress::new(steps, launch.external_ranks.clone());
    let mut lines = JsonLines::new(launch.external_ranks.clone());
    let follower: &mut dyn Follower = if arguments.json { &mut lines } else { &mut progress };
    let trained = trainer.train(&launch, &mut folder, follower)?;
    if arguments.json {
        output::print(&serde_json::to_string(&trained.summary)?);
        return Ok(exit::OK);
    }
    progress.finish();
    let sampling = Sampling { temperature: 0.6, top_k: 40, seed: 1 };
    let sample = trained.generator.continue_text(
        &trainer.prepared().text.prompt(),
        SAMPLE_TOKENS,
        sampling,
    )?;
    output::print(&conclusion(&trained.summary, &sample, folder.path()));
    Ok(exit::OK)
}

/// `runs/NAME-N` for the first N that is free.
fn next_folder(config: &Path) -> Result<PathBuf> {
    let name = config.file_stem().map_or("run".into(), |stem| stem.to_string_lossy());
    (1..10_000)
        .map(|n| PathBuf::from(format!("runs/{name}-{n:03}")))
        .find(|path| !path.exists())
        .context("runs/ is full; name a folder with --out")
}

/// What is planned and what the simulator expects.
fn introduction(prepared: &Prepared) -> String {
    let model = &prepared.model;
    let prediction = &prepared.prediction;
    let drawing =
        timeline(&prepared.job.schedule, &prepared.config.cluster, &prediction.trace, COLUMNS);
    format!(
        "GPT of {} blocks, width {}, {} heads, context {}, {} tokens: {} parameters\n\
         training text: {} tokens of {}\n\n{}\n\n\
         {}predicted {} {:.1} ms, bubble {:.1} %\n\n{drawing}",
        model.layers,
        model.width,
        model.heads,
        model.context,
        model.vocab,
        prepared.job.model.n_params(),
        prepared.text.n_train_tokens(),
        prepared.config.data.paths.join(", "),
        plan_table(prepared),
        waves(prepared),
        if prepared.job.waves.is_some() { "wave" } else { "step" },
        prepared.predicted_report_ms(),
        prediction.bubble_fraction * 100.0,
    )
}

/// How replicas exchange waves, if they do.
fn waves(prepared: &Prepared) -> String {
    let plan = &prepared.plan;
    let (Some(waves), Some((_, length))) = (plan.waves(), plan.waves_of_step()) else {
        return String::new();
    };
    format!(
        "waves of {length} micro-batches a pipeline, pipelines at most {} waves apart, servers {}\n",
        waves.distance + 1,
        waves.servers
    )
}

/// Which layers on which device.
pub(crate) fn plan_table(prepared: &Prepared) -> String {
    let cluster = &prepared.config.cluster;
    let layers = &prepared.job.model.layers;
    let mut rows = Vec::new();
    let ranks = prepared.job.ranks();
    for (pipeline_idx, pipeline) in prepared.plan.pipelines().iter().enumerate() {
        for (stage_idx, stage) in pipeline.stages().iter().enumerate() {
            let device = cluster.device(stage.device());
            let held = &layers[stage.layers().start as usize..stage.layers().end as usize];
            let names = match held {
                [one] => one.name.clone(),
                [first, .., last] => format!("{} .. {}", first.name, last.name),
                [] => String::new(),
            };
            let rank = ranks[stage.device().idx()].map_or_else(String::new, |r| r.to_string());
            let peak = prepared.prediction.peak_bytes[stage.device().idx()];
            rows.push(vec![
                device.name.clone(),
                rank,
                pipeline_idx.to_string(),
                stage_idx.to_string(),
                names,
                pipeline.microbatches().to_string(),
                device.speed.map_or_else(|| "full".to_owned(), |speed| format!("{speed}")),
                peak.to_string(),
                device.memory.map_or_else(|| "-".to_owned(), |memory| memory.to_string()),
            ]);
        }
    }
    let head = [
        "device",
        "rank",
        "pipeline",
        "stage",
        "layers",
        "micro-batches",
        "speed",
        "predicted peak",
        "memory",
    ];
    output::table(&head, &rows)
}

/// How it went.
fn conclusion(summary: &Summary, sample: &str, folder: &Path) -> String {
    let percent =
        |measured: f64, predicted: f64| format!("{:+.1} %", (measured / predicted - 1.0) * 100.0);
    let mut rows = vec![
        vec![
            "step time".to_owned(),
            format!("{:.1} ms", summary.predicted_step_ms),
            format!("{:.1} ms", summary.measured_step_ms),
            percent(summary.measured_step_ms, summary.predicted_step_ms),
        ],
        vec![
            "bubble share".to_owned(),
            format!("{:.1} %", summary.predicted_bubble * 100.0),
            format!("{:.1} %", summary.measured_bubble * 100.0),
            format!("{:+.1} points", (summary.measured_bubble - summary.predicted_bubble) * 100.0),
        ],
    ];
    rows.extend(summary.ranks.iter().map(|rank| {
        vec![
            format!("peak bytes, rank {} ({})", rank.rank, rank.device),
            Bytes(rank.predicted_peak_bytes).to_string(),
            Bytes(rank.measured_peak_bytes).to_string(),
            percent(rank.measured_peak_bytes as f64, rank.predicted_peak_bytes as f64),
        ]
    }));
    let busy = if summary.host_overrun > OVERRUN_MAX {
        format!(
            "\nthe host was too busy: emulated devices were held up for {:.1} % of the time, so \
             measured times say little; use lower speeds\n",
            summary.host_overrun * 100.0
        )
    } else {
        String::new()
    };
    format!(
        "\nvalidation loss {:.3} nats a token (training: first {:.3}, last {:.3}); {:.0} tokens/s\
         \n\n{}\n{busy}\nsample:\n{}\n\nwritten to {}",
        summary.val_loss,
        summary.first_loss,
        summary.final_loss,
        summary.tokens_per_s,
        output::table(&["", "predicted", "measured", "difference"], &rows),
        sample.trim_end(),
        folder.display(),
    )
}
