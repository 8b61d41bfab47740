//! Mutation by a fixed generator: the same seed, the same inputs.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.next_u64() % limit as u64) as usize }
    }
}

/// The longest input that is made.
const MAX_INPUT_BYTES: usize = 4096;

/// Numbers at which decoders err: bounds of types, and their neighbours.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Makes inputs out of others.
pub struct Mutator {
    random: Random,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// Starts from these; without any, from nothing.
    #[must_use]
    pub fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Mutator {
        let seeds = if seeds.is_empty() { vec![Vec::new()] } else { seeds };
        Mutator { random: Random(seed), seeds }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let index = self.random.below(self.seeds.len());
        let mut input = self.seeds[index].clone();
        for _ in 0..=self.random.below(4) {
            self.change(&mut input);
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.below(input.len());
        match random.below(9) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[at] = random.next_u64() as u8,
            2 => {
                // A number of any width, at any place, in either byte order.
                let edge = EDGES[random.below(EDGES.len())];
                let width = [1, 2, 4, 8][random.below(4)];
                let bytes = if random.below(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes() };
                let bytes = if random.below(2) == 0 { &bytes[..width] } else { &bytes[8 - width..] };
                for (target, byte) in input.iter_mut().skip(at).zip(bytes) {
                    *target = *byte;
                }
            }
            3 => input.truncate(at),
            4 => {
                let end = (at + random.below(32)).min(input.len());
                input.drain(at..end);
            }
            5 => {
                let end = (at + 1 + random.below(64)).min(input.len());
                let piece = input[at.min(end)..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            6 => {
                let length = random.below(16);
                let piece: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
                input.splice(at..at, piece);
            }
            7 => {
                // The beginning of this, the end of another.
                let other = &self.seeds[random.below(self.seeds.len())];
                let from = random.below(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                // Text: one more of what is there, or a digit.
                let byte = if random.below(2) == 0 {
                    b'0' + random.below(10) as u8
                } else {
                    b"\n\t -.:#\"[]=%"[random.below(12)]
                };
                input.insert(at, byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_they_differ() {
        let inputs = |seed| {
            let mut mutator = Mutator::new(vec![b"hello, world".to_vec(), vec![0; 100]], seed);
            (0..100).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().all(|input| input.len() <= MAX_INPUT_BYTES));
    }
}
