//! What a run is told beside its plan: optimizer, learning rate, clipping, seed.

use crate::server_rule::ServerSettings;

/// How the weights are trained; the same on every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Seed of the initial weights and of the sample order.
    pub seed: u64,
    /// Optimizer steps.
    pub steps: u64,
    /// The optimizer.
    pub optimizer: OptimizerSettings,
    /// The learning rate by step.
    pub learning_rate: LearningRate,
    /// Largest norm of the whole model's gradient; larger ones are scaled down to it.
    pub clip_norm: Option<f64>,
    /// What parameter servers do, in a run that has them.
    pub servers: ServerSettings,
}

/// Which optimizer, with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptimizerSettings {
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
    AdamW {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the denominator.
        epsilon: f32,
        /// Decoupled decay of matrices a unit of learning rate.
        weight_decay: f32,
    },
    /// Plain gradient descent.
    Sgd,
}

/// Linear warm-up, then half a cosine from `peak` to `floor`.
///
/// ```text
/// peak      /''\.
///          /     `.
/// floor   /        `-.__
///        0  warm-up     steps
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// Highest rate.
    pub peak: f64,
    /// Rate at the last step.
    pub floor: f64,
    /// Steps until the peak.
    pub warmup_steps: u64,
    /// Steps of the run.
    pub steps: u64,
}

impl LearningRate {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup_steps {
            return self.peak * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let span = self.steps.saturating_sub(self.warmup_steps + 1).max(1);
        let done = ((step - self.warmup_steps) as f64 / span as f64).min(1.0);
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
        self.floor + (self.peak - self.floor) * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::LearningRate;

    #[test]
    fn warms_up_and_comes_down() {
        let rate = LearningRate { peak: 1.0, floor: 0.1, warmup_steps: 4, steps: 14 };
        let rates: Vec<String> = (0..14).map(|step| format!("{:.3}", rate.at(step))).collect();
        expect_test::expect![[r#"
            0.250 0.500 0.750 1.000 1.000 0.973 0.895 0.775 0.628 0.472 0.325 0.205 0.127 0.100"#]]
        .assert_eq(&rates.join(" "));
    }

    #[test]
    fn no_warm_up_and_a_single_step_are_legal() {
        let rate = LearningRate { peak: 1.0, floor: 0.1, warmup_steps: 0, steps: 1 };
        assert_eq!(rate.at(0), 1.0);
    }
}
