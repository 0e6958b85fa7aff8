//! Policy `auto`: the best grouping of devices into virtual workers that is found.
//!
//! HetPipe compares three fixed policies (Park et al. 2020, section on resource allocation); which
//! one wins depends on the model, the links and the memory. Here the caller's score decides, and
//! more is tried than these three:
//!
//! 1. `np`, `ed` and `hd`, where they are legal.
//! 2. If there are few enough of them: every way to group the devices into equally many for each
//!    virtual worker. The answer is then the best there is of these and the three policies.
//! 3. Else, from each of the three policies, and from devices dealt out equally to each number of
//!    virtual workers that divides them: swaps of two unlike devices between two virtual workers,
//!    the best first, for as long as one helps; then swaps around the best of those that have not
//!    been tried, until no more may be scored.
//!
//! Nothing is drawn at random, so the same question has the same answer.

use crate::allocate::{allocate, deal, well_formed};
use crate::arrange::classes;
use crate::splits::{Split, group_sizes, splits};
use crate::{AllocationError, Policy};
use cavalcade_units::DeviceId;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The best grouping found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The devices of each virtual worker.
    pub workers: Vec<Vec<DeviceId>>,
    /// Its score.
    pub score: f64,
    /// The fixed policy that it comes from, if one does.
    pub policy: Option<Policy>,
    /// How many groupings were scored.
    pub n_scored: usize,
    /// Whether every grouping into equally large virtual workers was scored.
    pub is_exact: bool,
}

/// No grouping can be had.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SearchError {
    /// The nodes are not well formed.
    #[error(transparent)]
    Nodes(#[from] AllocationError),
    /// None of those that were scored fits.
    #[error(
        "none of {n_scored} groupings of the devices fits; use smaller or fewer micro-batches, \
         devices with more memory, or {}",
        if *is_exact { "unequal virtual workers" } else { "a longer search" }
    )]
    NoneFits {
        /// How many were scored.
        n_scored: usize,
        /// Whether these are all with equally large virtual workers.
        is_exact: bool,
    },
}

/// The grouping of the devices of `nodes` with the least `score`.
///
/// `power` is the speed of a device in any unit; devices of the same `class` are alike in
/// everything that the score sees, which for unlike links includes where they are. `score(workers)`
/// is, for instance, the time of a sample; None, or no finite number, means that they do not fit.
/// It may not depend on the order of virtual workers, on that of the devices in one, or on which of
/// alike devices is where: no two groupings that differ only in these are both scored.
///
/// At most `most` groupings are scored, but always the three fixed policies. The answer is never
/// worse than any of these; on a tie the first is taken, so that a fixed policy stands unless
/// something better is found.
///
/// # Errors
/// The nodes are not well formed, or nothing that was scored fits.
pub fn search(
    nodes: &[Vec<DeviceId>],
    power: &dyn Fn(DeviceId) -> f64,
    class: &dyn Fn(DeviceId) -> u32,
    most: usize,
    score: &dyn Fn(&[Vec<DeviceId>]) -> Option<f64>,
) -> Result<Found, SearchError> {
    well_formed(nodes, power)?;
    let mut search = Search::new(nodes, class, most, score);
    let devices = nodes.concat();
    let mut starts = Vec::new();
    let fixed = [Policy::NodePartition, Policy::EqualDistribution, Policy::HybridDistribution];
    for policy in fixed {
        if let Ok(workers) = allocate(policy, nodes, power) {
            let split = search.split_of(&workers);
            search.try_one(&split, workers, Some(policy));
            starts.push(split);
        }
    }
    let counts: Vec<usize> = search.members.iter().map(Vec::len).collect();
    // Those that `starts` and `all` share are scored once; the sum of both is a bound.
    let all = splits(&counts, most.saturating_sub(search.scores.len()));
    let is_exact = all.is_some();
    if let Some(all) = all {
        for split in all {
            search.score(&split);
        }
    } else {
        for size in group_sizes(devices.len()) {
            let mut workers = vec![vec![]; devices.len() / size];
            deal(&devices, &mut workers, power);
            starts.push(search.split_of(&workers));
        }
        search.descend(&starts);
    }
    let n_scored = search.scores.len();
    let Some((score, workers, policy)) = search.best else {
        return Err(SearchError::NoneFits { n_scored, is_exact });
    };
    Ok(Found { workers, score, policy, n_scored, is_exact })
}

struct Search<'a> {
    /// The devices of each class.
    members: Vec<Vec<DeviceId>>,
    most: usize,
    score: &'a dyn Fn(&[Vec<DeviceId>]) -> Option<f64>,
    /// What was scored, groups in falling order; infinity for what does not fit.
    scores: BTreeMap<Split, f64>,
    best: Option<(f64, Vec<Vec<DeviceId>>, Option<Policy>)>,
}

