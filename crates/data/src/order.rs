//! The one deterministic order in which training samples are seen.
//!
//! ```text
//! tokens   0 ........................................................ n
//! epoch 0  --phase--|  window 0  |  window 1  |  ...  |  window W-1  |
//!          sample i of the epoch is window permutation(i)
//! ```
//!
//! A pure function of (seed, index): no state, nothing to save but the index reached, and any rank
//! can ask for any index. Each epoch sees each of its windows once, in an order of its own
//! ([`crate::permutation`]), and shifts all windows by a phase of its own, so that what a window's
//! first token sees of its past differs from epoch to epoch.
//!
//! The number of windows is the same in every epoch: the phase ranges over exactly the tokens that
//! are then left. Stability: a change of this order changes every training run; the goldens below
//! are there to notice it.

use crate::permutation::{KeyStream, Permutation};

/// Maps an index over the whole run to where its window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleOrder {
    n_tokens: u64,
    sequence: u64,
    seed: u64,
}

impl SampleOrder {
    /// The order over `n_tokens` tokens, in windows of `sequence` tokens and the target of their
    /// last.
    ///
    /// # Panics
    /// If `sequence` is zero or there are not `sequence + 1` tokens.
    pub fn new(n_tokens: usize, sequence: usize, seed: u64) -> Self {
        assert!(sequence > 0, "a window has at least one token");
        assert!(n_tokens > sequence, "{n_tokens} tokens hold no window of {sequence} and a target");
        Self { n_tokens: n_tokens as u64, sequence: sequence as u64, seed }
    }

    /// Windows of an epoch, at least one.
    pub fn windows_per_epoch(&self) -> u64 {
        // One less than fit, so that there is room for any phase below `sequence`.
        (self.n_tokens / self.sequence).saturating_sub(1).max(1)
    }

    /// The epoch of a sample, from 0.
    pub fn epoch(&self, global_index: u64) -> u64 {
        global_index / self.windows_per_epoch()
    }

    /// The first token of sample `global_index`. Its window and last target are within the tokens.
    pub fn sample(&self, global_index: u64) -> usize {
        let n_windows = self.windows_per_epoch();
        let mut keys = KeyStream::new(self.seed, self.epoch(global_index));
        let n_phases = self.n_tokens - n_windows * self.sequence;
        let phase = keys.below(n_phases);
        let permutation = Permutation::new(n_windows, &mut keys);
        let window = permutation.apply(global_index % n_windows);
        usize::try_from(phase + window * self.sequence).expect("below the number of tokens")
    }

    /// Tokens that the order is over.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens as usize
    }

    /// Tokens of a window.
    pub fn sequence(&self) -> usize {
        self.sequence as usize
    }
}

#[cfg(test)]
mod tests {
    use super::SampleOrder;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn golden(order: SampleOrder, expected: Expect) {
        let starts = |from: u64| (from..from + 6).map(|i| order.sample(i)).collect::<Vec<_>>();
        expected.assert_eq(&format!("{:?} {:?}", starts(0), starts(1_000_000)));
    }

    #[test]
    fn the_order_never_changes() {
        golden(
            SampleOrder::new(1000, 10, 0),
            expect!["[973, 173, 773, 503, 603, 353] [699, 109, 269, 69, 329, 549]"],
        );
        golden(
            SampleOrder::new(1000, 10, 1),
            expect!["[954, 654, 714, 324, 854, 574] [964, 724, 194, 574, 524, 4]"],
        );
        golden(
            SampleOrder::new(1_000_000, 128, 0),
            expect![
                "[258496, 312128, 32064, 800704, 91968, 781376] [238119, 679719, 781991, 387239, 697767, 66087]"
            ],
        );
        golden(SampleOrder::new(11, 10, 7), expect!["[0, 0, 0, 0, 0, 0] [0, 0, 0, 0, 0, 0]"]);
    }

    #[test]
    fn phases_reach_the_first_and_the_last_token() {
        let order = SampleOrder::new(25, 10, 3);
        let starts: BTreeSet<usize> = (0..2000).map(|index| order.sample(index)).collect();
        assert!(starts.into_iter().eq(0..=14));
    }

    #[test]
    fn too_few_tokens_are_refused() {
        let panic = std::panic::catch_unwind(|| SampleOrder::new(10, 10, 0)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("10 tokens hold no window of 10 and a target"), "{message}");
    }

    proptest! {
        #[test]
        fn an_epoch_sees_each_window_once(
            sequence in 1_usize..40, more in 0_usize..2000, seed: u64, epoch in 0_u64..1 << 40,
        ) {
            let order = SampleOrder::new(sequence + 1 + more, sequence, seed);
            let n_windows = order.windows_per_epoch();
            let first = epoch * n_windows;
            prop_assert_eq!(order.epoch(first), epoch);
            prop_assert_eq!(order.epoch(first + n_windows), epoch + 1);
            let mut starts: Vec<usize> =
                (first..first + n_windows).map(|index| order.sample(index)).collect();
            starts.sort_unstable();
            // Side by side without gap or overlap, and within the tokens with their targets.
            prop_assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == sequence));
            prop_assert!(starts[starts.len() - 1] + sequence < order.n_tokens());
            // At most a window at each end is left out.
            prop_assert!(order.n_tokens() - starts.len() * sequence < 2 * sequence + 1);
        }
    }
}
