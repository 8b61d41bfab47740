//! Messages arrive complete, unchanged, in order, and once.

use tombolo_link::ChannelConfig;
use tombolo_platform::event::Interest;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{Capabilities, ChannelError, EndError, Stats, Transport, TransportExt};

use crate::carrier::shape;
use crate::messages::{check, message, message_length, recv, send};
use crate::patience::{deadline as a_deadline, expect_in_time, patience};
use crate::subject::Subject;

/// Sends message `number` from one end to the other, and polls once more, which returns all slots.
fn pass<T: Transport>(from: &mut T, to: &mut T, number: u64, length_bytes: usize) {
    send(from, 0, &message(number, length_bytes));
    check(&recv(to, 0), number, length_bytes);
    assert!(!to.readable());
}

pub(crate) fn every_length(subject: &Subject) {
    for config in subject.shapes(16) {
        let (mut a, mut b) = subject.pair(config);
        for length_bytes in (0..=300).step_by(100_usize.div_ceil(subject.effort_percent.max(1) as usize)) {
            pass(&mut a, &mut b, length_bytes as u64, length_bytes);
            pass(&mut b, &mut a, !length_bytes as u64, length_bytes);
        }
    }
}

pub(crate) fn lengths_around_slots_and_limit(subject: &Subject) {
    for config in [2, 16, 256].into_iter().flat_map(|slots| subject.shapes(slots)) {
        let (mut a, mut b) = subject.pair(config);
        let payload_bytes = config.slot.payload_bytes();
        let max_bytes = payload_bytes * config.slots as usize;
        assert_eq!(a.max_message_bytes(), max_bytes);
        for slots in [1, 2, 3, config.slots / 2, config.slots - 1, config.slots] {
            let boundary = slots as usize * payload_bytes;
            for length_bytes in [boundary - 1, boundary, boundary + 1] {
                if length_bytes <= max_bytes {
                    pass(&mut a, &mut b, length_bytes as u64, length_bytes);
                }
            }
        }
        for length_bytes in [max_bytes + 1, 2 * max_bytes, 1 << 24] {
            assert_eq!(a.try_send(&vec![1; length_bytes]), Err(EndError::TooLong));
        }
        assert!(!b.readable());
        pass(&mut a, &mut b, 1, max_bytes);
        assert_eq!(a.stats().messages_sent, b.stats().messages_received);
    }
}

/// Sends and receives `count` messages at the same time.
fn exchange<T: Transport>(channel: &mut T, count: u64, own: u64, others: u64) {
    let max_bytes = channel.max_message_bytes();
    let length = |number| message_length(number, max_bytes);
    let (mut sent, mut received, mut buffer) = (0, 0, Vec::new());
    let mut deadline = a_deadline();
    while sent < count || received < count || channel.has_unsent() {
        let mut idle = true;
        if sent < count {
            match channel.try_send(&message(own + sent, length(sent))) {
                Ok(()) => (sent, idle) = (sent + 1, false),
                Err(error) => assert_eq!(error, EndError::Full),
            }
        }
        while let Some(length_bytes) = channel.try_recv_into(&mut buffer).unwrap() {
            assert_eq!(length_bytes, buffer.len());
            check(&buffer, others + received, length(received));
            (received, idle) = (received + 1, false);
        }
        if idle {
            assert!(!deadline.passed(), "stuck after {sent} sent and {received} received");
            std::thread::yield_now();
        } else {
            deadline = a_deadline();
        }
    }
    assert_eq!(received, count);
}

pub(crate) fn order_both_ways_at_once(subject: &Subject) {
    let both = |config: ChannelConfig, count| {
        let (mut a, mut b) = subject.pair(config);
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&mut a, count, 0, 1 << 40));
            exchange(&mut b, count, 1 << 40, 0);
        });
        assert!(!a.readable() && !b.readable());
    };
    both(ChannelConfig::default(), subject.effort(100_000));
    subject.shapes(2).for_each(|config| both(config, subject.effort(2_000)));
    subject.shapes(16).for_each(|config| both(config, subject.effort(5_000)));
}

/// Fills the ring from `a` to `b`; returns the number of messages.
pub(crate) fn fill<T: Transport>(a: &mut T, length_bytes: usize) -> u64 {
    let mut count = 0;
    loop {
        match a.try_send(&message(count, length_bytes)) {
            Ok(()) => count += 1,
            Err(error) => {
                assert_eq!(error, EndError::Full);
                return count;
            }
        }
        assert!(count * (length_bytes as u64 + 64) < 1 << 26, "a channel takes no end of messages");
    }
}

/// Receives `count` messages at `b`, while `a` offers the kernel what it still holds.
pub(crate) fn drain<T: Transport>(a: &mut T, b: &mut T, count: u64, length_bytes: usize) {
    for number in 0..count {
        let deadline = a_deadline();
        while !b.readable() {
            a.has_unsent();
            assert!(!deadline.passed(), "message {number} of {count} never came");
        }
        check(&recv(b, 0), number, length_bytes);
    }
    assert!(!b.readable());
}

pub(crate) fn a_full_channel_refuses_and_loses_nothing(subject: &Subject) {
    for config in [2, 16, 256].into_iter().flat_map(|slots| subject.shapes(slots)) {
        let (mut a, mut b) = subject.pair(config);
        let single = config.slot.payload_bytes();
        // A stream takes far more than its configuration implies, but long messages fill it sooner.
        let lengths = if subject.counts_slots() { vec![0, 1, single] } else { vec![a.max_message_bytes()] };
        for length_bytes in lengths {
            for _ in 0..subject.effort(3) {
                let count = fill(&mut a, length_bytes);
                assert!(count > 0);
                if subject.counts_slots() {
                    assert_eq!(count, u64::from(config.slots));
                    // On other transports the kernel may have moved some bytes on meanwhile, and made room.
                    assert_eq!(a.try_send(&message(9, length_bytes)), Err(EndError::Full));
                }
                drain(&mut a, &mut b, count, length_bytes);
            }
        }
    }
}

