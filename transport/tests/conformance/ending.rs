//! A channel that is closed gives out everything that was sent, then says that it is closed.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport};

use crate::carrier::{Carrier, LONG, pair, shapes};
use crate::messages::{check, message, recv_until_end, send, some_length};
use crate::transfer::fill;

/// Receives messages numbered from 0 until the channel says closed, and goes on saying so.
fn drained_and_closed<T: Transport>(channel: &mut T, count: u64, length: impl Fn(u64) -> usize) {
    let mut number = 0;
    let end = recv_until_end(channel, 0, |bytes| {
        check(bytes, number, length(number));
        number += 1;
    });
    assert_eq!((end, number), (ChannelError::Closed, count));
    for _ in 0..3 {
        assert!(channel.readable());
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(ChannelError::Closed));
        assert_eq!(channel.try_send(b"to nobody"), Err(ChannelError::Closed));
    }
}

pub(crate) fn close_drains_then_says_so<C: Carrier>() {
    for config in shapes::<C>(16) {
        let length = |number| some_length(number, config.slot.payload_bytes());
        for count in [0, 1, 7, 16] {
            let (mut a, mut b) = pair::<C>(config);
            (0..count).for_each(|number| send(&mut a, 0, &message(number, length(number))));
            a.close();
            a.close();
            assert_eq!(a.try_send(b"late"), Err(ChannelError::Closed));
            assert_eq!(a.try_recv_into(&mut Vec::new()), Err(ChannelError::Closed));
            assert!(a.readable());
            drained_and_closed(&mut b, count, length);
        }
    }
}

/// Also when the end that closes has messages that it never received: TCP for one would take back what it sent.
pub(crate) fn drop_closes<C: Carrier>() {
    for config in shapes::<C>(16) {
        let length = |number| some_length(number, config.slot.payload_bytes());
        for unread in [0, 5] {
            let (mut a, mut b) = pair::<C>(config);
            (0..unread).for_each(|number| send(&mut b, 0, &message(number, 8)));
            (0..16).for_each(|number| send(&mut a, 0, &message(number, length(number))));
            drop(a);
            drained_and_closed(&mut b, 16, length);
        }
    }
}

/// Everything that was accepted arrives, though the kernel had not taken all of it when the channel was dropped.
pub(crate) fn what_was_accepted_outlives_the_sender<C: Carrier>() {
    let (mut a, mut b) = pair::<C>(ChannelConfig::default());
    let length_bytes = a.limits().max_message_bytes;
    let count = fill(&mut a, length_bytes);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(a));
        drained_and_closed(&mut b, count, |_| length_bytes);
    });
}

pub(crate) fn close_wakes_a_sleeping_receiver<C: Carrier>() {
    for round in 0..20 {
        let (mut a, mut b) = pair::<C>(ChannelConfig::default());
        std::thread::scope(|scope| {
            scope.spawn(|| drained_and_closed(&mut b, 1, |_| 20));
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

pub(crate) fn close_wakes_a_sleeping_sender<C: Carrier>() {
    for round in 0..20 {
        let (mut a, mut b) = pair::<C>(ChannelConfig::default());
        let length_bytes = a.limits().max_message_bytes;
        fill(&mut a, length_bytes);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = loop {
                    // What the kernel still had room for is accepted first.
                    match wait::send(&mut a, &mut Spin::new(0), &message(0, length_bytes), LONG) {
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

/// A program that only ever sends, never sleeps and never fills the channel.
pub(crate) fn a_sender_that_never_looks_notices<C: Carrier>() {
    for close in [false, true] {
        let (mut a, mut b) = pair::<C>(ChannelConfig::default());
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
            assert!(started.elapsed() < LONG);
            // A stream to a peer that still exists is noticed when it is full, which takes a while by fives.
            if C::COUNTS_SLOTS {
                assert!(accepted <= 2, "{accepted} messages were accepted after the peer had closed");
            }
            if !C::COUNTS_SLOTS && close && accepted == 100 {
                return;
            }
        };
        assert_eq!(end, ChannelError::Closed);
        assert_eq!(a.try_send(b"after"), Err(ChannelError::Closed));
    }
}
