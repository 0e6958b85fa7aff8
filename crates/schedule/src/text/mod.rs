//! The text form of a schedule: a version line, the tables, then a line a device.
//!
//! ```text
//! cavalcade schedule 1
//! name 1f1b
//! layers 4
//! tie 0 3                      layers that share a parameter
//! staleness 3                  no flush: forwards may lack the last 3 updates of their path
//! wave 4                       every 4 micro-batches a path exchanges with servers
//! detours 2                    paths may reorder layers and leave out up to 2
//! second-order                 the objective holds gradients by the input
//! copies 7                     seven more of all this run alike on devices of their own
//! reduction tree               how gradients are summed, if not by a ring: tree or server
//! chunk d0 0..2                device, layers; numbered from 0 in order of their lines
//! chunk d1 2..4 recompute      runs its forward again before its backward
//! path 0 1                     chunks, first layer to last
//! microbatches 0*2             path * how many, in order
//! bucket 0..2 : 0              layers (or tie0) : chunks that hold them; with servers, @d1
//! transfer A0.1 d0>d1          activation (G gradient, J adjoint, T tangent) of chunk 0,
//!                              micro-batch 1
//! group d0 d1
//! collective sum 2 @0          of bucket 2, by group 0; or: collective norm @0
//! exchange chunk 0 bucket 0 waves 1..=1 lag 0
//!                              what is handed over after wave 1, and how many waves the weights
//!                              may lack before its last micro-batch
//! device 0: 0F0 S0 0F1 S1 R2 0B0 R3 0B1 C0 C1 0U
//! ```
//!
//! Ops: `2F0` forward, `2B0` backward (chunk before, micro-batch after), `2I0` and `2W0` the input
//! and weight parts of a split backward, `2X0` recompute, `2J0` adjoint, `2K0` double backward,
//! `2U0` the change that micro-batch 0 makes without a flush, `2A0` its addition, `2O0` offload,
//! `2P0` prefetch; `S4` and `R4` the ends of transfer 4, `P5`, `Q5` and `M5` push, pull and merge
//! of exchange 5, `C0` a collective, `2U` the optimizer's update of chunk 2. `#` begins a comment.

mod parse;
mod print;

pub use parse::TextError;

/// The version that this build writes and reads.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use crate::{
        Kind, Layout, Options, Pipeline, Reduction, Schedule, Stage, Ticks, Tie, build, generate,
    };
    use cavalcade_units::DeviceId;

    fn schedule() -> Schedule {
        let stage = |device, layers| Stage { device: DeviceId(device), layers };
        let layout = Layout {
            n_layers: 4,
            n_devices: 3,
            ties: vec![Tie { layers: vec![0, 3] }],
            pipelines: vec![
                Pipeline { stages: vec![stage(0, 0..1), stage(1, 1..4)], microbatches: 2 },
                Pipeline { stages: vec![stage(2, 0..4)], microbatches: 1 },
            ],
            ticks: Ticks::default(),
        };
        build(
            generate(Kind::OneFOneB, &layout).unwrap(),
            &Options { clip_gradients: true, ..Options::default() },
        )
    }

    #[test]
    fn prints_and_reads_back() {
        let schedule = schedule();
        let text = schedule.to_string();
        expect_test::expect_file!["../../goldens/text_form.txt"].assert_eq(&text);
        assert_eq!(text.parse::<Schedule>().unwrap(), schedule);
    }

    /// A line of its own, but for the ring.
    #[test]
    fn the_way_of_summing_is_a_line() {
        let ring = schedule();
        let with_line = |reduction| {
            let lines = format!("layers 4\nreduction {reduction}\n");
            ring.to_string().replacen("layers 4\n", &lines, 1)
        };
        for reduction in [Reduction::Tree, Reduction::Server] {
            let other = Schedule { reduction, ..ring.clone() };
            assert_eq!(other.to_string(), with_line(reduction));
            assert_eq!(with_line(reduction).parse(), Ok(other));
        }
        assert_eq!(with_line(Reduction::Ring).parse(), Ok(ring));
    }

    #[test]
    fn errors_name_the_line() {
        let text = schedule().to_string();
        let broken = |from: &str, to: &str| {
            text.replacen(from, to, 1).parse::<Schedule>().unwrap_err().to_string()
        };
        expect_test::expect!["line 1: found `cavalcade schedule 9`, expected `cavalcade schedule 1`: this build reads version 1 only"]
            .assert_eq(&broken("schedule 1", "schedule 9"));
        expect_test::expect!["line 3: found `layers four`, expected `layers N`"]
            .assert_eq(&broken("layers 4", "layers four"));
        expect_test::expect!["line 3: found `layers 4000000000`, expected at most 1048576 layers"]
            .assert_eq(&broken("layers 4", "layers 4000000000"));
        expect_test::expect!["line 4: found `reduction star`, expected `reduction WORD`, the word one of ring, tree, server"]
            .assert_eq(&broken("layers 4\n", "layers 4\nreduction star\n"));
        expect_test::expect![
            "line 25: found `0Q0`, expected an op such as 2F0, 2B0, S4, R4, C0 or 2U"
        ]
        .assert_eq(&broken("0F0", "0Q0"));
        expect_test::expect!["line 7: found `turtle d2 0..4`, expected one of name, layers, staleness, wave, detours, second-order, copies, reduction, tie, chunk, path, microbatches, bucket, transfer, group, collective, exchange, device"]
            .assert_eq(&broken("chunk d2", "turtle d2"));
    }
}
