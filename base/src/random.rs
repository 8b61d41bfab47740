//! Random number generator for simulations, fault injection and tests.
//!
//! A seed yields the same numbers on every processor, so that a run can be repeated. Not for keys or tokens.

/// Increment of the state of SplitMix64.
pub(crate) const SPLIT_MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the output of SplitMix64 in this state.
pub(crate) const fn split_mix(state: u64) -> u64 {
    let word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// xoshiro256++, seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Seeds the generator. Every seed is valid, 0 included.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let mut next = || {
            mixed = mixed.wrapping_add(SPLIT_MIX_STEP);
            split_mix(mixed)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// Returns the next 64 random bits.
    pub fn word(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a number below `bound`; 0 if `bound` is 0. The bias, below `bound` / 2^64, is negligible for
    /// tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an index into something of length `len`; 0 if `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included. `low` must not exceed `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a number from `low` to `high` with a uniformly distributed magnitude: 1 to 10 is as likely as
    /// 10 to 100.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (low_bits, high_bits) = (low.max(1).ilog2(), high.max(1).ilog2());
        let bits = self.between(low_bits.into(), high_bits.into());
        self.between(1 << bits, (2 << bits) - 1).clamp(low, high)
    }

    /// Returns true with a probability of `permille` / 1000.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// Returns an element of `items`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.index(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_on_every_processor() {
        let mut random = Random::new(42);
        let words: [u64; 6] = core::array::from_fn(|_| random.word());
        let first = [0xd076_4d4f_4476_689f, 0x519e_4174_576f_3791, 0xfbe0_7cfb_0c24_ed8c];
        // All four words of the state affect only the fourth number and later ones.
        let next = [0xb37d_9f60_0cd8_35b8, 0xcb23_1c38_7484_6a73, 0x968d_9f00_4e50_de7d];
        assert_eq!((&words[..3], &words[3..]), (&first[..], &next[..]));
        let mut random = Random::new(42);
        let below: [u64; 8] = core::array::from_fn(|_| random.below(1000));
        assert_eq!(below, [814, 318, 983, 701, 793, 588, 125, 605]);
        let mut items: [u8; 8] = core::array::from_fn(|index| index as u8);
        Random::new(42).shuffle(&mut items);
        assert_eq!(items, [7, 0, 1, 4, 3, 5, 2, 6]);
    }

    #[test]
    fn every_number_within_the_bounds_is_drawn() {
        let mut random = Random::new(7);
        let (mut between, mut picked, mut indexes) = ([0; 3], [0; 3], [0; 3]);
        let mut magnitudes = [0; 4];
        let draws = if cfg!(miri) { 400 } else { 10_000 };
        for _ in 0..draws {
            between[random.between(3, 5) as usize - 3] += 1;
            picked[random.pick(&[0, 1, 2]).copied().unwrap_or(9)] += 1;
            indexes[random.index(3)] += 1;
            // 8 to 15, 16 to 31, 32 to 63, 64 to 127.
            magnitudes[random.magnitude(8, 127).ilog2() as usize - 3] += 1;
        }
        let least = draws / 5;
        assert!([between, picked, indexes].as_flattened().iter().all(|count| *count > least));
        assert!(magnitudes.iter().all(|count| *count > least), "{magnitudes:?}");
        assert!((0..draws).all(|_| !random.chance(0)));
        let highest = (0..draws).map(|_| random.magnitude(64, 127)).max();
        assert!(highest > Some(120), "the upper half of a magnitude is drawn too: {highest:?}");
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            assert!((3..=5).contains(&random.between(3, 5)));
            assert!((10..=1000).contains(&random.magnitude(10, 1000)));
            assert!(random.index(7) < 7);
        }
        assert_eq!((random.below(0), random.index(0)), (0, 0));
        assert!(!random.chance(0) && random.chance(1000));
        assert_eq!(random.pick::<u8>(&[]), None);
    }

    #[test]
    fn shuffling_keeps_every_element() {
        let mut items: [u8; 100] = core::array::from_fn(|index| index as u8);
        Random::new(1).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!((0..100).eq(items));
    }
}
