//! A trained model, whole in this process, and how well it does on samples that it has not seen.

use crate::error::Error;
use cavalcade_model::Network;
use cavalcade_nn::{Activation, Chunk, ChunkInput, ChunkOutput, Targets, network_chunk};
use cavalcade_runtime::{RunError, Values};

/// All layers of `network` as one chunk; `weights` by logical name.
pub(crate) fn whole_chunk(network: &Network, weights: &Values) -> Result<Box<dyn Chunk>, Error> {
    let mut chunk = network_chunk(network, 0..network.n_layers(), 0);
    let mut flat = Vec::with_capacity(chunk.weights().len());
    for param in chunk.params() {
        let values = weights.get(&param.name).ok_or_else(|| {
            Error::Argument(format!("the weights lack the parameter {}", param.name))
        })?;
        flat.extend_from_slice(values);
    }
    chunk.set_weights(&flat).map_err(RunError::from)?;
    Ok(chunk)
}

/// The mean loss over `samples`, nats a prediction; each sample counts as much as any other.
pub(crate) fn mean_loss(
    chunk: &dyn Chunk,
    samples: &[(ChunkInput, Targets)],
) -> Result<f64, Error> {
    let mut sum = 0.0;
    for (input, targets) in samples {
        let output = chunk.evaluate(input.clone(), Some(targets.clone()));
        if let ChunkOutput::Loss(loss) = output.map_err(RunError::from)? {
            sum += loss;
        }
    }
    Ok(sum / samples.len().max(1) as f64)
}

/// The share of predictions over `samples` whose likeliest class is the right one.
pub(crate) fn accuracy(chunk: &dyn Chunk, samples: &[(ChunkInput, Targets)]) -> Result<f64, Error> {
    let (mut n_right, mut n_all) = (0, 0);
    for (input, targets) in samples {
        let logits = chunk.logits(input.clone()).map_err(RunError::from)?;
        n_right += n_correct(&logits, &targets.ids);
        n_all += targets.ids.len();
    }
    Ok(n_right as f64 / n_all.max(1) as f64)
}

fn n_correct(logits: &Activation, targets: &[u32]) -> usize {
    let rows = logits.data.chunks(logits.shape[2]).zip(targets);
    rows.filter(|(row, target)| likeliest(row) == **target as usize).count()
}

/// The first of the classes with the highest score.
fn likeliest(scores: &[f32]) -> usize {
    let best = (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    best.expect("a model has classes")
}

#[cfg(test)]
mod tests {
    use super::n_correct;
    use cavalcade_nn::Activation;

    #[test]
    fn the_likeliest_class_counts_and_of_equal_ones_the_first() {
        let data = vec![0.0, 2.0, 1.0, 3.0, 3.0, 3.0, -1.0, -2.0, -0.5];
        let logits = Activation { data, shape: [1, 3, 3] };
        assert_eq!(n_correct(&logits, &[1, 0, 2]), 3);
        assert_eq!(n_correct(&logits, &[0, 1, 1]), 0);
    }
}
