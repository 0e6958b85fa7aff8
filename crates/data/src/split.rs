//! Training and validation tokens.
//!
//! ```text
//! blocks    0  1  2  .. 9  10  11 .. 29  30  31 ..      one in 20 is validation
//!           t  t  t     t  V   t     t   V   t
//! ```
//!
//! By blocks, and not the end of the text, so that both sets see all files. No token is in both.
//! The blocks of a set are joined: the window across a joint has one token whose past is from
//! elsewhere, as at the joint of two files.

use crate::{DataError, TokenSet};

/// How tokens are split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitRule {
    /// Share that is held out, above 0 and at most 0.5. One in `round(1 / fraction)` blocks is.
    pub fraction: f64,
    /// Tokens of a block, at least 1. A text too short to have a whole validation block is
    /// divided into smaller ones.
    pub block: usize,
}

impl Default for SplitRule {
    /// One in 20 blocks of 1024 tokens.
    fn default() -> Self {
        Self { fraction: 0.05, block: 1024 }
    }
}

/// Two sets of tokens without a common one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// To learn from.
    pub train: TokenSet,
    /// To measure with.
    pub validation: TokenSet,
}

impl Split {
    /// Splits `tokens`; each set then holds at least one window of `sequence` tokens and a target.
    /// Those to learn from stay in the buffer in which they came: a second one would be, for a
    /// small device, more than its training needs.
    ///
    /// # Errors
    /// The rule is out of range, or the tokens are too few.
    ///
    /// # Panics
    /// If `sequence` is zero.
    pub fn new(mut tokens: Vec<u32>, rule: SplitRule, sequence: usize) -> Result<Self, DataError> {
        let SplitRule { fraction, block } = rule;
        if !(fraction > 0.0 && fraction <= 0.5) {
            return Err(DataError::Fraction { found: fraction });
        }
        if block == 0 {
            return Err(DataError::NoBlock);
        }
        let period = (1.0 / fraction).round() as usize;
        let block = block.min(tokens.len() / period).max(1);
        let is_held_out = |at: usize| (at / block) % period == period / 2;
        let n_held_out = (0..tokens.len()).filter(|&at| is_held_out(at)).count();
        let mut validation = Vec::with_capacity(n_held_out);
        let mut at = 0;
        tokens.retain(|&token| {
            let is_kept = !is_held_out(at);
            if !is_kept {
                validation.push(token);
            }
            at += 1;
            is_kept
        });
        let split = Self { train: TokenSet::new(tokens), validation: TokenSet::new(validation) };
        split.train.check("training", sequence)?;
        split.validation.check("validation", sequence)?;
        Ok(split)
    }
}

#[cfg(test)]
mod tests {
    use super::{Split, SplitRule};
    use expect_test::expect;
    use proptest::prelude::*;

    fn tokens(n: u32) -> Vec<u32> {
        (0..n).collect()
    }

    #[test]
    fn every_kth_block_is_held_out() {
        let rule = SplitRule { fraction: 0.25, block: 3 };
        let split = Split::new(tokens(26), rule, 4).unwrap();
        assert_eq!(split.validation.tokens(), [6, 7, 8, 18, 19, 20]);
        assert_eq!(split.train.len(), 20);
    }

    #[test]
    fn what_is_learned_from_stays_where_it_came() {
        let tokens = tokens(3000);
        let buffer = tokens.as_ptr();
        let split = Split::new(tokens, SplitRule { fraction: 0.1, block: 16 }, 8).unwrap();
        assert_eq!(split.train.tokens().as_ptr(), buffer);
    }

    #[test]
    fn the_default_holds_out_a_twentieth() {
        let n = |n| Split::new(tokens(n), SplitRule::default(), 8).unwrap().validation.len();
        assert_eq!([n(1_024_000), n(100_000), n(20_480), n(1000)], [51_200, 5120, 1024, 50]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let message = |n, fraction, block| {
            Split::new(tokens(n), SplitRule { fraction, block }, 8).unwrap_err().to_string()
        };
        for fraction in [0.0, -0.1, 0.51, f64::NAN] {
            let expected = format!("a validation share of {fraction} is not above 0");
            assert!(message(1000, fraction, 8).starts_with(&expected));
        }
        assert!(message(1000, 0.1, 0).starts_with("a split into blocks of 0 tokens"));
        expect![
            "the text gives 5 validation tokens; a window of 8 tokens and the target of its last \
             need 9: use more text or a shorter context"
        ]
        .assert_eq(&message(100, 0.05, 1024));
        assert!(message(0, 0.05, 1024).starts_with("the text gives 0 training tokens"));
    }

    proptest! {
        #[test]
        fn each_token_is_in_one_set(n in 0_u32..3000, fraction in 1e-3..0.5, block in 1_usize..99) {
            if let Ok(split) = Split::new(tokens(n), SplitRule { fraction, block }, 1) {
                let (train, validation) = (split.train.tokens(), split.validation.tokens());
                prop_assert!(train.is_sorted() && validation.is_sorted());
                let mut both = [train, validation].concat();
                both.sort_unstable();
                prop_assert_eq!(both, tokens(n));
            }
        }
    }
}
