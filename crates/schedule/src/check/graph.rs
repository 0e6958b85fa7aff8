//! The dependence graph over all devices, and the proof that it has no cycle.
//!
//! A receive waits for its send; a collective finishes on all members once all have started; a
//! pull waits until all holders of its bucket have pushed the waves that it needs. Sends and pushes
//! are buffered: they wait for nobody.

use super::{ActionId, CheckError, CheckedSchedule};
use crate::op::Op;
use crate::tables::{BucketId, Schedule};
use cavalcade_units::ChunkId;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) n_predecessors: Vec<u32>,
    successor_start: Vec<u32>,
    successor: Vec<ActionId>,
    pub(super) ends: Vec<(ActionId, ActionId)>,
    pub(super) members: Vec<Vec<ActionId>>,
    /// Push and pull of every exchange.
    pub(super) exchanged: Vec<(ActionId, ActionId)>,
    /// Pushes, each with a pull that waits for it; ascending.
    served: Vec<(ActionId, ActionId)>,
}

impl Graph {
    pub(super) fn new(
        schedule: &Schedule,
        first_action: &[u32],
        edges: Vec<(ActionId, ActionId)>,
    ) -> Self {
        let n_actions = *first_action.last().expect("it begins with one entry") as usize;
        let mut n_predecessors = vec![0u32; n_actions];
        let mut successor_start = vec![0u32; n_actions + 1];
        for (earlier, later) in &edges {
            n_predecessors[later.idx()] += 1;
            successor_start[earlier.idx() + 1] += 1;
        }
        for idx in 0..n_actions {
            successor_start[idx + 1] += successor_start[idx];
        }
        let mut next = successor_start.clone();
        let mut successor = vec![ActionId(0); edges.len()];
        for (earlier, later) in edges {
            successor[next[earlier.idx()] as usize] = later;
            next[earlier.idx()] += 1;
        }
        let mut ends = vec![(ActionId(0), ActionId(0)); schedule.transfers.len()];
        let mut members = vec![Vec::new(); schedule.collectives.len()];
        let mut exchanged = vec![(ActionId(0), ActionId(0)); schedule.exchanges.len()];
        for (program, &first) in schedule.programs.iter().zip(first_action) {
            for (op_idx, op) in program.iter().enumerate() {
                let action = ActionId(first + op_idx as u32);
                match op {
                    Op::Send(id) => ends[id.idx()].0 = action,
                    Op::Recv(id) => ends[id.idx()].1 = action,
                    Op::Collective(id) => members[id.idx()].push(action),
                    Op::Push(id) => exchanged[id.idx()].0 = action,
                    Op::Pull(id) => exchanged[id.idx()].1 = action,
                    Op::Compute { .. }
                    | Op::Merge(_)
                    | Op::OptimizerStep { .. }
                    | Op::Offload { .. }
                    | Op::Prefetch { .. } => {}
                }
            }
        }
        let served = served(schedule, &exchanged);
        Self { n_predecessors, successor_start, successor, ends, members, exchanged, served }
    }

    /// The pushes that a pull waits for.
    pub(super) fn pushes_before(&self, pull: ActionId) -> impl Iterator<Item = ActionId> {
        self.served.iter().filter(move |pair| pair.1 == pull).map(|pair| pair.0)
    }

    /// The pulls that wait for a push.
    pub(super) fn pulls_after(&self, push: ActionId) -> impl Iterator<Item = ActionId> {
        let first = self.served.partition_point(|&(before, _)| before < push);
        self.served[first..].iter().take_while(move |pair| pair.0 == push).map(|pair| pair.1)
    }

    pub(super) fn successors(&self, action: ActionId) -> &[ActionId] {
        let start = self.successor_start[action.idx()] as usize;
        let end = self.successor_start[action.idx() + 1] as usize;
        &self.successor[start..end]
    }

