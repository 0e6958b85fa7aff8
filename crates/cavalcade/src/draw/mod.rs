//! A schedule on paper: one module a form.

mod colors;
mod figure;
mod listing;
mod svg;

pub use listing::{schedule_json, schedule_text, schedule_trace};
pub use svg::{schedule_svg, simulation_svg};

use cavalcade_engine::Trace;
use cavalcade_schedule::{CheckedSchedule, Op, Pass};
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId, Nanos};

/// One pass of a device, in ticks.
struct Drawn {
    device: DeviceId,
    pass: Pass,
    chunk: ChunkId,
    microbatch: MicrobatchId,
    start: Nanos,
    end: Nanos,
}

/// All passes, device by device in the order in which they run.
fn passes(schedule: &CheckedSchedule, ticks: &Trace) -> impl Iterator<Item = Drawn> {
    ticks.iter().filter_map(move |(action, record)| {
        let device = schedule.device_of(action);
        match schedule.op_on(device, action) {
            Op::Compute { pass, chunk, microbatch } => {
                let (start, end) = (record.start, record.end);
                Some(Drawn { device, pass, chunk, microbatch, start, end })
            }
            _ => None,
        }
    })
}

/// `50 %` as people read it: one decimal.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number with up to two decimals.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Milliseconds in the unit that suits them.
fn span(ms: f64) -> String {
    let (unit, factor) = unit(ms);
    format!("{} {unit}", short(ms * factor))
}

/// The unit for times up to `ms`, and how many of it a millisecond has.
fn unit(ms: f64) -> (&'static str, f64) {
    match ms {
        ms if ms >= 1000.0 => ("s", 1e-3),
        ms if ms >= 1.0 || ms == 0.0 => ("ms", 1.0),
        ms if ms >= 1e-3 => ("us", 1e3),
        _ => ("ns", 1e6),
    }
}
