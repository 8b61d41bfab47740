//! Notification in incoherent memory: each side works through an emulated cache of its own, either correct or
//! with a fault that must be detected.
#![cfg(not(any(loom, sim, miri)))]

#[path = "../../link/tests/mutant/mod.rs"]
mod mutant;

use std::num::NonZeroU32;

use mutant::{Mutant, Mutation};
use tombolo_base::coherence::Evictions;
use tombolo_base::sync::Ordering;
use tombolo_base::{Random, SharedMemory};
use tombolo_notification::{payload, ring, tree};

/// Eviction rates: a line is evicted in one of this many operations.
const RATES: [Option<u32>; 4] = [None, Some(64), Some(4), Some(2)];

/// Runs at each rate; fewer under an emulator.
const SEEDS: u64 = if cfg!(target_arch = "x86_64") { 40 } else { 5 };

/// Messages of a run.
const MESSAGES: u64 = 40;

fn views(
    memory: &SharedMemory,
    rate: Option<u32>,
    seed: u64,
    mutation: Mutation,
) -> [SharedMemory<Mutant>; 2] {
    let one_in = rate.and_then(NonZeroU32::new);
    [seed, !seed].map(|seed| Mutant::view(memory, Evictions { seed, one_in }, mutation))
}

/// Returns the bytes of a message.
fn content(seed: u64, index: u64, max_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_add(index.wrapping_mul(77)));
    let length = random.index(max_bytes + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

/// Performs one run of a FIFO in random steps. The error describes the failure.
fn run(rate: Option<u32>, seed: u64, mutation: Mutation) -> Result<(), String> {
    let layout = payload::Layout::new(512).ok_or("a layout")?;
    let memory = SharedMemory::zeroed(layout.total_bytes());
    let [theirs, ours] = views(&memory, rate, seed, mutation);
    let mut sender = payload::Sender::new(&theirs, layout).map_err(|error| error.to_string())?;
    let mut receiver = payload::Receiver::new(&ours, layout).map_err(|error| error.to_string())?;
    let mut random = Random::new(seed);
    let (mut received, mut idle_steps, mut bytes) = (0, 0, Vec::new());
    while received < MESSAGES {
        let moved = if random.index(2) == 0 && sender.sent() < MESSAGES {
            let message = content(seed, sender.sent(), layout.max_payload_bytes());
            match sender.try_send(sender.sent(), &message) {
                Ok(()) => true,
                Err(payload::SendError::Full) => false,
                Err(error) => return Err(error.to_string()),
            }
        } else if let Some(message) = receiver.try_receive(&mut bytes).map_err(|error| error.to_string())? {
            if message.tag != received || bytes != content(seed, received, layout.max_payload_bytes()) {
                return Err(format!("message {received} is wrong"));
            }
            received += 1;
            true
        } else {
            receiver.release();
            false
        };
        idle_steps = if moved { 0 } else { idle_steps + 1 };
        if idle_steps > 2000 {
            return Err("stuck".to_owned());
        }
    }
    Ok(())
}

/// Form of notification by ids, with the ends of both sides.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Ids {
    Ring(ring::Sender<Mutant>, ring::Receiver<Mutant>),
    Tree(Box<(tree::Sender<Mutant>, tree::Receiver<Mutant>)>),
}

impl Ids {
    fn new(is_ring: bool, [theirs, ours]: &[SharedMemory<Mutant>; 2]) -> Option<Ids> {
        if is_ring {
            let layout = ring::Layout::new(16)?;
            return Some(Ids::Ring(
                ring::Sender::new(theirs, layout).ok()?,
                ring::Receiver::new(ours, layout).ok()?,
            ));
        }
        let both = (tree::Sender::new(theirs).ok()?, tree::Receiver::new(ours).ok()?);
        Some(Ids::Tree(Box::new(both)))
    }

    fn notify(&mut self, channel: u16) -> bool {
        match self {
            Ids::Ring(sender, _) => sender.try_notify(channel).is_ok(),
            Ids::Tree(both) => {
                both.0.notify(channel);
                true
            }
        }
    }

    fn take(&mut self) -> Result<Vec<u16>, String> {
        let mut all = Vec::new();
        match self {
            Ids::Ring(_, receiver) => all.extend(receiver.take().map_err(|error| error.to_string())?),
            Ids::Tree(both) => _ = both.1.take(|channel| all.push(channel)),
        }
        Ok(all)
    }
}

/// Sends event numbers on several channels, which the receiver reads only when it is notified.
fn run_ids(is_ring: bool, rate: Option<u32>, seed: u64, mutation: Mutation) -> Result<(), String> {
    const CHANNELS: [u16; 5] = [0, 1, 255, 256, 65_279];
    let memory = SharedMemory::zeroed(tree::TOTAL_BYTES + CHANNELS.len() * 64);
    let both = views(&memory, rate, seed, mutation);
    let mut ids = Ids::new(is_ring, &both).ok_or("a layout")?;
    let word = |index: usize| (tree::TOTAL_BYTES + index * 64) / 8;
    let mut random = Random::new(seed);
    let (mut sent, mut seen, mut left, mut idle) = ([0; 5], [0; 5], MESSAGES, 0);
    while left > 0 || sent != seen {
        idle += 1;
        if idle > 2000 {
            return Err("stuck".to_owned());
        }
        if random.index(2) == 0 && left > 0 {
            let index = random.index(5);
            both[0].store_through_le(word(index), sent[index] + 1, Ordering::Release);
            // A refused notification is retried; its data stays written.
            if ids.notify(CHANNELS[index]) {
                (sent[index], left, idle) = (sent[index] + 1, left - 1, 0);
            }
        } else {
            for channel in ids.take()? {
                let index = CHANNELS.iter().position(|known| *known == channel);
                let index = index.ok_or_else(|| format!("channel {channel}"))?;
                seen[index] = both[1].load_current_le(word(index), Ordering::Acquire).min(sent[index]);
                idle = 0;
            }
        }
    }
    Ok(())
}

#[test]
fn notified_channels_are_taken_at_every_eviction_rate() {
    for is_ring in [true, false] {
        for rate in RATES {
            for seed in 0..SEEDS {
                let outcome = run_ids(is_ring, rate, seed, Mutation::None);
                assert_eq!(outcome, Ok(()), "ring: {is_ring}, one in {rate:?}, seed {seed}");
            }
        }
        for mutation in [Mutation::NoWriteBack, Mutation::NoInvalidate] {
            let detected = (0..12).filter(|seed| run_ids(is_ring, None, *seed, mutation).is_err()).count();
            assert_eq!(detected, 12, "ring: {is_ring}, {mutation:?}");
        }
    }
}

#[test]
fn messages_arrive_at_every_eviction_rate() {
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
