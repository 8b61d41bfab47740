//! Shared objects: ranks that work on them together, and one that dies while it writes.

use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use tombolo_objects::{Caching, Consistency, Job, JoinOptions, Method, Methods, ObjectError, Shared};

use crate::{Outcome, PATIENCE, attach};

tombolo_objects::plain! {
    /// The same number in two different chunks, so that a torn write shows.
    struct Twice {
        first: u64,
        between: [u64; 512],
        second: u64,
    }
}

const ALL: [Consistency; 3] = [Consistency::Broadcast, Consistency::Overlapped, Consistency::Timestamp];

/// Adds to an object and returns its previous value.
struct Add;

impl Method for Add {
    const NAME: &'static str = "add";
    type Object = u64;
    type Arguments = u64;
    type Returned = u64;

    fn call(job: &Job, object: &mut Shared<u64>, arguments: u64) -> Result<u64, ObjectError> {
        if arguments == 0 {
            return Err(ObjectError::SpaceFull { capacity: 0 });
        }
        let mut object = object.write(job)?;
        *object += arguments;
        Ok(*object - arguments)
    }
}

fn join() -> Result<Job, Box<dyn std::error::Error>> {
    Ok(Job::join(&attach()?, JoinOptions { memory_bytes: 1 << 18, timeout: PATIENCE, window: None })?)
}

fn check<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}").into()) }
}

/// Runs all operations that ranks do together, `rounds` times each.
pub(crate) fn work(rounds: &str) -> Outcome {
    let rounds: u64 = rounds.parse()?;
    let mut job = join()?;
    let all = u64::from(job.size()) * rounds;
    for consistency in ALL {
        let start = Twice { first: 0, between: [0; 512], second: 0 };
        let mut twice = job.share(0, &start, consistency)?;
        let mut seen = 0;
        for _ in 0..rounds {
            let mut guard = twice.write(&job)?;
            check("two halves of a write", guard.second, guard.first)?;
            guard.first += 1;
            guard.second += 1;
            drop(guard);
            let guard = twice.read(&job)?;
            check("two halves of a read", guard.second, guard.first)?;
            if guard.first <= seen || guard.first > all {
                return Err(format!("{} was read after {seen}", guard.first).into());
            }
            seen = guard.first;
        }
        job.barrier()?;
        check("all increments", twice.read(&job)?.first, all)?;
        for caching in [Caching::Cached, Caching::Uncached, Caching::WriteThrough] {
            mapping(&mut job, rounds, consistency, caching)?;
        }
        transfers(&mut job, rounds, consistency)?;
    }
    calls(&mut job)?;
    let ranks = job.size();
    check("a sum", job.all_reduce(job.rank(), |a, b| a + b)?, ranks * (ranks - 1) / 2)?;
    let order = job.reduce((job.rank(), true), |a, b| (b.0, a.1 && b.1 && a.0 < b.0))?;
    check("the order of a reduction", order, (job.rank() == 0).then_some((ranks - 1, true)))?;
    let long = vec![job.rank() as u8; 20_000];
    check("a long broadcast", job.broadcast_bytes(ranks - 1, long)?, vec![(ranks - 1) as u8; 20_000])?;
    println!("rank {} agrees", job.rank());
    job.barrier()?;
    Ok(())
}

