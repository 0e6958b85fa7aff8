//! The best order of a pipeline's devices, together with the best cut for it.
//!
//! ```text
//!   devices used, as a set     {}  -->  {V}  -->  {V,Q}  -->  {V,Q,R}  ...
//!   and the cut after them      0        3          5            9
//! ```
//!
//! HetPipe tries orders one by one. But what the later stages can reach depends on which devices
//! are left, on the last two of those that are used and on the cut, not on the order of all the
//! others. So the table is over sets, as in Held and Karp's rule for the travelling salesman
//! (1962): ten unlike devices have 3.6 million orders, but 1024 sets. Alike devices make it smaller
//! still, since a set only says how many of each class it has.
//!
//! As for a given order, a first pass finds the least possible time of the slowest stage and a
//! second one, among the orders and cuts that reach it, the least sum of all stages' times.

use crate::stage::{Place, StageTimes, ends, starts};
use cavalcade_units::Nanos;
use std::ops::Range;

/// The most entries that a table may have: 128 MiB, and some seconds to fill.
const MOST_ENTRIES: usize = 1 << 24;

/// No way to go on from here fits.
const NEVER: Nanos = Nanos(u64::MAX);

/// The best order.
pub(crate) struct Best {
    /// The class of each stage's device.
    pub(crate) classes: Vec<usize>,
    /// The time of the slowest stage.
    pub(crate) slowest: Nanos,
    /// The time of all stages.
    pub(crate) sum: Nanos,
}

/// The orders of `counts[class]` devices of each class.
pub(crate) struct Orders<'a> {
    times: &'a StageTimes,
    counts: &'a [usize],
    /// What one more device of a class adds to the number of a set. A set is the number whose
    /// digits say how many of each class it has.
    weights: Vec<usize>,
    n_sets: usize,
    n_stages: usize,
}

impl<'a> Orders<'a> {
    /// None if a table over them would be too large.
    pub(crate) fn new(times: &'a StageTimes, counts: &'a [usize]) -> Option<Self> {
        let mut weights = Vec::with_capacity(counts.len());
        let mut n_sets = 1usize;
        for &count in counts {
            weights.push(n_sets);
            n_sets = n_sets.checked_mul(count + 1)?;
        }
        let orders = Self { times, counts, weights, n_sets, n_stages: counts.iter().sum() };
        let states = orders.n_states().checked_mul(n_sets)?;
        (states <= MOST_ENTRIES).then_some(orders)
    }

    /// The order and cut with the least time of the slowest stage, of those with the least sum, of
    /// those the order with the first class as early as it can be, and so on. None if none fits.
    /// There are at least as many layers as devices. If the slowest stage is known to be possible
    /// in `known`, less is searched.
    pub(crate) fn best(&self, known: Option<Nanos>) -> Option<Best> {
        let fastest = self.fill(known.unwrap_or(NEVER), Nanos::max);
        let slowest = self.first(&fastest)?;
        drop(fastest);
        let shortest = self.fill(slowest, |own, later| own + later);
        let sum = self.first(&shortest).expect("the second pass has what the first one found");
        Some(Best { classes: self.read(&shortest, slowest, sum), slowest, sum })
    }

    /// Entries of the table for a set: class of the stage before, own class, own start.
    fn n_states(&self) -> usize {
        (self.counts.len() + 1) * self.counts.len() * self.times.n_layers
    }

    /// The entry for a stage after the devices of `used`, the last of them `before`.
    fn entry(&self, used: usize, before: Option<usize>, own: usize, start: usize) -> usize {
        let n_classes = self.counts.len();
        let before = before.unwrap_or(n_classes);
        used * self.n_states() + (before * n_classes + own) * self.times.n_layers + start
    }

    fn n_of(&self, set: usize, class: usize) -> usize {
        set / self.weights[class] % (self.counts[class] + 1)
    }

    /// Classes of which a device is not in `used`.
    fn left(&self, used: usize) -> impl Iterator<Item = usize> {
        let has_more = move |&class: &usize| self.n_of(used, class) < self.counts[class];
        (0..self.counts.len()).filter(has_more)
    }

