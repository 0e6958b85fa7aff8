//! A keyed permutation of `0..n` that maps one index at a time, without a table.
//!
//! A balanced Feistel network permutes the smallest `4^h >= n` numbers; a result outside `0..n`
//! goes through it again until it is inside (cycle walking, fewer than 4 rounds of it on average).
//!
//! ```text
//!   left  right             h bits each
//!     |     |
//!    xor <--F(key, right)   8 times, with the halves exchanged
//! ```
//!
//! Sources: Luby and Rackoff, "How to construct pseudorandom permutations" (1988); Black and
//! Rogaway, "Ciphers with arbitrary finite domains" (2002), method 2. The mixing function `F` and
//! the keys are SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014). Ours differs in that nothing here has to be secret, only well mixed.

/// Rounds of the network. Four would do for large `n`; small ones need more.
const N_ROUNDS: usize = 8;

/// A permutation of `0..n`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; N_ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that `keys` selects.
    ///
    /// # Panics
    /// If `n` is zero.
    pub(crate) fn new(n: u64, keys: &mut KeyStream) -> Self {
        assert!(n > 0, "a permutation has at least one index");
        let bits = u64::BITS - (n - 1).leading_zeros();
        let keys = std::array::from_fn(|_| keys.next());
        Self { n, half_bits: bits.div_ceil(2), keys }
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// If `index` is not below `n`.
    pub(crate) fn apply(&self, index: u64) -> u64 {
        assert!(index < self.n, "{index} is not an index below {}", self.n);
        let mut value = self.network(index);
        while value >= self.n {
            value = self.network(value);
        }
        value
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// An endless row of keys (SplitMix64) that a seed and an epoch select.
#[derive(Clone, Debug)]
pub(crate) struct KeyStream(u64);

impl KeyStream {
    pub(crate) fn new(seed: u64, epoch: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ epoch))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// An even choice from `0..n`: the high half of a product, off by less than `n / 2^64`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// The odd number closest to 2^64 over the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finalizer of SplitMix64, a bijection in which every bit depends on every other.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::{KeyStream, Permutation};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn table(n: u64, seed: u64, epoch: u64) -> Vec<u64> {
        let permutation = Permutation::new(n, &mut KeyStream::new(seed, epoch));
        (0..n).map(|index| permutation.apply(index)).collect()
    }

    fn assert_bijection(n: u64, seed: u64, epoch: u64) {
        let mut values = table(n, seed, epoch);
        values.sort_unstable();
        assert!(values.into_iter().eq(0..n), "n {n}, seed {seed}, epoch {epoch}");
    }

    #[test]
    fn every_index_is_hit_once_at_sizes_where_it_could_go_wrong() {
        for n in [1, 2, 3, 4, 5, 15, 16, 17, 97, 256, 257, 1021, 4096, 65_537] {
            assert_bijection(n, 1, 0);
        }
    }

    #[test]
    fn the_largest_sizes_stay_in_range() {
        for n in [(1 << 40) + 1, u64::MAX] {
            let permutation = Permutation::new(n, &mut KeyStream::new(1, 0));
            let inputs = (0..500).chain(n - 500..n);
            let values: BTreeSet<u64> = inputs.map(|index| permutation.apply(index)).collect();
            assert_eq!(values.len(), 1000);
            assert!(values.iter().all(|&value| value < n));
        }
    }

    /// SplitMix64's published stream from seed 1234567.
    #[test]
    fn keys_are_splitmix64() {
        let mut keys = KeyStream(1_234_567);
        assert_eq!(
            [keys.next(), keys.next(), keys.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// Each of the 24 orders of 4 comes up about as often over seeds: 24 000 draws, 1000 expected,
    /// the standard deviation is 31.
    #[test]
    fn no_order_is_favored() {
        let mut counts: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
        for seed in 0..24_000 {
            *counts.entry(table(4, seed, 0)).or_default() += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn seeds_and_epochs_give_other_orders() {
        let tables = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(seed, epoch)| table(50, seed, epoch));
        assert_eq!(BTreeSet::from(tables).len(), 4);
    }

    proptest! {
        #[test]
        fn every_index_is_hit_once(n in 1_u64..3000, seed: u64, epoch: u64) {
            assert_bijection(n, seed, epoch);
        }
    }
}