/// All ranks add to all values of a mapping that grows meanwhile.
fn mapping(job: &mut Job, rounds: u64, consistency: Consistency, caching: Caching) -> Outcome {
    let pointers = if job.rank() == 0 {
        let space = job.create_space(1500, 2000, consistency)?;
        let mapping = job.create_mapping(&space, |index| index as u32, consistency, caching)?;
        Some((space.pointer(), mapping.pointer()))
    } else {
        None
    };
    let pointers = pointers.map_or_else(|| vec![0; 32], |both| tombolo_objects::Plain::to_bytes(&both));
    let pointers = job.broadcast_bytes(0, pointers)?;
    let (space, mapping) = tombolo_objects::Plain::decode(&pointers);
    let (mut space, mut mapping) = (job.open_space(space)?, job.open_mapping::<u32>(mapping)?);
    for round in 0..rounds {
        let mut writer = mapping.write(job)?;
        // One value in each chunk, and one that shares a word with another.
        for index in [0, 1, 1023, 1024, 1499] {
            let value = writer.get(index).ok_or("no such index")?;
            writer.set(index, &(value + 1))?;
        }
        if round == 0 {
            check("an index beyond the last", writer.set(2000, &1).is_err(), true)?;
        }
        drop(writer);
        let reader = mapping.read(job)?;
        let [first, last] = [0, 1499].map(|index| reader.get(index));
        check("values of one write", last, first.map(|first| first + 1499))?;
    }
    space.grow(job, 1)?;
    job.barrier()?;
    let count = 1500 + u64::from(job.size());
    check("indexes", space.indexes(job)?, 0..count)?;
    if let Ok(more) = space.grow(job, 1000) {
        return Err(format!("the space grew to {more:?}").into());
    }
    let reader = mapping.read(job)?;
    let added = job.size() * rounds as u32;
    let found = [0, 1, 2, 1023, 1024, 1499].map(|index| reader.get(index).unwrap_or(0));
    check("values", found, [added, added + 1, 2, added + 1023, added + 1024, added + 1499])?;
    drop(reader);
    job.barrier()?;
    Ok(())
}

/// Ranks transfer an amount between two accounts, naming them in different orders.
fn transfers(job: &mut Job, rounds: u64, consistency: Consistency) -> Outcome {
    let mut here = job.share(0, &1000_i64, consistency)?;
    let mut there = job.share(job.size() - 1, &0_i64, consistency)?;
    let mut again = job.open(here.pointer())?;
    for round in 0..rounds {
        let (mut from, mut to) = if (round + u64::from(job.rank())).is_multiple_of(2) {
            job.acquire_all((here.writing(), there.writing()))?
        } else {
            let (to, from) = job.acquire_all((there.writing(), here.writing()))?;
            (from, to)
        };
        *from -= 1;
        *to += 1;
        if round == 0 {
            let refused = matches!(again.read(job), Err(ObjectError::AlreadyHeld));
            check("a second guard of one object is refused", refused, true)?;
        }
    }
    job.barrier()?;
    let (from, to) = job.acquire_all((here.reading(), there.reading()))?;
    let moved = i64::from(job.size()) * rounds as i64;
    check("the accounts", (*from, *to), (1000 - moved, moved))?;
    drop((from, to));
    job.barrier()?;
    Ok(())
}

/// All ranks but the first call methods of an object.
fn calls(job: &mut Job) -> Outcome {
    let mut total = job.share(0, &0_u64, Consistency::Timestamp)?;
    let callers = u64::from(job.size() - 1);
    if job.rank() == 0 {
        let mut methods = Methods::new().with::<Add>();
        // Two calls of each rank, one of which fails.
        let mut asked = Instant::now();
        let mut done = job.open(total.pointer())?;
        job.serve(&mut methods, || {
            let waits = asked.elapsed() < Duration::from_millis(5);
            asked = if waits { asked } else { Instant::now() };
            waits || done.read(job).is_ok_and(|total| *total < callers * 1001)
        })?;
    } else {
        let refused = job.call::<Add>(0, total.pointer(), &0);
        check("a call that fails", matches!(refused, Err(ObjectError::CallFailed { rank: 0, .. })), true)?;
        job.call::<Add>(0, total.pointer(), &1)?;
        job.call::<Add>(0, total.pointer(), &1000)?;
    }
    job.barrier()?;
    check("what calls added", *total.read(job)?, callers * 1001)
}

