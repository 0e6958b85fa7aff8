//! When everything happens, if every micro-batch goes its way: places work off what has come, one
//! pass at a time.

use super::net::{Net, Place};
use crate::op::Pass;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// How places work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habit {
    /// Whether a forward goes before a backward if both have come.
    pub(super) forward_first: bool,
    /// Whether backwards are split, weight parts done where nothing else has come. At the first
    /// place, where nobody waits for a gradient, they stay whole.
    pub(super) splits: bool,
}

/// One run of all micro-batches.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// When the last pass ends, and the sum of the ends of all micro-batches.
    pub(super) cost: (u64, u128),
    /// By place, its passes in order, with their start.
    pub(super) passes: Vec<Vec<(Pass, usize, u64)>>,
}

/// A pass of a micro-batch at the position of its way.
type Step = (Pass, usize, usize);

struct Drive<'a> {
    net: &'a Net,
    ways: &'a [Vec<Place>],
    habit: Habit,
    /// By place: forwards and backwards that have come, by micro-batch and position.
    forwards: Vec<BTreeSet<(usize, usize)>>,
    backwards: Vec<BTreeSet<(usize, usize)>>,
    /// By place, the weight parts to be done, by micro-batch.
    weights: Vec<BTreeSet<usize>>,
    is_busy: Vec<bool>,
    in_flight: Vec<usize>,
    /// Ends of passes at a place, and steps that arrive.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    run: Run,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Free(Place),
    Arrival(Pass, usize, usize),
}

/// Runs all micro-batches over their `ways`; none if places that are full wait for each other.
pub(super) fn drive(net: &Net, ways: &[Vec<Place>], habit: Habit) -> Option<Run> {
    let n_places = net.devices.len();
    let mut drive = Drive {
        net,
        ways,
        habit,
        forwards: vec![BTreeSet::new(); n_places],
        backwards: vec![BTreeSet::new(); n_places],
        weights: vec![BTreeSet::new(); n_places],
        is_busy: vec![false; n_places],
        in_flight: vec![0; n_places],
        events: BinaryHeap::new(),
        run: Run { cost: (0, 0), passes: vec![Vec::new(); n_places] },
    };
    for microbatch in 0..ways.len() {
        drive.events.push(Reverse((0, Event::Arrival(Pass::Forward, microbatch, 0))));
    }
    let mut touched = BTreeSet::new();
    while let Some(&Reverse((now, _))) = drive.events.peek() {
        while let Some(&Reverse((at, event))) = drive.events.peek() {
            if at > now {
                break;
            }
            drive.events.pop();
            touched.insert(drive.happen(event));
        }
        while let Some(place) = touched.pop_first() {
            drive.start(place, now);
        }
    }
    let n_begun: usize = drive.run.passes.iter().flatten().filter(|p| p.0 == Pass::Forward).count();
    let is_empty = drive.in_flight.iter().all(|&in_flight| in_flight == 0);
    let is_done = is_empty && n_begun == ways.iter().map(Vec::len).sum::<usize>();
    is_done.then_some(drive.run)
}

impl Drive<'_> {
    /// The place where it happens.
    fn happen(&mut self, event: Event) -> Place {
        match event {
            Event::Free(place) => {
                self.is_busy[place] = false;
                place
            }
            Event::Arrival(pass, microbatch, at) => {
                let place = self.ways[microbatch][at];
                let waiting = match pass {
                    Pass::Forward => &mut self.forwards,
                    _ => &mut self.backwards,
                };
                waiting[place].insert((microbatch, at));
                place
            }
        }
    }

    fn start(&mut self, place: Place, now: u64) {
        if self.is_busy[place] {
            return;
        }
        let Some((pass, microbatch, at)) = self.choose(place) else { return };
        let end = now.saturating_add(self.net.time(place, pass));
        self.is_busy[place] = true;
        self.run.passes[place].push((pass, microbatch, now));
        self.run.cost.0 = self.run.cost.0.max(end);
        self.events.push(Reverse((end, Event::Free(place))));
        let way = &self.ways[microbatch];
        let next = match pass {
            Pass::Forward if at + 1 < way.len() => Some((Pass::Forward, at + 1)),
            Pass::Forward => Some((Pass::Backward, at)),
            Pass::BackwardWeight => None,
            _ => at.checked_sub(1).map(|before| (Pass::Backward, before)),
        };
        if let Some((pass, next)) = next {
            let arrival = end.saturating_add(self.net.delay(place, way[next]));
            self.events.push(Reverse((arrival, Event::Arrival(pass, microbatch, next))));
        } else {
            self.run.cost.1 += u128::from(end);
        }
    }

    /// Takes a step off what waits at `place`. The earliest micro-batch goes first.
    fn choose(&mut self, place: Place) -> Option<Step> {
        let is_room = self.in_flight[place] < self.net.cap;
        let forward = self.forwards[place].first().copied().filter(|_| is_room);
        let backward = self.backwards[place].first().copied();
        let takes_forward = backward.is_none() || self.habit.forward_first;
        if let Some((microbatch, at)) = forward.filter(|_| takes_forward) {
            self.forwards[place].remove(&(microbatch, at));
            self.in_flight[place] += 1;
            return Some((Pass::Forward, microbatch, at));
        }
        let Some((microbatch, at)) = backward else {
            let microbatch = self.weights[place].pop_first()?;
            self.in_flight[place] -= 1;
            return Some((Pass::BackwardWeight, microbatch, 0));
        };
        self.backwards[place].remove(&(microbatch, at));
        if self.habit.splits && at > 0 {
            self.weights[place].insert(microbatch);
            return Some((Pass::BackwardInput, microbatch, at));
        }
        self.in_flight[place] -= 1;
        Some((Pass::Backward, microbatch, at))
    }
}
