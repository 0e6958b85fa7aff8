//! Layouts of equal stages: what closed forms, pictures and comparisons speak of.

use super::{Form, Kind};
use crate::order::{Layout, Pipeline, Stage};
use crate::ticks::Ticks;
use cavalcade_units::DeviceId;

impl Layout {
    /// One model over `n_devices` equal devices as `kind` has it: one layer a stage, `n_chunks`
    /// stages a device if interleaved, two there and back for the Vs; two pipelines, each with half
    /// of the micro-batches (the first with one more of an odd number), for Chimera.
    pub fn even(kind: Kind, n_devices: u32, n_chunks: u32, microbatches: u32) -> Self {
        let n_rounds = kind.chunks_per_device(n_chunks.into());
        let n_layers = n_devices * u32::try_from(n_rounds).expect("no more than were wanted, or 2");
        let pipeline = |is_up: bool, microbatches: u32| {
            let device = |layer: u32| match is_up {
                true => n_devices - 1 - layer,
                false if kind.form() == Form::Folded => layer.min(n_layers - 1 - layer),
                false => layer % n_devices,
            };
            let stage = |layer| Stage { device: DeviceId(device(layer)), layers: layer..layer + 1 };
            Pipeline { stages: (0..n_layers).map(stage).collect(), microbatches }
        };
        let pipelines = match kind.form() {
            Form::Mirrored => {
                let up = microbatches / 2;
                vec![pipeline(false, microbatches - up), pipeline(true, up)]
            }
            _ => vec![pipeline(false, microbatches)],
        };
        Self { n_layers, n_devices, ties: Vec::new(), pipelines, ticks: Ticks::default() }
    }
}