/// The last rank dies while it writes; the others notice, and the first repairs the object.
pub(crate) fn die() -> Outcome {
    let mut job = join()?;
    let victim = job.size() - 1;
    for (index, consistency) in ALL.into_iter().enumerate() {
        let mut value = job.share(0, &[7_u64; 600], consistency)?;
        let mut done = job.share(0, &0_u32, consistency)?;
        job.barrier()?;
        if index + 1 < ALL.len() {
            continue;
        }
        if job.rank() == victim {
            let mut guard = value.write(&job)?;
            guard.fill(8);
            println!("rank {victim} dies");
            kill_process(getpid(), Signal::KILL)?;
        }
        let died = loop {
            match value.read(&job) {
                Ok(guard) => check("before the death", *guard, [7; 600])?,
                Err(ObjectError::WriterDied { rank }) => break rank,
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        check("the rank that died", died, victim)?;
        let collective = job.barrier();
        check(
            "a barrier",
            matches!(collective, Err(ObjectError::RankEnded { rank, .. }) if rank == victim),
            true,
        )?;
        if job.rank() == 0 {
            value.repair(&job)?.fill(9);
        }
        until(|| match value.read(&job) {
            Ok(guard) => Ok(*guard == [9; 600]),
            Err(ObjectError::WriterDied { .. }) => Ok(false),
            Err(error) => Err(error),
        })?;
        *done.write(&job)? += 1;
        println!("rank {} lives on", job.rank());
        // Rank 0 owns the memory.
        if job.rank() == 0 {
            until(|| Ok(*done.read(&job)? == victim))?;
        }
    }
    Ok(())
}

fn until(mut holds: impl FnMut() -> Result<bool, ObjectError>) -> Outcome {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > PATIENCE {
            return Err("it did not come to be".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Ranks die in the middle of collectives, those of one argument at the same time, and the others continue
/// without them.
pub(crate) fn shrink(deaths: &[&str]) -> Outcome {
    let mut job = join()?;
    let mut left: Vec<u32> = (0..job.size()).collect();
    for victims in deaths {
        let victims = victims.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        let count = u32::try_from(left.len())?;
        let mut counted = 0;
        loop {
            match job.all_reduce(1_u32, |a, b| a + b) {
                Ok(found) if counted < 20 => check("a count", found, count)?,
                // The collective may have succeeded at the dying rank and failed at others.
                Err(ObjectError::RankEnded { rank, .. }) if counted >= 19 && victims.contains(&rank) => break,
                other => {
                    return Err(format!("{counted} collectives before {victims:?} die: {other:?}").into());
                }
            }
            counted += 1;
            if counted == 20 && victims.contains(&job.rank()) {
                kill_process(getpid(), Signal::KILL)?;
            }
        }
        check("no collective before", matches!(job.barrier(), Err(ObjectError::RankEnded { .. })), true)?;
        left.retain(|rank| !victims.contains(rank));
        // The last survivor is late: the others must wait for its decision, because it may be alive.
        if left.last() == Some(&job.rank()) {
            std::thread::sleep(Duration::from_millis(300));
        }
        // A second death may be noticed after the first was decided on.
        let found = loop {
            match job.shrink() {
                Ok(found) if found == left => break found,
                Ok(_) => match job.barrier() {
                    Err(ObjectError::RankEnded { .. }) => {}
                    other => return Err(format!("with a dead member: {other:?}").into()),
                },
                Err(ObjectError::RankEnded { rank, .. }) if victims.contains(&rank) => {}
                Err(error) => return Err(error.into()),
            }
        };
        check("members", job.members(), found)?;
        let order = job.reduce((job.rank(), true), |a, b| (b.0, a.1 && b.1 && a.0 < b.0))?;
        let last = left.last().copied().unwrap_or(0);
        check("the order of a reduction", order, (job.rank() == 0).then_some((last, true)))?;
        let long = vec![job.rank() as u8; 20_000];
        check("a long broadcast", job.broadcast_bytes(last, long)?, vec![last as u8; 20_000])?;
        let of_dead = job.broadcast(victims[0], 0_u32);
        check(
            "a broadcast of a dead rank",
            matches!(of_dead, Err(ObjectError::RankEnded { rank, .. }) if rank == victims[0]),
            true,
        )?;
    }
    println!("rank {} goes on with {left:?}", job.rank());
    job.barrier()?;
    Ok(())
}
