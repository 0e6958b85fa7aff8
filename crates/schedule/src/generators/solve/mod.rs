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
        let words = solve(&line);
        order.makespan = order.makespan.max(line.makespan(&words));
        for (stage, word) in words.into_iter().enumerate() {
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
    let is_small = line.n_passes() <= EXACT_PASSES_MAX;
    if is_small && let Some(better) = exact::shortest(line, end, EXACT_TRIES_MAX) {
        words = better;
    }
    join::pairs(line, &words)
}

/// The best order without an exact search, and its end.
fn quick(line: &Line) -> (u64, Words) {
    let n_rules = (GREEDY_PASSES_MAX / line.n_passes().max(1)).max(1);
    let rules =
        greedy::rules(line).into_iter().take(usize::try_from(n_rules).unwrap_or(usize::MAX));
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
    use super::line::{Line, Words};
    use super::{exact, join, known, quick, solve};
    use crate::{Kind, Layout, Pass, StageTicks, Ticks};
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
        let stage = |_| {
            let (input, weight) = (1 + below(10), below(10));
            StageTicks {
                forward: 1 + below(10),
                backward: input + weight,
                backward_input: input,
                backward_weight: weight,
            }
        };
        layout.ticks =
            Ticks { stages: vec![(0..n_stages).map(stage).collect()], ..Ticks::default() };
        for hop in 1..n_stages {
            let (a, b) = (DeviceId(hop - 1), DeviceId(hop));
            let (down, up) = (below(16), below(16));
            layout.ticks.delays.extend([((a, b), down), ((b, a), up)]);
        }
        let cap = 1 + below(u64::from(n_stages) + 1) as u32;
        Line::new(&layout, 0, cap)
    }

    fn sizes(most: u32) -> impl Iterator<Item = (u32, u32, u64)> {
        let sizes =
            [(1, 3), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (2, 6), (4, 4), (4, 6)];
        let sizes = sizes.into_iter().filter(move |(p, m)| p * m <= most);
        sizes.flat_map(|(p, m)| (0..40).map(move |seed| (p, m, seed)))
    }

    /// Every order of a stage that keeps the limit.
    fn all_words(line: &Line) -> Vec<Vec<Pass>> {
        let n = line.n_microbatches;
        let mut words: Vec<(Vec<Pass>, [u32; 3])> = vec![(Vec::new(), [0; 3])];
        for _ in 0..3 * n {
            let longer = words.into_iter().flat_map(|(word, [f, i, w])| {
                let next = [
                    (f < n && f - w < line.cap, Pass::Forward, [f + 1, i, w]),
                    (i < f, Pass::BackwardInput, [f, i + 1, w]),
                    (w < i, Pass::BackwardWeight, [f, i, w + 1]),
                ];
                let next = next.into_iter().filter(|(is_legal, ..)| *is_legal);
                next.map(move |(_, pass, counts)| ([&word[..], &[pass]].concat(), counts))
            });
            words = longer.collect();
        }
        words.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn the_exact_search_finds_the_shortest_of_all_orders() {
        for (p, m, seed) in sizes(6).filter(|&(p, m, seed)| m <= 3 && (p < 3 || seed < 10)) {
            let line = random(seed, p, m);
            let each = all_words(&line);
            let mut all: Vec<Words> = vec![Vec::new()];
            for _ in 0..p {
                let more = |words: Words| {
                    each.iter().map(move |w| [&words[..], std::slice::from_ref(w)].concat())
                };
                all = all.into_iter().flat_map(more).collect();
            }
            let shortest = all.iter().filter_map(|words| line.makespan(words)).min();
            let found = exact::shortest(&line, u64::MAX, u64::MAX).unwrap();
            assert_eq!(line.makespan(&found), shortest, "p={p} m={m} seed={seed}");
        }
    }

    /// Worst on these lines and on ten times as many: 2.5 % for up to 3 stages and 4 micro-batches,
    /// 3.8 % for more.
    #[test]
    fn greedy_is_within_a_twentieth_of_exact() {
        let mut worst = [0; 2];
        for (p, m, seed) in sizes(u32::MAX) {
            let line = random(seed, p, m);
            let (end, _) = quick(&line);
            let found = exact::shortest(&line, end, u64::MAX);
            let best = found.map_or(end, |words| line.makespan(&words).unwrap());
            assert!(end * 20 <= best * 21, "p={p} m={m} seed={seed}: {end}, exact {best}");
            let worst = &mut worst[usize::from(p > 3 || m > 4)];
            *worst = (*worst).max((end - best) * 1000 / best);
        }
        expect_test::expect!["in thousandths: [25, 38]"]
            .assert_eq(&format!("in thousandths: {worst:?}"));
    }

    #[test]
    fn joined_backwards_end_no_later() {
        let (mut n_split, mut n_joined) = (0, 0);
        for (p, m, seed) in sizes(u32::MAX) {
            let line = random(seed, p, m);
            let (end, words) = quick(&line);
            let joined = join::pairs(&line, &words);
            assert!(line.makespan(&joined).unwrap() <= end, "p={p} m={m} seed={seed}");
            n_split += words.iter().map(Vec::len).sum::<usize>();
            n_joined += joined.iter().map(Vec::len).sum::<usize>();
        }
        assert!(n_joined * 10 < n_split * 9, "{n_joined} of {n_split} passes");
    }

    #[test]
    fn never_longer_than_known_orders_in_the_same_memory() {
        for (p, m) in [(1, 5), (2, 9), (5, 10), (8, 16), (8, 4)] {
            for seed in 0..8 {
                let line = random(seed, p, m);
                let end = line.makespan(&solve(&line)).unwrap();
                assert!(end <= known(&line).0, "p={p} m={m} seed={seed}");
            }
        }
    }

    #[test]
    fn endless_durations_are_shortened() {
        let kind = Kind::Solve { most: u32::MAX };
        let mut layout = Layout::even(kind, 3, 1, 4);
        let stage = StageTicks {
            forward: u64::MAX,
            backward: u64::MAX,
            backward_input: 1,
            backward_weight: u64::MAX,
        };
        layout.ticks.stages = vec![vec![stage; 3]];
        layout.ticks.delays.insert((DeviceId(0), DeviceId(1)), u64::MAX);
        assert!(crate::generate(kind, &layout).unwrap().makespan().is_some());
    }
}