    /// All actions in an order in which they can finish; members of a collective together.
    pub(super) fn finishing_order(
        &self,
        checked: &CheckedSchedule,
    ) -> Result<Vec<ActionId>, CheckError> {
        let n_actions = self.n_predecessors.len();
        let ops: Vec<Op> = checked.schedule.programs.iter().flatten().copied().collect();
        let mut missing = self.n_predecessors.clone();
        for &(_, recv) in &self.ends {
            missing[recv.idx()] += 1;
        }
        for (_, pull) in &self.served {
            missing[pull.idx()] += 1;
        }
        let mut absent: Vec<usize> = self.members.iter().map(Vec::len).collect();
        let mut ready: Vec<ActionId> =
            (0..n_actions as u32).map(ActionId).filter(|a| missing[a.idx()] == 0).collect();
        let mut order = Vec::with_capacity(n_actions);
        let mut release = |action: ActionId, ready: &mut Vec<ActionId>| {
            missing[action.idx()] -= 1;
            if missing[action.idx()] == 0 {
                ready.push(action);
            }
        };
        while let Some(action) = ready.pop() {
            let mut finish = |action: ActionId, ready: &mut Vec<ActionId>| {
                order.push(action);
                self.successors(action).iter().for_each(|&later| release(later, ready));
            };
            match ops[action.idx()] {
                Op::Collective(id) => {
                    absent[id.idx()] -= 1;
                    if absent[id.idx()] == 0 {
                        self.members[id.idx()].iter().for_each(|&a| finish(a, &mut ready));
                    }
                }
                Op::Send(id) => {
                    finish(action, &mut ready);
                    release(self.ends[id.idx()].1, &mut ready);
                }
                Op::Push(_) => {
                    finish(action, &mut ready);
                    self.pulls_after(action).for_each(|pull| release(pull, &mut ready));
                }
                _ => finish(action, &mut ready),
            }
        }
        if order.len() == n_actions {
            Ok(order)
        } else {
            let mut is_done = vec![false; n_actions];
            order.iter().for_each(|a| is_done[a.idx()] = true);
            let cycle = self.cycle(&ops, &is_done, &missing);
            let cycle = cycle.into_iter().map(|a| checked.describe(a)).collect();
            Err(CheckError::Deadlock { cycle })
        }
    }

    /// Follows "waits for" among the actions that never finish until one comes up again.
    fn cycle(&self, ops: &[Op], is_done: &[bool], missing: &[u32]) -> Vec<ActionId> {
        let n_actions = is_done.len();
        let mut waits_for: Vec<Option<ActionId>> = vec![None; n_actions];
        for earlier in (0..n_actions as u32).map(ActionId).filter(|a| !is_done[a.idx()]) {
            for later in self.successors(earlier) {
                waits_for[later.idx()] = Some(earlier);
            }
            if let Op::Send(id) = ops[earlier.idx()] {
                waits_for[self.ends[id.idx()].1.idx()] = Some(earlier);
            }
            for pull in self.pulls_after(earlier) {
                waits_for[pull.idx()] = Some(earlier);
            }
        }
        for members in &self.members {
            let late = members.iter().copied().find(|a| missing[a.idx()] > 0);
            for member in members.iter().filter(|a| missing[a.idx()] == 0 && !is_done[a.idx()]) {
                waits_for[member.idx()] = late;
            }
        }
        let mut at = (0..n_actions)
            .find(|&idx| !is_done[idx])
            .map(|idx| ActionId(idx as u32))
            .expect("the caller saw an unfinished action");
        let mut seen_at = vec![None; n_actions];
        let mut walk = Vec::new();
        loop {
            if let Some(start) = seen_at[at.idx()].replace(walk.len()) {
                walk.push(at);
                return walk.split_off(start);
            }
            walk.push(at);
            at = waits_for[at.idx()].expect("an action that never finishes waits for another one");
        }
    }
}

/// Which pull waits for which push: for the first of each holder that brings the waves it needs.
/// `exchanged` is the push and the pull of every exchange.
fn served(schedule: &Schedule, exchanged: &[(ActionId, ActionId)]) -> Vec<(ActionId, ActionId)> {
    // By bucket and holder, the last wave of each push.
    let mut pushes: BTreeMap<(BucketId, ChunkId), Vec<(u32, ActionId)>> = BTreeMap::new();
    for (entry, &(push, _)) in schedule.exchanges.iter().zip(exchanged) {
        pushes.entry((entry.bucket, entry.chunk)).or_default().push((entry.wave, push));
    }
    let mut served = Vec::new();
    for (entry, &(_, pull)) in schedule.exchanges.iter().zip(exchanged) {
        let least = entry.least();
        let of_bucket = (entry.bucket, ChunkId(0))..=(entry.bucket, ChunkId(u32::MAX));
        for (_, pushes) in pushes.range(of_bucket).filter(|_| least > 0) {
            let push = pushes.iter().find(|(wave, _)| wave + 1 >= least);
            served.extend(push.map(|&(_, push)| (push, pull)));
        }
    }
    served.sort_unstable();
    served
}
