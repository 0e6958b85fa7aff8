//! `cavalcade train`: the plan and what to expect of it, the run, predicted against measured.

use super::input;
use super::progress::{JsonLines, Progress};
use crate::arguments::Train;
use crate::{exit, output, place};
use anyhow::{Context, Result};
use cavalcade::{
    Bytes, DataConfig, Dataset, Follower, Network, Prepared, RunFolder, Sampling, Summary, Trained,
    Trainer, timeline,
};
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
    let unit = trainer.prepared().model.unit();
    let mut progress = Progress::new(steps, unit, launch.external_ranks.clone());
    let mut lines = JsonLines::new(launch.external_ranks.clone());
    let follower: &mut dyn Follower = if arguments.json { &mut lines } else { &mut progress };
    let trained = trainer.train(&launch, &mut folder, follower)?;
    if arguments.json {
        output::print(&serde_json::to_string(&trained.summary)?);
        return Ok(exit::OK);
    }
    progress.finish();
    output::print(&conclusion(&trained.summary, unit));
    if let Some(sample) = sample(trainer.prepared(), &trained)? {
        output::print(&format!("sample:\n{}\n", sample.trim_end()));
    }
    output::print(&format!("written to {}", folder.path().display()));
    Ok(exit::OK)
}

/// How a model of text continues the beginning of a held-out line.
fn sample(prepared: &Prepared, trained: &Trained) -> Result<Option<String>> {
    let (Some(generator), Dataset::Text(text)) = (&trained.generator, &prepared.data) else {
        return Ok(None);
    };
    let sampling = Sampling { temperature: 0.6, top_k: 40, seed: 1 };
    Ok(Some(generator.continue_text(&text.prompt(), SAMPLE_TOKENS, sampling)?))
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
    let prediction = &prepared.prediction;
    let drawing =
        timeline(&prepared.job.schedule, &prepared.config.cluster, &prediction.trace, COLUMNS);
    format!(
        "{}: {} parameters\n{}\n\n{}\n\n{}predicted {} {:.1} ms, bubble {:.1} %\n\n{drawing}",
        network_line(&prepared.model),
        prepared.job.model.n_params(),
        data_line(prepared),
        plan_table(prepared),
        waves(prepared),
        if prepared.job.waves.is_some() { "wave" } else { "step" },
        prepared.predicted_report_ms(),
        prediction.bubble_fraction * 100.0,
    )
}

fn network_line(network: &Network) -> String {
    match network {
        Network::Gpt(config) => format!(
            "GPT of {} blocks, width {}, {} heads, context {}, {} tokens",
            config.layers, config.width, config.heads, config.context, config.vocab
        ),
        Network::Conv(config) => format!(
            "convolutions {:?} on {} x {} x {} images, fully connected {:?}, {} classes",
            config.convolutions,
            config.image,
            config.image,
            config.channels,
            config.hidden,
            config.classes
        ),
    }
}

fn data_line(prepared: &Prepared) -> String {
    match (&prepared.data, &prepared.config.data) {
        (Dataset::Text(text), DataConfig::Text(config)) => {
            format!(
                "training text: {} tokens of {}",
                text.n_train_tokens(),
                config.paths.join(", ")
            )
        }
        (Dataset::Images(images), DataConfig::Images(config)) => {
            format!("training images: {}, with noise {}", images.n_train(), config.noise)
        }
        _ => unreachable!("data is of the kind that its configuration says"),
    }
}

/// How replicas exchange waves, if they do.
fn waves(prepared: &Prepared) -> String {
    let plan = &prepared.plan;
    let (Some(waves), Some((_, length))) = (plan.waves(), plan.waves_of_step()) else {
        return String::new();
    };
    format!(
        "waves of {length} micro-batches a pipeline, pipelines at most {} waves apart, servers \
         {}\n",
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
fn conclusion(summary: &Summary, unit: &str) -> String {
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
    let (each, accuracy) = match summary.val_accuracy {
        Some(share) => ("an image", format!(", accuracy {:.1} %", share * 100.0)),
        None => ("a token", String::new()),
    };
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
        "\nvalidation loss {:.3} nats {each}{accuracy} (training: first {:.3}, last {:.3}); \
         {:.0} {unit}/s\n\n{}\n{busy}",
        summary.val_loss,
        summary.first_loss,
        summary.final_loss,
        summary.tokens_per_s,
        output::table(&["", "predicted", "measured", "difference"], &rows),
    )
}
