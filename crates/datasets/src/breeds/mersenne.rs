//! Reproduces NumPy's legacy generator `numpy.random.RandomState`, because the published BREEDS tasks are defined by
//! its output for a seed.

use rand_mt::Mt;

/// `RandomState` with an integer seed: the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998) with NumPy's
/// sampling methods.
pub(super) struct Mersenne(Mt);

impl Mersenne {
    pub(super) fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// Uniform in `0..=most`, by rejection sampling: random bits masked to the width of `most`.
    fn up_to(&mut self, most: u32) -> u32 {
        let mask = u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let drawn = self.0.next_u32() & mask;
            if drawn <= most {
                return drawn;
            }
        }
    }

    /// `RandomState.choice(items, count, replace=False)`: the first `count` items (or all) of a Fisher-Yates shuffle
    /// that runs from the last index down. With fewer than two items no random number is drawn.
    pub(super) fn choose<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut shuffled = items.to_vec();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, self.up_to(at as u32) as usize);
        }
        shuffled.truncate(count);
        shuffled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard (`std::mt19937`, [rand.predef]) specifies the 10000th output for the seed 5489.
    #[test]
    fn output_matches_the_cpp_standard() {
        let mut generator = Mersenne::new(5489);
        let last = (0..10_000).map(|_| generator.0.next_u32()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn choices_are_without_replacement() {
        let items: Vec<u32> = (0..50).collect();
        let mut chosen = Mersenne::new(2).choose(&items, 50);
        assert_ne!(chosen, items);
        chosen.sort_unstable();
        assert_eq!(chosen, items);
        assert_eq!(Mersenne::new(2).choose(&items, 3).len(), 3);
        assert_eq!((Mersenne::new(2).choose(&[7], 3), Mersenne::new(2).choose(&[0u8; 0], 1)), (vec![7], vec![]));
    }
}
