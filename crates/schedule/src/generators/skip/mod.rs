//! Every micro-batch its own way: some stages left out, others in another order (SkipPipe, Blagoev
//! et al. 2025), for places that are far from each other.
//!
//! ```text
//! skip:25, 4 stages: one of the two in the middle is left out by each micro-batch
//! stage 0  F0 F1 F2 F3       ...
//! stage 1     F0    F2
//! stage 2        F1    F3
//! stage 3        F0 F1 F2 F3
//! ```
//!
//! A micro-batch begins and ends at the first and the last place of its pipeline. In between it
//! leaves out the given share of stages (rounded down, and one in the middle stays), visits the
//! others in any order unless the kind is straight, each at any device that serves it in any
//! pipeline, and comes back the same way. What the paper calls its constraints:
//!
//! - no place holds more micro-batches between forward and backward than there are stages (its
//!   first; 1F1B's first stage holds as many);
//! - no place does two passes at once (its second);
//! - for convergence, every stage is left out by an equal part of the micro-batches at most, and
//!   every place is visited, or its parameters would get no gradient.
//!
//! The paper searches with A* for each micro-batch and resolves collisions above it. Here
//! micro-batches begin with ways in rotation and are sent on new ones one at a time (`ways`), as
//! long as the whole step, driven through with all others (`drive`), gets shorter.

mod drive;
mod net;
mod ways;

use crate::generators::Kind;
use crate::op::Pass;
use crate::order::{ComputeOrder, Layout};
use crate::tables::Chunk;
use cavalcade_units::{ChunkId, MicrobatchId};
use drive::{Habit, Run, drive};
use net::{Net, Place};
use ways::{Rules, Timetable, ways};

/// Steps that one search may take: passes of trials, and places looked at on the way.
const STEPS_MAX: u64 = 2_600_000;

pub(super) fn order(percent: u32, swaps: bool, layout: &Layout) -> ComputeOrder {
    let kind = Kind::Skip { percent, swaps };
    let n_stages = layout.pipelines.first().map_or(0, |pipeline| pipeline.stages.len()) as u32;
    let net = Net::new(layout, in_flight(n_stages));
    let n_skipped = (u64::from(n_stages) * u64::from(percent) / 100) as usize;
    let search =
        Search { net: &net, swaps, n_skipped: n_skipped.min(net.middle().len().saturating_sub(1)) };
    let (ways, run) = search.best();
    written(kind, layout, &net, &ways, &run)
}

/// Most micro-batches that a place may hold.
pub(super) fn in_flight(n_stages: u32) -> u32 {
    n_stages
}

struct Search<'a> {
    net: &'a Net,
    swaps: bool,
    /// Stages that a micro-batch leaves out.
    n_skipped: usize,
}

