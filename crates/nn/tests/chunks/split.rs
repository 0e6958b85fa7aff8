//! A backward pass in two halves leaves the bits of one in one piece.

use crate::row::{Batch, Row};
use cavalcade_model::{GptConfig, Model};
use cavalcade_nn::{Activation, Chunk, ChunkError, ChunkInput, ChunkOutput, gpt_chunk};
use cavalcade_units::MicrobatchId;

const CUTS: [&[u32]; 6] = [&[], &[1], &[2], &[3], &[2, 3], &[1, 2, 3]];

fn variants() -> impl Iterator<Item = GptConfig> {
    let variants = [(true, true), (true, false), (false, true), (false, false)];
    variants.into_iter().map(|(tied, bias)| GptConfig::new(11, 8, 16, 2, 2, tied, bias).unwrap())
}

/// Runs passes such as `"F0 F1 I0 W0 B1"` of three micro-batches, `U` an update of the weights.
/// The flat gradients of all chunks, as bits.
fn run(config: &GptConfig, cuts: &[u32], passes: &str) -> Vec<Vec<u32>> {
    let mut row = Row::of(config, cuts);
    for pass in passes.split(' ') {
        let (kind, microbatch) = pass.split_at(1);
        let microbatch = microbatch.parse().unwrap_or(0);
        match kind {
            "F" => drop(row.forward(microbatch, &Batch::new(config, 2, 8, microbatch), 0.25)),
            "B" => row.backward(microbatch),
            "I" => row.backward_input(microbatch),
            "W" => row.backward_weight(microbatch),
            "U" => row.0.iter_mut().for_each(|chunk| {
                chunk.update(&mut |weights, _| weights.iter_mut().for_each(|w| *w += 0.1));
            }),
            "D" => row.0.iter_mut().for_each(|chunk| {
                chunk.discard(MicrobatchId(microbatch)).unwrap();
            }),
            _ => panic!("{pass} is no pass"),
        }
    }
    row.0.iter().map(|chunk| bits(chunk.gradients())).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn whatever_runs_between_the_halves_the_gradients_have_the_same_bits() {
    for config in variants() {
        for cuts in CUTS {
            let whole = run(&config, cuts, "F0 B0 F1 B1 F2 B2");
            assert!(whole.iter().flatten().any(|&bits| bits != 0));
            for split in [
                "F0 I0 W0 F1 I1 W1 F2 I2 W2",
                "F0 F1 I0 F2 I1 W0 I2 W1 W2",
                "F2 F1 F0 I2 I1 I0 W0 W1 W2",
                "F0 F1 F2 I2 I0 W0 B1 W2",
                "F0 F1 F2 I0 U I1 W0 U W1 U I2 W2",
                "F0 F1 F2 I1 I0 D1 W0 F1 I1 W1 B2",
            ] {
                assert!(whole == run(&config, cuts, split), "{config:?} {cuts:?} {split}");
            }
        }
    }
}

#[test]
fn the_order_of_the_weight_passes_is_what_counts() {
    let config = variants().next().unwrap();
    assert_eq!(run(&config, &[2], "F0 B0 F1 B1"), run(&config, &[2], "F0 F1 I1 I0 W0 W1"));
    assert_eq!(run(&config, &[2], "F1 B1 F0 B0"), run(&config, &[2], "F0 F1 I0 I1 W1 W0"));
}

#[test]
fn the_input_half_returns_the_same_gradient_and_adds_nothing() {
    let config = variants().next().unwrap();
    let batch = Batch::new(&config, 2, 8, 5);
    for layer in 0..Model::gpt(&config).n_layers() {
        let is_last = layer + 1 == Model::gpt(&config).n_layers();
        let shape = [2, 8, 16];
        let values = |start: usize| (start..start + 256).map(|at| (at as f32 * 0.37).sin());
        let input = match layer {
            0 => batch.input(),
            _ => ChunkInput::Activation(Activation { data: values(0).collect(), shape }),
        };
        let gradient = (!is_last).then(|| Activation { data: values(99).collect(), shape });
        let mut chunk = gpt_chunk(&config, layer..layer + 1, 7);
        let forward = |chunk: &mut dyn Chunk, microbatch| {
            let targets = is_last.then(|| batch.targets());
            chunk.forward(MicrobatchId(microbatch), input.clone(), targets, 0.5).unwrap()
        };
        assert_eq!(matches!(forward(&mut *chunk, 0), ChunkOutput::Loss(_)), is_last);
        forward(&mut *chunk, 1);
        let half = chunk.backward_input(MicrobatchId(1), gradient.clone()).unwrap();
        assert!(chunk.gradients().iter().all(|&value| value == 0.0), "layer {layer}");
        let whole = chunk.backward(MicrobatchId(0), gradient).unwrap();
        assert_eq!(whole.is_none(), layer == 0, "only the first chunk returns none");
        let bits_of = |it: &Option<Activation>| it.as_ref().map(|it| bits(&it.data));
        assert_eq!(bits_of(&half), bits_of(&whole), "layer {layer}");
    }
}

#[test]
fn halves_out_of_order_are_refused_and_change_nothing() {
    let config = variants().next().unwrap();
    let batch = Batch::new(&config, 2, 8, 5);
    let mut chunk = gpt_chunk(&config, 0..4, 7);
    let microbatch = MicrobatchId(3);
    let absent = ChunkError::NotInFlight { microbatch };
    assert_eq!(chunk.backward_input(microbatch, None), Err(absent.clone()));
    assert_eq!(chunk.backward_weight(microbatch), Err(absent.clone()));

    let forward = |chunk: &mut dyn Chunk| {
        chunk.forward(microbatch, batch.input(), Some(batch.targets()), 1.0).map(drop)
    };
    forward(&mut *chunk).unwrap();
    let error = chunk.backward_weight(microbatch).unwrap_err().to_string();
    let wanted = "micro-batch 3 has no backward-input pass behind it; run that before its \
                  backward-weight pass";
    assert_eq!(error, wanted);
    let gradient = Activation { data: vec![0.0; 2 * 8 * 11], shape: [2, 8, 11] };
    let error = chunk.backward_input(microbatch, Some(gradient)).unwrap_err().to_string();
    assert!(error.contains("an output gradient is given"), "{error}");

    chunk.backward_input(microbatch, None).unwrap();
    let wanted = "micro-batch 3 has its backward-input pass behind it; run its backward-weight \
                  pass or discard it";
    assert_eq!(chunk.backward_input(microbatch, None).unwrap_err().to_string(), wanted);
    assert_eq!(chunk.backward(microbatch, None).unwrap_err().to_string(), wanted);
    assert_eq!(forward(&mut *chunk), Err(ChunkError::InFlight { microbatch }));
    assert!(chunk.gradients().iter().all(|&value| value == 0.0));

    chunk.discard(microbatch).unwrap();
    assert_eq!(chunk.discard(microbatch), Err(absent.clone()));
    assert_eq!(chunk.backward_weight(microbatch), Err(absent.clone()));
    assert!(chunk.gradients().iter().all(|&value| value == 0.0));

    forward(&mut *chunk).unwrap();
    chunk.backward_input(microbatch, None).unwrap();
    chunk.backward_weight(microbatch).unwrap();
    assert_eq!(chunk.backward_weight(microbatch), Err(absent));
}
