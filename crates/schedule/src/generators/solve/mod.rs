//! The shortest order that is found for given durations and delays, within a limit of memory
//! (CrossPipe, Chen et al., ATC 2025): the paper's formulation, with solvers of our own.
//!
//! ```text
//! solve, 2 stages, 4 micro-batches, every hop as long as a pass; I, W: the parts of a backward
//! stage 0  F0 F1          I0 W0 F2 I1 W1 F3 ...
//! stage 1        F0 I0 F1 I1 W0 ...
//! ```
//!
//! No stage holds more than `N` micro-batches between their forward and the end of their backward:
//! `solve` as many as there are stages, as 1F1B's first stage does, `solve:N` `N`. Within that, the
//! shortest of
//! 1. the known orders that fit: 1F1B with both of DAPPLE's warm-ups, ZB-H1;
//! 2. what greedy rules make of it (`greedy`);
//! 3. the best of these after exchanges of neighbors (`local`);
//! 4. for small pipelines, the shortest that there is (`exact`).
//!
//! So it is never longer than 1F1B in the same memory. Pipelines are solved one by one: replicas
//! meet only after their last backward. Absent: links that are busy; a message is a delay.

mod exact;
mod greedy;
mod join;
mod line;
mod local;

use super::{WarmUp, one_f_one_b, zero_bubble};
use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};
use line::{Line, Words};

/// Passes up to which the shortest order is sought.
const EXACT_PASSES_MAX: u64 = 96;
/// Partial orders after which that is given up.
const EXACT_TRIES_MAX: u64 = 20_000;
/// How many orders are improved by exchanges.
const LOCAL_STARTS: usize = 8;
/// Passes that the trials of exchanges in one of them may run.
const LOCAL_PASSES_MAX: u64 = 500_000;
/// The same for greedy rules; one is always tried.
const GREEDY_PASSES_MAX: u64 = 2_000_000;

pub(super) fn order(most: u32, layout: &Layout) -> ComputeOrder {
    let kind = Kind::Solve { most };
    let mut order = ComputeOrder::without_passes(kind.to_string(), layout);
    for (pipeline_idx, pipeline) in layout.pipelines.iter().enumerate() {
        let n_stages = pipeline.stages.len() as u32;
        let cap = in_flight(most, n_stages, pipeline.microbatches);
        let line = Line::new(layout, pipeline_idx, cap);
        for (stage, word) in solve(&line).into_iter().enumerate() {
            let (mut n_forwards, mut n_inputs, mut n_weights) = (0, 0, 0);
            for pass in word {
                let count = match pass {
                    Pass::Forward => &mut n_forwards,
                    Pass::BackwardWeight => &mut n_weights,
                    _ => &mut n_inputs,
                };
                order.push(pipeline_idx, stage as u32, pass, *count);
                *count += 1;
                n_weights += u32::from(pass == Pass::Backward);
            }
        }
    }
    order
}

/// Most micro-batches that a stage may hold.
pub(super) fn in_flight(most: u32, n_stages: u32, n_microbatches: u32) -> u32 {
    let cap = if most == u32::MAX { n_stages } else { most };
    cap.min(n_microbatches)
}

fn solve(line: &Line) -> Words {
    let (end, mut words) = quick(line);
    if line.n_passes() <= EXACT_PASSES_MAX {
        if let Some(better) = exact::shortest(line, end, EXACT_TRIES_MAX).better {
            words = better;
        }
    }
    join::pairs(line, &words)
}

/// The best order without an exact search, and its end.
fn quick(line: &Line) -> (u64, Words) {
    let n_rules = (GREEDY_PASSES_MAX / line.n_passes().max(1)).max(1);
    let rules = greedy::rules(line).into_iter().take(usize::try_from(n_rules).unwrap_or(usize::MAX));
    let made = rules.filter_map(|rule| {
        let words = greedy::order(line, &rule);
        Some((line.makespan(&words)?, words))
    });
    let mut starts: Vec<(u64, Words)> = [known(line)].into_iter().chain(made).collect();
    starts.sort_by_key(|(end, _)| *end);
    starts.dedup_by(|a, b| a.1 == b.1);
    starts.truncate(LOCAL_STARTS);
    let ends = starts.into_iter().map(|start| local::improved(line, start, LOCAL_PASSES_MAX));
    ends.min_by_key(|(end, _)| *end).expect("the known orders are among them")
}

/// The shortest of the known orders.
fn known(line: &Line) -> (u64, Words) {
    let n_stages = line.n_stages() as u32;
    let word = |kind, stage| -> Vec<Pass> {
        let passes = match kind {
            Kind::ZbH1 => zero_bubble::passes(kind, stage, n_stages, line.n_microbatches),
            _ => one_f_one_b::passes(kind, stage, n_stages, line.n_microbatches),
        };
        passes.into_iter().map(|(pass, _)| pass).collect()
    };
    let warm_up = |policy| Kind::Dapple { policy, most: line.cap };
    let kinds = [warm_up(WarmUp::A), warm_up(WarmUp::B), Kind::ZbH1];
    let words = kinds.map(|kind| (0..n_stages).map(|stage| word(kind, stage)).collect());
    let ends = words.into_iter().filter_map(|words: Words| Some((line.makespan(&words)?, words)));
    ends.min_by_key(|(end, _)| *end).expect("1F1B with a warm-up within the limit keeps it")
}

#[cfg(test)]
mod tests {
    use super::{exact, known, line::Line, quick};
    use crate::{Kind, Layout, StageTicks, Ticks};
    use cavalcade_units::DeviceId;

    /// Numbers below a limit, the same for a seed.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        }
    }

    fn random(seed: u64, n_stages: u32, n_microbatches: u32) -> Line {
        let mut below = numbers(seed);
        let kind = Kind::Solve { most: u32::MAX };
        let mut layout = Layout::even(kind, n_stages, 1, n_microbatches);
        let stage = |_| StageTicks {
            forward: 1 + below(10),
            backward_input: 1 + below(10),
            backward_weight: below(10),
        };
        layout.ticks = Ticks { stages: vec![(0..n_stages).map(stage).collect()], ..Ticks::default() };
        for hop in 1..n_stages {
            let (a, b) = (DeviceId(hop - 1), DeviceId(hop));
            let (down, up) = (below(16), below(16));
            layout.ticks.delays.extend([((a, b), down), ((b, a), up)]);
        }
        let cap = 1 + below(u64::from(n_stages) + 1) as u32;
        Line::new(&layout, 0, cap)
    }

    #[test]
    fn stats() {
        for (p, m) in [(2,2),(2,3),(2,4),(3,2),(3,3),(3,4),(2,6),(2,8),(3,6),(4,4),(4,6)] {
            let mut worst = 0.0f64;
            let mut over = 0;
            let (mut used, mut unproven, mut beats) = (0, 0, 0);
            for seed in 0..300 {
                let line = random(seed, p, m);
                let (end, _) = quick(&line);
                let found = exact::shortest(&line, u64::MAX, 300_000);
                used = used.max(300_000 - found.left);
                if !found.is_proven { unproven += 1; continue; }
                let best = line.makespan(&found.better.unwrap()).unwrap();
                let r = end as f64 / best as f64;
                worst = worst.max(r);
                if r > 1.0 { over += 1; }
                if known(&line).0 > best { beats += 1; }
                assert!(best <= end);
            }
            println!("{p} {m} worst {worst:.3} over {over} used {used} unproven {unproven} known beaten {beats}");
        }
    }
}
