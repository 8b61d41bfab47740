//! Channels in incoherent memory: each end works through an emulated cache of its own.
//!
//! Without evictions a missing cache operation leaves a message or a wake-up behind forever; with many of
//! them an operation in the wrong order delivers wrong bytes. So each rate is tried, and each mutant, which
//! omits or delays one kind of operation, must be detected at some rate.
#![cfg(not(any(loom, sim, miri)))]

mod mutant;

use std::cell::RefCell;
use std::num::NonZeroU32;

use mutant::{Mutant, Mutation};
use tombolo_base::coherence::{EmulatedCache, Evictions};
use tombolo_base::{CacheMaintenance, Random, SharedMemory};
use tombolo_link::end::{Announced, Awaited, ChannelEnd, DeferredSignals, EndError};
use tombolo_link::{ChannelConfig, ChannelLayout, Hello, Opening, Side};
use tombolo_ring::{SlotSize, Variant};

/// Eviction rates: a line is evicted in one of this many operations.
const RATES: [Option<u32>; 4] = [None, Some(64), Some(4), Some(2)];

/// Runs of each configuration at each rate; fewer under an emulator.
const SEEDS: u64 = if cfg!(target_arch = "x86_64") { 20 } else { 3 };

/// One end, what it has sent and received, and whether it sleeps.
struct Party<C: CacheMaintenance> {
    end: ChannelEnd<DeferredSignals, C>,
    sent: u64,
    received: u64,
    asleep: bool,
}

