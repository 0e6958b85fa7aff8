//! Optimizers on flat slices, in place.
//!
//! They know no tensors and no names, so that a rank can own any slice of a chunk's parameters.

use crate::ChunkParam;
use std::ops::Range;

/// Turns gradients into new weights.
pub trait Optimizer: Send {
    /// Updates `weights` in place. `step` counts from 1.
    ///
    /// # Panics
    /// If the lengths differ from each other or from the optimizer's state.
    fn step(&mut self, weights: &mut [f32], gradients: &[f32], learning_rate: f32, step: u64);

    /// What a step would add to `weights`, and the state after it. Adding it to the weights that
    /// were given is the step, up to rounding; for plain gradient descent to the last bit.
    ///
    /// # Panics
    /// As [`Optimizer::step`].
    fn change(
        &mut self,
        weights: &[f32],
        gradients: &[f32],
        learning_rate: f32,
        step: u64,
    ) -> Vec<f32> {
        let mut after = weights.to_vec();
        self.step(&mut after, gradients, learning_rate, step);
        after.iter_mut().zip(weights).for_each(|(after, before)| *after -= before);
        after
    }

    /// The state that a checkpoint has to keep, by name; each as long as the weights.
    fn state(&self) -> Vec<(&'static str, &[f32])>;

    /// The same, to be filled from a checkpoint.
    fn state_mut(&mut self) -> Vec<(&'static str, &mut [f32])>;
}

/// The constants of [`AdamW`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWConfig {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to the divisor.
    pub epsilon: f32,
    /// Weight lost in a step, times the learning rate.
    pub weight_decay: f32,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 }
    }
}

/// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2), in the
/// order of PyTorch's `AdamW`: first the decay, then the step.
#[derive(Clone, Debug)]
pub struct AdamW {
    config: AdamWConfig,
    decayed: Vec<Range<usize>>,
    mean: Vec<f32>,
    mean_square: Vec<f32>,
}

impl AdamW {
    /// An optimizer for `n_params` weights that lets only the ranges `decayed` decay
    /// ([`decayed_ranges`] gives the usual ones).
    pub fn new(config: AdamWConfig, n_params: usize, decayed: Vec<Range<usize>>) -> Self {
        let (mean, mean_square) = (vec![0.0; n_params], vec![0.0; n_params]);
        Self { config, decayed, mean, mean_square }
    }
}

impl Optimizer for AdamW {
    fn step(&mut self, weights: &mut [f32], gradients: &[f32], learning_rate: f32, step: u64) {
        assert_eq!(weights.len(), gradients.len(), "one gradient a weight");
        assert_eq!(weights.len(), self.mean.len(), "one optimizer state a weight");
        let AdamWConfig { beta1, beta2, epsilon, weight_decay } = self.config;
        let kept = 1.0 - learning_rate * weight_decay;
        for range in &self.decayed {
            weights[range.clone()].iter_mut().for_each(|weight| *weight *= kept);
        }
        let correction = |beta: f32| (1.0 - f64::from(beta).powf(step as f64)) as f32;
        let rate = learning_rate / correction(beta1);
        let root_correction = correction(beta2).sqrt();
        let state = self.mean.iter_mut().zip(&mut self.mean_square);
        for ((weight, &gradient), (mean, mean_square)) in
            weights.iter_mut().zip(gradients).zip(state)
        {
            *mean = beta1 * *mean + (1.0 - beta1) * gradient;
            *mean_square = beta2 * *mean_square + (1.0 - beta2) * gradient * gradient;
            *weight -= rate * *mean / (mean_square.sqrt() / root_correction + epsilon);
        }
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        vec![("exp_avg", &self.mean), ("exp_avg_sq", &self.mean_square)]
    }

    fn state_mut(&mut self) -> Vec<(&'static str, &mut [f32])> {
        vec![("exp_avg", &mut self.mean), ("exp_avg_sq", &mut self.mean_square)]
    }
}

