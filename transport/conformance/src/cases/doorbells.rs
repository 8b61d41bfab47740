//! The steps of a sleep one by one: announcement, last poll, ring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tombolo_platform::barrier;
use tombolo_platform::event::Interest;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::contract::Announced;
use tombolo_transport::wrap::Checked;
use tombolo_transport::{EndError, Transport, TransportExt};

use super::transfer::{drain, fill};
use crate::any_channel::AnyChannel;
use crate::carrier::{shape, wait_until_readable};
use crate::messages::{check, message, recv};
use crate::patience::{deadline, patience};
use crate::subject::{Pair, Subject};

fn announce<T: Transport>(channel: &mut T, awaited: Interest) {
    if channel.announce_sleep(awaited) == Announced::NeedsBarrier {
        barrier::global();
    }
}

/// Returns a channel whose handshake rings have been read, as far as they have arrived.
fn channel(subject: &Subject, variant: Variant) -> Pair {
    let (mut a, mut b) = subject.racing_pair(shape(SlotSize::B64, 16, variant));
    a.finish_sleep(true);
    b.finish_sleep(true);
    (a, b)
}

/// Whether `channel` has been rung without a reason. Always false if rings are forwarded: a ring of the
/// handshake may then arrive at any time, and the peer's counters must show that it did not ring.
fn rung_without_cause(subject: &Subject, channel: &Checked<AnyChannel>, awaited: Interest) -> bool {
    !subject.forwards_rings && subject.wakes_within(channel, awaited, Duration::ZERO)
}

pub(crate) fn the_last_poll_sees_earlier_messages(subject: &Subject) {
    for variant in subject.variants() {
        let (mut a, mut b) = channel(subject, variant);
        a.try_send(b"early").unwrap();
        // Neither side was asleep, so neither was rung. Over TCP the message may still be in transit.
        wait_until_readable(&mut b);
        announce(&mut b, Interest::Read);
        assert!(!b.may_sleep(Interest::Read));
        assert!(!b.may_sleep(Interest::ReadWrite));
        b.finish_sleep(false);
        assert_eq!(recv(&mut b, 0), b"early");
        announce(&mut b, Interest::Read);
        assert!(b.may_sleep(Interest::Read));
        b.finish_sleep(false);
        assert_eq!((a.stats().rings, b.stats().sleeps), (0, 1));

        let length_bytes = a.max_message_bytes();
        let count = fill(&mut a, length_bytes);
        drain(&mut a, &mut b, count, length_bytes);
        announce(&mut a, Interest::Write);
        assert!(!a.may_sleep(Interest::Write));
        a.finish_sleep(false);
        assert_eq!(b.stats().rings, 0);
    }
}

pub(crate) fn a_sleeper_is_rung_for_a_message(subject: &Subject) {
    let (mut a, mut b) = channel(subject, Variant::EpochCredit);
    for _ in 0..3 {
        announce(&mut b, Interest::Read);
        assert!(b.may_sleep(Interest::Read));
        (0..3).for_each(|number| a.try_send(&message(number, 20)).unwrap());
        assert!(subject.wakes_within(&b, Interest::Read, patience()), "it slept over three messages");
        b.finish_sleep(true);
        (0..3).for_each(|number| check(&recv(&mut b, 0), number, 20));
    }
}

/// Holds for any number of messages, also if the sleeper waits for room as well.
pub(crate) fn a_sleeper_is_rung_once(subject: &Subject) {
    for awaited in [Interest::Read, Interest::ReadWrite] {
        let (mut a, mut b) = channel(subject, Variant::EpochCredit);
        if awaited == Interest::ReadWrite {
            let length_bytes = b.max_message_bytes();
            fill(&mut b, length_bytes);
        }
        for round in 1..4 {
            announce(&mut b, awaited);
            assert!(b.may_sleep(awaited));
            assert!(!rung_without_cause(subject, &b, awaited));
            (0..3).for_each(|number| a.try_send(&message(number, 20)).unwrap());
            assert!(subject.wakes_within(&b, awaited, patience()));
            b.finish_sleep(true);
            (0..3).for_each(|number| check(&recv(&mut b, 0), number, 20));
            assert_eq!(a.stats().rings, round);
        }
    }
}

