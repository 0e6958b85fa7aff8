//! Small moves of single passes, as long as they shorten an order.

use super::line::{Line, Words};

/// How far a pass is moved at most.
const REACH: usize = 6;

/// `best` after all moves of one pass past its neighbors on a stage that let the order end earlier,
/// one at a time, until none is left or `passes_max` passes were run.
pub(super) fn improved(line: &Line, mut best: (u64, Words), passes_max: u64) -> (u64, Words) {
    let mut n_trials = passes_max / line.n_passes().max(1);
    let mut is_better = true;
    while is_better {
        is_better = false;
        for stage in 0..line.n_stages() {
            for (from, to) in moves(best.1[stage].len()) {
                let word = &mut best.1[stage];
                if word[from] == word[to] {
                    continue;
                }
                if n_trials == 0 {
                    return best;
                }
                n_trials -= 1;
                shift(word, from, to);
                match line.makespan(&best.1).filter(|&end| end < best.0) {
                    Some(end) => {
                        best.0 = end;
                        is_better = true;
                    }
                    None => shift(&mut best.1[stage], to, from),
                }
            }
        }
    }
    best
}

/// From where to where a pass of a word may go, near places first.
fn moves(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let ahead = (1..=REACH).flat_map(move |by| (by..len).map(move |at| (at - by, at)));
    // Next to each other, back is the same as ahead.
    ahead.flat_map(|(a, b)| [Some((a, b)), Some((b, a)).filter(|_| b - a > 1)]).flatten()
}

/// Moves the entry at `from` such that it is at `to`.
fn shift<T>(word: &mut [T], from: usize, to: usize) {
    match from < to {
        true => word[from..=to].rotate_left(1),
        false => word[to..=from].rotate_right(1),
    }
}
