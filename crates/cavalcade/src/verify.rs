//! A planned run against one process on the whole batch.
//!
//! By step: the loss, relative; the gradient before clipping as one vector, L2 of the difference
//! over L2 of the whole; the weights after the optimizer in the same measure. Under Adam a weight
//! whose true gradient is zero moves by the sign of rounding noise, so no single weight is judged.
//!
//! Each step of the one process begins with the weights that the planned run left: what is judged
//! is every step by itself. Two trajectories that are left alone drift apart by rounding noise, at
//! a high learning rate as far as one likes, whoever computes them. The optimizer's state is never
//! handed over.

use crate::error::Error;
use crate::prepare::Prepared;
use crate::train::Follower;
use cavalcade_runtime::{Captured, Observer, Reference, StepSummary, Values};
use serde::Serialize;
use std::net::SocketAddr;

/// How far one step of the planned run is from one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepDifference {
    /// Counted from 1.
    pub step: u64,
    /// Loss of one process.
    pub loss: f64,
    /// Relative difference of the loss.
    pub loss_difference: f64,
    /// L2 of the gradients' difference over L2 of the gradient.
    pub gradient_difference: f64,
    /// L2 of the weights' difference over L2 of the weights.
    pub weight_difference: f64,
    /// Whether the gradient was clipped in this step.
    pub clipped: bool,
}

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// By step.
    pub steps: Vec<StepDifference>,
    /// The largest difference that passes.
    pub tolerance: f64,
    /// Whether all passed.
    pub passed: bool,
}

impl Verification {
    /// Judges `steps`.
    pub fn new(steps: Vec<StepDifference>, tolerance: f64) -> Self {
        let within = |step: &StepDifference| {
            let differences =
                [step.loss_difference, step.gradient_difference, step.weight_difference];
            // A NaN is no difference within any tolerance.
            differences.iter().all(|&difference| difference <= tolerance)
        };
        let passed = !steps.is_empty() && steps.iter().all(within);
        Self { steps, tolerance, passed }
    }
}

/// Compares step by step while the planned run goes on.
pub(crate) struct Comparison<'a> {
    follower: &'a mut dyn Follower,
    reference: Reference,
    clip_norm: Option<f64>,
    losses: Vec<f64>,
    pub(crate) steps: Vec<StepDifference>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(prepared: &Prepared, follower: &'a mut dyn Follower) -> Self {
        let config = &prepared.config;
        let reference = Reference::new(
            &prepared.model,
            &config.settings,
            prepared.data.samples(),
            config.global_batch as usize,
        );
        let clip_norm = config.settings.clip_norm;
        Self { follower, reference, clip_norm, losses: Vec::new(), steps: Vec::new() }
    }

    /// Takes one step in one process and notes the difference.
    fn compare(&mut self, loss: f64, captured: &Captured) -> Result<(), Error> {
        let reference = self.reference.step()?;
        if captured.weights.keys().eq(reference.weights.keys()) {
            self.reference.set_weights(&captured.weights)?;
        }
        let norm = squared(&reference.gradients).sqrt();
        self.steps.push(StepDifference {
            step: self.steps.len() as u64 + 1,
            loss: reference.loss,
            loss_difference: (loss - reference.loss).abs() / reference.loss.abs(),
            gradient_difference: difference(&captured.gradients, &reference.gradients),
            weight_difference: difference(&captured.weights, &reference.weights),
            clipped: self.clip_norm.is_some_and(|limit| norm > limit),
        });
        Ok(())
    }
}

impl Observer for Comparison<'_> {
    fn listening(&mut self, address: SocketAddr) {
        self.follower.listening(address);
    }

    fn step(&mut self, step: &StepSummary) -> Result<(), String> {
        self.losses.push(step.loss);
        Ok(())
    }

    fn captured(&mut self, step: u64, captured: Captured) -> Result<(), String> {
        let loss = self.losses.get(step as usize).copied().ok_or("a step without a loss")?;
        self.compare(loss, &captured).map_err(|e| e.to_string())
    }
}

fn squared(values: &Values) -> f64 {
    values.values().flatten().map(|&value| f64::from(value).powi(2)).sum()
}

/// L2 of `found - expected` over L2 of `expected`; infinite if they name other parameters.
pub(crate) fn difference(found: &Values, expected: &Values) -> f64 {
    if !found.keys().eq(expected.keys()) {
        return f64::INFINITY;
    }
    let pairs = found.values().flatten().zip(expected.values().flatten());
    let sum: f64 = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    let whole = squared(expected);
    if sum == 0.0 { 0.0 } else { (sum / whole).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::{StepDifference, Values, Verification, difference};

    #[test]
    fn the_measure_is_over_the_whole_vector() {
        let values = |a: &[f32], b: &[f32]| {
            Values::from([("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())])
        };
        let expected = values(&[3.0, 0.0], &[4.0]);
        assert_eq!(difference(&expected, &expected), 0.0);
        assert!((difference(&values(&[3.0, 0.5], &[4.0]), &expected) - 0.1).abs() < 1e-12);
        assert_eq!(difference(&Values::new(), &expected), f64::INFINITY);
    }

    #[test]
    fn a_difference_that_is_no_number_fails() {
        let step = |gradient_difference| StepDifference {
            step: 1,
            loss: 1.0,
            loss_difference: 0.0,
            gradient_difference,
            weight_difference: 0.0,
            clipped: false,
        };
        assert!(Verification::new(vec![step(1e-6)], 1e-5).passed);
        assert!(!Verification::new(vec![step(f64::NAN)], 1e-5).passed);
        assert!(!Verification::new(vec![step(2e-5)], 1e-5).passed);
        assert!(!Verification::new(Vec::new(), 1e-5).passed);
    }
}
