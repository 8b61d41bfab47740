//! Bulk data along a chain of domains: moving, sharing, passing and releasing buffers, and the death of a
//! peer.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tombolo::bulk::BulkError;
use tombolo::{
    Arrival, Buffer, BulkChannel, BulkOptions, Domain, Error, Pool, PoolOptions, Ready, Trust, WaitSet,
};
use tombolo_base::Random;

use crate::{Outcome, PATIENCE};

/// Length of a buffer, many pages and not a multiple of one, and the number of buffers in the pool.
const BUFFER_BYTES: u64 = 300 * 1024 + 64;
const BUFFERS: u32 = 3;

fn trust_of(word: &str) -> Result<Trust, String> {
    match word {
        "full" => Ok(Trust::Full),
        "half" => Ok(Trust::Half),
        "none" => Ok(Trust::None),
        word => Err(format!("no such trust: {word}")),
    }
}

/// Options of a pool in the window to `node`, or in host memory for `-`.
fn pool_options(trust: Trust, node: &str) -> PoolOptions {
    let options = PoolOptions::new(BUFFER_BYTES, BUFFERS).trust(trust);
    if node == "-" { options } else { options.reachable_from(node) }
}

fn pattern(round: u64) -> Vec<u8> {
    let mut random = Random::new(round);
    let mut bytes: Vec<u8> = (0..BUFFER_BYTES / 8).flat_map(|_| random.word().to_le_bytes()).collect();
    // Room for the mark of each domain in the chain.
    bytes[..8].fill(0);
    bytes
}

fn check(what: &str, found: &[u8], expected: &[u8]) -> Outcome {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None if found.len() == expected.len() => Ok(()),
        at => Err(format!("{what}: {} bytes of {}, wrong at {at:?}", found.len(), expected.len()).into()),
    }
}

fn content(read: impl FnOnce(&mut [u8]) -> Result<(), Error>, length_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length_bytes as usize];
    read(&mut bytes)?;
    Ok(bytes)
}

/// The position of this domain in the chain.
struct ChainMember {
    rank: u64,
    size: u64,
    domain: Domain,
    options: BulkOptions,
    job: String,
}

impl ChainMember {
    fn find(trust: Trust) -> Result<ChainMember, Box<dyn std::error::Error>> {
        Ok(ChainMember {
            rank: std::env::var("TOMBOLO_RANK")?.parse()?,
            size: std::env::var("TOMBOLO_SIZE")?.parse()?,
            domain: crate::attach()?,
            options: BulkOptions::default().trust(trust),
            job: std::env::var("TOMBOLO_JOB")?,
        })
    }

    fn name(&self, rank: u64) -> String {
        format!("{}/bulk-{rank}", self.job)
    }

    /// Accepts the channel from the previous domain and the pool assigned to it.
    fn before(&self) -> Result<Option<(BulkChannel, Pool)>, Error> {
        if self.rank == 0 {
            return Ok(None);
        }
        let listener = self.options.export(&self.domain, &self.name(self.rank))?;
        let mut before = listener.accept()?;
        let pool = before.recv_pool()?;
        Ok(Some((before, pool)))
    }

    /// Connects to the next domain and assigns the pool to the channel.
    fn connect_next(&self, pool: &Pool) -> Result<Option<BulkChannel>, Error> {
        if self.rank + 1 == self.size {
            return Ok(None);
        }
        let mut behind = self.options.connect(&self.domain, self.name(self.rank + 1))?;
        behind.assign(pool)?;
        Ok(Some(behind))
    }
}

/// Passes buffers along a chain of domains, ordered by rank, and back; each domain marks them.
pub(crate) fn chain(trust: &str, window: &str, rounds: &str) -> Outcome {
    let (trust, rounds) = (trust_of(trust)?, rounds.parse()?);
    let member = ChainMember::find(trust)?;
    match member.before()? {
        None => {
            let pool = member.domain.create_pool(&pool_options(trust, window))?;
            let behind = member.connect_next(&pool)?.ok_or("a chain of one")?;
            first(&member, &pool, behind, rounds)?;
        }
        Some((before, pool)) => match member.connect_next(&pool)? {
            Some(behind) => middle(&member, &pool, before, behind, rounds)?,
            None => last(&member, before, rounds)?,
        },
    }
    println!("rank {} is done", member.rank);
    Ok(())
}

