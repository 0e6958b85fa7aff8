//! The shortest order, by branch and bound: for small pipelines.
//!
//! The stage that can end something first has to begin one of the passes that it can start before
//! that end, or time is lost (Giffler and Thompson 1960: some shortest order is among these), so
//! those are the branches. One is cut off if what is left cannot be done before the best order
//! found ends, or if the same passes were once done with every stage free and every message there
//! no later.

use super::greedy::PASSES;
use super::line::{Line, Partial, Words};
use crate::op::Pass;
use std::collections::HashMap;

/// The shortest order, if it ends before `known`; the best one found if `tries_max` partial orders
/// were not enough.
pub(super) fn shortest(line: &Line, known: u64, tries_max: u64) -> Option<Words> {
    let n_stages = line.n_stages();
    let mut search = Search {
        way_back: (0..n_stages).map(|stage| line.way_back(stage)).collect(),
        way_up: (0..n_stages).map(|stage| line.way_up(stage)).collect(),
        partial: Partial::new(line),
        words: vec![Vec::new(); n_stages],
        best: known,
        better: None,
        seen: HashMap::new(),
        tries_left: tries_max,
    };
    search.extend();
    search.better
}

struct Search<'a> {
    way_back: Vec<u64>,
    way_up: Vec<u64>,
    partial: Partial<'a>,
    words: Words,
    best: u64,
    better: Option<Words>,
    /// By how much of each stage was done, the times that were reached with that.
    seen: HashMap<Vec<u32>, Vec<Vec<u64>>>,
    tries_left: u64,
}

impl Search<'_> {
    fn extend(&mut self) {
        if self.tries_left == 0 {
            return;
        }
        self.tries_left -= 1;
        let line = self.partial.line;
        let n_stages = line.n_stages();
        if (0..n_stages).all(|stage| self.partial.is_done(stage)) {
            if self.partial.end() < self.best {
                self.best = self.partial.end();
                self.better = Some(self.words.clone());
            }
            return;
        }
        if self.bound() >= self.best || self.is_dominated() {
            return;
        }
        let offers = (0..n_stages).flat_map(|stage| {
            let partial = &self.partial;
            PASSES.into_iter().filter_map(move |pass| {
                let start = partial.start_of(stage, pass)?;
                Some((start + line.time(stage, pass), stage, pass, start))
            })
        });
        let offers: Vec<_> = offers.collect();
        let &(soonest, stage, first, _) =
            offers.iter().min_by_key(|offer| offer.0).expect("what is not done can go on");
        let mut branches: Vec<(Pass, u64)> = offers
            .iter()
            .filter(|offer| offer.1 == stage && (offer.3 < soonest || offer.2 == first))
            .map(|offer| (offer.2, offer.3))
            .collect();
        // Input backwards first, weight backwards last.
        branches.sort_by_key(|&(pass, start)| match pass {
            Pass::BackwardInput => (0, start),
            Pass::Forward => (1, start),
            _ => (2, start),
        });
        for (pass, start) in branches {
            let free = self.partial.free[stage];
            self.partial.take(stage, pass, start);
            self.words[stage].push(pass);
            self.extend();
            self.words[stage].pop();
            self.partial.untake(stage, pass, free);
        }
    }

    /// No order that goes on from here ends earlier.
    fn bound(&self) -> u64 {
        let Partial { line, done, free } = &self.partial;
        let last_weight = line.stages[0].backward_weight;
        let n = u64::from(line.n_microbatches);
        let mut bound = 0;
        // No forward of the stage at hand can start before this.
        let mut forward_from = 0;
        for (stage, ticks) in line.stages.iter().enumerate() {
            let left = |ends: &Vec<u64>| n - ends.len() as u64;
            let forwards = left(&done[stage].forward) * ticks.forward;
            let inputs = left(&done[stage].input) * ticks.backward_input;
            let weights = left(&done[stage].weight) * ticks.backward_weight;
            let k = done[stage].forward.len();
            if let Some(before) = stage.checked_sub(1) {
                let sent = done[before].forward.get(k).copied();
                let sent = sent.unwrap_or(forward_from + line.stages[before].forward);
                forward_from = sent + line.hop(before, stage);
            }
            forward_from = forward_from.max(free[stage]);
            let way_up = self.way_up[stage] + last_weight;
            if left(&done[stage].forward) > 0 {
                let way = ticks.forward + self.way_back[stage] + ticks.backward_input + way_up;
                bound = bound.max(forward_from + way);
            }
            bound = bound.max(free[stage] + forwards + inputs + weights);
            if left(&done[stage].input) > 0 {
                bound = bound.max(free[stage] + forwards + inputs + way_up);
            }
        }
        bound
    }

    /// Whether as much was done before, with nothing later; if not, remembers this.
    fn is_dominated(&mut self) -> bool {
        let Partial { line, done, free } = &self.partial;
        let key = done.iter().flat_map(|d| [&d.forward, &d.input, &d.weight]);
        let key = key.map(|ends| ends.len() as u32).collect();
        let mut times = free.clone();
        for stage in 1..line.n_stages() {
            let before = stage - 1;
            let sent = &done[before].forward[done[stage].forward.len()..];
            times.extend(sent.iter().map(|end| free[stage].max(end + line.hop(before, stage))));
            let sent = &done[stage].input[done[before].input.len()..];
            times.extend(sent.iter().map(|end| free[before].max(end + line.hop(stage, before))));
        }
        let known = self.seen.entry(key).or_default();
        let no_later = |a: &[u64], b: &[u64]| a.iter().zip(b).all(|(a, b)| a <= b);
        if known.iter().any(|earlier| no_later(earlier, &times)) {
            return true;
        }
        known.retain(|earlier| !no_later(&times, earlier));
        known.push(times);
        false
    }
}
