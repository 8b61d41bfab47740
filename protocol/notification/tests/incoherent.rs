//! Notification in memory that is not coherent: each side works through an emulated cache of its own, right
//! or with a mistake, which must be noticed.
#![cfg(not(any(loom, sim, miri)))]

#[path = "../../link/tests/mutant/mod.rs"]
mod mutant;

use std::num::NonZeroU32;

use mutant::{Mutant, Mutation};
use tombolo_base::coherence::Evictions;
use tombolo_base::{Random, SharedMemory};
use tombolo_notification::payload;

/// At one in this many operations a line is evicted.
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

/// The bytes of a message.
fn content(seed: u64, index: u64, most_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_add(index.wrapping_mul(77)));
    let length = random.index(most_bytes + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

/// One run of a FIFO in random steps; what went wrong, if anything did.
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

#[test]
fn messages_arrive_at_every_rate_of_evictions() {
    for rate in RATES {
        for seed in 0..SEEDS {
            assert_eq!(run(rate, seed, Mutation::None), Ok(()), "one in {rate:?}, seed {seed}");
        }
    }
}

/// In how many of 12 runs the mutant is noticed, for each rate.
fn noticed(mutation: Mutation) -> [usize; 4] {
    RATES.map(|rate| (0..12).filter(|seed| run(rate, *seed, mutation).is_err()).count())
}

#[test]
fn an_operation_that_is_omitted_is_noticed_where_nothing_is_evicted() {
    for mutation in [Mutation::NoWriteBack, Mutation::NoInvalidate] {
        assert_eq!(noticed(mutation)[0], 12, "{mutation:?}");
    }
}

#[test]
fn operations_in_the_wrong_order_are_noticed() {
    let noticed = noticed(Mutation::LateWriteBack);
    assert!(noticed.iter().sum::<usize>() > 0, "{noticed:?}");
}
