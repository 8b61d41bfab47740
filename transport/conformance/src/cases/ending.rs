//! A closed channel delivers everything that was sent, then reports the close.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, EndError, Transport, TransportExt};

use super::transfer::fill;
use crate::messages::{check, message, message_length, recv_until_end, send};
use crate::patience::{expect_in_time, patience};
use crate::subject::Subject;

/// Receives messages numbered from 0 until the channel is closed, and checks that it stays closed.
fn assert_drains_then_closes<T: Transport>(channel: &mut T, count: u64, length: impl Fn(u64) -> usize) {
    let mut number = 0;
    let end = recv_until_end(channel, 0, |bytes| {
        check(bytes, number, length(number));
        number += 1;
    });
    assert_eq!((end, number), (ChannelError::Closed, count));
    for _ in 0..3 {
        assert!(channel.readable());
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(EndError::Closed));
        assert_eq!(channel.try_send(b"too late"), Err(EndError::Closed));
    }
}

pub(crate) fn close_drains_then_reports_the_close(subject: &Subject) {
    for config in subject.shapes(16) {
        let length = |number| message_length(number, config.slot.payload_bytes());
        for count in [0, 1, 7, 16] {
            let (mut a, mut b) = subject.pair(config);
            (0..count).for_each(|number| send(&mut a, 0, &message(number, length(number))));
            a.close();
            a.close();
            assert_eq!(a.try_send(b"late"), Err(EndError::Closed));
            assert_eq!(a.try_recv_into(&mut Vec::new()), Err(EndError::Closed));
            assert!(a.readable());
            assert_drains_then_closes(&mut b, count, length);
        }
    }
}

/// Both sides have sent and neither has received. Whichever closes first, the other receives everything sent
/// before.
pub(crate) fn both_close_in_either_order(subject: &Subject) {
    for a_first in [true, false] {
        let (a, b) = subject.pair(ChannelConfig::default());
        let (mut first, mut second) = if a_first { (a, b) } else { (b, a) };
        for number in 0..5 {
            send(&mut first, 0, &message(number, 30));
            send(&mut second, 0, &message(!number, 30));
        }
        first.close();
        assert_drains_then_closes(&mut second, 5, |_| 30);
        second.close();
        for end in [&mut first, &mut second] {
            assert_eq!(end.try_recv_into(&mut Vec::new()), Err(EndError::Closed));
            assert_eq!(end.try_send(b"late"), Err(EndError::Closed));
        }
        let (first, second) = (first.stats(), second.stats());
        assert_eq!((first.messages_sent, first.messages_received), (5, 0));
        assert_eq!((second.messages_sent, second.messages_received), (5, 5));
    }
}

/// Holds even if the closing end has unreceived messages, for which TCP would discard its sent bytes.
pub(crate) fn drop_closes(subject: &Subject) {
    for config in subject.shapes(16) {
        let length = |number| message_length(number, config.slot.payload_bytes());
        for unread in [0, 5] {
            let (mut a, mut b) = subject.pair(config);
            (0..unread).for_each(|number| send(&mut b, 0, &message(number, 8)));
            (0..16).for_each(|number| send(&mut a, 0, &message(number, length(number))));
            drop(a);
            assert_drains_then_closes(&mut b, 16, length);
        }
    }
}

/// Everything accepted arrives, even if the kernel had not taken all of it when the channel was dropped.
pub(crate) fn accepted_messages_outlive_the_sender(subject: &Subject) {
    let (mut a, mut b) = subject.pair(ChannelConfig::default());
    let length_bytes = a.max_message_bytes();
    let count = fill(&mut a, length_bytes);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(a));
        assert_drains_then_closes(&mut b, count, |_| length_bytes);
    });
}

pub(crate) fn close_wakes_a_sleeping_receiver(subject: &Subject) {
    for round in 0..20 {
        let (mut a, mut b) = subject.pair(ChannelConfig::default());
        std::thread::scope(|scope| {
            scope.spawn(|| assert_drains_then_closes(&mut b, 1, |_| 20));
            std::thread::sleep(Duration::from_micros(300 * round));
            send(&mut a, 0, &message(0, 20));
            if round % 2 == 0 {
                drop(a);
            } else {
                a.close();
            }
        });
    }
}

pub(crate) fn close_wakes_a_sleeping_sender(subject: &Subject) {
    for round in 0..20 {
        let (mut a, mut b) = subject.pair(ChannelConfig::default());
        let length_bytes = a.max_message_bytes();
        fill(&mut a, length_bytes);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = loop {
                    // The kernel may still have room for more.
                    match expect_in_time(|| {
                        wait::send(&mut a, &mut Spin::new(0), &message(0, length_bytes), patience())
                    }) {
                        Ok(()) => {}
                        Err(error) => break error,
                    }
                };
                assert_eq!(end, ChannelError::Closed);
            });
            std::thread::sleep(Duration::from_micros(300 * round));
            if round % 2 == 0 {
                drop(b);
            } else {
                b.close();
            }
        });
    }
}

/// Covers a program that only sends, never sleeps and never fills the channel.
pub(crate) fn a_sender_that_never_polls_notices(subject: &Subject) {
    for close in [false, true] {
        let (mut a, mut b) = subject.pair(ChannelConfig::default());
        send(&mut a, 0, b"before");
        if close {
            b.close();
        } else {
            drop(b);
        }
        let started = std::time::Instant::now();
        let mut accepted = 0;
        let end = loop {
            match a.try_send(b"after") {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
            assert!(started.elapsed() < patience());
            // A stream to a peer that still exists must be full first, which takes a while in steps of five.
            if subject.counts_slots() {
                assert!(accepted <= 2, "{accepted} messages were accepted after the peer had closed");
            }
            if !subject.counts_slots() && close && accepted == 100 {
                return;
            }
        };
        assert_eq!(end, EndError::Closed);
        assert_eq!(a.try_send(b"after"), Err(EndError::Closed));
    }
}
