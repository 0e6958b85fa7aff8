//! Which pipeline takes how many micro-batches of a step.
//!
//! Pipelines run side by side and a step ends with the last of them, so a pipeline twice as fast
//! takes about twice the micro-batches. "About" is what this file makes exact.

use cavalcade_units::Nanos;

/// What a pipeline's share of a step costs: `m` micro-batches take `fill + (m - 1) * slowest`,
/// since the first one passes every stage and each further one waits for the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Time of the slowest stage for one micro-batch, forward and backward.
    pub slowest: Nanos,
    /// Time of all stages for the first micro-batch, forward and backward.
    pub fill: Nanos,
}

impl Shares {
    /// When a share of `microbatches`, at least one, is finished.
    fn finish(&self, microbatches: u32) -> Nanos {
        self.fill + self.slowest * u64::from(microbatches - 1)
    }
}

/// Shares of `total` micro-batches, at least one for each pipeline, whose largest finish time is
/// the least possible. Each micro-batch goes to the pipeline that finishes it first, the earlier
/// pipeline on a tie.
///
/// Why that is exact: let `f(i, k)` be the finish time of `k` micro-batches on pipeline `i`. It
/// does not fall as `k` grows, so a bound can be met exactly when every `f(i, 1)` and at least
/// `total - n` of the values `f(i, k)` with `k >= 2` are within it. The greedy rule takes the
/// `total - n` smallest of those values, so the largest one it takes is the least possible.
///
/// # Panics
/// If there is no pipeline, or there are fewer micro-batches than pipelines.
pub fn shares(pipelines: &[Shares], total: u32) -> Vec<u32> {
    assert!(!pipelines.is_empty(), "there is a pipeline to take the micro-batches");
    let left = usize::try_from(total).ok().and_then(|total| total.checked_sub(pipelines.len()));
    let left = left.expect("there is a micro-batch for each pipeline");
    let mut shares = vec![1; pipelines.len()];
    for _ in 0..left {
        let first = (0..pipelines.len()).min_by_key(|&i| pipelines[i].finish(shares[i] + 1));
        shares[first.expect("there is a pipeline")] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::{Shares, shares};
    use cavalcade_units::Nanos;
    use proptest::prelude::*;

    /// Whale (Jia et al., USENIX ATC 2022): of two devices one is `r` times as fast as the other.
    /// Equal shares waste what it could do; shares by speed are `(1 + r) / 2` times as fast.
    #[test]
    fn shares_by_speed_are_faster_than_equal_ones_by_whales_law() {
        for ratio in 1..=8u32 {
            let slow = u64::from(ratio) * 100;
            let both = pipelines(&[(100, 100), (slow, slow)]);
            let total = 2 * (1 + ratio) * 3;
            let by_speed = shares(&both, total);
            let finish = |shares: &[u32]| {
                both.iter().zip(shares).map(|(one, &n)| one.finish(n).0).max().expect("two")
            };
            let (equal, best) = (finish(&[total / 2; 2]), finish(&by_speed));
            assert_eq!(2 * equal, best * u64::from(1 + ratio), "{ratio}: {by_speed:?}");
        }
    }

    fn pipelines(costs: &[(u64, u64)]) -> Vec<Shares> {
        let pipeline = |&(slowest, fill)| Shares { slowest: Nanos(slowest), fill: Nanos(fill) };
        costs.iter().map(pipeline).collect()
    }

    /// The least finish time of any split of `total` over `pipelines`.
    fn least(pipelines: &[Shares], total: u32) -> Option<Nanos> {
        let (first, rest) = pipelines.split_first()?;
        if rest.is_empty() {
            return (total > 0).then(|| first.finish(total));
        }
        let splits = (1..total).filter_map(|m| Some(first.finish(m).max(least(rest, total - m)?)));
        splits.min()
    }

    #[test]
    fn a_pipeline_twice_as_fast_takes_twice_the_share() {
        assert_eq!(shares(&pipelines(&[(10, 10), (20, 20)]), 9), [6, 3]);
        assert_eq!(shares(&pipelines(&[(10, 10), (10, 10)]), 3), [2, 1]);
        assert_eq!(shares(&pipelines(&[(1, 1), (1, 1000)]), 5), [4, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn no_other_split_finishes_earlier(
            costs in prop::collection::vec((0u64..30, 0u64..60), 1..=4),
            more in 0u32..=10,
        ) {
            let (pipelines, total) = (pipelines(&costs), costs.len() as u32 + more);
            let shares = shares(&pipelines, total);
            prop_assert_eq!(shares.iter().sum::<u32>(), total);
            prop_assert!(shares.iter().all(|&share| share >= 1));
            let finishes = pipelines.iter().zip(&shares).map(|(p, &share)| p.finish(share));
            prop_assert_eq!(finishes.max(), least(&pipelines, total));
        }
    }
}
