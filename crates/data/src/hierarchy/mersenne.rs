//! The draws of NumPy's old generator, `numpy.random.RandomState`: published data sets are a seed and a call of it.

const LEN: usize = 624;
const MIDDLE: usize = 397;

/// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), seeded by one number.
pub(super) struct Mersenne {
    state: [u32; LEN],
    /// The next number of the state; `LEN` when the state has to be stirred.
    next: usize,
}

impl Mersenne {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [seed; LEN];
        for at in 1..LEN {
            let before = state[at - 1];
            state[at] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(at as u32);
        }
        Self { state, next: LEN }
    }

    fn number(&mut self) -> u32 {
        if self.next == LEN {
            for at in 0..LEN {
                let joined = (self.state[at] & 0x8000_0000) | (self.state[(at + 1) % LEN] & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[at] = self.state[(at + MIDDLE) % LEN] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Uniform in `0..=most`: masked to the bits of `most`, and drawn again where it is larger.
    fn up_to(&mut self, most: u32) -> u32 {
        let mask = u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        loop {
            let drawn = self.number() & mask;
            if drawn <= most {
                return drawn;
            }
        }
    }

    /// `RandomState.choice(items, count, replace=False)`: the first `count` (or all there are) of a Fisher-Yates shuffle that runs from
    /// the last place down. Nothing is drawn for fewer than two items.
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

    /// The C++ standard (`std::mt19937`, [rand.predef]) states the 10000th number of the seed 5489.
    #[test]
    fn the_ten_thousandth_number_of_the_standard() {
        let mut generator = Mersenne::new(5489);
        let last = (0..10_000).map(|_| generator.number()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn a_choice_holds_each_item_once() {
        let items: Vec<u32> = (0..50).collect();
        let mut chosen = Mersenne::new(2).choose(&items, 50);
        assert_ne!(chosen, items);
        chosen.sort_unstable();
        assert_eq!(chosen, items);
        assert_eq!(Mersenne::new(2).choose(&items, 3).len(), 3);
        assert_eq!((Mersenne::new(2).choose(&[7], 3), Mersenne::new(2).choose(&[0u8; 0], 1)), (vec![7], vec![]));
    }
}
