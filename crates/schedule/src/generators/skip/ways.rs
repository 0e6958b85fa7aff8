//! Ways for one micro-batch through what the others leave free.
//!
//! A beam goes from the first place to the last: of all beginnings that visit as many stages, those
//! stay that come soonest, in gaps of the others' passes and counting the hop to the last place.

use super::drive::Run;
use super::net::{Net, Place};
use crate::op::Pass;

/// Beginnings that are kept.
const WIDTH: usize = 8;

/// What a micro-batch may do.
pub(super) struct Rules<'a> {
    pub(super) net: &'a Net,
    /// Whether stages may be visited in another order.
    pub(super) swaps: bool,
    /// By stage, whether it must be visited.
    pub(super) is_forced: Vec<bool>,
    /// By stage, the only place at which it may be visited, if there is one.
    pub(super) only: Vec<Option<Place>>,
    /// How many of the stages that need not be visited must be all the same.
    pub(super) n_free: usize,
}

/// When each place is busy with forwards, in order.
pub(super) struct Timetable(Vec<Vec<(u64, u64)>>);

#[derive(Clone)]
struct Beginning {
    way: Vec<Place>,
    is_visited: Vec<bool>,
    n_free_left: usize,
    /// When its last forward ends.
    at: u64,
}

impl Timetable {
    /// The passes of `run` without those of `except`.
    pub(super) fn without(net: &Net, run: &Run, except: usize) -> Self {
        let busy = run.passes.iter().enumerate().map(|(place, passes)| {
            let others = passes.iter().filter(|&&(_, microbatch, _)| microbatch != except);
            let span = |&(pass, _, start): &(Pass, usize, u64)| {
                (start, start.saturating_add(net.time(place, pass)))
            };
            others.map(span).collect()
        });
        Self(busy.collect())
    }

    /// When a forward that comes to `place` at `from` ends.
    fn end_of(&self, net: &Net, place: Place, from: u64) -> u64 {
        let time = net.time(place, Pass::Forward);
        let busy = &self.0[place];
        let mut at = from;
        for &(start, end) in &busy[busy.partition_point(|&(_, end)| end <= from)..] {
            if at.saturating_add(time) <= start {
                break;
            }
            at = at.max(end);
        }
        at.saturating_add(time)
    }
}

/// Places that are looked at on the way, at most.
pub(super) fn n_looks(net: &Net) -> usize {
    WIDTH * net.middle().len() * net.devices.len()
}

/// Ways from `home`'s first place to its last, the most promising first.
pub(super) fn ways(rules: &Rules<'_>, table: &Timetable, home: &[Place]) -> Vec<Vec<Place>> {
    let net = rules.net;
    let (first, last) = (home[0], home[home.len() - 1]);
    if home.len() == 1 {
        return vec![vec![first]];
    }
    let mut beam = vec![Beginning {
        way: vec![first],
        is_visited: vec![false; net.n_stages()],
        n_free_left: rules.n_free,
        at: table.end_of(net, first, 0),
    }];
    let n_forced = rules.is_forced.iter().filter(|&&is_forced| is_forced).count();
    for _ in 0..n_forced + rules.n_free {
        let mut longer: Vec<(u64, Beginning)> = Vec::new();
        for beginning in &beam {
            for next in nexts(rules, beginning) {
                let here = *beginning.way.last().expect("it begins with one");
                let at =
                    table.end_of(net, next, beginning.at.saturating_add(net.delay(here, next)));
                let mut more = beginning.clone();
                more.way.push(next);
                more.is_visited[net.stages[next]] = true;
                more.n_free_left -= usize::from(!rules.is_forced[net.stages[next]]);
                more.at = at;
                longer.push((at.saturating_add(net.delay(next, last)), more));
            }
        }
        longer.sort_by_key(|(at, _)| *at);
        // The same stages and the same place: the soonest is enough.
        let mut kept: Vec<Beginning> = Vec::new();
        for (_, more) in longer {
            let is_same = |other: &Beginning| {
                other.way.last() == more.way.last() && other.is_visited == more.is_visited
            };
            if kept.len() < WIDTH && !kept.iter().any(is_same) {
                kept.push(more);
            }
        }
        beam = kept;
    }
    beam.into_iter().map(|beginning| [&beginning.way[..], &[last]].concat()).collect()
}

/// Where a beginning may go next such that what must be visited still can be.
fn nexts(rules: &Rules<'_>, beginning: &Beginning) -> Vec<Place> {
    let net = rules.net;
    let here = net.stages[*beginning.way.last().expect("it begins with one")];
    let may_visit = |stage: &usize| {
        let is_legal = rules.is_forced[*stage] || beginning.n_free_left > 0;
        if beginning.is_visited[*stage] || !is_legal {
            return false;
        }
        if rules.swaps {
            return true;
        }
        let is_open = |stage: usize| !rules.is_forced[stage];
        let later = (*stage + 1..net.middle().end).filter(|&stage| is_open(stage)).count();
        let left = beginning.n_free_left - usize::from(is_open(*stage));
        *stage > here && (here + 1..*stage).all(is_open) && left <= later
    };
    let stages = net.middle().filter(may_visit);
    let places = stages.flat_map(|stage| match rules.only[stage] {
        Some(place) => vec![place],
        None => net.places[stage].clone(),
    });
    places.collect()
}
