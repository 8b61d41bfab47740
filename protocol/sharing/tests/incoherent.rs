//! Shared objects in incoherent memory: each rank works through an emulated cache of its own.
#![cfg(not(any(loom, sim, miri)))]

#[path = "../../link/tests/mutant/mod.rs"]
mod mutant;

use std::num::NonZeroU32;

use mutant::{Mutant, Mutation};
use tombolo_base::coherence::Evictions;
use tombolo_base::{Random, SharedMemory};
use tombolo_sharing::{
    Access, CHUNK_BYTES, Caching, Consistency, Header, Layout, Memory, Object, Rank, Ranks, Step,
};

/// Eviction rates: a line is evicted in one of this many operations.
const RATES: [Option<u32>; 4] = [None, Some(64), Some(4), Some(2)];

/// Runs at each rate; fewer under an emulator.
const SEEDS: u64 = if cfg!(target_arch = "x86_64") { 20 } else { 3 };

const RANKS: usize = 3;

/// Length of two chunks, the second of them partial.
const LENGTH_BYTES: usize = CHUNK_BYTES + 200;

/// Number of acquisitions in a run.
const ROUNDS: u32 = 60;

struct Party {
    memory: SharedMemory<Mutant>,
    object: Object<Consistency>,
}

/// Offsets where a write puts its number: at the ends of both chunks, and in the middle of words.
const WRITE_OFFSETS: [usize; 4] = [0, CHUNK_BYTES - 8, CHUNK_BYTES + 4, LENGTH_BYTES - 8];

impl Party {
    fn read_numbers(&self) -> Result<[u64; 4], String> {
        let mut numbers = [0; 4];
        for (number, place) in numbers.iter_mut().zip(WRITE_OFFSETS) {
            let mut bytes = [0; 8];
            self.object.read(&self.memory, place, &mut bytes).map_err(|fault| fault.to_string())?;
            *number = u64::from_le_bytes(bytes);
        }
        Ok(numbers)
    }

    /// Performs one step. Returns whether the rank made progress.
    fn step(&mut self, random: &mut Random, rounds: &mut u32, last: &mut u64) -> Result<bool, String> {
        let object = &mut self.object;
        let to_text = |fault: tombolo_sharing::Fault| fault.to_string();
        match object.step(&self.memory, Ranks::NONE).map_err(to_text)? {
            Step::Idle if *rounds > 0 => {
                *rounds -= 1;
                let access = if random.index(2) == 0 { Access::Read } else { Access::Write };
                object.acquire(access).map_err(to_text)?;
                Ok(true)
            }
            Step::Held => {
                let numbers = self.read_numbers()?;
                if numbers != [*last; 4] {
                    return Err(format!("{numbers:?} under a guard, {last} was written last"));
                }
                if self.object.held() == Some(Access::Write) {
                    *last += 1;
                    for place in WRITE_OFFSETS {
                        self.object.write(&self.memory, place, &last.to_le_bytes()).map_err(to_text)?;
                    }
                }
                self.object.release().map_err(to_text)?;
                Ok(true)
            }
            Step::Working => Ok(true),
            Step::Idle | Step::Waiting(_) => Ok(false),
            Step::Abandoned(died) => Err(format!("{died:?} died")),
        }
    }
}

/// Performs one run of ranks in random steps. The error describes the failure.
fn run(
    rate: Option<u32>,
    seed: u64,
    mutation: Mutation,
    (consistency, caching): (Consistency, Caching),
) -> Result<(), String> {
    let layout = Layout::new(128, RANKS, LENGTH_BYTES).unwrap();
    let memory = SharedMemory::zeroed(128 + layout.total_bytes());
    let header = Header { id: 7, shape: 9, consistency, caching };
    header.create(&memory, &layout, &[0; LENGTH_BYTES]).unwrap();
    let party = |rank| {
        let evictions = Evictions { seed: seed + rank as u64, one_in: rate.and_then(NonZeroU32::new) };
        let memory = Mutant::view(&memory, evictions, mutation);
        let (found, layout) = Header::read(&memory, 128, RANKS, 7, 9).map_err(|fault| fault.to_string())?;
        let object = Object::new(layout, Rank(rank as u8), found.consistency, found.caching);
        Ok(Party { memory, object })
    };
    let mut parties = (0..RANKS).map(party).collect::<Result<Vec<_>, String>>()?;
    let mut random = Random::new(seed);
    let (mut rounds, mut last, mut idle_steps) = (ROUNDS, 0, 0);
    while idle_steps < 300 {
        let party = random.index(RANKS);
        // Several steps of one rank in a row, as well as alternating ones.
        for _ in 0..=random.index(12) {
            let moved = parties[party].step(&mut random, &mut rounds, &mut last)?;
            idle_steps = if moved { 0 } else { idle_steps + 1 };
        }
    }
    let is_idle = |party: &mut Party| party.object.acquire(Access::Read).is_ok();
    if rounds == 0 && parties.iter_mut().all(is_idle) { Ok(()) } else { Err("stuck".to_owned()) }
}