impl<'a> Search<'a> {
    fn new(
        nodes: &[Vec<DeviceId>],
        class: &dyn Fn(DeviceId) -> u32,
        most: usize,
        score: &'a dyn Fn(&[Vec<DeviceId>]) -> Option<f64>,
    ) -> Self {
        let members = classes(&nodes.concat(), class);
        Self { members, most, score, scores: BTreeMap::new(), best: None }
    }

    /// How many devices of each class each virtual worker has, in falling order.
    fn split_of(&self, workers: &[Vec<DeviceId>]) -> Split {
        let counts = |worker: &Vec<DeviceId>| {
            let of = |members: &Vec<DeviceId>| {
                worker.iter().filter(|device| members.contains(device)).count()
            };
            self.members.iter().map(of).collect()
        };
        in_order(workers.iter().map(counts).collect())
    }

    /// The devices of each virtual worker.
    fn workers_of(&self, split: &Split) -> Vec<Vec<DeviceId>> {
        let mut left: Vec<&[DeviceId]> = self.members.iter().map(Vec::as_slice).collect();
        let mut worker = |counts: &Vec<usize>| {
            let mut devices = Vec::new();
            for (left, &n) in left.iter_mut().zip(counts) {
                let (taken, rest) = left.split_at(n);
                devices.extend_from_slice(taken);
                *left = rest;
            }
            devices
        };
        split.iter().map(&mut worker).collect()
    }

    /// The score of a split; None if it was not scored before and no more may be.
    fn score(&mut self, split: &Split) -> Option<f64> {
        if let Some(&known) = self.scores.get(split) {
            return Some(known);
        }
        let workers = (self.scores.len() < self.most).then(|| self.workers_of(split))?;
        Some(self.try_one(split, workers, None))
    }

    fn try_one(
        &mut self,
        split: &Split,
        workers: Vec<Vec<DeviceId>>,
        policy: Option<Policy>,
    ) -> f64 {
        if let Some(&known) = self.scores.get(split) {
            return known;
        }
        let fits = (self.score)(&workers).filter(|score| score.is_finite());
        let score = fits.unwrap_or(f64::INFINITY);
        self.scores.insert(split.clone(), score);
        if score < self.best.as_ref().map_or(f64::INFINITY, |(best, ..)| *best) {
            self.best = Some((score, workers, policy));
        }
        score
    }

    /// From each start, the best first, steps to the best split that is one swap away, until none
    /// is better; then the same around the best split that has not had its turn, over and over.
    /// None once no more may be scored.
    fn descend(&mut self, starts: &[Split]) -> Option<()> {
        let mut ranked = Vec::with_capacity(starts.len());
        for split in starts {
            ranked.push((self.score(split)?, split.clone()));
        }
        ranked.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut done = BTreeSet::new();
        for start in ranked {
            let mut next = Some(start);
            while let Some((score, split)) = next.take_if(|(_, split)| !done.contains(split)) {
                next = self.around(&split)?.filter(|&(other, _)| other < score);
                done.insert(split);
            }
        }
        while let Some(split) = self.best_not_in(&done) {
            self.around(&split)?;
            done.insert(split);
        }
        Some(())
    }

    /// The best of the splits that are one swap away; the inner None if there is no such split.
    fn around(&mut self, split: &Split) -> Option<Option<(f64, Split)>> {
        let mut best: Option<(f64, Split)> = None;
        for swapped in swaps(split) {
            let score = self.score(&swapped)?;
            if best.as_ref().is_none_or(|&(best, _)| score < best) {
                best = Some((score, swapped));
            }
        }
        Some(best)
    }

    fn best_not_in(&self, done: &BTreeSet<Split>) -> Option<Split> {
        let left = self.scores.iter().filter(|(split, _)| !done.contains(*split));
        left.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(split, _)| split.clone())
    }
}

/// The splits in which two groups have exchanged two unlike devices.
fn swaps(split: &Split) -> Vec<Split> {
    let n_classes = split[0].len();
    let mut swaps = Vec::new();
    for one in 0..split.len() {
        for other in one + 1..split.len() {
            for gives in 0..n_classes {
                for takes in (0..n_classes).filter(|&takes| takes != gives) {
                    if split[one][gives] > 0 && split[other][takes] > 0 {
                        let mut swapped = split.clone();
                        swapped[one][gives] -= 1;
                        swapped[other][gives] += 1;
                        swapped[one][takes] += 1;
                        swapped[other][takes] -= 1;
                        swaps.push(in_order(swapped));
                    }
                }
            }
        }
    }
    swaps
}

fn in_order(mut split: Split) -> Split {
    split.sort_by(|one, other| other.cmp(one));
    split
}
