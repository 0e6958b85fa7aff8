//! Every cut there is, for tests that compare with all of them.

use std::iter;
use std::ops::Range;

/// Every way to cut `start..n_layers` into `n_stages` non-empty runs.
pub(crate) fn all_cuts(start: u32, n_layers: u32, n_stages: usize) -> Vec<Vec<Range<u32>>> {
    if n_stages == 1 {
        return if start < n_layers { vec![iter::once(start..n_layers).collect()] } else { vec![] };
    }
    let mut all = Vec::new();
    for end in start + 1..n_layers {
        for rest in all_cuts(end, n_layers, n_stages - 1) {
            all.push(iter::once(start..end).chain(rest).collect());
        }
    }
    all
}
