//! The one source of chance: a generator that gives the same numbers for the same seed, everywhere.

/// xoshiro256++ seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let mut next = || {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        };
        Random { state: [next(), next(), next(), next()] }
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the upper bits is of no matter here.
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from `low` to `high` whose magnitude is evenly spread: as often between 1 and 10 as between 10 and
    /// 100.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (low_bits, high_bits) = (low.max(1).ilog2(), high.max(1).ilog2());
        let bits = self.between(low_bits.into(), high_bits.into());
        self.between(1 << bits, (2 << bits) - 1).clamp(low, high)
    }

    /// True in so many cases of a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of `items`, if there are any.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_on_every_machine() {
        let mut random = Random::new(42);
        let words = [random.word(), random.word(), random.word()];
        assert_eq!(words, [0xd076_4d4f_4476_689f, 0x519e_4174_576f_3791, 0xfbe0_7cfb_0c24_ed8c]);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!((3..=5).contains(&random.between(3, 5)));
            assert!((10..=1000).contains(&random.magnitude(10, 1000)));
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.chance(0) && random.chance(1000));
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