/// Returns the bytes of message `index` of a direction.
fn content(seed: u64, index: u64, max_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_add(index.wrapping_mul(77)));
    let length = random.index(max_bytes + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

fn open<C: CacheMaintenance>(
    views: [SharedMemory<C>; 2],
    config: ChannelConfig,
) -> Result<[Party<C>; 2], String> {
    let hello = Hello::new(config, 7, None);
    let mut signals = [DeferredSignals::default(), DeferredSignals::default()];
    let [view_a, view_b] = &views;
    let mut openings = [
        Opening::start(view_a, Side::A, hello, &mut signals[0]).map_err(|error| error.to_string())?,
        Opening::start(view_b, Side::B, hello, &mut signals[1]).map_err(|error| error.to_string())?,
    ];
    let mut agreed = [None, None];
    for step in 0..1000 {
        let side = step % 2;
        if agreed[side].is_none() {
            agreed[side] = openings[side].step(&mut signals[side]).map_err(|error| error.to_string())?;
        }
    }
    let [Some(agreed_a), Some(agreed_b)] = agreed else { return Err("the handshake is stuck".to_owned()) };
    let end = |index: usize, agreed| {
        let end = openings[index].attach(agreed, signals[index]).map_err(|error| error.to_string())?;
        Ok::<_, String>(Party { end, sent: 0, received: 0, asleep: false })
    };
    Ok([end(0, agreed_a)?, end(1, agreed_b)?])
}

/// Sends `messages` in each direction in random steps. The error describes the failure.
fn exchange<C: CacheMaintenance>(
    views: [SharedMemory<C>; 2],
    config: ChannelConfig,
    seed: u64,
    messages: u64,
) -> Result<(), String> {
    let mut parties = open(views, config)?;
    let max_bytes = parties[0].end.max_message_bytes().min(300);
    let mut random = Random::new(seed);
    let mut idle_steps = 0;
    while idle_steps < 4000 {
        let side = random.index(2);
        let moved = step(&mut parties, side, &mut random, [seed, max_bytes as u64, messages])?;
        idle_steps = if moved { 0 } else { idle_steps + 1 };
        if parties.iter().all(|party| party.sent == messages && party.received == messages) {
            return close(parties);
        }
    }
    let progress = parties.each_ref().map(|party| (party.sent, party.received, party.asleep));
    Err(format!("stuck: {progress:?}"))
}

/// Performs one random operation of one side. Returns whether it moved anything.
fn step<C: CacheMaintenance>(
    parties: &mut [Party<C>; 2],
    side: usize,
    random: &mut Random,
    [seed, max_bytes, messages]: [u64; 3],
) -> Result<bool, String> {
    let party = &mut parties[side];
    if party.asleep {
        return Ok(false);
    }
    let index = party.sent;
    let message = content(seed ^ side as u64, index, max_bytes as usize);
    let moved = match random.index(5) {
        0 | 1 if index < messages => match party.end.try_send(&message) {
            Ok(()) => true,
            Err(EndError::Full) => false,
            Err(error) => return Err(format!("send: {error} {:?}", party.end.violation())),
        },
        2 if index < messages => {
            let sent = party.end.try_send_in_place(message.len(), |mut claim| {
                claim.write_at(0, &message).expect("it has this length");
                claim.commit();
            });
            matches!(sent, Ok(()))
        }
        3 if index + 2 < messages => {
            let added = batch(party, seed ^ side as u64, max_bytes as usize)?;
            party.sent += added;
            wake(parties);
            return Ok(added > 0);
        }
        _ => return receive_or_sleep(parties, side, seed, max_bytes as usize),
    };
    party.sent += u64::from(moved);
    wake(parties);
    Ok(moved)
}

/// Sends up to two messages together. Returns their number.
fn batch<C: CacheMaintenance>(party: &mut Party<C>, seed: u64, max_bytes: usize) -> Result<u64, String> {
    let (first, mut added) = (party.sent, 0);
    let sent = party.end.try_send_batch(|mut batch| {
        while added < 2 && batch.push(&content(seed, first + added, max_bytes)).is_ok() {
            added += 1;
        }
        batch.commit();
    });
    sent.map_err(|error| error.to_string())
}

fn receive_or_sleep<C: CacheMaintenance>(
    parties: &mut [Party<C>; 2],
    side: usize,
    seed: u64,
    max_bytes: usize,
) -> Result<bool, String> {
    let party = &mut parties[side];
    let bytes = RefCell::new(Vec::new());
    let received = party.end.try_recv(|message| *bytes.borrow_mut() = message.to_vec());
    let moved = match received {
        Ok(Some(())) => {
            let expected = content(seed ^ (1 - side) as u64, party.received, max_bytes);
            if bytes.into_inner() != expected {
                return Err(format!("message {} has wrong bytes", party.received));
            }
            party.received += 1;
            true
        }
        Ok(None) => {
            assert_eq!(party.end.announce(Awaited::Message), Announced::Complete);
            party.asleep = party.end.may_sleep(Awaited::Message);
            if !party.asleep {
                party.end.finish_sleep(false);
            }
            false
        }
        Err(error) => return Err(format!("receive: {error} {:?}", party.end.violation())),
    };
    wake(parties);
    Ok(moved)
}

/// Delivers the rings of both sides. A side that has nothing left to receive is woken at once.
fn wake<C: CacheMaintenance>(parties: &mut [Party<C>; 2]) {
    for side in [0, 1] {
        if parties[side].end.signals_mut().take_ring() {
            let other = &mut parties[1 - side];
            other.asleep = false;
            other.end.finish_sleep(true);
        }
    }
    // A side that still has to send does not sleep on messages for long.
    for side in [0, 1] {
        let nothing_to_come = parties[1 - side].sent == parties[side].received;
        if parties[side].asleep && nothing_to_come {
            parties[side].asleep = false;
            parties[side].end.finish_sleep(false);
        }
    }
}

fn close<C: CacheMaintenance>([mut a, mut b]: [Party<C>; 2]) -> Result<(), String> {
    a.end.close();
    match b.end.try_recv(|_| ()) {
        Err(EndError::Closed) => Ok(()),
        found => Err(format!("after a close: {found:?}")),
    }
}

fn shapes() -> Vec<ChannelConfig> {
    [
        (SlotSize::B32, 4, Variant::EpochCredit),
        (SlotSize::B64, 4, Variant::EpochCredit),
        (SlotSize::B64, 2, Variant::EpochCredit),
        (SlotSize::B128, 4, Variant::EpochCredit),
        (SlotSize::B128, 8, Variant::EpochCredit),
    ]
    .map(|(slot, slots, variant)| ChannelConfig::new(slot, slots, variant).unwrap())
    .into()
}

/// Performs one run. The error describes the failure.
fn run(config: ChannelConfig, rate: Option<u32>, seed: u64, mutation: Mutation) -> Result<(), String> {
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let view = |seed| {
        let evictions = Evictions { seed, one_in: rate.and_then(NonZeroU32::new) };
        Mutant::view(&memory, evictions, mutation)
    };
    exchange([view(seed), view(!seed)], config, seed, 40)
}

#[test]
fn messages_and_wake_ups_arrive_at_every_eviction_rate() {
    for config in shapes() {
        for rate in RATES {
            for seed in 0..SEEDS {
                let result = run(config, rate, seed, Mutation::None);
                assert_eq!(result, Ok(()), "{config:?}, one in {rate:?}, seed {seed}");
            }
        }
    }
}

/// Returns, for each rate, in how many of 12 runs the mutant is detected.
fn detected(config: ChannelConfig, mutation: Mutation) -> [usize; 4] {
    RATES.map(|rate| (0..12).filter(|seed| run(config, rate, *seed, mutation).is_err()).count())
}

#[test]
fn omitted_operation_is_detected_without_evictions() {
    for config in shapes() {
        for mutation in [Mutation::NoWriteBack, Mutation::NoInvalidate] {
            assert_eq!(detected(config, mutation)[0], 12, "{config:?} {mutation:?}");
        }
    }
}

#[test]
fn write_backs_in_the_wrong_order_are_detected() {
    for config in shapes() {
        let detected = detected(config, Mutation::LateWriteBack);
        assert!(detected.iter().sum::<usize>() > 0, "{config:?} {detected:?}");
    }
}

/// The producer's cache may hold a slot's word from before the consumer cleared it, and evict it with the
/// first bytes of the next message: the consumer would find an old message.
#[test]
fn two_writers_of_one_line_are_refused() {
    let config = ChannelConfig::new(SlotSize::B64, 4, Variant::UsedFlag).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let view = EmulatedCache::view(memory, Evictions::default());
    let attached = ChannelEnd::attach(
        &view,
        Side::A,
        config,
        tombolo_link::end::WakeOrder::Fence,
        DeferredSignals::default(),
    );
    let error = attached.expect_err("the slots share lines").to_string();
    assert!(error.contains("needs coherent memory"), "{error}");
}