pub(crate) fn a_sleeper_is_rung_for_room(subject: &Subject) {
    for variant in subject.variants() {
        let (mut a, mut b) = channel(subject, variant);
        let length_bytes = a.max_message_bytes();
        let mut expected = fill(&mut a, length_bytes);
        let mut number = 0;
        loop {
            announce(&mut a, Interest::Write);
            if !subject.counts_slots() && !a.may_sleep(Interest::Write) {
                // The kernel has moved its bytes on, and made room by itself.
                return;
            }
            assert!(a.may_sleep(Interest::Write));
            // A ring may be in transit; after everything was received, a missing one never comes.
            let time_limit = |number| if number == expected { patience() } else { Duration::ZERO };
            while !subject.wakes_within(&a, Interest::Write, time_limit(number)) {
                assert!(number < expected, "everything was received and the sender still sleeps");
                check(&recv(&mut b, 0), number, length_bytes);
                number += 1;
                assert!(b.readable() || number == expected || !subject.counts_slots());
            }
            a.finish_sleep(true);
            match a.try_send(&message(expected, length_bytes)) {
                // The ring belonged to the handshake, so the sleep starts anew.
                Err(EndError::Full) if subject.forwards_rings && b.stats().rings == 0 => {}
                sent => break sent.unwrap(),
            }
        }
        expected += 1;
        while number < expected {
            a.has_unsent();
            check(&recv(&mut b, 0), number, length_bytes);
            number += 1;
        }
    }
}

/// Messages do not wake a side that waits for room, nor room a side that waits for a message.
pub(crate) fn side_is_rung_only_for_awaited_events(subject: &Subject) {
    for variant in subject.variants() {
        let (mut a, mut b) = channel(subject, variant);
        let count = fill(&mut a, 20);
        announce(&mut a, Interest::Write);
        assert!(a.may_sleep(Interest::Write));
        b.try_send(b"a message").unwrap();
        assert!(!rung_without_cause(subject, &a, Interest::Write));
        a.finish_sleep(false);

        announce(&mut a, Interest::Read);
        assert!(!a.may_sleep(Interest::Read));
        a.finish_sleep(false);
        assert_eq!(recv(&mut a, 0), b"a message");
        announce(&mut a, Interest::Read);
        assert!(a.may_sleep(Interest::Read));
        (0..count).for_each(|number| check(&recv(&mut b, 0), number, 20));
        assert!(!b.readable());
        assert!(!rung_without_cause(subject, &a, Interest::Read));
        assert_eq!((a.stats().rings, b.stats().rings), (0, 0));
        a.finish_sleep(false);
    }
}

/// One side is about to sleep while the other sends. In any execution order, the last poll finds the message,
/// or the bell is rung, or both.
pub(crate) fn no_wake_up_is_lost_in_a_race(subject: &Subject) {
    let (mut a, mut b) = channel(subject, Variant::EpochCredit);
    let (round, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    let enough = Instant::now() + Duration::from_millis(400);
    let wait_for = |number: &AtomicU64, value| {
        let (mut spins, deadline) = (0_u32, deadline());
        while number.load(Ordering::Acquire) < value {
            spins += 1;
            // The other side may need this processor.
            if spins.is_multiple_of(1_000) {
                assert!(!deadline.passed(), "the other side has failed");
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                wait_for(&round, number);
                if round.load(Ordering::Acquire) == u64::MAX {
                    return;
                }
                for _ in 0..number % 64 {
                    std::hint::spin_loop();
                }
                a.try_send(&message(number, 8)).unwrap();
                sent.store(number, Ordering::Release);
            }
        });
        for number in 1..200_000 {
            if Instant::now() > enough {
                break;
            }
            round.store(number, Ordering::Release);
            for _ in 0..number % 37 {
                std::hint::spin_loop();
            }
            announce(&mut b, Interest::Read);
            let may_sleep = b.may_sleep(Interest::Read);
            wait_for(&sent, number);
            // A ring may be in transit; a lost one never comes.
            let lost = may_sleep
                && !subject.wakes_within(&b, Interest::Read, patience().min(Duration::from_secs(5)));
            b.finish_sleep(may_sleep);
            if lost {
                round.store(u64::MAX, Ordering::Release);
                panic!("it slept over message {number}");
            }
            check(&recv(&mut b, 0), number, 8);
        }
        round.store(u64::MAX, Ordering::Release);
    });
}
