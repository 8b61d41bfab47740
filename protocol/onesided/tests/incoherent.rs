//! One-sided operations in incoherent memory: each side works through an emulated cache of its own.
//!
//! Without evictions a missing cache operation leaves data or a flag behind forever; with many of them an
//! operation in the wrong order delivers wrong bytes. So each rate is tried, and each mutant must be
//! detected.
#![cfg(not(any(loom, sim, miri)))]

#[path = "../../link/tests/mutant/mod.rs"]
mod mutant;

use std::num::NonZeroU32;

use mutant::{Mutant, Mutation};
use tombolo_base::coherence::Evictions;
use tombolo_base::{CacheMaintenance, Random, SharedMemory};
use tombolo_onesided::{FlagReader, FlagWriter, ValueFlag, copy, get, put};

/// Eviction rates: a line is evicted in one of this many operations.
const RATES: [Option<u32>; 4] = [None, Some(64), Some(4), Some(2)];

/// Runs at each rate; fewer under an emulator.
const SEEDS: u64 = if cfg!(target_arch = "x86_64") { 60 } else { 5 };

/// Maximum length of a message, in bytes: several lines, but not a whole number of them.
const MAX_BYTES: usize = 300;

/// Memory of each side, in bytes: room for a message, room for a copy of one, and the lines that it writes.
const SIDE_BYTES: usize = 1024;

/// Number of messages in each direction.
const MESSAGES: u64 = 30;

struct Party<C: CacheMaintenance> {
    memory: SharedMemory<C>,
    side: usize,
    /// Signals that a message is available.
    ready: FlagWriter<C>,
    /// Signals that the other side's message was taken.
    taken: FlagWriter<C>,
    others_ready: FlagReader<C>,
    others_taken: FlagReader<C>,
    /// Written by both sides in turn.
    turn: ValueFlag<C>,
    turns: u64,
}

impl<C: CacheMaintenance> Party<C> {
    fn new(memory: SharedMemory<C>, side: usize) -> Self {
        let (own, other) = (side * SIDE_BYTES, (1 - side) * SIDE_BYTES);
        Party {
            side,
            ready: FlagWriter::new(&memory, own + 896).unwrap(),
            taken: FlagWriter::new(&memory, own + 960).unwrap(),
            others_ready: FlagReader::new(&memory, other + 896).unwrap(),
            others_taken: FlagReader::new(&memory, other + 960).unwrap(),
            turn: ValueFlag::new(&memory, 2 * SIDE_BYTES).unwrap(),
            turns: 0,
            memory,
        }
    }

    fn is_done(&self) -> bool {
        self.ready.raised() == MESSAGES && self.others_ready.taken() == MESSAGES && self.turns == MESSAGES
    }

    /// Puts the next message into this side's memory, if the last one was taken.
    fn send(&mut self, seed: u64) -> bool {
        let index = self.ready.raised();
        if index == MESSAGES || self.others_taken.latest() < index {
            return false;
        }
        let message = content(seed ^ self.side as u64, index);
        put(&self.memory, self.side * SIDE_BYTES, &message).unwrap();
        self.ready.raise_with(3, &[message.len() as u64]);
        true
    }

    /// Gets the other side's message, if there is one, half of the time through a copy.
    fn receive(&mut self, seed: u64) -> Result<bool, String> {
        let index = self.others_ready.taken();
        if !self.others_ready.is_raised() {
            return Ok(false);
        }
        let mut from = (1 - self.side) * SIDE_BYTES;
        let length = self.others_ready.word(3) as usize;
        if length > MAX_BYTES {
            return Err(format!("message {index} has {length} bytes"));
        }
        if index.is_multiple_of(2) {
            let to = self.side * SIDE_BYTES + 512;
            copy(&self.memory, from, to, length.next_multiple_of(8)).unwrap();
            from = to;
        }
        let mut message = vec![0; length];
        get(&self.memory, from, &mut message).unwrap();
        if message != content(seed ^ (1 - self.side) as u64, index) {
            return Err(format!("message {index} has wrong bytes"));
        }
        self.others_ready.take();
        self.taken.raise();
        Ok(true)
    }

    /// Passes the turn on, if this side has it.
    fn pass(&mut self) -> Result<bool, String> {
        let (mine, others) = (self.side as u64, 1 - self.side as u64);
        if self.turns == MESSAGES || self.turn.read() & 1 != mine {
            return Ok(false);
        }
        let mut tag = [0; 8];
        self.turn.tag(&mut tag);
        let passed = u64::from_ne_bytes(tag);
        if passed != 2 * self.turns + mine {
            return Err(format!("turn {} has the tag {passed}", self.turns));
        }
        self.turns += 1;
        self.turn.write(others, &(passed + 1).to_ne_bytes());
        Ok(true)
    }
}

/// Returns the bytes of message `index` of a direction.
fn content(seed: u64, index: u64) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_add(index.wrapping_mul(77)));
    let length = random.index(MAX_BYTES + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

/// Performs one run of two sides in random steps. The error describes the failure.
fn run(rate: Option<u32>, seed: u64, mutation: Mutation) -> Result<(), String> {
    let memory = SharedMemory::zeroed(2 * SIDE_BYTES + 64);
    let view = |seed| {
        let evictions = Evictions { seed, one_in: rate.and_then(NonZeroU32::new) };
        Mutant::view(&memory, evictions, mutation)
    };
    let mut parties = [Party::new(view(seed), 0), Party::new(view(!seed), 1)];
    let mut random = Random::new(seed);
    let mut idle_steps = 0;
    while idle_steps < 2000 {
        let party = &mut parties[random.index(2)];
        let moved = match random.index(3) {
            0 => party.send(seed),
            1 => party.receive(seed)?,
            _ => party.pass()?,
        };
        idle_steps = if moved { 0 } else { idle_steps + 1 };
        if parties.iter().all(Party::is_done) {
            return Ok(());
        }
    }
    Err("stuck".to_owned())
}

#[test]
fn data_and_flags_arrive_at_every_eviction_rate() {
    for rate in RATES {
        for seed in 0..SEEDS {
            assert_eq!(run(rate, seed, Mutation::None), Ok(()), "one in {rate:?}, seed {seed}");
        }
    }
}

/// Returns, for each rate, in how many of 12 runs the mutant is detected.
fn detected(mutation: Mutation) -> [usize; 4] {
    RATES.map(|rate| (0..12).filter(|seed| run(rate, *seed, mutation).is_err()).count())
}

#[test]
fn omitted_operation_is_detected_without_evictions() {
    for mutation in [Mutation::NoWriteBack, Mutation::NoInvalidate] {
        assert_eq!(detected(mutation)[0], 12, "{mutation:?}");
    }
}

#[test]
fn misordered_operations_are_detected() {
    let detected = detected(Mutation::LateWriteBack);
    assert!(detected.iter().sum::<usize>() > 0, "{detected:?}");
}
