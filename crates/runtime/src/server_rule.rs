//! What a parameter server does with the changes of a wave.
//!
//! A server adds up the replicas' changes in the order of the replicas, so that the same waves give
//! the same bits, and takes the sum for the negative of a gradient that is already scaled (the
//! server optimizers of Reddi et al., *Adaptive federated optimization*, ICLR 2021).

/// How the changes of replicas become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Added up, as HetPipe does: more replicas take larger steps.
    #[default]
    Sum,
    /// Their mean.
    Average,
}

/// How a server changes its weights by what the replicas bring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ServerOptimizer {
    /// Adds it.
    #[default]
    Add,
    /// Adds a velocity to which it is added.
    Momentum {
        /// Decay of the velocity.
        beta: f32,
    },
    /// Adam on it.
    Adam {
        /// Largest step of a weight.
        rate: f32,
        /// Decay of the mean.
        beta1: f32,
        /// Decay of the mean of squares.
        beta2: f32,
        /// Added to the divisor.
        epsilon: f32,
    },
}

/// What all servers of a run do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerSettings {
    /// How changes become one.
    pub combine: Combine,
    /// What is done with that.
    pub optimizer: ServerOptimizer,
}

/// The weights of one server and the state of its optimizer.
#[derive(Clone, Debug)]
pub(crate) struct ServedWeights {
    settings: ServerSettings,
    pub(crate) weights: Vec<f32>,
    mean: Vec<f32>,
    mean_square: Vec<f32>,
    n_steps: i32,
}

impl ServedWeights {
    pub(crate) fn new(settings: ServerSettings, weights: Vec<f32>) -> Self {
        let zeros = |wanted: bool| if wanted { vec![0.0; weights.len()] } else { Vec::new() };
        let is_adam = matches!(settings.optimizer, ServerOptimizer::Adam { .. });
        let has_mean = settings.optimizer != ServerOptimizer::Add;
        let (mean, mean_square) = (zeros(has_mean), zeros(is_adam));
        Self { settings, weights, mean, mean_square, n_steps: 0 }
    }

    /// One wave: `changes` of every replica that has any, in the replicas' order.
    pub(crate) fn step(&mut self, changes: &[Vec<f32>]) {
        let Some((first, others)) = changes.split_first() else { return };
        let mut sum = first.clone();
        for other in others {
            sum.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
        }
        if self.settings.combine == Combine::Average {
            let share = 1.0 / changes.len() as f32;
            sum.iter_mut().for_each(|value| *value *= share);
        }
        self.n_steps = self.n_steps.saturating_add(1);
        match self.settings.optimizer {
            ServerOptimizer::Add => {
                self.weights.iter_mut().zip(&sum).for_each(|(weight, change)| *weight += change);
            }
            ServerOptimizer::Momentum { beta } => {
                for ((weight, change), mean) in
                    self.weights.iter_mut().zip(&sum).zip(&mut self.mean)
                {
                    *mean = beta * *mean + change;
                    *weight += *mean;
                }
            }
            ServerOptimizer::Adam { rate, beta1, beta2, epsilon } => {
                let correction = |beta: f32| 1.0 - beta.powi(self.n_steps);
                let (first, second) = (correction(beta1), correction(beta2));
                let state = self.mean.iter_mut().zip(&mut self.mean_square);
                for ((weight, change), (mean, square)) in
                    self.weights.iter_mut().zip(&sum).zip(state)
                {
                    *mean = beta1 * *mean + (1.0 - beta1) * change;
                    *square = beta2 * *square + (1.0 - beta2) * change * change;
                    *weight += rate * (*mean / first) / ((*square / second).sqrt() + epsilon);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Combine, ServedWeights, ServerOptimizer, ServerSettings};

    fn after(combine: Combine, optimizer: ServerOptimizer, waves: &[[f32; 2]]) -> f32 {
        let mut served = ServedWeights::new(ServerSettings { combine, optimizer }, vec![1.0]);
        for wave in waves {
            served.step(&wave.map(|change| vec![change]));
        }
        served.weights[0]
    }

    #[test]
    fn changes_are_added_up_or_averaged() {
        let waves = [[0.5, 0.25], [-1.0, 0.5]];
        assert_eq!(after(Combine::Sum, ServerOptimizer::Add, &waves), 1.25);
        assert_eq!(after(Combine::Average, ServerOptimizer::Add, &waves), 1.125);
    }

    #[test]
    fn momentum_and_adam_take_the_steps_worked_out_by_hand() {
        let momentum = ServerOptimizer::Momentum { beta: 0.5 };
        // Velocities 1 and 0.5 * 1 + 2.
        assert_eq!(after(Combine::Sum, momentum, &[[0.5, 0.5], [1.0, 1.0]]), 1.0 + 1.0 + 2.5);
        let adam = ServerOptimizer::Adam { rate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 0.0 };
        // The first step of Adam is as large as its rate.
        let found = after(Combine::Sum, adam, &[[0.01, 0.03]]);
        assert!((found - 1.1).abs() < 1e-6, "{found}");
    }
}
