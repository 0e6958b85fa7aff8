//! The measured figures and what they cost a device: the one place where a cost is computed.

use cavalcade_units::{Bandwidth, Bytes, Nanos};
use std::ops::Range;

/// A pass of one micro-batch over a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// From the chunk's input to its output or loss; also a recomputation.
    Forward,
    /// From the gradient of the output to those of the weights and the input.
    Backward,
    /// The first half of it where it is split: to the gradient of the input.
    BackwardInput,
    /// The second half: to the gradients of the weights.
    BackwardWeight,
}

/// One layer, measured for one micro-batch on one thread of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerProfile {
    /// The layer's name, as the model has it.
    pub name: String,
    /// Time of the forward pass.
    pub forward: Nanos,
    /// Time of the backward pass, of the weights and of the input together.
    pub backward: Nanos,
    /// Time of a backward-input pass.
    pub backward_input: Nanos,
    /// Time of a backward-weight pass.
    pub backward_weight: Nanos,
    /// Bytes that stay alive between a micro-batch's forward and its backward pass, beside the
    /// activations that enter and leave the layer: inside a chunk those need not be kept. With what
    /// enters it, if its products keep that, as convolutions do.
    pub saved: Bytes,
    /// Bytes that stay alive between a micro-batch's backward-input and its backward-weight pass,
    /// beside the flat gradients: the factors of the weight gradients.
    pub deferred: Bytes,
    /// The most bytes alive during a forward or a whole backward pass beyond what is alive before
    /// it and what it leaves.
    pub workspace: Bytes,
    /// The same of a forward pass and the halves of a backward pass.
    pub split_workspace: Bytes,
    /// Bytes of the activation that leaves the layer; zero for the last one.
    pub output: Bytes,
}

/// One link between two processes of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkProfile {
    /// Time until the first byte arrives.
    pub latency: Nanos,
    /// Bytes a second after that.
    pub bandwidth: Bandwidth,
}

/// Bytes that a worker keeps for each parameter, all copies counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamBytes {
    /// The weights.
    pub weights: u64,
    /// The accumulated gradient.
    pub gradients: u64,
    /// The optimizer's state.
    pub optimizer: u64,
}

impl ParamBytes {
    /// All of it.
    pub fn total(self) -> u64 {
        self.weights + self.gradients + self.optimizer
    }
}

/// What was measured on one host for one model and one micro-batch size.
///
/// ```text
/// time of a pass over layers a..b   = (time[a] + .. + time[b - 1]) / speed
/// time of an optimizer step         = per_million * n_params / 10^6 / speed
/// saved bytes of layers a..b        = output[a - 1] + saved[a] + .. + saved[b - 1] + output[b - 1]
///                                     for each micro-batch in flight
/// deferred bytes of layers a..b     = deferred[a] + .. + deferred[b - 1]
///                                     for each micro-batch between the halves of its backward
/// workspace of layers a..b          = max(workspace[a], .., workspace[b - 1])   once,
///                                     by split_workspace where backward passes are split
/// ```
///
/// `speed` is a device's, relative to one thread of the measured host: at 0.25 everything takes
/// four times as long. [`Profile::op_overhead`] and [`Profile::loopback`] are not scaled by it:
/// they are costs of the host, whatever device it plays.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Fingerprint of the model's config.
    pub model: String,
    /// Sequences in a micro-batch.
    pub microbatch_size: u32,
    /// Tokens in a sequence.
    pub sequence: u32,
    /// The layers in the model's order.
    pub layers: Vec<LayerProfile>,
    /// Time of an optimizer step for a million parameters.
    pub optimizer_per_million: Nanos,
    /// Bytes that a worker keeps for each parameter.
    pub param_bytes: ParamBytes,
    /// Bytes of a process that holds no chunk.
    pub base: Bytes,
    /// The link between two processes of this host.
    pub loopback: LinkProfile,
    /// Time that an op costs beside its arithmetic.
    pub op_overhead: Nanos,
    /// How much the same pass varies: the standard deviation of its time over the mean.
    pub jitter: f64,
}

impl Profile {
    /// Time of one pass of one micro-batch over `layers` on a device of `speed`, without
    /// [`Profile::op_overhead`]. The sum is rounded once, to whole nanoseconds.
    ///
    /// # Panics
    /// If the range passes the last layer or the speed is not above zero.
    pub fn pass_time(&self, pass: Pass, layers: Range<u32>, speed: f64) -> Nanos {
        let times = self.range(layers).iter().map(|layer| match pass {
            Pass::Forward => layer.forward,
            Pass::Backward => layer.backward,
            Pass::BackwardInput => layer.backward_input,
            Pass::BackwardWeight => layer.backward_weight,
        });
        scaled(times.sum::<Nanos>().0 as f64, speed)
    }

    /// Time of an optimizer step over `n_params` parameters on a device of `speed`.
    ///
    /// # Panics
    /// If the speed is not above zero.
    pub fn optimizer_time(&self, n_params: usize, speed: f64) -> Nanos {
        scaled(self.optimizer_per_million.0 as f64 * n_params as f64 / 1e6, speed)
    }