impl Search<'_> {
    /// The best ways found for all habits. Those that swap begin with the best that do not.
    fn best(&self) -> (Vec<Vec<Place>>, Run) {
        let habits = [(false, true), (true, true), (false, false), (true, false)];
        let found = habits.into_iter().filter_map(|(forward_first, splits)| {
            let habit = Habit { forward_first, splits };
            let straight = Search { swaps: false, ..*self };
            let run = drive(self.net, &self.rotated(), habit)?;
            let mut found = straight.improved(self.rotated(), run, habit);
            if self.swaps {
                found = self.improved(found.0, found.1, habit);
            }
            Some(found)
        });
        let best = found.min_by_key(|(_, run)| run.cost);
        best.expect("a pipeline that goes straight with backwards first never gets stuck")
    }

    /// Straight ways through the pipelines; what is left out goes round. The first micro-batch of
    /// a pipeline leaves out nothing, so that all places are visited.
    fn rotated(&self) -> Vec<Vec<Place>> {
        let middle = self.net.middle();
        let homes = self.net.homes.iter().enumerate();
        let ways = homes.map(|(microbatch, home)| {
            let is_first = microbatch == 0 || self.net.homes[microbatch - 1] != *home;
            let is_out = |stage: usize| {
                let n = middle.len();
                !is_first
                    && middle.contains(&stage)
                    && (stage - middle.start + n - microbatch * self.n_skipped % n) % n
                        < self.n_skipped
            };
            let visited = (0..home.len()).filter(|&stage| !is_out(stage));
            visited.map(|stage| home[stage]).collect()
        });
        ways.collect()
    }

    /// Sends micro-batches on other ways as long as that helps.
    fn improved(
        &self,
        mut ways_of: Vec<Vec<Place>>,
        mut run: Run,
        habit: Habit,
    ) -> (Vec<Vec<Place>>, Run) {
        let n_passes: usize = ways_of.iter().map(|way| 2 * way.len()).sum();
        let n_looks = ways::n_looks(self.net) as u64;
        let mut n_left = STEPS_MAX;
        let mut is_better = true;
        while is_better {
            is_better = false;
            for microbatch in 0..ways_of.len() {
                let rules = self.rules(&ways_of, microbatch);
                let ways = {
                    let table = Timetable::without(self.net, &run, microbatch);
                    ways(&rules, &table, &self.net.homes[microbatch])
                };
                let n_steps = n_looks + (ways.len() * n_passes) as u64;
                let Some(left) = n_left.checked_sub(n_steps) else { return (ways_of, run) };
                n_left = left;
                for way in ways {
                    let old = std::mem::replace(&mut ways_of[microbatch], way);
                    match drive(self.net, &ways_of, habit).filter(|new| new.cost < run.cost) {
                        Some(new) => {
                            run = new;
                            is_better = true;
                        }
                        None => ways_of[microbatch] = old,
                    }
                }
            }
        }
        (ways_of, run)
    }

    /// What `microbatch` may do beside the ways of the others.
    fn rules(&self, ways_of: &[Vec<Place>], microbatch: usize) -> Rules<'_> {
        let net = self.net;
        let others = || {
            let others = ways_of.iter().enumerate().filter(|&(other, _)| other != microbatch);
            others.map(|(_, way)| way)
        };
        let mut n_visits = vec![0; net.devices.len()];
        others().flatten().for_each(|&place| n_visits[place] += 1);
        let only = |stage: usize| {
            let mut own = ways_of[microbatch].iter().copied();
            own.find(|&place| net.stages[place] == stage && n_visits[place] == 0)
        };
        let only: Vec<Option<Place>> = (0..net.n_stages()).map(only).collect();
        let n_middle = net.middle().len().max(1);
        let n_out_max = (ways_of.len() * self.n_skipped).div_ceil(n_middle);
        let is_forced = |stage: usize| {
            let n_in: usize = net.places[stage].iter().map(|&place| n_visits[place]).sum();
            let n_out = ways_of.len() - 1 - n_in;
            net.middle().contains(&stage) && (only[stage].is_some() || n_out >= n_out_max)
        };
        let is_forced: Vec<bool> = (0..net.n_stages()).map(is_forced).collect();
        let n_forced = is_forced.iter().filter(|&&is_forced| is_forced).count();
        let n_visited = net.middle().len() - self.n_skipped;
        let n_free = n_visited.saturating_sub(n_forced);
        Rules { net, swaps: self.swaps, is_forced, only, n_free }
    }
}

/// The order in which `run` went: a chunk a place, a path for every way that somebody takes.
fn written(
    kind: Kind,
    layout: &Layout,
    net: &Net,
    ways_of: &[Vec<Place>],
    run: &Run,
) -> ComputeOrder {
    let mut order = ComputeOrder::without_passes(kind.to_string(), layout);
    let stages = layout.pipelines.first().map_or(&[][..], |pipeline| &pipeline.stages);
    let chunk = |place: Place| Chunk {
        device: net.devices[place],
        layers: stages[net.stages[place]].layers.clone(),
        recompute: false,
    };
    order.chunks = (0..net.devices.len()).map(chunk).collect();
    let mut different: Vec<&Vec<Place>> = ways_of.iter().collect();
    different.sort();
    different.dedup();
    let path = |way: &&Vec<Place>| way.iter().copied().map(ChunkId::from_idx).collect();
    order.paths = different.iter().map(path).collect();
    let path_of = |way| different.binary_search(&way).expect("every way is among them") as u32;
    order.microbatches = ways_of.iter().map(path_of).collect();
    let layers_in = |way: &&Vec<Place>| -> u32 {
        let layers = way.iter().map(|&place| &stages[net.stages[place]].layers);
        layers.map(|layers| layers.end - layers.start).sum()
    };
    let n_out = different.iter().map(|way| layout.n_layers - layers_in(way)).max();
    order.detours = n_out;
    order.makespan = Some(run.cost.0);
    for (place, passes) in run.passes.iter().enumerate() {
        let program = &mut order.programs[net.devices[place].idx()];
        program.extend(passes.iter().map(|&(pass, microbatch, _): &(Pass, usize, u64)| {
            (pass, ChunkId::from_idx(place), MicrobatchId::from_idx(microbatch))
        }));
    }
    order
}
