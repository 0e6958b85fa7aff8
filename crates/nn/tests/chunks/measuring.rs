//! The measuring, with a meter whose time is the number of its readings.

use cavalcade_model::{ConvConfig, GptConfig, Network};
use cavalcade_nn::profile_layers;
use cavalcade_profile::Meter;
use cavalcade_units::{Bytes, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};

/// Each reading of the clock is a microsecond after the one before; memory never changes.
struct Readings(AtomicU64);

impl Meter for Readings {
    fn now(&self) -> Nanos {
        Nanos(1000 * self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn live_bytes(&self) -> Bytes {
        Bytes(1 << 20)
    }

    fn peak_bytes(&self) -> Bytes {
        Bytes(1 << 20)
    }

    fn reset_peak(&self) {}
}

#[test]
fn every_layer_is_measured_in_the_models_order() {
    let config = GptConfig::new(11, 8, 16, 2, 3, true, true).unwrap();
    let measured = profile_layers(&Network::Gpt(config), 2, &Readings(AtomicU64::new(0))).unwrap();
    let names: Vec<&str> = measured.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["embedding", "h.0", "h.1", "h.2", "head"]);
    for layer in &measured.layers {
        let times = [layer.forward, layer.backward, layer.backward_input, layer.backward_weight];
        assert_eq!(times, [Nanos(1000); 4]);
        assert_eq!([layer.saved, layer.deferred], [Bytes::ZERO; 2]);
        assert_eq!([layer.workspace, layer.split_workspace], [Bytes::ZERO; 2]);
        let output = if layer.name == "head" { 0 } else { 2 * 8 * 16 };
        assert_eq!(layer.output, Bytes::of_f32(output), "{}", layer.name);
    }
    // A microsecond for the parameters of one block.
    let n_params = 12 * 16 * 16 + 13 * 16;
    assert_eq!(measured.optimizer_per_million, Nanos((1e9 / f64::from(n_params)).round() as u64));
}

#[test]
fn a_convolutional_network_is_measured_layer_by_layer() {
    let (image, channels, convolutions) = (8, 3, vec![4, 6]);
    let hidden = vec![10, 10, 10];
    let config = ConvConfig { image, channels, convolutions, hidden, classes: 5 };
    let measured = profile_layers(&Network::Conv(config), 2, &Readings(AtomicU64::new(0))).unwrap();
    let sizes = [2 * 64 * 3, 2 * 16 * 4, 2 * 4 * 6, 2 * 10, 2 * 10, 2 * 10];
    let outputs = sizes[1..].iter().chain([&0]);
    let places = ["features.0", "features.3"].into_iter().chain([
        "classifier.0",
        "classifier.3",
        "classifier.6",
        "classifier.9",
    ]);
    let ends = sizes.iter().zip(outputs);
    for ((layer, name), (&input, &output)) in measured.layers.iter().zip(places).zip(ends) {
        assert_eq!((&layer.name[..], layer.output), (name, Bytes::of_f32(output)));
        assert_eq!((layer.forward, layer.backward), (Nanos(1000), Nanos(1000)));
        // Its product keeps the input.
        assert_eq!(layer.saved, Bytes::of_f32(input));
    }
    assert_eq!(measured.layers.len(), 6);
    // The largest layer between the ends, 24 x 10.
    assert_eq!(measured.optimizer_per_million, Nanos((1e9 / 250.0_f64).round() as u64));
}