/// Plain gradient descent, for tests of equality: it does not amplify rounding noise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd;

impl Optimizer for Sgd {
    fn step(&mut self, weights: &mut [f32], gradients: &[f32], learning_rate: f32, _step: u64) {
        assert_eq!(weights.len(), gradients.len(), "one gradient a weight");
        for (weight, gradient) in weights.iter_mut().zip(gradients) {
            *weight -= learning_rate * gradient;
        }
    }

    fn change(&mut self, _: &[f32], gradients: &[f32], learning_rate: f32, _: u64) -> Vec<f32> {
        gradients.iter().map(|gradient| -(learning_rate * gradient)).collect()
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        Vec::new()
    }

    fn state_mut(&mut self) -> Vec<(&'static str, &mut [f32])> {
        Vec::new()
    }
}

/// The parts of `window` (a slice of a chunk's flat buffers) that weight decay applies to: the
/// parameters with two dimensions or more. Relative to the window's start.
pub fn decayed_ranges(params: &[ChunkParam], window: Range<usize>) -> Vec<Range<usize>> {
    let matrices = params.iter().filter(|param| param.shape.len() >= 2);
    let clipped = matrices.map(|param| {
        let start = param.offset.max(window.start);
        let end = (param.offset + param.n_values()).min(window.end);
        start..end
    });
    let inside = clipped.filter(|range| !range.is_empty());
    inside.map(|range| range.start - window.start..range.end - window.start).collect()
}

/// The sum of squares, in `f64` so that partial sums of many devices add up alike.
pub fn squared_norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value) * f64::from(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::{AdamW, AdamWConfig, Optimizer, Sgd, decayed_ranges, squared_norm};
    use crate::ChunkParam;

    #[test]
    fn adamw_takes_the_steps_worked_out_by_hand() {
        let config = AdamWConfig { beta1: 0.9, beta2: 0.99, epsilon: 0.0, weight_decay: 0.5 };
        let decayed = std::iter::once(0..1).collect();
        let mut optimizer = AdamW::new(config, 2, decayed);
        let mut weights = [1.0, 1.0];
        // Step 1: mean / correction = g and root = |g|, so the step is the learning rate.
        optimizer.step(&mut weights, &[2.0, -4.0], 0.1, 1);
        assert_close(&weights, &[1.0 * 0.95 - 0.1, 1.1]);
        // Step 2, gradients [0, 4]. First: mean 0.18 / 0.19, square 0.0396 / 0.0199.
        // Second: mean (-0.36 + 0.4) / 0.19, square (0.1584 + 0.16) / 0.0199.
        optimizer.step(&mut weights, &[0.0, 4.0], 0.1, 2);
        let first = 0.85 * 0.95 - 0.1 * (0.18 / 0.19) / (0.0396f32 / 0.0199).sqrt();
        let second = 1.1 - 0.1 * (0.04 / 0.19) / (0.3184f32 / 0.0199).sqrt();
        assert_close(&weights, &[first, second]);
    }

    fn assert_close(found: &[f32], wanted: &[f32]) {
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
        }
    }

    #[test]
    fn sgd_follows_the_gradient() {
        let mut weights = [1.0, -1.0];
        Sgd.step(&mut weights, &[2.0, 4.0], 0.5, 1);
        assert_eq!(weights, [0.0, -3.0]);
        assert_eq!(squared_norm(&weights), 9.0);
    }

    #[test]
    fn only_matrices_decay_within_a_window() {
        let param = |shape: &[usize], offset| ChunkParam {
            name: String::new(),
            shape: shape.to_vec(),
            offset,
            tie: None,
            layer: 0,
        };
        let params = [param(&[2, 3], 0), param(&[4], 6), param(&[2, 2], 10)];
        assert_eq!(decayed_ranges(&params, 0..14), [0..6, 10..14]);
        assert_eq!(decayed_ranges(&params, 4..12), [0..2, 6..8]);
        assert!(decayed_ranges(&params, 6..10).is_empty());
    }
}
