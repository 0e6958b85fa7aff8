//! One pipeline whose order is sought: what its passes and hops take, and what may run when.
//!
//! All micro-batches of a pipeline are alike, so they may pass every stage in the order of their
//! numbers: whatever runs in another order can be renumbered, pass by pass, without any pass
//! starting later. An order is then no more than a word of letters a stage (the `k`-th forward is
//! that of micro-batch `k`), and the memory limit is a dependence: forward `k` waits for weight
//! backward `k - cap` of its stage.

use crate::op::Pass;
use crate::order::{Layout, Pipeline};
use crate::ticks::StageTicks;

/// The passes of every stage, in order.
pub(super) type Words = Vec<Vec<Pass>>;

/// A pipeline as the solver sees it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) stages: Vec<StageTicks>,
    /// From each stage to the one after it.
    down: Vec<u64>,
    /// From the stage after each to it.
    up: Vec<u64>,
    pub(super) n_microbatches: u32,
    /// Most micro-batches between their forward and the end of their backward, on each stage.
    pub(super) cap: u32,
}

/// Ends of a stage's passes so far: a pass of micro-batch `k` is entry `k`.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    pub(super) forward: Vec<u64>,
    pub(super) input: Vec<u64>,
    pub(super) weight: Vec<u64>,
}

/// A schedule in the making.
#[derive(Clone, Debug)]
pub(super) struct Partial<'a> {
    pub(super) line: &'a Line,
    pub(super) done: Vec<Done>,
    /// When each stage is done with what it has.
    pub(super) free: Vec<u64>,
}

impl Line {
    pub(super) fn new(layout: &Layout, pipeline_idx: usize, cap: u32) -> Self {
        let pipeline: &Pipeline = &layout.pipelines[pipeline_idx];
        let device = |stage: usize| pipeline.stages[stage].device;
        let hops = 0..pipeline.stages.len() - 1;
        let delay = |from, to| layout.ticks.delay(device(from), device(to));
        let n_stages = pipeline.stages.len();
        let mut line = Self {
            stages: (0..n_stages).map(|s| layout.ticks.of_stage(pipeline_idx, s)).collect(),
            down: hops.clone().map(|hop| delay(hop, hop + 1)).collect(),
            up: hops.map(|hop| delay(hop + 1, hop)).collect(),
            n_microbatches: pipeline.microbatches,
            cap: cap.max(1),
        };
        line.shorten();
        line
    }

    /// Cuts off low bits until all durations together fit twice into 64 bits, so that nothing that
    /// is added up below can overflow. No real figures are that long.
    fn shorten(&mut self) {
        let hops = self.down.iter_mut().chain(&mut self.up);
        let passes = self.stages.iter_mut().flat_map(|ticks| {
            let parts = [&mut ticks.backward_input, &mut ticks.backward_weight];
            [&mut ticks.forward, &mut ticks.backward].into_iter().chain(parts)
        });
        let mut durations: Vec<&mut u64> = hops.chain(passes).collect();
        let sum: u128 = durations.iter().map(|ticks| u128::from(**ticks)).sum();
        let total = sum * u128::from(self.n_microbatches + 1);
        let n_bits = (u128::BITS - total.leading_zeros()).saturating_sub(u64::BITS - 1);
        durations.iter_mut().for_each(|ticks| **ticks = ticks.checked_shr(n_bits).unwrap_or(0));
    }

    pub(super) fn n_stages(&self) -> usize {
        self.stages.len()
    }

    /// Passes with all backwards split.
    pub(super) fn n_passes(&self) -> u64 {
        3 * self.n_stages() as u64 * u64::from(self.n_microbatches)
    }

    pub(super) fn time(&self, stage: usize, pass: Pass) -> u64 {
        self.stages[stage].of_pass(pass)
    }

    /// From stage to stage: the way a forward's output goes, or a backward's.
    pub(super) fn hop(&self, from: usize, to: usize) -> u64 {
        if from < to { self.down[from] } else { self.up[to] }
    }

    /// From the end of a forward of `stage` until its gradient is back, if nothing is in its way.
    pub(super) fn way_back(&self, stage: usize) -> u64 {
        let later = stage + 1..self.n_stages();
        let both_ways = later.flat_map(|s| {
            let ticks = self.stages[s];
            [self.hop(s - 1, s), ticks.forward, ticks.backward_input, self.hop(s, s - 1)]
        });
        both_ways.sum()
    }

