//! A small pseudo-random number generator.

/// SplitMix64 (Steele, Lea, Flood 2014): random samples that depend only on the seed, without a dependency.
pub struct SplitMix(u64);

impl SplitMix {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        SplitMix(seed)
    }

    /// The seed of a generator that continues with the numbers of this one.
    pub fn state(&self) -> u64 {
        self.0
    }

    /// The next number, uniform in (0, 1].
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }
}
