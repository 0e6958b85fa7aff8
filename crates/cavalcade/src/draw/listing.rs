//! A studied schedule as text, as JSON and as a trace.

use super::{passes, percent, short, span};
use crate::report::{chrome_trace, timeline};
use crate::schedule_study::ScheduleStudy;
use cavalcade_cluster::{Cluster, Device};
use serde_json::{Value, json};
use std::fmt::Write;

/// Wider pictures in characters do not help.
const COLUMNS: usize = 88;
/// More rows neither.
const ROWS_MAX: usize = 64;

/// The text form of the schedule under comments that say what the simulator found: it can be read
/// again as it is.
pub fn schedule_text(study: &ScheduleStudy) -> String {
    let schedule = study.schedule();
    let peaks: Vec<String> = study.peak_stash().into_iter().map(short).collect();
    let mut text = format!(
        "# {}: makespan {}, bubble {}, {} messages\n",
        schedule.schedule().name,
        span(study.makespan_ms()),
        percent(study.bubble_fraction()),
        study.n_messages(),
    );
    if schedule.n_devices() <= ROWS_MAX {
        let _ = writeln!(text, "# most stages' stashes at once, by device: {}", peaks.join(" "));
        if let Some(cluster) = numbered(schedule.n_devices()) {
            for line in timeline(schedule, &cluster, &study.trace(), COLUMNS).lines() {
                let _ = writeln!(text, "# {line}");
            }
        }
    }
    text + &schedule.schedule().to_string()
}

/// What was found, and when every pass runs. Times are milliseconds.
pub fn schedule_json(study: &ScheduleStudy) -> Value {
    let schedule = study.schedule().schedule();
    let ops = passes(study.schedule(), study.ticks()).map(|drawn| {
        let path = &schedule.paths[schedule.microbatches[drawn.microbatch.idx()] as usize];
        json!({
            "device": drawn.device.0,
            "pass": drawn.pass.word(),
            "chunk": drawn.chunk.0,
            "stage": path.iter().position(|&chunk| chunk == drawn.chunk),
            "microbatch": drawn.microbatch.0,
            "start": study.ms(drawn.start),
            "end": study.ms(drawn.end),
        })
    });
    json!({
        "version": 1,
        "schedule": schedule.name,
        "devices": schedule.programs.len(),
        "microbatches": schedule.microbatches.len(),
        "time_unit": "ms",
        "makespan": study.makespan_ms(),
        "bubble_fraction": study.bubble_fraction(),
        "peak_stash": study.peak_stash(),
        "messages": study.n_messages(),
        "ops": ops.collect::<Vec<_>>(),
    })
}

/// The step in the trace event format: see [`chrome_trace`]. None for a schedule without devices.
pub fn schedule_trace(study: &ScheduleStudy) -> Option<Value> {
    let cluster = numbered(study.schedule().n_devices())?;
    Some(chrome_trace(study.schedule(), &cluster, &study.trace(), None))
}

/// Devices that have no names of their own.
fn numbered(n_devices: usize) -> Option<Cluster> {
    let device = |idx| Device::named(format!("device {idx}"));
    Cluster::new((0..n_devices).map(device).collect(), None, &[]).ok()
}
