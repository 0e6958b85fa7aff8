//! JanusPipe (Wang et al., ICML 2026): steps whose objective holds gradients by the input, in four
//! phases: forward down the stages, adjoint up, double backward down, backward up.
//!
//! ```text
//! 2 stages, 3 micro-batches; J is the adjoint, K the double backward
//! stage 0  F0 F1 F2 J0 K0 J1 K1 B0 J2 K2 B1       B2
//! stage 1     F0 J0 F1 J1 F2 K0 B0 J2 K1 B1 K2 B2
//! ```
//!
//! In slots of one pass each stage takes what is furthest on its way: a backward before a double
//! backward, an adjoint, a forward; and no forward while it holds `p + 1` micro-batches. With equal
//! phases the first stage begins at once and the last one is never idle: `4 m + 2 (p - 1)` slots,
//! where two steps of 1F1B, one of forwards and adjoints and one of the rest, take `4 (m + p - 1)`
//! and keep all `m` micro-batches between them. The longer the last two phases, the less is gained.
//! How the source orders them within its waves is not public; the phases and their folding are.

use super::Kind;
use super::walk::Walk;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout, most_in_flight};

const PHASES: [Pass; 4] = [Pass::Forward, Pass::Adjoint, Pass::DoubleBackward, Pass::Backward];

pub(super) fn order(layout: &Layout) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(Kind::Janus.to_string(), layout);
    order.second_order = true;
    for (path_idx, pipeline) in layout.pipelines.iter().enumerate() {
        let programs = programs(pipeline.stages.len() as u32, pipeline.microbatches);
        for (stage_idx, program) in (0..).zip(programs) {
            for (pass, microbatch) in program {
                order.push(path_idx, stage_idx, pass, microbatch);
            }
        }
    }
    order
}

/// Most micro-batches that a stage keeps at once.
pub(super) fn in_flight(stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    let mut programs = programs(n_stages, n_microbatches);
    let passes = programs.swap_remove(stage_idx as usize);
    most_in_flight(passes.into_iter().map(|(pass, _)| pass))
}

fn programs(n_stages: u32, n_microbatches: u32) -> Vec<Vec<(Pass, u32)>> {
    let mut walk = Walk::new(n_stages, n_microbatches);
    // By stage and phase, the micro-batch whose turn it is.
    let mut next = vec![[0; 4]; n_stages as usize];
    let mut programs = vec![Vec::new(); n_stages as usize];
    loop {
        let is_free = |stage: u32, phase: usize| {
            let [forward, .., backward] = next[stage as usize];
            let microbatch = next[stage as usize][phase];
            microbatch < n_microbatches
                && walk.is_at(phase, stage, microbatch)
                && (phase > 0 || forward - backward <= n_stages)
        };
        let furthest = |stage| (0..PHASES.len()).rev().find(|&phase| is_free(stage, phase));
        let slot: Vec<Option<usize>> = (0..n_stages).map(furthest).collect();
        if slot.iter().all(Option::is_none) {
            return programs;
        }
        for (stage, phase) in slot.into_iter().enumerate() {
            let Some(phase) = phase else { continue };
            let microbatch = next[stage][phase];
            programs[stage].push((PHASES[phase], microbatch));
            next[stage][phase] += 1;
            walk.advance(microbatch);
        }
    }
}
