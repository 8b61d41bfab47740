//! The evolution of an island: integers only, and one generator of random numbers, so that programs in other
//! languages and on other processors compute the same.

/// The text to be found, of characters 32 to 126: a program in C.
pub const TARGET: &[u8; 51] = br#"int main(void) { puts("Hello, world!"); return 0; }"#;

/// How many individuals there are on all islands together.
pub const INDIVIDUALS: usize = 1280;

/// How many generations pass between migrations.
const BETWEEN: u32 = 10;

/// How many individuals migrate at once.
const MIGRANTS: usize = 2;

type Individual = [u8; TARGET.len()];

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }
}

/// How an island reaches those beside it.
pub trait Neighbours {
    /// Sends to the next.
    ///
    /// # Errors
    /// Its end, as text.
    fn send(&mut self, message: &[u8]) -> Result<(), String>;

    /// Receives from the one before.
    ///
    /// # Errors
    /// Its end, as text.
    fn receive(&mut self) -> Result<Vec<u8>, String>;
}

/// A part of the population.
struct Island {
    random: Random,
    all: Vec<Individual>,
    fitness: Vec<u64>,
}

impl Island {
    fn new(rank: usize, size: usize) -> Island {
        let mut random = Random(rank as u64 + 1);
        let mut all = vec![[0; TARGET.len()]; INDIVIDUALS / size];
        for letter in all.iter_mut().flatten() {
            *letter = 32 + random.below(95) as u8;
        }
        let mut island = Island { random, all, fitness: Vec::new() };
        island.judge();
        island
    }

    /// The fitness of all: the sum of squared differences, which is 0 for the target.
    fn judge(&mut self) {
        let difference = |(letter, wanted): (&u8, &u8)| u64::from(letter.abs_diff(*wanted)).pow(2);
        let fitness = |one: &Individual| one.iter().zip(TARGET).map(difference).sum();
        self.fitness = self.all.iter().map(fitness).collect();
    }

    fn best(&self) -> usize {
        (0..self.all.len()).min_by_key(|index| self.fitness[*index]).unwrap_or(0)
    }

    /// The better of two that are drawn.
    fn fitter(&mut self) -> usize {
        let (a, b) = (self.random.below(self.all.len()), self.random.below(self.all.len()));
        if self.fitness[b] < self.fitness[a] { b } else { a }
    }

    /// Replaces all by children of the fitter; the best stays.
    fn generation(&mut self) {
        let mut children = vec![self.all[self.best()]];
        while children.len() < self.all.len() {
            let (mother, father, cut) = (self.fitter(), self.fitter(), self.random.below(TARGET.len()));
            let mut child = self.all[mother];
            child[cut..].copy_from_slice(&self.all[father][cut..]);
            if self.random.below(2) == 0 {
                // A letter changes by up to 3.
                let place = self.random.below(TARGET.len());
                let letter = usize::from(child[place]) + self.random.below(7);
                if (35..=129).contains(&letter) {
                    child[place] = (letter - 3) as u8;
                }
            }
            children.push(child);
        }
        self.all = children;
        self.judge();
    }

    /// Draws which individuals migrate.
    fn leave(&mut self) -> Vec<u8> {
        (0..MIGRANTS).flat_map(|_| self.all[self.random.below(self.all.len())]).collect()
    }

    /// Puts those who come in place of others that are drawn, but not of the best.
    fn arrive(&mut self, message: &[u8]) {
        let best = self.best();
        for migrant in 0..MIGRANTS {
            let index = self.random.below(self.all.len());
            let coming = message.get(migrant * TARGET.len()..(migrant + 1) * TARGET.len());
            if let Some(coming) = coming.filter(|_| index != best) {
                self.all[index].copy_from_slice(coming);
            }
        }
        self.judge();
    }
}

/// The life of an island, of as many generations on all, so that the result depends on the number of islands
/// alone. Odd islands send first, so that no two wait for each other to receive. Returns the best, and its
/// fitness in 8 bytes.
///
/// # Errors
/// The end of a neighbour.
pub fn evolve<N: Neighbours + ?Sized>(
    rank: usize,
    size: usize,
    generations: u32,
    beside: &mut N,
) -> Result<Vec<u8>, String> {
    let mut island = Island::new(rank, size);
    for generation in 1..=generations {
        island.generation();
        if generation % BETWEEN != 0 || size == 1 {
            continue;
        }
        let leaving = island.leave();
        let coming = if rank % 2 == 1 {
            beside.send(&leaving)?;
            beside.receive()?
        } else {
            let coming = beside.receive()?;
            beside.send(&leaving)?;
            coming
        };
        island.arrive(&coming);
    }
    let best = island.best();
    let mut result = island.all[best].to_vec();
    result.extend(island.fitness[best].to_le_bytes());
    Ok(result)
}

/// The fitness in a result.
#[must_use]
pub fn fitness_of(result: &[u8]) -> u64 {
    result.last_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// The better of two results; of equals the first in the order of their bytes.
#[must_use]
pub fn better(a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    if (fitness_of(&b), &b) < (fitness_of(&a), &a) { b } else { a }
}
