//! Chunks of a convolutional network: cut anywhere they are the whole, their gradients are slopes,
//! and a layer is what PyTorch's documentation says of it.

use crate::row::{Row, difference};
use cavalcade_model::{ConvConfig, Network};
use cavalcade_nn::{Activation, ChunkInput, ChunkOutput, Targets, conv_chunk};
use cavalcade_units::MicrobatchId;

const CUTS: [&[u32]; 7] = [&[1], &[2], &[3], &[4], &[1, 3], &[2, 4], &[1, 2, 3, 4]];

/// Two convolutions, two hidden layers, the classes.
fn config() -> ConvConfig {
    ConvConfig { image: 8, channels: 3, convolutions: vec![4, 6], hidden: vec![10, 7], classes: 5 }
}

/// Arbitrary images and classes that differ with `seed`.
fn batch(n: usize, seed: u32) -> (ChunkInput, Targets) {
    let shape = [n, 64, 3];
    let values = (0..n * 64 * 3).map(|at| ((at as f32 + 1000.0 * seed as f32) * 0.731).sin());
    let ids = (0..n as u32).map(|idx| (idx * 3 + seed) % 5).collect();
    (ChunkInput::Activation(Activation { data: values.collect(), shape }), Targets { ids })
}

fn network() -> Network {
    Network::Conv(config())
}

#[test]
fn a_cut_network_has_the_loss_and_gradients_of_the_whole() {
    let mut whole = Row::of_network(&network(), &[]);
    let loss = whole.forward_of(0, batch(3, 1), 1.0);
    whole.backward(0);
    for cuts in CUTS {
        let mut cut = Row::of_network(&network(), cuts);
        let cut_loss = cut.forward_of(0, batch(3, 1), 1.0);
        cut.backward(0);
        assert!((cut_loss - loss).abs() / loss < 1e-5, "{cuts:?}: {cut_loss}, whole {loss}");
        let difference = difference(&cut.gradients(), &whole.gradients());
        assert!(difference < 1e-5, "{cuts:?}: gradients differ by {difference}");
    }
}

#[test]
fn shapes_between_chunks_are_those_that_the_network_says() {
    let mut row = Row::of_network(&network(), CUTS[6]);
    let (mut input, targets) = batch(3, 1);
    for (layer, chunk) in (0..).zip(&mut row.0) {
        let targets = (layer == 4).then(|| targets.clone());
        match chunk.forward(MicrobatchId(0), input.clone(), targets, 1.0).unwrap() {
            ChunkOutput::Activation(activation) => {
                assert_eq!(activation.shape, network().output_shape(layer, 3), "layer {layer}");
                input = ChunkInput::Activation(activation);
            }
            ChunkOutput::Loss(_) => assert_eq!(layer, 4),
        }
    }
    row.backward(0);
}

#[test]
fn micro_batches_accumulate_to_their_batch() {
    let (first, second) = (batch(2, 1), batch(2, 2));
    let both = |one: &ChunkInput, other: &ChunkInput| match (one, other) {
        (ChunkInput::Activation(one), ChunkInput::Activation(other)) => {
            let data = [&one.data[..], &other.data].concat();
            ChunkInput::Activation(Activation { data, shape: [4, 64, 3] })
        }
        _ => panic!("images are activations"),
    };
    let ids = [first.1.ids.clone(), second.1.ids.clone()].concat();
    let mut whole = Row::of_network(&network(), &[]);
    let loss = whole.forward_of(0, (both(&first.0, &second.0), Targets { ids }), 1.0);
    whole.backward(0);
    let mut cut = Row::of_network(&network(), &[2]);
    let losses = [cut.forward_of(0, first, 0.5), cut.forward_of(1, second, 0.5)];
    cut.backward(1);
    cut.backward(0);
    assert!(((losses[0] + losses[1]) / 2.0 - loss).abs() / loss < 1e-5);
    let difference = difference(&cut.gradients(), &whole.gradients());
    assert!(difference < 1e-5, "gradients differ by {difference}");
}

