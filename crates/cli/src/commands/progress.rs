//! What is shown while a run goes on: a bar for a person, lines for a log, JSON for a program.

use crate::output;
use cavalcade::{Follower, Rank, StepMetrics};
use indicatif::{ProgressBar, ProgressStyle};
use std::net::SocketAddr;

/// A log gets about this many lines a run.
const LOG_LINES: u64 = 20;

/// Shows nothing but what a person must know.
pub(crate) struct Quiet {
    external_ranks: Vec<u32>,
}

impl Quiet {
    pub(crate) fn new(external_ranks: Vec<u32>) -> Self {
        Self { external_ranks }
    }
}

impl Follower for Quiet {
    fn listening(&mut self, address: SocketAddr) {
        announce(address, &self.external_ranks);
    }
    fn step(&mut self, _: &StepMetrics) {}
}

/// Says that a replica was lost and the others go on.
fn going_on_without(ranks: &[Rank], why: &str) {
    let ranks: Vec<String> = ranks.iter().map(|rank| rank.to_string()).collect();
    output::remark(&format!("{why}; going on without ranks {}", ranks.join(", ")));
}

/// A progress bar, or plain lines where nobody watches.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    /// What a model's predictions are counted in.
    unit: &'static str,
    external_ranks: Vec<u32>,
}

impl Progress {
    pub(crate) fn new(steps: u64, unit: &'static str, external_ranks: Vec<u32>) -> Self {
        let bar = output::is_watched().then(|| {
            let bar = ProgressBar::new(steps);
            let template = "step {pos}/{len} {bar:24} {msg}  ETA {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, steps, unit, external_ranks }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

impl Follower for Progress {
    fn listening(&mut self, address: SocketAddr) {
        announce(address, &self.external_ranks);
    }

    fn left(&mut self, ranks: &[Rank], why: &str) {
        going_on_without(ranks, why);
    }

    fn step(&mut self, metrics: &StepMetrics) {
        let bubble = metrics.bubble.map(|bubble| format!("  bubble {:.0} %", bubble * 100.0));
        let facts = format!(
            "loss {:.3}  {:.0} {}/s{}",
            metrics.loss,
            metrics.tokens_per_s,
            self.unit,
            bubble.unwrap_or_default()
        );
        if let Some(bar) = &self.bar {
            bar.set_position(metrics.step);
            bar.set_message(facts);
            return;
        }
        let every = self.steps.div_ceil(LOG_LINES).max(1);
        if metrics.step == 1 || metrics.step.is_multiple_of(every) || metrics.step == self.steps {
            let left = (self.steps - metrics.step) as f64 * metrics.step_ms / 1e3;
            let eta = format!("ETA {left:.0} s");
            output::remark(&format!("step {}/{}  {facts}  {eta}", metrics.step, self.steps));
        }
    }
}

/// Tells whoever starts ranks by hand where they are waited for.
fn announce(address: SocketAddr, external_ranks: &[u32]) {
    if !external_ranks.is_empty() {
        output::remark(&format!(
            "waiting at {address} for ranks {external_ranks:?}; start each with RANK, WORLD_SIZE, \
             MASTER_ADDR={} MASTER_PORT={} and the secret set: cavalcade worker CONFIG",
            address.ip(),
            address.port()
        ));
    }
}

/// A JSON object a step, on standard output.
pub(crate) struct JsonLines {
    external_ranks: Vec<u32>,
}

impl JsonLines {
    pub(crate) fn new(external_ranks: Vec<u32>) -> Self {
        Self { external_ranks }
    }
}

impl Follower for JsonLines {
    fn listening(&mut self, address: SocketAddr) {
        announce(address, &self.external_ranks);
    }
    fn left(&mut self, ranks: &[Rank], why: &str) {
        going_on_without(ranks, why);
    }
    fn step(&mut self, metrics: &StepMetrics) {
        if let Ok(line) = serde_json::to_string(metrics) {
            output::print(&line);
        }
    }
}