    /// What the next device can be once those of `used` are placed: none after the last.
    fn next(&self, used: usize) -> Vec<Option<usize>> {
        let left: Vec<_> = self.left(used).map(Some).collect();
        if left.is_empty() { vec![None] } else { left }
    }

    /// What the last device of `used` can have been.
    fn last(&self, used: usize) -> Vec<Option<usize>> {
        let classes = 0..self.counts.len();
        let within: Vec<_> =
            classes.filter(|&class| self.n_of(used, class) > 0).map(Some).collect();
        if within.is_empty() { vec![None] } else { within }
    }

    /// The least cost of all stages that come after `used`, for each state. No stage may take
    /// longer than `most`.
    fn fill(&self, most: Nanos, join: impl Fn(Nanos, Nanos) -> Nanos) -> Vec<Nanos> {
        let mut best = vec![NEVER; self.n_sets * self.n_states()];
        for used in (0..self.n_sets - 1).rev() {
            let stage = (0..self.counts.len()).map(|class| self.n_of(used, class)).sum();
            for own in self.left(used) {
                let with_own = used + self.weights[own];
                for before in self.last(used) {
                    for after in self.next(with_own) {
                        let place = Place { stage, before, own, after };
                        for (range, time) in self.runs(place, most) {
                            let later = match after {
                                Some(after) => {
                                    best[self.entry(with_own, Some(own), after, range.end)]
                                }
                                None => Nanos::ZERO,
                            };
                            if later != NEVER {
                                let entry = &mut best[self.entry(used, before, own, range.start)];
                                *entry = join(time, later).min(*entry);
                            }
                        }
                    }
                }
            }
        }
        best
    }

    /// What a stage in this place can hold within `most`, and the time of each.
    fn runs(&self, place: Place, most: Nanos) -> impl Iterator<Item = (Range<usize>, Nanos)> {
        let (n_stages, n_layers) = (self.n_stages, self.times.n_layers);
        starts(place.stage, n_stages, n_layers).flat_map(move |start| {
            let ends = ends(place.stage, n_stages, n_layers).filter(move |&end| end > start);
            // More layers never take less.
            let ends = ends.take_while(move |&end| self.times.computes(place, start..end) <= most);
            ends.filter_map(move |end| {
                let time = self.times.time(place, start..end).filter(|&time| time <= most)?;
                Some((start..end, time))
            })
        })
    }

    /// The best cost of all stages.
    fn first(&self, table: &[Nanos]) -> Option<Nanos> {
        let costs = self.left(0).map(|own| table[self.entry(0, None, own, 0)]);
        costs.min().filter(|&cost| cost != NEVER)
    }

    /// The first of the orders whose stages take `sum` in all, and `most` at most each.
    fn read(&self, table: &[Nanos], most: Nanos, sum: Nanos) -> Vec<usize> {
        let mut own = self.left(0).find(|&own| table[self.entry(0, None, own, 0)] == sum);
        let (mut used, mut before, mut classes) = (0, None, Vec::new());
        // The least time of the stages so far, for each start of the next one.
        let mut so_far = vec![NEVER; self.times.n_layers];
        so_far[0] = Nanos::ZERO;
        while let Some(class) = own {
            let stage = classes.len();
            classes.push(class);
            used += self.weights[class];
            own = self.left(used).find(|&after| {
                let place = Place { stage, before, own: class, after: Some(after) };
                let mut reached = vec![NEVER; self.times.n_layers];
                for (range, time) in self.runs(place, most) {
                    if so_far[range.start] != NEVER {
                        let time = so_far[range.start] + time;
                        reached[range.end] = time.min(reached[range.end]);
                    }
                }
                let is_best = (0..self.times.n_layers).any(|end| {
                    let later = table[self.entry(used, Some(class), after, end)];
                    reached[end] != NEVER && later != NEVER && reached[end] + later == sum
                });
                if is_best {
                    so_far = reached;
                }
                is_best
            });
            before = Some(class);
        }
        classes
    }
}
