//! What a drawing shows, wherever it comes from: rows, boxes and the facts beside them.

use super::{percent, short};
use crate::schedule_study::ScheduleStudy;
use crate::simulation::Simulation;
use cavalcade_engine::Trace;
use cavalcade_schedule::CheckedSchedule;
use cavalcade_units::DeviceId;
use std::collections::BTreeMap;

/// A step to be drawn.
pub(super) struct Figure<'a> {
    pub(super) schedule: &'a CheckedSchedule,
    /// When each op runs, in ticks.
    pub(super) ticks: &'a Trace,
    /// The step, in milliseconds.
    pub(super) step_ms: f64,
    pub(super) bubble: f64,
    /// The devices that are drawn, from top to bottom.
    pub(super) rows: Vec<Row>,
    /// The place of each device among the rows.
    pub(super) row_of: BTreeMap<DeviceId, usize>,
    /// What the last column is called.
    pub(super) column: &'static str,
}

/// A device of a [`Figure`].
pub(super) struct Row {
    pub(super) name: String,
    /// The share of the step in which it does not compute.
    pub(super) idle: f64,
    /// What stands in the last column.
    pub(super) beside: String,
}

impl<'a> Figure<'a> {
    fn new(
        (schedule, ticks): (&'a CheckedSchedule, &'a Trace),
        step_ms: f64,
        bubble: f64,
        rows: Vec<(DeviceId, Row)>,
        column: &'static str,
    ) -> Self {
        let row_of = rows.iter().enumerate().map(|(idx, &(device, _))| (device, idx)).collect();
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Self { schedule, ticks, step_ms, bubble, rows, row_of, column }
    }

    /// A schedule by itself.
    pub(super) fn of_study(study: &'a ScheduleStudy) -> Self {
        let row = |(idx, peak): (usize, f64)| {
            let device = DeviceId::from_idx(idx);
            let name = format!("device {idx}");
            (device, Row { name, idle: study.idle_fraction(device), beside: short(peak) })
        };
        Self::new(
            (study.schedule(), study.ticks()),
            study.makespan_ms(),
            study.bubble_fraction(),
            study.peak_stash().into_iter().enumerate().map(row).collect(),
            "stash",
        )
    }

    /// A simulated plan: the devices that have work, with their peaks of memory.
    pub(super) fn of_simulation(simulation: &'a Simulation) -> Self {
        let prediction = &simulation.prediction;
        let step = prediction.step_time;
        let row = |device: DeviceId| {
            let idle = prediction.devices[device.idx()].idle;
            let idle = idle.as_secs_f64() / step.as_secs_f64();
            let beside = prediction.peak_bytes[device.idx()].to_string();
            (device, Row { name: simulation.name(device).to_owned(), idle, beside })
        };
        Self::new(
            (&simulation.schedule, &prediction.trace),
            step.as_millis_f64(),
            prediction.bubble_fraction,
            simulation.working().map(row).collect(),
            "peak",
        )
    }

    pub(super) fn facts(&self) -> String {
        let schedule = self.schedule.schedule();
        let n_stages = schedule.paths.first().map_or(0, Vec::len);
        format!(
            "{} devices, {n_stages} stages, {} micro-batches  ·  step {}  ·  bubble {}",
            self.rows.len(),
            schedule.microbatches.len(),
            super::span(self.step_ms),
            percent(self.bubble),
        )
    }
}
