//! How long a stage takes, and whether its layers fit: the one rule behind every cut and order.
//!
//! ```text
//!   stage i-1 |  stage i: layers start..end  | stage i+1
//!        activation of cut `start` -->  <-- gradient of cut `end`
//! ```
//!
//! HetPipe (Park et al. 2020, its partitioning algorithm) counts what a stage computes and the time
//! in which it receives: an activation from the stage before, a gradient from the stage after. Both
//! depend on the neighbours and on the stage's own cuts only, so that for a given order of devices
//! every stage has its time by itself, and one table serves all.

use cavalcade_units::{Bytes, Nanos};
use std::ops::Range;

/// Where a stage stands. Classes are sets of alike devices, counted from 0.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Its position in the pipeline.
    pub(crate) stage: usize,
    /// The class of the device that sends it activations; None if nothing arrives there.
    pub(crate) before: Option<usize>,
    /// The class of its own device.
    pub(crate) own: usize,
    /// The class of the device that sends it gradients; None if nothing arrives there.
    pub(crate) after: Option<usize>,
}

/// What costs were asked for once, so that no search asks again.
pub(crate) struct StageTimes {
    /// Layers of the model.
    pub(crate) n_layers: usize,
    /// `sums[class][layer]`: the time of all layers before `layer`.
    sums: Vec<Vec<Nanos>>,
    /// `capacity[class]`: None for no limit.
    capacity: Vec<Option<Bytes>>,
    /// What each stage needs for each run of layers; empty if nothing is limited.
    needed: Vec<Bytes>,
    /// `receive[from][to]`, and in it a time for each cut; empty if no stage has neighbours.
    receive: Vec<Vec<Vec<Nanos>>>,
}

impl StageTimes {
    /// `n_stages` stages on devices of as many classes as `capacity` has entries, which receive
    /// nothing. `time(class, layer)`, `bytes(stage, layers)`.
    pub(crate) fn new(
        time: &dyn Fn(usize, u32) -> Nanos,
        bytes: &dyn Fn(usize, Range<u32>) -> Bytes,
        capacity: &[Option<Bytes>],
        n_stages: usize,
        n_layers: u32,
    ) -> Self {
        let sums = |class: usize| {
            let mut sum = Nanos::ZERO;
            let mut sums = vec![sum];
            for layer in 0..n_layers {
                sum += time(class, layer);
                sums.push(sum);
            }
            sums
        };
        let mut needed = Vec::new();
        if capacity.iter().any(Option::is_some) {
            for stage in 0..n_stages {
                for start in 0..n_layers {
                    for end in 1..=n_layers {
                        let is_run = end > start;
                        needed.push(if is_run { bytes(stage, start..end) } else { Bytes(0) });
                    }
                }
            }
        }
        Self {
            n_layers: n_layers as usize,
            sums: (0..capacity.len()).map(sums).collect(),
            capacity: capacity.to_vec(),
            needed,
            receive: Vec::new(),
        }
    }

    /// The same with `message(from, to, cut)`: the time in which what crosses the cut before layer
    /// `cut` goes from a device of one class to one of another.
    pub(crate) fn with_messages(mut self, message: &dyn Fn(usize, usize, u32) -> Nanos) -> Self {
        let n_classes = self.capacity.len();
        let cuts = |from, to| {
            let inner = (1..self.n_layers as u32).map(|cut| message(from, to, cut));
            std::iter::once(Nanos::ZERO).chain(inner).collect()
        };
        let row = |from| (0..n_classes).map(|to| cuts(from, to)).collect();
        self.receive = (0..n_classes).map(row).collect();
        self
    }

    /// The time of a stage that holds a run of layers; None where they do not fit.
    pub(crate) fn time(&self, place: Place, layers: Range<usize>) -> Option<Nanos> {
        let Place { stage, before, own, after } = place;
        if let Some(available) = self.capacity[own] {
            let run = (stage * self.n_layers + layers.start) * self.n_layers + layers.end - 1;
            if self.needed[run] > available {
                return None;
            }
        }
        let receive = |from: Option<usize>, cut: usize| {
            from.map_or(Nanos::ZERO, |from| self.receive[from][own][cut])
        };
        let receives = receive(before, layers.start) + receive(after, layers.end);
        Some(self.computes(place, layers) + receives)
    }

    /// What of that it computes, fit or not.
    pub(crate) fn computes(&self, place: Place, layers: Range<usize>) -> Nanos {
        self.sums[place.own][layers.end] - self.sums[place.own][layers.start]
    }
}

/// Where a stage may end so that each later stage has a layer, and the last one all that is left.
pub(crate) fn ends(stage: usize, n_stages: usize, n_layers: usize) -> Range<usize> {
    let later = n_stages - 1 - stage;
    let first = if later == 0 { n_layers } else { stage + 1 };
    first..n_layers - later + 1
}

/// Where a stage may begin so that each earlier stage has a layer, and the first one the first.
pub(crate) fn starts(stage: usize, n_stages: usize, n_layers: usize) -> Range<usize> {
    let first_end = if stage == 0 { 1 } else { n_layers - (n_stages - 1 - stage) };
    stage..first_end
}
