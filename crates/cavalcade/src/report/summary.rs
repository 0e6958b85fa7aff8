//! `summary.json`: predicted against measured, and how the run ended.

use serde::{Deserialize, Serialize};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this format.
    pub version: u32,
    /// Steps that were run.
    pub steps: u64,
    /// Loss of the first step, nats a token or an image.
    pub first_loss: f64,
    /// Loss of the last step.
    pub final_loss: f64,
    /// Loss on held-out text or images.
    pub val_loss: f64,
    /// Share of held-out images whose class is found; absent for a model of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_accuracy: Option<f64>,
    /// Tokens or images a second over the whole run.
    pub tokens_per_s: f64,
    /// What the simulator said before the first step.
    pub predicted_step_ms: f64,
    /// Median over all steps but the first.
    pub measured_step_ms: f64,
    /// Share of the step that devices stand idle, as simulated.
    pub predicted_bubble: f64,
    /// The same, measured: median over all steps but the first.
    pub measured_bubble: f64,
    /// Wall-clock seconds of the training steps.
    pub seconds: f64,
    /// Largest share of a step by which the host was too busy for an emulated device.
    pub host_overrun: f64,
    /// By rank.
    pub ranks: Vec<RankSummary>,
}

/// One rank of a finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSummary {
    /// The rank.
    pub rank: u32,
    /// The name of its device.
    pub device: String,
    /// Most bytes alive, as simulated.
    pub predicted_peak_bytes: u64,
    /// Most bytes alive in the process, by its allocator.
    pub measured_peak_bytes: u64,
}

impl Summary {
    /// Measured over predicted step time, less one.
    pub fn step_error(&self) -> f64 {
        self.measured_step_ms / self.predicted_step_ms - 1.0
    }
}