fn first(member: &ChainMember, pool: &Pool, mut behind: BulkChannel, rounds: u64) -> Outcome {
    let mut metadata = Vec::new();
    for round in 0..rounds {
        let mut buffer = pool.take()?;
        let number = buffer.number();
        let mut expected = pattern(round);
        buffer.write(0, &expected)?;
        behind.move_to(buffer, &round.to_le_bytes()).map_err(Error::from)?;
        let back = behind.recv_moved(&mut metadata)?;
        (1..member.size).for_each(|rank| expected[rank as usize] = rank as u8);
        check("what came back", &content(|bytes| back.read(0, bytes), back.len_bytes())?, &expected)?;
        if (back.number(), &metadata[..]) != (number, &round.to_le_bytes()) {
            return Err(format!("buffer {number} came back as {}, with {metadata:?}", back.number()).into());
        }
    }
    // Share parts of several buffers at once, read-only.
    let mut buffers = Vec::new();
    for index in 0..BUFFERS as u8 {
        let mut buffer = pool.take()?;
        buffer.write(4096, &[index + 1; 100])?;
        buffer.set_part(4096 + 10, 80)?;
        buffers.push(buffer);
    }
    let shared = behind.share_all(buffers, b"parts").map_err(Error::from)?;
    if !matches!(pool.take(), Err(Error::Bulk(BulkError::NoBuffer { count: BUFFERS }))) {
        return Err("there was a buffer where all are shared".into());
    }
    let mut shared: Vec<_> = shared;
    while let Some(next) = shared.pop() {
        match next.reclaim() {
            Ok(buffer) => drop(buffer),
            Err(not_yet) => {
                shared.push(not_yet.kept);
                wait_for_something(&mut behind)?;
            }
        }
    }
    // All buffers are released: the pool is complete again.
    if pool.counts().free != BUFFERS {
        return Err(format!("not all came back: {:?}", pool.counts()).into());
    }
    loop {
        match behind.unassign(pool) {
            Ok(()) => return Ok(()),
            Err(Error::Bulk(BulkError::Kept)) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Handles the next arrival, if one comes soon.
fn wait_for_something(bulk: &mut BulkChannel) -> Outcome {
    match bulk.within(Duration::from_millis(50)).recv(&mut Vec::new()) {
        Ok(_) | Err(Error::TimedOut { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn mark(buffer: &mut Buffer, rank: u64) -> Result<(), Error> {
    buffer.write(rank, &[rank as u8])
}

/// Forwards buffers in both directions with one waitset.
fn middle(
    member: &ChainMember,
    pool: &Pool,
    before: BulkChannel,
    behind: BulkChannel,
    rounds: u64,
) -> Outcome {
    let mut set = WaitSet::new()?;
    let (before, behind) = (set.add(before)?, set.add(behind)?);
    let mut metadata = Vec::new();
    let mut moved_back = 0;
    let mut is_shared = false;
    loop {
        for (from, to) in [(before, behind), (behind, before)] {
            loop {
                let arrival = match set[from].within(Duration::ZERO).recv(&mut metadata) {
                    Ok(arrival) => arrival,
                    Err(Error::WouldBlock) => break,
                    // All rounds are done; the next domain in the chain leaves first.
                    Err(error) if error.is_peer_gone() && from == behind && moved_back == rounds => break,
                    Err(error) => return Err(error.into()),
                };
                match arrival {
                    Arrival::Moved(received) => {
                        let mut buffer = received.into_first();
                        if from == before {
                            mark(&mut buffer, member.rank)?;
                        } else {
                            moved_back += 1;
                        }
                        set[to].move_to(buffer, &metadata).map_err(Error::from)?;
                    }
                    Arrival::Shared(received) => {
                        for mut shared in received.into_vec() {
                            set[to].share_again(&mut shared, &metadata)?;
                            is_shared = true;
                        }
                    }
                    Arrival::PoolGone(_) => return Ok(()),
                    other => return Err(format!("unexpected: {other:?}").into()),
                }
            }
        }
        // Unassign from the next domain first: once all domains there have released the pool, the previous
        // domain can unassign it from this one.
        let counts = pool.counts();
        if is_shared && counts.away == pool.count() {
            match set[behind].unassign(pool) {
                Ok(()) => is_shared = false,
                Err(Error::Bulk(BulkError::Kept)) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.into()),
            }
        }
        match set.wait(Duration::from_millis(50)) {
            Ok(Ready::Channel(_)) | Err(Error::TimedOut { .. }) => {}
            Ok(other) => return Err(format!("unexpected: {other:?}").into()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn last(member: &ChainMember, mut before: BulkChannel, rounds: u64) -> Outcome {
    let mut metadata = Vec::new();
    for round in 0..rounds {
        let mut buffer = before.recv_moved(&mut metadata)?;
        let mut expected = pattern(round);
        (1..member.rank).for_each(|rank| expected[rank as usize] = rank as u8);
        check("what came", &content(|bytes| buffer.read(0, bytes), buffer.len_bytes())?, &expected)?;
        mark(&mut buffer, member.rank)?;
        before.move_to(buffer, &metadata).map_err(Error::from)?;
    }
    let mut parts = 0;
    while parts < BUFFERS as u8 {
        let Some(received) = before.recv(&mut metadata)?.shared() else { continue };
        for shared in received.into_vec() {
            parts += 1;
            check("a part", &content(|bytes| shared.read(0, bytes), shared.len_bytes())?, &[parts; 80])?;
        }
    }
    loop {
        match before.recv(&mut metadata) {
            Ok(Arrival::PoolGone(_)) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_peer_gone() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a peer buffers of each kind, waits for its death, and checks that all buffers come back.
pub(crate) fn outlive(name: &str, trust: &str, window: &str, forwarded: &str) -> Outcome {
    let trust = trust_of(trust)?;
    let domain = crate::attach()?;
    let pool = domain.create_pool(&pool_options(trust, window))?;
    let mut bulk = BulkOptions::default().trust(trust).connect(&domain, name)?;
    match forwarded {
        "forwarded" => bulk.assign(&pool)?,
        _ => bulk.assign_here_only(&pool)?,
    }
    bulk.move_to(pool.take()?, b"").map_err(Error::from)?;
    bulk.move_to(pool.take()?, b"").map_err(Error::from)?;
    let shared = bulk.share(pool.take()?, b"").map_err(Error::from)?;
    println!("given");
    let error = loop {
        match bulk.recv(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let mine = shared.reclaim().map_err(Error::from)?;
    println!("{error}; {:?}", pool.counts());
    drop(mine);
    if pool.counts().free == BUFFERS { Ok(()) } else { Err(format!("{:?}", pool.counts()).into()) }
}

/// Receives buffers, passes them on to `next` unless that is `-`, and keeps the rest.
pub(crate) fn hold(name: &str, trust: &str, next: &str) -> Outcome {
    let options = BulkOptions::default().trust(trust_of(trust)?);
    let domain = crate::attach()?;
    let listener = options.export(&domain, name)?;
    println!("exported");
    let mut bulk = listener.accept()?;
    let pool = bulk.recv_pool()?;
    let mut onward = None;
    if next != "-" {
        let mut channel = options.connect(&domain, next)?;
        channel.assign(&pool)?;
        onward = Some(channel);
    }
    let mut metadata = Vec::new();
    let mut first = bulk.recv_moved(&mut metadata)?;
    let second = bulk.recv_moved(&mut metadata)?;
    let mut shared = bulk.recv_shared(&mut metadata)?;
    first.write(0, b"held")?;
    if let Some(onward) = &mut onward {
        onward.move_to(second, b"").map_err(Error::from)?;
        onward.move_to(first, b"").map_err(Error::from)?;
        onward.share_again(&mut shared, b"")?;
        println!("holding");
        return wait_for_the_end(&mut bulk);
    }
    println!("holding");
    let ended = wait_for_the_end(&mut bulk);
    // The owner now takes the pool back; after that no buffer of it or of any other pool may be accessible
    // here.
    let until = Instant::now() + PATIENCE;
    let mut bytes = [0; 4];
    while Instant::now() < until {
        match first.read(0, &mut bytes) {
            Ok(()) => check("what is held", &bytes, b"held")?,
            Err(error) => {
                println!("lost its buffers: {error}");
                return ended;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("no peer took the buffers back".into())
}

fn wait_for_the_end(bulk: &mut BulkChannel) -> Outcome {
    loop {
        match bulk.recv(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) if error.is_peer_gone() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves and shares buffers without trust but keeps descriptors of their memory, and tries to access them
/// later.
pub(crate) fn cheat(name: &str) -> Outcome {
    let options = BulkOptions::default().trust(Trust::None);
    let domain = crate::attach()?;
    let pool = domain.create_pool(&pool_options(Trust::None, "-"))?;
    let mut bulk = options.connect(&domain, name)?;
    bulk.assign(&pool)?;
    for verb in ["move", "share"] {
        let mut buffer = pool.take()?;
        buffer.write(0, verb.as_bytes())?;
        let kept = kept_descriptors()?;
        if kept.is_empty() {
            return Err("there is nothing to cheat with".into());
        }
        let mut shared = None;
        if verb == "move" {
            bulk.move_to(buffer, b"").map_err(Error::from)?;
        } else {
            shared = Some(bulk.share(buffer, b"").map_err(Error::from)?);
        }
        // When the answer arrives, the other side has written to the moved buffer and tried to write to the
        // shared one.
        while !matches!(bulk.recv(&mut Vec::new())?, Arrival::Moved(_) | Arrival::Released(_)) {}
        for file in &kept {
            let mut bytes = vec![0; verb.len()];
            file.read_exact_at(&mut bytes, 0)?;
            if file.write_all_at(b"x", 0).is_ok() || file.set_len(0).is_ok() || bytes != verb.as_bytes() {
                return Err(format!("after {verb} the sender got at the buffer: {bytes:?}").into());
            }
        }
        println!("{verb}: {} descriptors are of no use", kept.len());
        drop(shared);
    }
    Ok(())
}

/// Opens all buffers of this process for reading and writing through `/proc/self/fd`.
fn kept_descriptors() -> std::io::Result<Vec<File>> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        if target.to_string_lossy().contains("tombolo-buffer") {
            kept.push(OpenOptions::new().read(true).write(true).open(path)?);
        }
    }
    Ok(kept)
}

/// The victim of a cheating peer: writes to buffers moved to it, reads buffers shared with it, and reports by
/// moving a buffer.
pub(crate) fn trusting(name: &str) -> Outcome {
    let options = BulkOptions::default().trust(Trust::None);
    let domain = crate::attach()?;
    let listener = options.export(&domain, name)?;
    println!("exported");
    let mut bulk = listener.accept()?;
    bulk.recv_pool()?;
    let mut metadata = Vec::new();
    let mut moved = bulk.recv_moved(&mut metadata)?;
    moved.bytes_mut()?[..4].copy_from_slice(b"mine");
    bulk.move_to(moved, b"done").map_err(Error::from)?;
    let shared = bulk.recv_shared(&mut metadata)?;
    // A receiver cannot write to shared buffers through any of its descriptors.
    for file in kept_descriptors()? {
        if file.write_all_at(b"x", 0).is_ok() {
            return Err("a receiver wrote to what was shared".into());
        }
    }
    check("what is shared", &shared.bytes()?[..5], b"share")?;
    println!("not cheated");
    bulk.release(shared, b"done").map_err(Error::from)?;
    wait_for_the_end(&mut bulk)
}

/// Tries to create a pool that is larger than the window to the node.
pub(crate) fn too_large(node: &str) -> Outcome {
    let options = PoolOptions::new(1 << 30, 64).reachable_from(node);
    crate::attach()?.create_pool(&options)?;
    Ok(())
}
