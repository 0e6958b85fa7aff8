//! Gradients against finite differences of the loss, which takes the path without a graph.

use crate::row::{Batch, Row};
use cavalcade_model::GptConfig;
use cavalcade_nn::{Chunk, ChunkOutput};

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    for (tied, bias) in [(true, true), (false, true), (true, false)] {
        let config = GptConfig::new(7, 6, 8, 2, 2, tied, bias).unwrap();
        let batch = Batch::new(&config, 2, 6, 3);
        let mut row = Row::of(&config, &[]);
        // At GPT-2's small initial weights attention is nearly flat; steeper is a better test.
        row.0[0].update(&mut |weights, _| weights.iter_mut().for_each(|weight| *weight *= 8.0));
        row.forward(0, &batch, 1.0);
        row.backward(0);
        let chunk = &mut *row.0[0];
        for param in chunk.params().to_vec() {
            let range = param.offset..param.offset + param.n_values();
            let gradient = chunk.gradients()[range.clone()].to_vec();
            let norm = gradient.iter().map(|value| value * value).sum::<f32>().sqrt();
            let weights = chunk.weights().to_vec();
            // Along its own gradient the loss climbs by the gradient's norm.
            let reach = 5e-3;
            let mut loss_at = |distance: f32| {
                let mut moved = weights.clone();
                for (weight, slope) in moved[range.clone()].iter_mut().zip(&gradient) {
                    *weight += distance * slope / norm;
                }
                chunk.set_weights(&moved).unwrap();
                loss(chunk, &batch)
            };
            // Five points, so that the error falls with the fourth power of the reach.
            let near = loss_at(reach) - loss_at(-reach);
            let far = loss_at(2.0 * reach) - loss_at(-2.0 * reach);
            let slope = (8.0 * near - far) / f64::from(12.0 * reach);
            chunk.set_weights(&weights).unwrap();
            let (name, norm) = (&param.name, f64::from(norm));
            assert!(norm > 1e-4, "{name} has a gradient");
            assert!((slope - norm).abs() < 0.01 * norm + 3e-5, "{name}: {norm}, measured {slope}");
        }
    }
}

fn loss(chunk: &dyn Chunk, batch: &Batch) -> f64 {
    match chunk.evaluate(batch.input(), Some(batch.targets())).unwrap() {
        ChunkOutput::Loss(loss) => loss,
        ChunkOutput::Activation(_) => panic!("the whole model ends in a loss"),
    }
}

#[test]
fn logits_and_loss_agree() {
    let config = GptConfig::new(7, 6, 8, 2, 1, true, true).unwrap();
    let batch = Batch::new(&config, 2, 6, 3);
    let mut row = Row::of(&config, &[]);
    let trained = row.forward(0, &batch, 0.25);
    let logits = row.0[0].logits(batch.input()).unwrap();
    assert_eq!(logits.shape, [2, 6, 7]);
    let losses = logits.data.chunks(7).zip(&batch.next).map(|(logits, &next)| {
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        sum.ln() - f64::from(logits[next as usize])
    });
    let mean = losses.sum::<f64>() / 12.0;
    assert!((mean - trained).abs() < 1e-5, "{mean} from the logits, {trained} in training");
    assert!((loss(&*row.0[0], &batch) - trained).abs() < 1e-6);
}

#[test]
fn a_token_does_not_see_those_after_it() {
    let config = GptConfig::new(7, 6, 8, 2, 2, true, true).unwrap();
    let row = Row::of(&config, &[]);
    let mut batch = Batch::new(&config, 1, 6, 3);
    let before = row.0[0].logits(batch.input()).unwrap().data;
    batch.ids[4] = (batch.ids[4] + 1) % 7;
    let after = row.0[0].logits(batch.input()).unwrap().data;
    assert_eq!(before[..4 * 7], after[..4 * 7]);
    assert_ne!(before[4 * 7..], after[4 * 7..]);
}
