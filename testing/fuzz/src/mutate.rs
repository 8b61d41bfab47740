//! Mutation with a deterministic generator: the same seed produces the same inputs.

use tombolo_base::Random;

/// Maximum length of a mutated input, in bytes.
const MAX_INPUT_BYTES: usize = 4096;

/// Values at which decoders tend to fail: limits of integer types, and their neighbours.
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

/// Generates inputs by mutation of seeds.
pub struct Mutator {
    random: Random,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// Creates a mutator of these seeds, or of the empty input if there are none.
    #[must_use]
    pub fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Mutator {
        let seeds = if seeds.is_empty() { vec![Vec::new()] } else { seeds };
        Mutator { random: Random::new(seed), seeds }
    }

    /// Generates the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let index = self.random.index(self.seeds.len());
        let mut input = self.seeds[index].clone();
        for _ in 0..=self.random.index(4) {
            self.change(&mut input);
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.index(input.len());
        match random.index(9) {
            0 if !input.is_empty() => input[at] ^= 1 << random.index(8),
            1 if !input.is_empty() => input[at] = random.word() as u8,
            2 => {
                // Overwrite with an edge value, of any width, in either byte order.
                let edge = EDGES[random.index(EDGES.len())];
                let width = [1, 2, 4, 8][random.index(4)];
                let bytes = if random.index(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes() };
                let bytes = if random.index(2) == 0 { &bytes[..width] } else { &bytes[8 - width..] };
                for (target, byte) in input.iter_mut().skip(at).zip(bytes) {
                    *target = *byte;
                }
            }
            3 => input.truncate(at),
            4 => {
                let end = (at + random.index(32)).min(input.len());
                input.drain(at..end);
            }
            5 => {
                let end = (at + 1 + random.index(64)).min(input.len());
                let piece = input[at.min(end)..end].to_vec();
                let to = random.index(input.len() + 1);
                input.splice(to..to, piece);
            }
            6 => {
                let length = random.index(16);
                let piece: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
                input.splice(at..at, piece);
            }
            7 => {
                // Splice: the start of this input and the end of another.
                let other = &self.seeds[random.index(self.seeds.len())];
                let from = random.index(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                // Text: insert a digit or a delimiter.
                let byte = if random.index(2) == 0 {
                    b'0' + random.index(10) as u8
                } else {
                    b"\n\t -.:#\"[]=%"[random.index(12)]
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