    /// Bytes that each micro-batch keeps alive in `layers` between forward and backward, as one
    /// chunk: what its layers save, its input, whose gradient it returns, and its output, from
    /// which the backward pass starts.
    ///
    /// # Panics
    /// If the range passes the last layer.
    pub fn saved(&self, layers: Range<u32>) -> Bytes {
        let inside: Bytes = self.range(layers.clone()).iter().map(|layer| layer.saved).sum();
        self.output(0..layers.start) + inside + self.output(layers)
    }

    /// Bytes that each micro-batch keeps alive in `layers` between its backward-input and its
    /// backward-weight pass. What [`Profile::saved`] counts is freed by then.
    ///
    /// # Panics
    /// If the range passes the last layer.
    pub fn deferred(&self, layers: Range<u32>) -> Bytes {
        self.range(layers).iter().map(|layer| layer.deferred).sum()
    }

    /// The most extra bytes during a forward or a whole backward pass over `layers`: layers run one
    /// after the other, so their largest.
    ///
    /// # Panics
    /// If the range passes the last layer.
    pub fn workspace(&self, layers: Range<u32>) -> Bytes {
        self.range(layers).iter().map(|layer| layer.workspace).max().unwrap_or(Bytes::ZERO)
    }

    /// As [`Profile::workspace`], where the backward passes over `layers` are split.
    ///
    /// # Panics
    /// If the range passes the last layer.
    pub fn split_workspace(&self, layers: Range<u32>) -> Bytes {
        self.range(layers).iter().map(|layer| layer.split_workspace).max().unwrap_or(Bytes::ZERO)
    }

    /// Bytes of the activation that leaves `layers`, for one micro-batch.
    ///
    /// # Panics
    /// If the range passes the last layer.
    pub fn output(&self, layers: Range<u32>) -> Bytes {
        self.range(layers).last().map_or(Bytes::ZERO, |layer| layer.output)
    }

    fn range(&self, layers: Range<u32>) -> &[LayerProfile] {
        let n_layers = self.layers.len();
        assert!(layers.end as usize <= n_layers, "layers {layers:?} of {n_layers} are profiled");
        &self.layers[layers.start as usize..layers.end as usize]
    }
}

fn scaled(nanos: f64, speed: f64) -> Nanos {
    assert!(speed.is_finite() && speed > 0.0, "a speed is above zero, not {speed}");
    Nanos((nanos / speed).round() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{LayerProfile, LinkProfile, ParamBytes, Pass, Profile};
    use cavalcade_units::{Bandwidth, Bytes, Nanos};

    pub(crate) fn profile() -> Profile {
        let layer = |name: &str, forward, backward, saved, workspace| LayerProfile {
            name: name.to_owned(),
            forward: Nanos(forward),
            backward: Nanos(backward),
            backward_input: Nanos(backward / 2 + 1),
            backward_weight: Nanos(backward / 2 + 3),
            saved: Bytes(saved),
            deferred: Bytes(saved / 2),
            workspace: Bytes(workspace),
            split_workspace: Bytes(workspace / 2),
            output: Bytes(64),
        };
        Profile {
            model: "00ff00ff00ff00ff".to_owned(),
            microbatch_size: 8,
            sequence: 128,
            layers: vec![
                layer("embedding", 10, 20, 100, 7),
                layer("h.0", 101, 202, 1000, 50),
                layer("head", 31, 62, 300, 90),
            ],
            optimizer_per_million: Nanos(2_000_000),
            param_bytes: ParamBytes { weights: 8, gradients: 4, optimizer: 8 },
            base: Bytes(4096),
            loopback: LinkProfile {
                latency: Nanos(20_000),
                bandwidth: Bandwidth::from_bytes_per_second(1.5e9),
            },
            op_overhead: Nanos(3_000),
            jitter: 0.0,
        }
    }

    #[test]
    fn a_pass_costs_the_sum_of_its_layers_over_the_speed() {
        let profile = profile();
        assert_eq!(profile.pass_time(Pass::Forward, 0..3, 1.0), Nanos(142));
        assert_eq!(profile.pass_time(Pass::Backward, 1..3, 0.25), Nanos(1056));
        assert_eq!(profile.pass_time(Pass::BackwardInput, 0..3, 1.0), Nanos(145));
        assert_eq!(profile.pass_time(Pass::BackwardWeight, 0..2, 0.5), Nanos(234));
        assert_eq!(profile.pass_time(Pass::Forward, 1..1, 1.0), Nanos::ZERO);
        assert_eq!(profile.optimizer_time(500_000, 0.5), Nanos(2_000_000));
    }

    #[test]
    fn saved_bytes_add_up_with_both_ends_and_workspaces_do_not() {
        let profile = profile();
        assert_eq!(profile.saved(0..2), Bytes(100 + 1000 + 64));
        assert_eq!(profile.saved(1..2), Bytes(64 + 1000 + 64));
        assert_eq!(profile.deferred(0..3), Bytes(50 + 500 + 150));
        assert_eq!(profile.deferred(1..1), Bytes::ZERO);
        assert_eq!(profile.workspace(0..2), Bytes(50));
        assert_eq!(profile.split_workspace(0..2), Bytes(25));
        assert_eq!(profile.output(0..2), Bytes(64));
    }

    #[test]
    fn a_layer_that_was_not_measured_has_no_cost() {
        let panic = std::panic::catch_unwind(|| profile().saved(1..4)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("layers 1..4 of 3 are profiled"), "{message}");
    }
}
