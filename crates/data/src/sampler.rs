//! Order of the samples in an epoch, as a function of (seed, epoch), without a stored list.

use std::ops::Range;

use rand::Rng;

use crate::error::{Error, Result};
use crate::rng::{Stream, rng_for};

/// Splits epochs of `samples` samples into batches.
#[derive(Clone, Debug)]
pub struct Sampler {
    samples: u64,
    batch_size: u64,
    drop_last: bool,
    seed: u64,
}

/// The order of the samples in one epoch.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    order: Permutation,
    batch_size: u64,
}

impl Sampler {
    /// With `drop_last`, the last, smaller batch of each epoch is skipped. Its samples appear in other epochs.
    ///
    /// # Errors
    /// There would be no batch: `batch_size` is 0, there are no samples, or `drop_last` is set and there are fewer
    /// samples than one batch.
    pub fn new(samples: u64, batch_size: u64, drop_last: bool, seed: u64) -> Result<Self> {
        let least = if drop_last { batch_size } else { 1 };
        if batch_size == 0 || samples < least {
            return Err(Error::invalid(
                "batch_size",
                batch_size.to_string(),
                format!("1 to {samples}, the number of samples"),
            ));
        }
        Ok(Self { samples, batch_size, drop_last, seed })
    }

    /// Number of batches in an epoch.
    pub fn batches(&self) -> u64 {
        if self.drop_last { self.samples / self.batch_size } else { self.samples.div_ceil(self.batch_size) }
    }

    /// Positions in the epoch that form batch `batch`, which must be less than `batches()`.
    pub fn positions(&self, batch: u64) -> Range<u64> {
        let start = batch * self.batch_size;
        start..(start + self.batch_size).min(self.samples)
    }

    /// The sample order of epoch `epoch`.
    pub fn epoch(&self, epoch: u64) -> EpochOrder {
        EpochOrder { order: Permutation::new(self.samples, self.seed, epoch), batch_size: self.batch_size }
    }
}

impl EpochOrder {
    /// The sample at `position`, then its replacements in the order in which they are tried if samples are broken.
    ///
    /// The first replacements are the samples at the same offset in the following full batches. With these, two broken
    /// samples of a batch never get the same replacement, which would be a false negative in a contrastive loss. After
    /// them come the samples at the following positions, so that a set of only one or two batches also has enough
    /// candidates.
    pub fn candidates(&self, position: u64) -> impl Iterator<Item = u64> + '_ {
        let Self { order, batch_size } = self;
        let samples = order.len;
        let full = samples / batch_size;
        let (batch, offset) = (position / batch_size, position % batch_size);
        let own = std::iter::once(position);
        let following = (1..=full)
            .map(move |step| (batch + step) % full * batch_size + offset)
            .filter(move |&other| other != position);
        let rest = (1..samples).map(move |step| (position + step) % samples);
        own.chain(following).chain(rest).map(|position| order.at(position))
    }
}

/// A pseudo-random permutation of `0..len`, evaluated at any position in constant time and memory.
///
/// It is a Feistel network on the smallest even number of bits that can represent every value below `len`, repeated
/// until the value is below `len` (the cycle-walking cipher of Black and Rogaway 2002, "Ciphers with arbitrary finite
/// domains"). The domain has at most `4 * len` values, so this takes at most four steps on average.
///
/// A shuffled list of 20 million indices would take 160 MB and must be rebuilt to resume a run; a [`Permutation`] takes
/// 80 bytes.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

/// Four rounds give a pseudo-random permutation if the round function is pseudo-random (Luby and Rackoff 1988). The
/// halves of a small domain have only a few bits, so more rounds are used.
const ROUNDS: usize = 8;

impl Permutation {
    /// The permutation of `0..len` for an epoch of a run with this seed.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Self {
        let mut rng = rng_for(seed, epoch, 0, Stream::Order);
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| rng.next_u64()) }
    }

    /// The value at `position < len`.
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.len, "position {position} of {}", self.len);
        let mut value = self.shuffle(position);
        while value >= self.len {
            value = self.shuffle(value);
        }
        value
    }

    fn shuffle(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014), in which every input bit affects every output bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_epoch_contains_every_sample_once() {
        for len in [1, 2, 3, 4, 5, 15, 16, 17, 100, 1000, 4097] {
            for epoch in 0..3 {
                let order = Permutation::new(len, 7, epoch);
                let seen: BTreeSet<_> = (0..len).map(|p| order.at(p)).collect();
                assert_eq!(seen, (0..len).collect(), "len {len}, epoch {epoch}");
            }
        }
    }

    #[test]
    fn epochs_are_reproducible_and_differ() {
        let order = |seed, epoch| {
            let order = Permutation::new(50, seed, epoch);
            (0..50).map(|p| order.at(p)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    /// Counts over 4,000 epochs of six samples how often each sample is at each position, and which of the 720 orders
    /// occur. Expected: 666.7 per cell of the 6 x 6 table with standard deviation sqrt(4000 * 1/6 * 5/6) = 23.6 (5
    /// standard deviations are allowed), and 720 * (1 - exp(-4000 / 720)) = 717.2 orders.
    #[test]
    fn permutations_of_six_samples_are_uniform() {
        let mut table = [[0_u32; 6]; 6];
        let mut orders = BTreeSet::new();
        for epoch in 0..4000 {
            let order = Permutation::new(6, 11, epoch);
            let list: Vec<u64> = (0..6).map(|p| order.at(p)).collect();
            for (p, s) in list.iter().enumerate() {
                table[p][*s as usize] += 1;
            }
            orders.insert(list);
        }
        for count in table.into_iter().flatten() {
            assert!((667 - 118..=667 + 118).contains(&count), "{table:?}");
        }
        assert!(orders.len() > 705, "{}", orders.len());
    }

    #[test]
    fn batches_cover_the_epoch() {
        let dropping = Sampler::new(10, 4, true, 0).unwrap();
        assert_eq!((dropping.batches(), dropping.positions(1)), (2, 4..8));
        let keeping = Sampler::new(10, 4, false, 0).unwrap();
        assert_eq!((keeping.batches(), keeping.positions(2)), (3, 8..10));
    }

    #[test]
    fn fewer_samples_than_a_batch_are_rejected() {
        let message = Sampler::new(3, 4, true, 0).unwrap_err().to_string();
        assert!(message.contains("`batch_size` is 4; expected 1 to 3"), "{message}");
        assert!(Sampler::new(0, 4, false, 0).is_err());
        assert!(Sampler::new(3, 0, false, 0).is_err());
        assert_eq!(Sampler::new(3, 4, false, 0).unwrap().batches(), 1);
    }

    #[test]
    fn replacements_are_distinct_within_a_batch() {
        let epoch = Sampler::new(23, 5, true, 3).unwrap().epoch(1);
        let tries: Vec<Vec<u64>> = (5..10).map(|p| epoch.candidates(p).collect()).collect();
        // Four full batches: the sample itself and three replacements, before the fallback order.
        for round in 0..4 {
            let chosen: BTreeSet<_> = tries.iter().map(|list| list[round]).collect();
            assert_eq!(chosen.len(), 5, "round {round}");
        }
        for list in tries {
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), 23);
        }
    }

    #[test]
    fn smaller_last_batch_has_replacements() {
        let epoch = Sampler::new(7, 5, false, 3).unwrap().epoch(0);
        assert_eq!(epoch.candidates(6).collect::<BTreeSet<_>>().len(), 7);
        let single = Sampler::new(1, 5, false, 3).unwrap().epoch(0);
        assert_eq!(single.candidates(0).collect::<Vec<_>>(), [0]);
    }
}
