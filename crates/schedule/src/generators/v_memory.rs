//! V-Half and V-Min (Qi et al., NeurIPS 2024, "Pipeline Parallelism with Controllable Memory"): the
//! pipeline goes down the devices and up again as in ZB-V, in a half or a third of the memory.
//!
//! A *building block* says in which slot each device does each pass of the first micro-batch, all
//! passes taken as equally long; the block of the next micro-batch follows six slots later. How
//! long a stash lives is then how far apart the block's passes are, and no two passes meet if a
//! device's six are all different modulo six.
//!
//! | kind | slots from device to device: forth, back, gradients forth, back | stashes | idle time |
//! |---|---|---|---|
//! | `v-min` | 1, 1, 1, 1 | `p/3` and up to 2 | about 2/3 of 1F1B's |
//! | `v-half` | 2, 1, 2, 1 | `p/2` and up to 2 | about 1/2 of 1F1B's |
//!
//! At the turns the block waits as few slots as it can. Weight backwards take the two slots that
//! are left. At the end of the step, after a device's last forward, an input backward goes first
//! and the weight backwards fill the slots in which there is none. On one or two devices both
//! kinds are `v-min`, which then holds less and waits no longer.

use super::Kind;
use super::folded::FoldedPass;
use super::walk::Walk;
use crate::op::Pass;
use std::collections::VecDeque;

/// Passes of a micro-batch on a device, so also the slots from one block to the next.
const PERIOD: u32 = 6;

/// What a micro-batch does on its way: down the devices and up again, twice.
const LEGS: [(Pass, usize); 4] =
    [(Pass::Forward, 0), (Pass::Forward, 1), (Pass::BackwardInput, 1), (Pass::BackwardInput, 0)];

/// The passes of every device.
pub(super) fn programs(kind: Kind, n_devices: u32, n_microbatches: u32) -> Vec<Vec<FoldedPass>> {
    let hops = if kind == Kind::VHalf && n_devices > 2 { [2, 1, 2, 1] } else { [1; 4] };
    let starts = block(hops, n_devices);
    let repeated = starts.iter().map(|starts| repeated(starts, n_microbatches));
    drained(repeated.collect(), n_microbatches)
}

/// By device, the slots of the passes of [`LEGS`] over the first micro-batch.
fn block(hops: [u32; 4], n_devices: u32) -> Vec<[u32; 4]> {
    let waits = (3..=3 * PERIOD).flat_map(|sum| {
        let firsts = (1..=PERIOD).flat_map(|a| (1..=PERIOD).map(move |b| (a, b)));
        firsts.filter_map(move |(a, b)| Some([a, b, sum.checked_sub(a + b).filter(|&c| c > 0)?]))
    });
    let mut blocks = waits.map(|waits| {
        (0..n_devices).map(|rank| starts(hops, waits, n_devices, rank)).collect::<Vec<_>>()
    });
    let block = blocks.find(|block| block.iter().all(|starts| free(starts).len() == 2));
    block.expect("residues can be kept apart for these hops: the tests try all sizes")
}

/// The slots of one device, if the block waits for `waits` slots at its turns.
fn starts(hops: [u32; 4], waits: [u32; 3], n_devices: u32, rank: u32) -> [u32; 4] {
    let way = n_devices - 1;
    let mut slot = 0;
    std::array::from_fn(|leg| {
        let walked = if leg % 2 == 0 { rank } else { way - rank };
        let own = slot + hops[leg] * walked;
        slot += hops[leg] * way + waits.get(leg).copied().unwrap_or(0);
        own
    })
}

/// The slots of a period that these passes leave free.
fn free(starts: &[u32; 4]) -> Vec<u32> {
    (0..PERIOD).filter(|&slot| starts.iter().all(|start| start % PERIOD != slot)).collect()
}

/// All passes of a device in the order of their slots.
fn repeated(starts: &[u32; 4], n_microbatches: u32) -> Vec<FoldedPass> {
    let mut free = free(starts);
    let mut passes: Vec<(u32, Pass, usize)> = Vec::new();
    for ((pass, chunk), &start) in LEGS.into_iter().zip(starts) {
        passes.push((start, pass, chunk));
        if pass == Pass::BackwardInput {
            let wait = |slot: u32| (slot + 2 * PERIOD - 1 - start % PERIOD) % PERIOD;
            free.sort_by_key(|&slot| wait(slot));
            let slot = start + 1 + wait(free.remove(0));
            passes.push((slot, Pass::BackwardWeight, chunk));
        }
    }
    let mut all: Vec<_> = (0..n_microbatches)
        .flat_map(|m| {
            passes.iter().map(move |&(start, pass, chunk)| (start + PERIOD * m, pass, chunk, m))
        })
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, pass, chunk, m)| (pass, chunk, m)).collect()
}

/// A device's passes that are still to come: all up to its last forward, then backwards.
struct Rest {
    to_last_forward: VecDeque<FoldedPass>,
    inputs: VecDeque<FoldedPass>,
    weights: VecDeque<FoldedPass>,
}

impl Rest {
    fn new(mut program: Vec<FoldedPass>) -> Self {
        let last = program.iter().rposition(|&(pass, ..)| pass == Pass::Forward);
        let drain = program.split_off(last.map_or(0, |at| at + 1));
        let of = |wanted| drain.iter().copied().filter(move |&(pass, ..)| pass == wanted).collect();
        Self {
            to_last_forward: program.into(),
            inputs: of(Pass::BackwardInput),
            weights: of(Pass::BackwardWeight),
        }
    }

    /// Takes what the device does in a slot in which `is_ready` says what it can do.
    fn take(&mut self, is_ready: impl Fn(&FoldedPass) -> bool) -> Option<FoldedPass> {
        if !self.to_last_forward.is_empty() {
            return self.to_last_forward.pop_front_if(|pass| is_ready(pass));
        }
        self.inputs.pop_front_if(|pass| is_ready(pass)).or_else(|| {
            let at = self.weights.iter().position(is_ready)?;
            self.weights.remove(at)
        })
    }
}

/// The programs with their ends put in order, by running them slot by slot.
fn drained(programs: Vec<Vec<FoldedPass>>, n_microbatches: u32) -> Vec<Vec<FoldedPass>> {
    let mut walk = Walk::new(programs.len() as u32, n_microbatches);
    let mut done = vec![Vec::new(); programs.len()];
    let mut rests: Vec<Rest> = programs.into_iter().map(Rest::new).collect();
    loop {
        let ranks = (0..).zip(&mut rests);
        let slot: Vec<_> =
            ranks.map(|(rank, rest)| rest.take(|p| is_ready(&walk, rank, p))).collect();
        if slot.iter().all(Option::is_none) {
            return done;
        }
        for (done, pass) in done.iter_mut().zip(slot) {
            if let Some((pass, _, microbatch)) = pass
                && pass != Pass::BackwardWeight
            {
                walk.advance(microbatch);
            }
            done.extend(pass);
        }
    }
}

/// Whether device `rank` can do a pass: its micro-batch has come here, or the input backward
/// of its weights is done.
fn is_ready(walk: &Walk, rank: u32, &(pass, chunk, microbatch): &FoldedPass) -> bool {
    let leg = |wanted| LEGS.iter().position(|&leg| leg == (wanted, chunk));
    match pass {
        Pass::BackwardWeight => {
            leg(Pass::BackwardInput).is_some_and(|leg| walk.is_past(leg, rank, microbatch))
        }
        _ => leg(pass).is_some_and(|leg| walk.is_at(leg, rank, microbatch)),
    }
}