    /// From the end of an input backward of `stage` to that of the first stage.
    pub(super) fn way_up(&self, stage: usize) -> u64 {
        let steps = (0..stage).flat_map(|s| [self.hop(s + 1, s), self.stages[s].backward_input]);
        steps.sum()
    }

    /// When the last pass of `words` ends, each as early as it can; none if they wait for each
    /// other or do not keep within the limit.
    pub(super) fn makespan(&self, words: &Words) -> Option<u64> {
        self.run(words, |_, _, _| {})
    }

    /// The same, telling `see` every pass with its stage and its start, in an order that the
    /// dependences allow.
    pub(super) fn run(&self, words: &Words, mut see: impl FnMut(usize, Pass, u64)) -> Option<u64> {
        let mut partial = Partial::new(self);
        let mut next = vec![0; words.len()];
        let mut open: Vec<usize> = (0..words.len()).collect();
        while let Some(stage) = open.pop() {
            let first = next[stage];
            while let Some(&pass) = words[stage].get(next[stage]) {
                let Some(start) = partial.start_of(stage, pass) else { break };
                see(stage, pass, start);
                partial.take(stage, pass, start);
                next[stage] += 1;
            }
            if next[stage] > first {
                open.extend(stage.checked_sub(1));
                open.extend(Some(stage + 1).filter(|&after| after < words.len()));
            }
        }
        let is_whole = next.iter().zip(words).all(|(&next, word)| next == word.len());
        is_whole.then(|| partial.end())
    }
}

impl<'a> Partial<'a> {
    pub(super) fn new(line: &'a Line) -> Self {
        let n_stages = line.n_stages();
        Self { line, done: vec![Done::default(); n_stages], free: vec![0; n_stages] }
    }

    /// When the stage's next pass of this sort could start; none if something that it needs is
    /// not yet there.
    pub(super) fn start_of(&self, stage: usize, pass: Pass) -> Option<u64> {
        let done = &self.done[stage];
        let free = self.free[stage];
        match pass {
            Pass::Forward => {
                let k = done.forward.len();
                let is_room = k - done.weight.len() < self.line.cap as usize;
                if k == self.line.n_microbatches as usize || !is_room {
                    return None;
                }
                let Some(before) = stage.checked_sub(1) else { return Some(free) };
                let sent = *self.done[before].forward.get(k)?;
                Some(free.max(sent + self.line.hop(before, stage)))
            }
            Pass::BackwardWeight => (done.weight.len() < done.input.len()).then_some(free),
            _ => {
                let k = done.input.len();
                let is_next = pass == Pass::BackwardInput || done.weight.len() == k;
                if k == done.forward.len() || !is_next {
                    return None;
                }
                let after = stage + 1;
                if after == self.line.n_stages() {
                    return Some(free);
                }
                let sent = *self.done[after].input.get(k)?;
                Some(free.max(sent + self.line.hop(after, stage)))
            }
        }
    }

    /// Runs the stage's next pass of this sort.
    pub(super) fn take(&mut self, stage: usize, pass: Pass, start: u64) {
        let end = start + self.line.time(stage, pass);
        let done = &mut self.done[stage];
        match pass {
            Pass::Forward => done.forward.push(end),
            Pass::BackwardInput => done.input.push(end),
            Pass::BackwardWeight => done.weight.push(end),
            _ => {
                done.input.push(end);
                done.weight.push(end);
            }
        }
        self.free[stage] = end;
    }

    /// Undoes the last [`Self::take`] of this stage, of no whole backward, before which it was free
    /// at `free`.
    pub(super) fn untake(&mut self, stage: usize, pass: Pass, free: u64) {
        let done = &mut self.done[stage];
        let ends = match pass {
            Pass::Forward => &mut done.forward,
            Pass::BackwardInput => &mut done.input,
            _ => &mut done.weight,
        };
        ends.pop();
        self.free[stage] = free;
    }

    /// When all that is there has ended.
    pub(super) fn end(&self) -> u64 {
        self.free.iter().copied().max().unwrap_or(0)
    }

    /// Whether the stage has done everything.
    pub(super) fn is_done(&self, stage: usize) -> bool {
        self.done[stage].weight.len() == self.line.n_microbatches as usize
    }
}
