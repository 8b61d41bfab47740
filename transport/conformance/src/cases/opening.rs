//! Two sides that disagree both learn the reason, and so does a side that waits in vain.

use std::time::Duration;

use tombolo_link::{ChannelConfig, HandshakeError, Hello, Refusal, Side};
use tombolo_platform::time::Deadline;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::error::Awaited;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport, TransportExt};

use crate::carrier::{hello, shape};
use crate::messages::{check, message, recv, send};
use crate::patience::{deadline, patience};
use crate::subject::{Opened, Subject};

fn check_exchange<T: Transport>(a: &mut T, b: &mut T) {
    for number in 0..3 {
        send(a, 0, &message(number, 90));
        check(&recv(b, 0), number, 90);
        send(b, 0, &message(!number, 90));
        check(&recv(a, 0), !number, 90);
    }
}

pub(crate) fn either_side_may_come_first(subject: &Subject) {
    let hello = hello(ChannelConfig::default());
    for first in [Side::A, Side::B] {
        let (ends_a, ends_b) = subject.ends(hello.config);
        let ends = if first == Side::A { (ends_a, ends_b) } else { (ends_b, ends_a) };
        let (early, late) = std::thread::scope(|scope| {
            let early = scope.spawn(|| subject.open(ends.0, first, hello, deadline()));
            std::thread::sleep(Duration::from_millis(10));
            let late = subject.open(ends.1, first.other(), hello, deadline());
            (early.join().unwrap(), late)
        });
        check_exchange(&mut early.unwrap(), &mut late.unwrap());
    }
}

#[track_caller]
fn assert_refused((a, b): Opened, refusal_a: Refusal, refusal_b: Refusal) {
    let refusal = |refusal: Refusal| Some(ChannelError::Handshake(refusal.into()));
    assert_eq!(a.err(), refusal(refusal_a), "side A");
    assert_eq!(b.err(), refusal(refusal_b), "side B");
}

pub(crate) fn both_sides_learn_of_a_difference(subject: &Subject) {
    let (config, one) = (ChannelConfig::default(), 1);
    let ours = hello(config);

    for version in [0, 2, u32::MAX] {
        let other = Hello { version, ..ours };
        let refusal = |ours, theirs| Refusal::Version { ours, theirs };
        assert_refused(subject.open_both(other, ours), refusal(version, one), refusal(one, version));
        assert_refused(subject.open_both(ours, other), refusal(one, version), refusal(version, one));
    }

    let larger = Hello { config: shape(SlotSize::B128, 256, Variant::EpochCredit), ..ours };
    let refusal = |ours, theirs| Refusal::SlotSize { ours, theirs };
    assert_refused(subject.open_both(larger, ours), refusal(128, 64), refusal(64, 128));
    assert_refused(subject.open_both(ours, larger), refusal(64, 128), refusal(128, 64));

    let other = Hello { interface_hash: 1, ..ours };
    let refusal = |ours, theirs| Refusal::Interface { ours, theirs };
    let hash = ours.interface_hash;
    assert_refused(subject.open_both(other, ours), refusal(1, hash), refusal(hash, 1));

    let deeper = Hello { config: shape(SlotSize::B64, 16, Variant::EpochCredit), ..ours };
    let flagged = Hello { config: shape(SlotSize::B64, ours.config.slots, Variant::UsedFlag), ..ours };
    if subject.side_a_sets_shape {
        for theirs in [deeper, flagged] {
            let (a, b) = subject.open_both(theirs, ours);
            let (mut a, mut b) = (subject.checked(a.unwrap()), subject.checked(b.unwrap()));
            assert_eq!(a.max_message_bytes(), b.max_message_bytes());
            check_exchange(&mut a, &mut b);
        }
    } else {
        let refusal = |ours, theirs| Refusal::SlotCount { ours, theirs };
        let slots = ours.config.slots;
        assert_refused(subject.open_both(deeper, ours), refusal(16, slots), refusal(slots, 16));
        let refusal = |ours, theirs| Refusal::Variant { ours, theirs };
        assert_refused(subject.open_both(flagged, ours), refusal(1, 0), refusal(0, 1));
    }
}

pub(crate) fn a_program_can_decline(subject: &Subject) {
    for reason in [0, 42, u32::MAX] {
        let hello = hello(ChannelConfig::default());
        let (ends_a, ends_b) = subject.ends(hello.config);
        std::thread::scope(|scope| {
            let a = scope.spawn(|| subject.open(ends_a, Side::A, hello, deadline()));
            subject.decline(ends_b, hello, reason).unwrap();
            let declined = ChannelError::Handshake(HandshakeError::Declined { reason });
            assert_eq!(a.join().unwrap().err(), Some(declined));
        });
    }
}

pub(crate) fn silence_is_a_timeout(subject: &Subject) {
    for side in [Side::A, Side::B] {
        let hello = hello(ChannelConfig::default());
        let (ends_a, ends_b) = subject.ends(hello.config);
        let (ours, theirs) = if side == Side::A { (ends_a, ends_b) } else { (ends_b, ends_a) };
        let opened = subject.open(ours, side, hello, Deadline::after(Duration::from_millis(20)));
        assert_eq!(opened.err(), Some(ChannelError::TimedOut(Awaited::Handshake)));
        drop(theirs);
    }
}

/// A peer that gave up at any stage is reported as having closed the channel, not as dead.
pub(crate) fn a_side_that_gives_up_has_not_died(subject: &Subject) {
    let hello = hello(ChannelConfig::default());
    for round in 0..24 {
        let side = if round % 2 == 0 { Side::A } else { Side::B };
        let (ends_a, ends_b) = subject.ends(hello.config);
        let (ours, theirs) = if side == Side::A { (ends_a, ends_b) } else { (ends_b, ends_a) };
        // Gives up at once, after the peer's hello or verdict has arrived, or when the channel is open.
        let given = Duration::from_micros(round / 2 * 20);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| subject.open(theirs, side.other(), hello, deadline()));
            // Closes a channel that opened after all.
            drop(subject.open(ours, side, hello, Deadline::after(given)));
            let ended = other.join().unwrap().and_then(|mut channel| {
                let mut buffer = Vec::new();
                wait::recv_into(&mut channel, &mut Spin::new(0), &mut buffer, patience())
            });
            assert_eq!(ended, Err(ChannelError::Closed), "{side:?} gave up after {given:?}");
        });
    }
}

pub(crate) fn a_dead_peer_is_distinguished_from_a_silent_one(subject: &Subject) {
    for side in [Side::A, Side::B] {
        let hello = hello(ChannelConfig::default());
        let (ends_a, ends_b) = subject.ends(hello.config);
        let (ours, theirs) = if side == Side::A { (ends_a, ends_b) } else { (ends_b, ends_a) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                drop(theirs);
            });
            let opened = subject.open(ours, side, hello, deadline());
            assert_eq!(opened.err(), Some(ChannelError::PeerDied));
        });
    }
}
