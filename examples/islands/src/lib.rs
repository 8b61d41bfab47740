//! Evolution of an island, with integers only and a fixed random number generator, so that programs in other
//! languages and on other processors compute the same result.

/// Text to be found, of characters 32 to 126: a program in C.
pub const TARGET: &[u8; 51] = br#"int main(void) { puts("Hello, world!"); return 0; }"#;

/// Number of individuals on all islands together.
pub const INDIVIDUALS: usize = 1280;

/// Number of generations between migrations.
const BETWEEN: u32 = 10;

/// Number of individuals per migration.
const MIGRANTS: usize = 2;

type Individual = [u8; TARGET.len()];

/// Random number generator SplitMix64.
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

/// Communication of an island with its neighbors.
pub trait Neighbours {
    /// Sends to the next island.
    ///
    /// # Errors
    /// Text that describes the end of the neighbor.
    fn send(&mut self, message: &[u8]) -> Result<(), String>;

    /// Receives from the previous island.
    ///
    /// # Errors
    /// Text that describes the end of the neighbor.
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

    /// Computes the fitness of all: the sum of squared differences, which is 0 for the target.
    fn judge(&mut self) {
        let difference = |(letter, wanted): (&u8, &u8)| u64::from(letter.abs_diff(*wanted)).pow(2);
        let fitness = |one: &Individual| one.iter().zip(TARGET).map(difference).sum();
        self.fitness = self.all.iter().map(fitness).collect();
    }

    fn best(&self) -> usize {
        (0..self.all.len()).min_by_key(|index| self.fitness[*index]).unwrap_or(0)
    }

    /// Draws two individuals and returns the better one.
    fn fitter(&mut self) -> usize {
        let (a, b) = (self.random.below(self.all.len()), self.random.below(self.all.len()));
        if self.fitness[b] < self.fitness[a] { b } else { a }
    }

    /// Replaces all individuals but the best by children of fitter ones.
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

    /// Draws the individuals that migrate.
    fn leave(&mut self) -> Vec<u8> {
        (0..MIGRANTS).flat_map(|_| self.all[self.random.below(self.all.len())]).collect()
    }

    /// Puts immigrants in place of randomly drawn individuals, but not of the best.
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

/// Runs the evolution of an island. All islands run the same number of generations, so the result depends on
/// the number of islands alone. Odd islands send first, so that no two deadlock. Returns the best individual,
/// followed by its fitness in 8 bytes.
///
/// # Errors
/// The end of a neighbor.
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

/// Returns the fitness in a result.
#[must_use]
pub fn fitness_of(result: &[u8]) -> u64 {
    result.last_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the better of two results; for equal fitness the one that is lexicographically first.
#[must_use]
pub fn better(a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    if (fitness_of(&b), &b) < (fitness_of(&a), &a) { b } else { a }
}