#[test]
fn halves_of_a_backward_leave_the_bits_of_one_in_one_piece() {
    let bits = |row: &Row| {
        let all = row.0.iter().flat_map(|chunk| chunk.gradients());
        all.map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    for cuts in CUTS {
        let mut whole = Row::of_network(&network(), cuts);
        let mut split = Row::of_network(&network(), cuts);
        for microbatch in [0, 1] {
            whole.forward_of(microbatch, batch(2, microbatch), 0.5);
            whole.backward(microbatch);
            split.forward_of(microbatch, batch(2, microbatch), 0.5);
        }
        split.backward_input(1);
        split.backward_input(0);
        assert!(bits(&split).iter().all(|&bits| bits == 0), "{cuts:?}");
        split.backward_weight(0);
        split.backward_weight(1);
        assert!(bits(&split) == bits(&whole), "{cuts:?}");
        assert!(bits(&whole).iter().any(|&bits| bits != 0), "{cuts:?}");
    }
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    let mut row = Row::of_network(&network(), &[]);
    row.forward_of(0, batch(4, 3), 1.0);
    row.backward(0);
    let chunk = &mut *row.0[0];
    for param in chunk.params().to_vec() {
        let gradient = chunk.gradients()[param.range()].to_vec();
        let norm = gradient.iter().map(|value| value * value).sum::<f32>().sqrt();
        let weights = chunk.weights().to_vec();
        // Near enough that no ReLU or pooling changes its mind.
        let reach = 3e-4;
        let mut loss_at = |distance: f32| {
            let mut moved = weights.clone();
            for (weight, slope) in moved[param.range()].iter_mut().zip(&gradient) {
                *weight += distance * slope / norm;
            }
            chunk.set_weights(&moved).unwrap();
            let (input, targets) = batch(4, 3);
            match chunk.evaluate(input, Some(targets)).unwrap() {
                ChunkOutput::Loss(loss) => loss,
                ChunkOutput::Activation(_) => panic!("the whole network ends in a loss"),
            }
        };
        let slope = (loss_at(reach) - loss_at(-reach)) / f64::from(2.0 * reach);
        chunk.set_weights(&weights).unwrap();
        let (name, norm) = (&param.name, f64::from(norm));
        assert!(norm > 1e-3, "{name} has a gradient");
        assert!((slope - norm).abs() < 0.01 * norm + 3e-4, "{name}: {norm}, measured {slope}");
    }
}

/// The first layer against sums written out: padding by zeros, ReLU, the largest of 2 x 2.
#[test]
fn a_convolution_is_its_definition() {
    let config = config();
    let chunk = conv_chunk(&config, 0..1, 7);
    let (input, _) = batch(2, 1);
    let ChunkInput::Activation(images) = &input else { panic!("images are activations") };
    let pixel = |image: usize, row: usize, column: usize, channel: usize| {
        // Rows and columns are counted from 1, so that the padding has a place.
        let is_inside = (1..=8).contains(&row) && (1..=8).contains(&column);
        let at = || ((image * 8 + row - 1) * 8 + column - 1) * 3 + channel;
        if is_inside { images.data[at()] } else { 0.0 }
    };
    let weight = |out: usize, channel: usize, row: usize, column: usize| {
        chunk.weights()[((out * 3 + channel) * 3 + row) * 3 + column]
    };
    let sum = |image: usize, row: usize, column: usize, out: usize| -> f32 {
        let taps = (0..27).map(|tap| (tap / 9, tap / 3 % 3, tap % 3));
        let products = taps.map(|(channel, down, right)| {
            weight(out, channel, down, right) * pixel(image, row + down, column + right, channel)
        });
        products.sum::<f32>().max(0.0)
    };
    let found = chunk.logits(input.clone()).unwrap();
    assert_eq!(found.shape, [2, 16, 4]);
    for (at, &value) in found.data.iter().enumerate() {
        let (image, row, column, out) = (at / 64, at / 16 % 4, at / 4 % 4, at % 4);
        let window = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let wanted =
            window.map(|(down, right)| sum(image, 2 * row + down, 2 * column + right, out));
        let wanted = wanted.into_iter().fold(0.0, f32::max);
        assert!((value - wanted).abs() < 1e-5, "{at}: {value}, wanted {wanted}");
    }
}

/// The first fully connected layer takes an image channel by channel.
#[test]
fn an_image_is_flattened_as_pytorch_does() {
    let config = config();
    let chunk = conv_chunk(&config, 2..3, 7);
    let data: Vec<f32> = (0..24).map(|at| (at as f32 * 0.3).cos()).collect();
    let shape = [1, 4, 6];
    let input = ChunkInput::Activation(Activation { data: data.clone(), shape });
    let found = chunk.logits(input).unwrap();
    assert_eq!(found.shape, [1, 1, 10]);
    for (out, &value) in found.data.iter().enumerate() {
        let inputs = (0..24).map(|at| (at % 4, at / 4));
        let weights = &chunk.weights()[out * 24..];
        let products = inputs
            .zip(weights)
            .map(|((pixel, channel), weight)| data[pixel * 6 + channel] * weight);
        let wanted = products.sum::<f32>().max(0.0);
        assert!((value - wanted).abs() < 1e-5, "{out}: {value}, wanted {wanted}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut chunk = conv_chunk(&config(), 0..5, 7);
    let microbatch = MicrobatchId(0);
    let (_, targets) = batch(2, 1);
    let tokens = ChunkInput::Tokens { ids: vec![1, 2], batch: 2, sequence: 1 };
    let error = chunk.forward(microbatch, tokens, Some(targets.clone()), 1.0).unwrap_err();
    assert!(error.to_string().contains("takes an activation"), "{error}");
    let small = Activation { data: vec![0.0; 2 * 16 * 3], shape: [2, 16, 3] };
    let small = ChunkInput::Activation(small);
    let error = chunk.forward(microbatch, small, Some(targets), 1.0).unwrap_err();
    assert!(error.to_string().contains("[2, 16, 3] and [2, 64, 3] is needed"), "{error}");
    let (input, _) = batch(2, 1);
    let error = chunk.forward(microbatch, input, Some(Targets { ids: vec![0, 5] }), 1.0);
    assert!(error.is_err(), "class 5 of 5 does not exist");
}
