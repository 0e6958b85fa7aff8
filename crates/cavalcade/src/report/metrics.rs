//! `metrics.jsonl`: a JSON object a step, or a wave in a run that exchanges waves.

use serde::{Deserialize, Serialize};

/// What is known of a step when it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// Counted from 1.
    pub step: u64,
    /// Mean loss over the global batch, nats a token or an image.
    pub loss: f64,
    /// Norm of the whole gradient before clipping; absent if nothing asked for it.
    pub grad_norm: Option<f64>,
    /// Learning rate of the step.
    pub lr: f64,
    /// Tokens seen so far, or images.
    pub tokens: u64,
    /// From the end of the step before to the end of this one, in milliseconds.
    pub step_ms: f64,
    /// Tokens or images a second in this step.
    pub tokens_per_s: f64,
    /// Share of the step that devices stood idle; of a wave, known only where a step ends.
    pub bubble: Option<f64>,
}
