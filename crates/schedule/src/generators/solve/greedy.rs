//! Orders by simulation: at every moment the stage that can end something soonest takes, of what
//! it could start by then, what the rule likes best.
//!
//! A rule says how many micro-batches a stage begins with before it turns to backwards, and when
//! weight backwards come: as soon as they can, or where nothing else can start. Waiting for a
//! better pass is allowed (Giffler and Thompson's active schedules) or not (no stage is idle while
//! it could work).

use super::line::{Line, Partial, Words};
use crate::op::Pass;
use std::collections::BTreeSet;

/// How a stage chooses.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// By stage, how many micro-batches it begins with: with fewer in flight a forward goes first.
    pub(super) ahead: Vec<u32>,
    /// Whether a weight backward follows its input backward at once; else it fills gaps.
    pub(super) is_whole: bool,
    /// Whether a stage may wait for what comes before its best pass could end.
    pub(super) waits: bool,
}

/// The splits that a stage has on offer.
pub(super) const PASSES: [Pass; 3] = [Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight];

/// The rules that are tried, the most promising first.
pub(super) fn rules(line: &Line) -> Vec<Rule> {
    let p = line.n_stages() as u32;
    let left: Vec<u32> = (0..p).map(|s| p - s).collect();
    // As many as fit between a stage's forward and the return of its gradient.
    let covered = (0..line.n_stages()).map(|s| {
        let slot = line.stages.iter().map(|t| t.forward + t.backward).max().unwrap_or(0).max(1);
        let fit = (line.way_back(s) + line.stages[s].backward_input) / slot + 1;
        u32::try_from(fit).unwrap_or(u32::MAX)
    });
    let covered: Vec<u32> = covered.collect();
    let more = |ahead: &[u32], extra: u32| ahead.iter().map(|k| k.saturating_add(extra)).collect();
    let aheads: Vec<Vec<u32>> = vec![
        covered.clone(),
        more(&covered, 1),
        vec![u32::MAX; p as usize],
        left.clone(),
        left.iter().map(|k| (2 * k).saturating_sub(1)).collect(),
        more(&covered, 2),
        more(&left, 1),
        vec![1; p as usize],
    ];
    let forms = [(false, true), (false, false), (true, true), (true, false)];
    let rules = aheads.into_iter().flat_map(|ahead| {
        forms.map(|(is_whole, waits)| Rule { ahead: ahead.clone(), is_whole, waits })
    });
    rules.collect()
}

/// The order by `rule`.
pub(super) fn order(line: &Line, rule: &Rule) -> Words {
    let mut partial = Partial::new(line);
    let mut words: Words = vec![Vec::new(); line.n_stages()];
    let mut chosen: Vec<Option<(u64, Pass, u64)>> = vec![None; line.n_stages()];
    let mut queue = BTreeSet::new();
    let renew = |stage: usize,
                 partial: &Partial<'_>,
                 chosen: &mut Vec<Option<(u64, Pass, u64)>>,
                 queue: &mut BTreeSet<(u64, usize)>| {
        if let Some((key, ..)) = chosen[stage] {
            queue.remove(&(key, stage));
        }
        chosen[stage] = choose(partial, stage, rule);
        queue.extend(chosen[stage].map(|(key, ..)| (key, stage)));
    };
    renew(0, &partial, &mut chosen, &mut queue);
    while let Some(&(_, stage)) = queue.first() {
        let (_, pass, start) = chosen[stage].expect("what is queued was chosen");
        partial.take(stage, pass, start);
        words[stage].push(pass);
        for near in stage.saturating_sub(1)..(stage + 2).min(line.n_stages()) {
            renew(near, &partial, &mut chosen, &mut queue);
        }
    }
    words
}

/// What a stage would take next and when, after the key by which stages take turns.
fn choose(partial: &Partial<'_>, stage: usize, rule: &Rule) -> Option<(u64, Pass, u64)> {
    let line = partial.line;
    let offers = PASSES.map(|pass| partial.start_of(stage, pass).map(|start| (pass, start)));
    let offers = offers.iter().flatten();
    let key = |&(pass, start): &(Pass, u64)| match rule.waits {
        true => start + line.time(stage, pass),
        false => start,
    };
    let soonest = offers.clone().map(key).min()?;
    let is_in_time = |start: u64| start < soonest || start == soonest && !rule.waits;
    let done = &partial.done[stage];
    let in_flight = done.forward.len() - done.weight.len();
    let is_hungry = in_flight < rule.ahead[stage].min(line.cap) as usize;
    let rank = |pass: Pass| match pass {
        Pass::BackwardWeight if rule.is_whole => 0,
        Pass::BackwardWeight => 3,
        Pass::Forward => 2 - u32::from(is_hungry),
        _ => 1 + u32::from(is_hungry),
    };
    let best = offers
        .filter(|(pass, start)| is_in_time(*start) || line.time(stage, *pass) == 0)
        .min_by_key(|(pass, start)| (rank(*pass), *start));
    best.map(|&(pass, start)| (soonest, pass, start))
}
