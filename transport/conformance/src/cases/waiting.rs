//! A sleeper is woken, and a wait that takes too long times out.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::error::Awaited;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::Checked;
use tombolo_transport::{Capabilities, ChannelError, EndError, Transport, TransportExt};

use super::transfer::{drain, fill};
use crate::any_channel::AnyChannel;
use crate::carrier::{shape, wait_until_readable};
use crate::messages::{check, message, message_length, recv, send};
use crate::patience::{deadline, expect_in_time, patience};
use crate::subject::Subject;

const SHORT_TIMEOUT: Duration = Duration::from_millis(5);

fn respond<T: Transport>(channel: &mut T, spin_ns: u64, count: u64) {
    for number in 0..count {
        let length_bytes = message_length(number, channel.max_message_bytes());
        check(&recv(channel, spin_ns), number, length_bytes);
        send(channel, spin_ns, &message(!number, length_bytes));
    }
}

fn request<T: Transport>(channel: &mut T, spin_ns: u64, count: u64) {
    for number in 0..count {
        let length_bytes = message_length(number, channel.max_message_bytes());
        send(channel, spin_ns, &message(number, length_bytes));
        check(&recv(channel, spin_ns), !number, length_bytes);
    }
}

pub(crate) fn ping_pong_asleep(subject: &Subject) {
    let count = subject.effort(8_000);
    for variant in subject.variants() {
        let (mut a, mut b) = subject.racing_pair(shape(SlotSize::B64, 16, variant));
        std::thread::scope(|scope| {
            scope.spawn(|| respond(&mut b, 0, count));
            request(&mut a, 0, count);
        });
        let can_sleep = subject.capabilities.contains(Capabilities::DESCRIPTORS);
        let sleeps = a.stats().sleeps + b.stats().sleeps;
        assert!(!can_sleep || sleeps > 0, "neither side ever slept: nothing was tested");
    }
}

/// One side spins for a time that makes it often about to sleep when the message arrives.
pub(crate) fn ping_pong_about_to_sleep(subject: &Subject) {
    let count = subject.effort(2_000);
    for (spin_a, spin_b) in [(0, 2_000), (1_000, 4_000), (20_000, 0)] {
        let (mut a, mut b) = subject.racing_pair(shape(SlotSize::B32, 2, Variant::EpochCredit));
        std::thread::scope(|scope| {
            scope.spawn(|| respond(&mut b, spin_b, count));
            request(&mut a, spin_a, count);
        });
    }
}

/// Uses the smallest rings, so that both sides sleep all the time: one for room, one for messages.
pub(crate) fn streaming_asleep(subject: &Subject) {
    let count = subject.effort(2_000);
    for config in subject.shapes(2) {
        let (mut a, mut b) = subject.racing_pair(config);
        let max_bytes = a.max_message_bytes();
        // From one slot to all of them.
        let length = |number: u64| (number as usize * 5) % (max_bytes + 1);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..count).for_each(|number| send(&mut a, 0, &message(number, length(number)))));
            (0..count).for_each(|number| check(&recv(&mut b, 0), number, length(number)));
        });
    }
}

pub(crate) fn a_blocked_sender_is_woken_by_room(subject: &Subject) {
    for config in subject.shapes(16) {
        let (mut a, mut b) = subject.pair(config);
        let short = 8;
        // A message that takes most of the ring must wait while only some slots are free.
        let long = a.max_message_bytes() - config.slot.payload_bytes();
        let first = if subject.counts_slots() { short } else { a.max_message_bytes() };
        for blocked in [short, long] {
            let count = fill(&mut a, first);
            std::thread::scope(|scope| {
                scope.spawn(|| send(&mut a, 0, &message(77, blocked)));
                std::thread::sleep(Duration::from_millis(2));
                for number in 0..count {
                    check(&recv(&mut b, 0), number, first);
                    std::thread::yield_now();
                }
                check(&recv(&mut b, 0), 77, blocked);
            });
            assert!(!b.readable());
        }
    }
}

pub(crate) fn timeouts_leave_the_channel_usable(subject: &Subject) {
    for config in subject.shapes(16) {
        let (mut a, mut b) = subject.pair(config);
        let mut buffer = vec![1, 2, 3];
        for spin_ns in [0, 1_000_000_000] {
            for timeout in [Duration::ZERO, SHORT_TIMEOUT] {
                let mut spin = Spin::new(spin_ns);
                let timed_out = wait::recv_into(&mut b, &mut spin, &mut buffer, timeout);
                assert_eq!(timed_out, Err(ChannelError::TimedOut(Awaited::Message)));
                assert_eq!(buffer, [1, 2, 3]);

                let length_bytes = a.max_message_bytes();
                let mut count = fill(&mut a, length_bytes);
                let timed_out = loop {
                    let more = if subject.counts_slots() { vec![7] } else { message(count, length_bytes) };
                    match wait::send(&mut a, &mut spin, &more, timeout) {
                        // A kernel moves its bytes on over time, which makes room, until everything is full.
                        Ok(()) if !subject.counts_slots() => count += 1,
                        result => break result,
                    }
                };
                assert_eq!(timed_out, Err(ChannelError::TimedOut(Awaited::Room)));
                drain(&mut a, &mut b, count, length_bytes);

                send(&mut a, spin_ns, b"still here");
                assert_eq!(recv(&mut b, spin_ns), b"still here");
                send(&mut b, spin_ns, b"and here");
                assert_eq!(recv(&mut a, spin_ns), b"and here");
            }
        }
    }
}

