//! Pages with release consistency: the real ranks of `protocol/directory`, with writes, locks, releases,
//! deaths and deliveries drawn from a seed.

use tombolo_base::random::Random;
use tombolo_directory::release_world::{PendingOperation, ReleaseWorld};
use tombolo_directory::{Consistency, Geometry, Rank};

use crate::pages::{Summary, lose_some};

/// Canaries of release consistency, for builds with `--cfg sim`, and the number of seeds, from 1 on, within
/// which each must be found.
pub const CANARIES: [(&str, u64); 4] = [
    ("a difference is lost", 50),
    ("confirmation overtakes differences", 500),
    ("a twin outlives its release", 500),
    ("old copies arrive after a refresh", 3000),
];

/// Simulates the job of a seed. Checks after every step that programs see the released writes, and at the end
/// that no program waits.
///
/// # Errors
/// Description of the invariant that was violated.
pub fn run(seed: u64) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    let ranks = random.between(1, 5) as u8;
    let geometry = Geometry {
        ranks,
        me: Rank(0),
        pages: random.between(1, 5) as u32,
        block_pages: random.between(1, 3) as u32,
        hold_ns: 0,
        ahead: random.below(3) as u8,
        consistency: Consistency::Release,
    };
    let mut world = ReleaseWorld::new(geometry);
    let mut summary = Summary::default();
    let deadly = random.below(4) * 3;
    let busy = random.between(100, 600);
    for step in 0..random.between(20, 250) {
        let rank = random.index(usize::from(ranks));
        if summary.deaths + 1 < u64::from(ranks) && random.chance(deadly) && world.members[rank].is_some() {
            kill(&mut world, rank, &mut random);
            summary.deaths += 1;
        } else if random.chance(busy) && world.is_idle(rank) {
            begin(&mut world, rank, &geometry, &mut random);
        } else if random.chance(30) {
            // As another thread of a waiting program does.
            world.refresh(rank);
        } else {
            deliver(&mut world, &mut random, &mut summary);
        }
        if let Some(broken) = world.broken {
            return Err(format!("step {step} of {geometry:?}: {broken}"));
        }
    }
    while !world.is_quiet() {
        deliver(&mut world, &mut random, &mut summary);
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

/// Starts a random operation of a rank's program.
fn begin(world: &mut ReleaseWorld, rank: usize, geometry: &Geometry, random: &mut Random) {
    let page = random.below(u64::from(geometry.pages)) as u32;
    match random.below(10) {
        0 | 1 => world.release(rank),
        2 if world.is_lock_free() => world.lock(rank),
        3 => world.refresh(rank),
        4 | 5 => world.begin(rank, PendingOperation::Read(page)),
        _ => {
            let under_lock = world.has_lock(rank) && random.chance(600);
            world.begin(rank, PendingOperation::Write(page, under_lock));
        }
    }
}

/// Kills a rank and loses some of its last messages.
fn kill(world: &mut ReleaseWorld, rank: usize, random: &mut Random) {
    world.kill(rank);
    let losable_links: Vec<(usize, usize)> =
        world.losable_links().filter(|(from, _)| *from == rank).collect();
    lose_some(&losable_links, random, |from, to| world.lose(from, to));
}

/// Delivers a message in flight.
fn deliver(world: &mut ReleaseWorld, random: &mut Random, summary: &mut Summary) {
    let loaded_links: Vec<(usize, usize)> = world.loaded_links().collect();
    if let Some((from, to)) = random.pick(&loaded_links) {
        summary.deliveries += 1;
        world.deliver(*from, *to);
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
        assert!(sum.completed > 1000 && sum.refused > 100 && sum.deaths > 100, "{sum}");
    }
}