pub(crate) fn stats_count_messages_and_bytes(subject: &Subject) {
    let (mut a, mut b) = subject.pair(ChannelConfig::default());
    let stats = a.stats();
    assert_eq!(stats, Stats { room: stats.room, ..Stats::default() });
    let mut bytes = 0;
    let count = subject.effort(1000);
    for number in 0..count {
        let length_bytes = message_length(number, 1000);
        bytes += length_bytes as u64;
        pass(&mut a, &mut b, number, length_bytes);
    }
    send(&mut b, 0, b"back");
    let _ = a.try_send(&vec![0; 1 << 24]).unwrap_err();
    let (a, b) = (a.stats(), b.stats());
    assert_eq!((a.messages_sent, a.bytes_sent, a.messages_received, a.bytes_received), (count, bytes, 0, 0));
    assert_eq!((b.messages_sent, b.bytes_sent, b.messages_received, b.bytes_received), (1, 4, count, bytes));
}

/// Fills one slot fewer than the ring has, all of them, and one more, with messages of one slot and of
/// several.
pub(crate) fn room_around_the_number_of_slots(subject: &Subject) {
    for config in [2, 16, 256].into_iter().flat_map(|slots| subject.shapes(slots)) {
        let (mut a, mut b) = subject.pair(config);
        let (slots, payload_bytes) = (u64::from(config.slots), config.slot.payload_bytes());
        // Leaves one slot free, and then none.
        (0..slots - 1).for_each(|number| a.try_send(&message(number, 8)).unwrap());
        assert_eq!(a.try_send(&message(0, payload_bytes + 1)), Err(EndError::Full));
        a.try_send(&message(slots - 1, payload_bytes)).unwrap();
        assert_eq!(a.try_send(b""), Err(EndError::Full));
        (0..slots - 1).for_each(|number| check(&recv(&mut b, 0), number, 8));
        check(&recv(&mut b, 0), slots - 1, payload_bytes);
        assert!(!b.readable());
        // A message that takes all slots fits only an empty ring.
        let all_bytes = config.slots as usize * payload_bytes;
        a.try_send(&message(1, all_bytes)).unwrap();
        assert_eq!(a.try_send(b""), Err(EndError::Full));
        check(&recv(&mut b, 0), 1, all_bytes);
        assert!(!b.readable());
        a.try_send(b"one").unwrap();
        assert_eq!(a.try_send(&message(2, all_bytes)), Err(EndError::Full));
        assert_eq!(recv(&mut b, 0), b"one");
    }
}

/// Tests two slots, and the maximum. Counts beyond these are invalid.
pub(crate) fn the_smallest_and_the_largest_shape(subject: &Subject) {
    for slots in [0, 1, 3, 65_535, 65_537, 131_072, u32::MAX] {
        assert!(ChannelConfig::new(SlotSize::B64, slots, Variant::EpochCredit).is_err(), "{slots} slots");
    }
    for slots in [2, subject.max_slots] {
        let config = shape(SlotSize::B32, slots, Variant::EpochCredit);
        let (mut a, mut b) = subject.pair(config);
        let max_bytes = slots as usize * config.slot.payload_bytes();
        assert_eq!(a.max_message_bytes(), max_bytes);
        for number in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| send(&mut a, 0, &message(number, max_bytes)));
                check(&recv(&mut b, 0), number, max_bytes);
            });
            assert!(!b.readable(), "more came than was sent");
            assert_eq!(a.try_send(&vec![0; max_bytes + 1]), Err(EndError::TooLong));
        }
    }
}

/// Readiness to send is true: there is room for a message as long as the last refused one, or an end.
pub(crate) fn readiness_to_send_means_room(subject: &Subject) {
    for config in subject.shapes(16) {
        let (mut a, mut b) = subject.pair(config);
        let length_bytes = a.max_message_bytes();
        let mut sent = 0;
        let deadline = a_deadline();
        // It concerns a message as long as the last refused one, so one must be refused first.
        let mut showed = false;
        loop {
            match a.try_send(&message(sent, length_bytes)) {
                Ok(()) => (sent, showed) = (sent + 1, false),
                Err(error) => {
                    assert_eq!(error, EndError::Full);
                    assert!(!showed, "it showed room and had none");
                    showed = a.is_ready(Interest::Write);
                    if !showed {
                        break;
                    }
                }
            }
            assert!(!deadline.passed(), "it is never full");
        }
        assert!(sent > 0 || !subject.capabilities.contains(Capabilities::NO_SPURIOUS_RESULTS));
        for number in 0..sent {
            a.has_unsent();
            check(&recv(&mut b, 0), number, length_bytes);
        }
        let deadline = a_deadline();
        while !a.is_ready(Interest::Write) {
            assert!(!deadline.passed(), "all room was given back and none is shown");
            a.has_unsent();
            assert!(!b.readable());
        }
        b.close();
        let end = loop {
            // The kernel may still have room for more.
            let sent = expect_in_time(|| {
                wait::send(&mut a, &mut Spin::new(0), &message(0, length_bytes), patience())
            });
            if let Err(error) = sent {
                break error;
            }
        };
        assert_eq!(end, ChannelError::Closed);
        assert!(a.is_ready(Interest::Write), "an end is shown as well");
    }
}