/// Returned slots and arriving messages wake the sides that wait for them, regardless of the other side.
pub(crate) fn two_blocked_senders_both_continue(subject: &Subject) {
    let (mut a, mut b) = subject.pair(shape(SlotSize::B64, 16, Variant::EpochCredit));
    let count = subject.effort(300);
    let side = |channel: &mut Checked<AnyChannel>| {
        let max_bytes = channel.max_message_bytes();
        let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
        let (mut sent, mut received) = (0, 0);
        while sent < count || received < count {
            if sent < count {
                // Often gives up and receives instead, as a program that communicates in both directions
                // must.
                let patience = Duration::from_micros(100 * (sent % 4));
                match wait::send(channel, &mut spin, &message(sent, max_bytes), patience) {
                    Ok(()) => sent += 1,
                    Err(error) => assert_eq!(error, ChannelError::TimedOut(Awaited::Room)),
                }
            }
            while channel.try_recv_into(&mut buffer).unwrap().is_some() {
                check(&buffer, received, max_bytes);
                received += 1;
            }
            if sent == count && received < count {
                check(&recv(channel, 0), received, max_bytes);
                received += 1;
            }
        }
        let deadline = deadline();
        while channel.has_unsent() {
            assert!(!deadline.passed(), "the peer takes nothing more");
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| side(&mut a));
        side(&mut b);
    });
}

type Ends = Vec<Checked<AnyChannel>>;

fn open_several(subject: &Subject, count: usize) -> (Ends, Ends) {
    (0..count).map(|_| subject.pair(ChannelConfig::default())).unzip()
}

fn any<T: Transport>(
    channels: &mut [T],
    spin_ns: u64,
    start: usize,
    timeout: Duration,
) -> Result<usize, ChannelError> {
    let mut each: Vec<&mut T> = channels.iter_mut().collect();
    expect_in_time(|| wait::any(&mut each, &mut Spin::new(spin_ns), timeout, start))
}

pub(crate) fn any_serves_all_in_turn(subject: &Subject) {
    let (mut near, mut far) = open_several(subject, 3);
    for channel in &mut far {
        for number in 0..10 {
            send(channel, 0, &[number]);
        }
    }
    let mut start = 0;
    for number in 0..10 {
        for expected in 0..3 {
            // Over TCP the message may still be in transit while a later channel is already ready.
            wait_until_readable(&mut near[expected]);
            let index = any(&mut near, 0, start, patience()).unwrap();
            assert_eq!(index, expected);
            assert_eq!(recv(&mut near[index], 0), [number]);
            start = index + 1;
        }
    }
    assert_eq!(any(&mut near, 0, start, SHORT_TIMEOUT), Err(ChannelError::TimedOut(Awaited::Any)));
    send(&mut far[1], 0, b"x");
    assert_eq!(any(&mut near, 0, usize::MAX, patience()), Ok(1));
    assert_eq!(
        any::<Checked<AnyChannel>>(&mut [], 0, 5, SHORT_TIMEOUT),
        Err(ChannelError::TimedOut(Awaited::Any))
    );
}

pub(crate) fn any_is_woken_by_each(subject: &Subject) {
    let count = subject.effort(2_000);
    for spin_ns in [0, 20_000] {
        let (mut near, mut far) = open_several(subject, 4);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..count {
                    let channel = &mut far[(number * 7 % 4) as usize];
                    send(channel, spin_ns, &message(number, 20));
                    check(&recv(channel, spin_ns), number, 20);
                }
            });
            let mut start = 0;
            for number in 0..count {
                let index = any(&mut near, spin_ns, start, patience()).unwrap();
                assert_eq!(index as u64, number * 7 % 4);
                let received = recv(&mut near[index], spin_ns);
                check(&received, number, 20);
                send(&mut near[index], spin_ns, &received);
                start = index + 1;
            }
        });
    }
}

pub(crate) fn any_reports_an_end(subject: &Subject) {
    for spin_ns in [0, 20_000] {
        let (mut near, mut far) = open_several(subject, 3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT_TIMEOUT);
                drop(far.remove(1));
            });
            assert_eq!(any(&mut near, spin_ns, 2, patience()), Ok(1));
        });
        assert_eq!(near[1].try_recv_into(&mut Vec::new()), Err(EndError::Closed));
    }
}
