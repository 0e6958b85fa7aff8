//! A row of tokens, and the batches that are cut from it.

use crate::{DataError, SampleOrder};

/// Tokens in their order, all of one set (training or validation).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet {
    tokens: Vec<u32>,
}

/// Some windows of tokens, and for each token the one that follows.
///
/// Both are `batch * sequence` long, window by window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The input.
    pub tokens: Vec<u32>,
    /// The token after each input token.
    pub targets: Vec<u32>,
    /// Number of windows.
    pub batch: usize,
    /// Tokens of a window.
    pub sequence: usize,
}

impl TokenSet {
    /// A set of these tokens.
    pub fn new(tokens: Vec<u32>) -> Self {
        Self { tokens }
    }

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether the set, called `set` in the message, holds a window of `sequence` tokens.
    ///
    /// # Errors
    /// It is too short, with the numbers.
    pub fn check(&self, set: &'static str, sequence: usize) -> Result<(), DataError> {
        if self.n_windows(sequence) > 0 {
            Ok(())
        } else {
            Err(DataError::TooShort { set, n_tokens: self.len(), sequence })
        }
    }

    /// The order in which training sees windows of `sequence` tokens.
    ///
    /// # Panics
    /// If the set holds no such window; [`TokenSet::check`] tells before.
    pub fn order(&self, sequence: usize, seed: u64) -> SampleOrder {
        SampleOrder::new(self.len(), sequence, seed)
    }

    /// The samples `first..first + n` of `order`.
    ///
    /// # Panics
    /// If the order is of a set of another length.
    pub fn batch(&self, order: &SampleOrder, first: u64, n: usize) -> Batch {
        assert_eq!(order.n_tokens(), self.len(), "the order is that of another set");
        let starts = (first..first + n as u64).map(|index| order.sample(index));
        self.cut(starts, n, order.sequence())
    }

    /// How many windows of `sequence` tokens fit side by side.
    ///
    /// # Panics
    /// If `sequence` is zero.
    pub fn n_windows(&self, sequence: usize) -> usize {
        assert!(sequence > 0, "a window has at least one token");
        self.len().saturating_sub(1) / sequence
    }

    /// The windows `first..first + n` in the order of the tokens, without overlap: validation.
    ///
    /// # Panics
    /// If there are not so many: see [`TokenSet::n_windows`].
    pub fn windows(&self, sequence: usize, first: usize, n: usize) -> Batch {
        let n_windows = self.n_windows(sequence);
        assert!(first + n <= n_windows, "windows {first} and {n} on, of {n_windows}");
        self.cut((first..first + n).map(|window| window * sequence), n, sequence)
    }

    fn cut(&self, starts: impl Iterator<Item = usize>, batch: usize, sequence: usize) -> Batch {
        let mut tokens = Vec::with_capacity(batch * sequence);
        let mut targets = Vec::with_capacity(batch * sequence);
        for start in starts {
            tokens.extend_from_slice(&self.tokens[start..start + sequence]);
            targets.extend_from_slice(&self.tokens[start + 1..start + sequence + 1]);
        }
        Batch { tokens, targets, batch, sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, TokenSet};
    use expect_test::expect;
    use proptest::prelude::*;

    /// Tokens that are their own positions.
    fn positions(n: u32) -> TokenSet {
        TokenSet::new((0..n).collect())
    }

    #[test]
    fn a_batch_is_the_windows_of_its_samples() {
        let set = positions(1000);
        let order = set.order(10, 5);
        let batch = set.batch(&order, 40, 3);
        assert_eq!((batch.batch, batch.sequence, batch.tokens.len()), (3, 10, 30));
        for (window, index) in batch.tokens.chunks(10).zip(40..) {
            let start = order.sample(index) as u32;
            assert!(window.iter().copied().eq(start..start + 10));
        }
    }

    #[test]
    fn validation_windows_lie_side_by_side() {
        let set = positions(31);
        assert_eq!(set.n_windows(10), 3);
        let batch = set.windows(10, 0, 3);
        assert!(batch.tokens.iter().copied().eq(0..30));
        assert!(batch.targets.iter().copied().eq(1..31));
        assert_eq!(set.windows(10, 2, 1).tokens, batch.tokens[20..]);
        assert_eq!(positions(30).n_windows(10), 2);
        assert_eq!(positions(0).n_windows(10), 0);
    }

    #[test]
    fn windows_past_the_end_are_refused() {
        let panic = std::panic::catch_unwind(|| positions(30).windows(10, 2, 1)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("of 2"), "{message}");
    }

    #[test]
    fn an_order_of_another_set_is_refused() {
        let panic =
            std::panic::catch_unwind(|| positions(30).batch(&positions(31).order(10, 0), 0, 1))
                .unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("another set"), "{message}");
    }

    #[test]
    fn a_set_without_a_window_is_told() {
        assert!(positions(11).check("training", 10).is_ok());
        expect![
            "the text gives 10 training tokens; a window of 10 tokens and the target of its last \
             need 11: use more text or a shorter context"
        ]
        .assert_eq(&positions(10).check("training", 10).unwrap_err().to_string());
    }

    proptest! {
        #[test]
        fn ranks_may_share_a_batch_in_any_way(
            seed: u64, first in 0_u64..5000, shares in prop::collection::vec(0_usize..7, 1..5),
        ) {
            let set = positions(777);
            let order = set.order(16, seed);
            let n = shares.iter().sum();
            let whole = set.batch(&order, first, n);
            let mut joined =
                Batch { tokens: vec![], targets: vec![], batch: 0, sequence: whole.sequence };
            for share in shares {
                // A rank makes its order itself.
                let own = set.batch(&set.order(16, seed), first + joined.batch as u64, share);
                joined.tokens.extend(own.tokens);
                joined.targets.extend(own.targets);
                joined.batch += own.batch;
            }
            prop_assert_eq!(&joined, &whole);
            let follows = whole.tokens.iter().zip(&whole.targets).all(|(a, b)| a + 1 == *b);
            prop_assert!(follows);
        }
    }
}