fn kinds() -> impl Iterator<Item = (Consistency, Caching)> {
    let cachings = [Caching::Cached, Caching::Uncached, Caching::WriteThrough];
    Consistency::ALL.into_iter().flat_map(move |consistency| cachings.map(|caching| (consistency, caching)))
}

#[test]
fn guards_see_the_last_write_at_every_rate_of_evictions() {
    for kind in kinds() {
        for rate in RATES {
            for seed in 0..SEEDS {
                let outcome = run(rate, seed, Mutation::None, kind);
                assert_eq!(outcome, Ok(()), "{kind:?}, one in {rate:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn omitted_operation_is_detected_without_evictions() {
    for mutation in [Mutation::NoWriteBack, Mutation::NoInvalidate] {
        for kind in kinds() {
            let noticed = (0..6).filter(|seed| run(None, *seed, mutation, kind).is_err()).count();
            assert_eq!(noticed, 6, "{mutation:?}, {kind:?}");
        }
    }
}

#[test]
fn misordered_operations_are_detected() {
    let noticed: usize = kinds()
        .flat_map(|kind| RATES.map(|rate| (kind, rate)))
        .map(|(kind, rate)| {
            (0..4).filter(|seed| run(rate, *seed, Mutation::LateWriteBack, kind).is_err()).count()
        })
        .sum();
    assert!(noticed > 0);
}

#[test]
fn dead_writer_is_reported_until_repaired() {
    let layout = Layout::new(0, RANKS, 16).unwrap();
    let memory = SharedMemory::zeroed(layout.total_bytes());
    let consistency = Consistency::Timestamp;
    let caching = Caching::Cached;
    Header { id: 1, shape: 2, consistency, caching }.create(&memory, &layout, &[1; 16]).unwrap();
    let [mut victim, mut reader, mut other] =
        [0, 1, 2].map(|rank| Object::new(layout, Rank(rank), consistency, caching));
    let run_until_blocked = |object: &mut Object<Consistency>, gone: Ranks| loop {
        match object.step(&memory, gone).unwrap() {
            Step::Working => {}
            other => return other,
        }
    };
    victim.acquire(Access::Write).unwrap();
    assert_eq!(run_until_blocked(&mut victim, Ranks::NONE), Step::Held);
    reader.acquire(Access::Read).unwrap();
    assert_eq!(run_until_blocked(&mut reader, Ranks::NONE), Step::Waiting(Rank(0)));
    let gone = Ranks::of(Rank(0));
    assert_eq!(run_until_blocked(&mut reader, gone), Step::Abandoned(gone));
    reader.withdraw(&memory).unwrap();
    other.acquire(Access::Repair).unwrap();
    assert_eq!(run_until_blocked(&mut other, gone), Step::Held);
    other.write(&memory, 0, &[7; 16]).unwrap();
    other.release().unwrap();
    assert_eq!(run_until_blocked(&mut other, gone), Step::Idle);
    reader.acquire(Access::Read).unwrap();
    assert_eq!(run_until_blocked(&mut reader, gone), Step::Held);
    let mut bytes = [0; 16];
    reader.read(&memory, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 16]);
    // Read access does not permit writes, and nothing is accessed without a guard.
    assert!(reader.write(&memory, 0, &bytes).is_err());
    reader.release().unwrap();
    assert_eq!(run_until_blocked(&mut reader, gone), Step::Idle);
    assert!(reader.read(&memory, 0, &mut bytes).is_err());
}

#[test]
fn arbitrary_words_cause_a_fault_or_a_wait() {
    let layout = Layout::new(0, RANKS, 100).unwrap();
    let mut random = Random::new(3);
    for seed in 0..2000 {
        let memory = SharedMemory::zeroed(layout.total_bytes());
        let consistency = Consistency::ALL[random.index(3)];
        let header = Header { id: 1, shape: 2, consistency, caching: Caching::Cached };
        header.create(&memory, &layout, &[1; 100]).unwrap();
        for _ in 0..1 + random.index(8) {
            let word = random.index(layout.data() / 8);
            let value = if seed % 2 == 0 { random.word() } else { random.word() & 0x707 };
            Memory::store(&memory, word * 8, value).unwrap();
        }
        let Ok((header, found)) = Header::read(&memory, 0, RANKS, 1, 2) else { continue };
        let mut object = Object::new(found, Rank(1), header.consistency, header.caching);
        object.acquire(Access::Write).unwrap();
        for _ in 0..100 {
            match object.step(&memory, Ranks(random.word() & 7)) {
                Ok(Step::Held) => object.release().unwrap(),
                Ok(Step::Abandoned(_)) | Err(_) => object.withdraw(&memory).unwrap(),
                Ok(_) => {}
            }
        }
    }
}
