//! `cavalcade schedule`: one schedule by itself, or all of them side by side.

use crate::arguments::{Schedule, ScheduleFormat};
use crate::times::span;
use crate::{exit, output};
use anyhow::{Context, Result, anyhow, bail};
use cavalcade::{
    Kind, ScheduleSize, ScheduleStudy, StageTimes, StudyError, compared_kinds, schedule_json,
    schedule_svg, schedule_text, schedule_trace,
};
use serde_json::{Value, json};

/// Chunks a device of an interleaved schedule, if nothing is said.
const CHUNKS: u64 = 2;

pub(crate) fn run(arguments: &Schedule) -> Result<u8> {
    let times = StageTimes {
        forward: span("--forward", &arguments.forward)?,
        backward_input: span("--backward-input", &arguments.backward_input)?,
        backward_weight: span("--backward-weight", &arguments.backward_weight)?,
        link: span("--link", &arguments.link)?,
    };
    if arguments.kind != "file" && arguments.input.is_some() {
        bail!("--input is for `cavalcade schedule file`");
    }
    let text = match arguments.kind.as_str() {
        "compare" => compare(arguments, times)?,
        "file" => picture(&read(arguments, times)?, arguments.format)?,
        kind => picture(&generate(kind, arguments, times)?, arguments.format)?,
    };
    match &arguments.out {
        Some(path) => std::fs::write(path, text + "\n")
            .with_context(|| format!("writing {}", path.display()))?,
        None => output::print(&text),
    }
    Ok(exit::OK)
}

fn generate(kind: &str, arguments: &Schedule, times: StageTimes) -> Result<ScheduleStudy> {
    let kind: Kind = kind.parse().map_err(|error| anyhow!("{error}, file, compare"))?;
    if kind != Kind::Interleaved && arguments.chunks.is_some() {
        bail!("--chunks is for `interleaved`; a device of {kind} has no choice of chunks");
    }
    Ok(ScheduleStudy::of_kind(kind, size(arguments)?, times)?)
}

fn read(arguments: &Schedule, times: StageTimes) -> Result<ScheduleStudy> {
    let path = arguments.input.as_ref().context("--input FILE names the schedule to read")?;
    let sizes = [arguments.stages, arguments.microbatches, arguments.chunks];
    if sizes.iter().any(Option::is_some) {
        bail!("a schedule that is read has its own stages, micro-batches and chunks");
    }
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    ScheduleStudy::of_text(&text, times).with_context(|| path.display().to_string())
}

fn size(arguments: &Schedule) -> Result<ScheduleSize> {
    Ok(ScheduleSize {
        stages: arguments.stages.context("--stages P says how many devices there are")?,
        microbatches: arguments.microbatches.context("--microbatches M says how many pass")?,
        chunks: arguments.chunks.unwrap_or(CHUNKS),
    })
}

fn picture(study: &ScheduleStudy, format: ScheduleFormat) -> Result<String> {
    Ok(match format {
        ScheduleFormat::Text => schedule_text(study).trim_end().to_owned(),
        ScheduleFormat::Json => schedule_json(study).to_string(),
        ScheduleFormat::Svg => schedule_svg(study)?.trim_end().to_owned(),
        ScheduleFormat::Trace => {
            schedule_trace(study).context("the schedule has no device")?.to_string()
        }
    })
}

/// What a comparison shows of one kind; the whole study would be large.
struct Figures {
    makespan_ms: f64,
    bubble_fraction: f64,
    worst_stash: f64,
    n_messages: usize,
}

impl Figures {
    fn of(study: &ScheduleStudy) -> Self {
        Self {
            makespan_ms: study.makespan_ms(),
            bubble_fraction: study.bubble_fraction(),
            worst_stash: study.peak_stash().into_iter().fold(0.0, f64::max),
            n_messages: study.n_messages(),
        }
    }
}

type Compared = (Kind, Result<Figures, StudyError>);

/// All kinds; one that cannot run at this size says why. If none can, this cannot either.
fn compare(arguments: &Schedule, times: StageTimes) -> Result<String> {
    if matches!(arguments.format, ScheduleFormat::Svg | ScheduleFormat::Trace) {
        bail!("a comparison is a table: --format text or json");
    }
    let size = size(arguments)?;
    let study = |kind| {
        let study = ScheduleStudy::of_kind(kind, size, times);
        (kind, study.map(|study| Figures::of(&study)))
    };
    let mut compared: Vec<Compared> = compared_kinds(size, times).into_iter().map(study).collect();
    if compared.iter().all(|(_, figures)| figures.is_err()) {
        let (_, first) = compared.swap_remove(0);
        return first.map(|_| String::new()).map_err(Into::into);
    }
    if arguments.format == ScheduleFormat::Json {
        return Ok(Value::Array(compared.iter().map(entry).collect()).to_string());
    }
    let head = ["schedule", "makespan", "bubble", "worst stash", "messages", "note"];
    let rows: Vec<_> = compared.iter().map(row).collect();
    // The last column is there for those that have something to say.
    let n_columns = if rows.iter().all(|row| row[5].is_empty()) { 5 } else { 6 };
    let rows: Vec<_> = rows.into_iter().map(|row| row[..n_columns].to_vec()).collect();
    Ok(output::table(&head[..n_columns], &rows))
}

fn row((kind, figures): &Compared) -> Vec<String> {
    let [makespan, bubble, stash, messages, note] = match figures {
        Ok(figures) => [
            format!("{:.2} ms", figures.makespan_ms),
            format!("{:.1} %", figures.bubble_fraction * 100.0),
            format!("{:.2}", figures.worst_stash),
            figures.n_messages.to_string(),
            String::new(),
        ],
        Err(error) => ["-", "-", "-", "-", &error.to_string()].map(str::to_owned),
    };
    vec![kind.to_string(), makespan, bubble, stash, messages, note]
}

fn entry((kind, figures): &Compared) -> Value {
    match figures {
        Ok(figures) => json!({
            "kind": kind.to_string(),
            "makespan": figures.makespan_ms,
            "bubble_fraction": figures.bubble_fraction,
            "worst_peak_stash": figures.worst_stash,
            "messages": figures.n_messages,
        }),
        Err(error) => json!({ "kind": kind.to_string(), "error": error.to_string() }),
    }
}
