//! Deterministic random number streams: each stream depends on its four seed words only.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of random choices. The distributions are implemented here, so that scenes do not change when a random
/// number library changes its algorithms.
pub(crate) struct ToyRng(ChaCha8Rng);

impl ToyRng {
    /// The stream with the seed words (seed, split, index, purpose). Different words give independent streams.
    pub(crate) fn new(words: [u64; 4]) -> Self {
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A uniform 64-bit number.
    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`; 0 for `n` = 0. The bias of the remainder is below n / 2^64.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.word() % n.max(1) as u64) as usize
    }

    /// Uniform in `from..to`, in 2^24 steps.
    pub(crate) fn between(&mut self, from: f32, to: f32) -> f32 {
        let unit = (self.word() >> 40) as f32 / (1_u32 << 24) as f32;
        from + (to - from) * unit
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        self.between(0.0, 1.0) < probability
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, items: [T; N]) -> T {
        const { assert!(N > 0) };
        items[self.below(N)]
    }

    /// A random item; `None` if there are none.
    pub(crate) fn choose<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.below(items.len())).copied()
    }
}
