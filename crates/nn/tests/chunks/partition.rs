//! However a model is cut into chunks and a batch into micro-batches, it is the same model.

use crate::row::{Batch, Row, difference};
use cavalcade_model::GptConfig;

fn variants() -> impl Iterator<Item = GptConfig> {
    let variants = [(true, true), (true, false), (false, true), (false, false)];
    variants.into_iter().map(|(tied, bias)| GptConfig::new(11, 8, 16, 2, 2, tied, bias).unwrap())
}

#[test]
fn a_cut_model_has_the_loss_and_gradients_of_the_whole() {
    for config in variants() {
        let batch = Batch::new(&config, 3, 8, 1);
        let mut whole = Row::of(&config, &[]);
        let loss = whole.forward(0, &batch, 1.0);
        whole.backward(0);
        for cuts in [&[1][..], &[2], &[3], &[1, 2], &[2, 3], &[1, 2, 3]] {
            let mut cut = Row::of(&config, cuts);
            let cut_loss = cut.forward(0, &batch, 1.0);
            cut.backward(0);
            let loss_difference = (cut_loss - loss).abs() / loss;
            assert!(loss_difference < 1e-5, "{config:?} {cuts:?}: loss differs {loss_difference}");
            let difference = difference(&cut.gradients(), &whole.gradients());
            assert!(difference < 1e-5, "{config:?} {cuts:?}: gradients differ by {difference}");
        }
    }
}

#[test]
fn a_tied_weight_is_one_parameter_where_both_ends_are() {
    let config = GptConfig::new(11, 8, 16, 2, 1, true, true).unwrap();
    let count = |row: &Row| row.gradients().values().map(Vec::len).sum::<usize>();
    let copies = |row: &Row| {
        let params = row.0.iter().flat_map(|chunk| chunk.params());
        params.filter(|param| param.name == "wte.weight" && param.tie == Some(0)).count()
    };
    let (whole, cut) = (Row::of(&config, &[]), Row::of(&config, &[1]));
    assert_eq!((copies(&whole), copies(&cut)), (1, 2));
    assert_eq!(count(&whole), count(&cut));
    let weights = |idx: usize| {
        let chunk = &cut.0[idx];
        let param = chunk.params().iter().find(|param| param.name == "wte.weight").unwrap();
        chunk.weights()[param.offset..param.offset + param.n_values()].to_vec()
    };
    assert_eq!(weights(0), weights(1));
}

#[test]
fn micro_batches_accumulate_to_their_batch() {
    let config = GptConfig::new(11, 8, 16, 2, 1, true, true).unwrap();
    let (first, second) = (Batch::new(&config, 2, 8, 1), Batch::new(&config, 2, 8, 2));
    let both = Batch {
        ids: [first.ids.clone(), second.ids.clone()].concat(),
        next: [first.next.clone(), second.next.clone()].concat(),
        sequence: 8,
    };
    let mut whole = Row::of(&config, &[]);
    let loss = whole.forward(0, &both, 1.0);
    whole.backward(0);
    let mut cut = Row::of(&config, &[2]);
    // Both in flight at once, finished in the other order.
    let losses = [cut.forward(0, &first, 0.5), cut.forward(1, &second, 0.5)];
    cut.backward(1);
    cut.backward(0);
    assert!(((losses[0] + losses[1]) / 2.0 - loss).abs() / loss < 1e-5);
    let difference = difference(&cut.gradients(), &whole.gradients());
    assert!(difference < 1e-5, "gradients differ by {difference}");
}

#[test]
fn a_micro_batch_in_flight_keeps_its_weights() {
    let config = GptConfig::new(11, 8, 16, 2, 1, true, true).unwrap();
    let batch = Batch::new(&config, 2, 8, 1);
    let mut calm = Row::of(&config, &[2]);
    calm.forward(0, &batch, 1.0);
    calm.backward(0);
    let mut row = Row::of(&config, &[2]);
    let loss = row.forward(0, &batch, 1.0);
    for chunk in &mut row.0 {
        chunk.update(&mut |weights, _| weights.iter_mut().for_each(|weight| *weight += 0.1));
    }
    row.backward(0);
    assert_eq!(difference(&row.gradients(), &calm.gradients()), 0.0);
    assert_ne!(row.forward(0, &batch, 1.0), loss, "the next forward pass has the new weights");
}
