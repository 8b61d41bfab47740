//! Coherent pages: the real ranks of `protocol/directory`, with accesses, deaths and deliveries drawn from a
//! seed.

use tombolo_base::random::Random;
use tombolo_directory::world::World;
use tombolo_directory::{Access, Consistency, Geometry, Rank};

/// Canaries of the directory protocol, for builds with `--cfg sim`, and the number of seeds, from 1 on,
/// within which each must be found.
pub const CANARIES: [(&str, u64); 3] = [
    ("pages are not invalidated", 50),
    ("directory forgets the owner", 50),
    ("home grants before all report", 2000),
];

/// Counters of one or more runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Accesses that completed successfully.
    pub completed: u64,
    /// Accesses that were refused because the page was lost.
    pub refused: u64,
    /// Deliveries of messages and news.
    pub deliveries: u64,
    /// Ranks that died.
    pub deaths: u64,
}

impl core::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.completed += other.completed;
        self.refused += other.refused;
        self.deliveries += other.deliveries;
        self.deaths += other.deaths;
    }
}

impl core::fmt::Display for Summary {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Summary { completed, refused, deliveries, deaths } = self;
        write!(out, "{completed} accesses, {refused} of lost pages, {deliveries} deliveries, {deaths} deaths")
    }
}

/// Simulates the job of a seed. Checks after every step that memory is coherent, and at the end that no
/// program waits.
///
/// # Errors
/// Description of the invariant that was violated.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    let ranks = random.between(1, 6) as u8;
    let geometry = Geometry {
        ranks,
        me: Rank(0),
        pages: random.between(1, 8) as u32,
        block_pages: random.between(1, 3) as u32,
        hold_ns: random.below(3) * 20,
        ahead: random.below(3) as u8,
        consistency: Consistency::Sequential,
    };
    let mut world = World::new(geometry);
    let mut summary = Summary::default();
    let deadly = random.below(4) * 4;
    let busy = random.between(100, 600);
    for now_ns in 0..random.between(20, 300) {
        let rank = random.index(usize::from(ranks));
        if summary.deaths + 1 < u64::from(ranks) && random.chance(deadly) && world.members[rank].is_some() {
            kill(&mut world, rank, &mut random);
            summary.deaths += 1;
        } else if random.chance(busy) {
            let idle = world.members[rank].as_ref().is_some_and(|member| member.waits.is_none());
            if idle {
                let access = if random.chance(400) { Access::Write } else { Access::Read };
                world.access(rank, random.below(u64::from(geometry.pages)) as u32, access);
            }
        } else {
            advance(&mut world, now_ns, &mut random, &mut summary);
        }
        if let Some(broken) = world.broken {
            return Err(format!("step {now_ns} of {geometry:?}: {broken}"));
        }
    }
    for step in 0.. {
        if world.is_quiet() {
            break;
        }
        if step > 100_000 {
            return Err(format!("{geometry:?}: it does not end"));
        }
        advance(&mut world, 1000 + step, &mut random, &mut summary);
        if let Some(broken) = world.broken {
            return Err(format!("at the end of {geometry:?}: {broken}"));
        }
    }
    if world.is_waiting() {
        return Err(format!("{geometry:?}: a program waits, and nothing is on its way"));
    }
    (summary.completed, summary.refused) = (world.completed.into(), world.refused.into());
    Ok(summary)
}

/// Kills a rank and loses some of its last messages.
fn kill(world: &mut World, rank: usize, random: &mut Random) {
    world.kill(rank);
    let losable_links: Vec<(usize, usize)> =
        world.losable_links().filter(|(from, _)| *from == rank).collect();
    lose_some(&losable_links, random, |from, to| world.lose(from, to));
}

/// Loses up to three of the last messages on each link.
pub(crate) fn lose_some(
    losable_links: &[(usize, usize)],
    random: &mut Random,
    mut lose: impl FnMut(usize, usize),
) {
    for (from, to) in losable_links {
        for _ in 0..random.below(4) {
            lose(*from, *to);
        }
    }
}

/// Delivers a message in flight, or advances the time of a rank.
fn advance(world: &mut World, now_ns: u64, random: &mut Random, summary: &mut Summary) {
    let loaded_links: Vec<(usize, usize)> = world.loaded_links().collect();
    match random.pick(&loaded_links) {
        Some((from, to)) if random.chance(900) => {
            summary.deliveries += 1;
            world.deliver(*from, *to, now_ns);
        }
        _ => {
            let rank = random.index(world.members.len());
            world.tick(rank, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_pass() {
        let mut sum = Summary::default();
        for seed in 1..=3000 {
            match run(seed) {
                Ok(summary) => sum += summary,
                Err(failure) => panic!("seed {seed}: {failure}"),
            }
        }
        // Each kind of event occurs.
        assert!(sum.completed > 1000 && sum.refused > 100 && sum.deaths > 100, "{sum}");
    }

    #[test]
    fn a_seed_gives_the_same_run() {
        assert_eq!(run(77), run(77));
        assert_ne!(run(77), run(78));
    }
}
