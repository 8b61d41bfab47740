//! A peer that writes anything anywhere: its own channel fails, nothing else does, and nothing hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_base::Random;
use tombolo_link::handshake::{Handshake, Progress};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_link::{ChannelConfig, DisconnectReason, Hello, Side};
use tombolo_ring::SlotSize;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, EndError, Message, Transport, TransportExt};

use crate::any_channel::AnyChannel;
use crate::carrier::{Hostile, hello, shape};
use crate::messages::{check, message, recv, send};
use crate::patience::deadline;
use crate::subject::Subject;

/// Opens a channel whose side A is hostile from now on.
fn victim(subject: &Subject, hello: Hello) -> (Hostile, AnyChannel) {
    let (end_a, end_b) = subject.ends(hello.config);
    std::thread::scope(|scope| {
        let victim = scope.spawn(|| subject.open(end_b, Side::B, hello, deadline()));
        let hostile = subject.hostile(end_a, hello);
        let mut handshake = Handshake::start(&hostile.memory, Side::A, hello).unwrap();
        let deadline = deadline();
        while !matches!(handshake.step().unwrap(), Progress::Open(_)) {
            assert!(!deadline.passed());
            (hostile.ring)();
            std::thread::yield_now();
        }
        (hostile, victim.join().unwrap().unwrap())
    })
}

/// Sets a stop flag when dropped, also after a failed assertion, because the threads that it stops are
/// joined.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Strategy of the hostile side for its writes.
#[derive(Clone, Copy)]
enum WritePattern {
    /// Any word at any offset.
    Anything,
    /// Flips bits in existing words, so that most still look valid.
    Bits,
    /// Small numbers in the lines, which hold positions and flags.
    Lines,
}

fn write_garbage(hostile: &Hostile, pattern: WritePattern, seed: u64, stop: &AtomicBool) {
    use tombolo_base::sync::Ordering::Relaxed;
    let mut random = Random::new(seed);
    let words = hostile.memory.len_bytes() as u64 / 8;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..32 {
            match pattern {
                WritePattern::Anything => {
                    hostile.memory.store_le(random.below(words) as usize, random.word(), Relaxed);
                }
                WritePattern::Bits => {
                    let index = random.below(words) as usize;
                    let word = hostile.memory.load_le(index, Relaxed) ^ 1 << random.below(64);
                    hostile.memory.store_le(index, word, Relaxed);
                }
                WritePattern::Lines => {
                    let index = random.below(HEADER_BYTES as u64 / 8) as usize;
                    hostile.memory.store_le(index, random.below(40), Relaxed);
                }
            }
        }
        if random.below(4) == 0 {
            (hostile.ring)();
        }
    }
}

/// Uses a channel in every way until it fails or `operations` were done. Every operation must end.
fn exercise(channel: &mut AnyChannel, random: &mut Random, operations: u32) -> Option<ChannelError> {
    let mut buffer = Vec::new();
    let max_bytes = channel.max_message_bytes();
    let timeout = Duration::from_micros(50);
    for _ in 0..operations {
        let length_bytes = random.below(max_bytes as u64 + 1) as usize;
        let mut spin = Spin::new(1_000 * random.below(3));
        let result = match random.below(8) {
            1 => wait::send(channel, &mut spin, &message(1, length_bytes), timeout),
            2 => wait::recv_into(channel, &mut spin, &mut buffer, timeout).map(|_| ()),
            3 => wait::any(&mut [&mut *channel], &mut spin, timeout, 0).map(|_| ()),
            number => {
                let bounded = |message: &Message<'_>| assert!(message.to_vec().len() <= max_bytes);
                let result = match number {
                    0 => channel.try_send(&message(1, length_bytes)),
                    4 => channel.try_recv_in_place(bounded).map(|_| ()),
                    5 => channel.try_recv_batch(8, bounded).map(|_| ()),
                    6 => channel
                        .try_send_batch(|batch| while batch.push(&message(1, length_bytes)).is_ok() {})
                        .map(|_| ()),
                    _ => channel.try_recv_into(&mut buffer).map(|_| ()),
                };
                result.map_err(|error| ChannelError::of(channel, error, length_bytes))
            }
        };
        assert!(buffer.len() <= max_bytes);
        match result {
            Ok(()) | Err(ChannelError::WouldBlock | ChannelError::TimedOut(_)) => {}
            Err(error @ (ChannelError::Violation(_) | ChannelError::Closed)) => return Some(error),
            // A relay reports it in this way.
            Err(error @ ChannelError::Disconnected(DisconnectReason::Broken)) => return Some(error),
            Err(error) => panic!("{error}"),
        }
    }
    None
}

pub(crate) fn corruption_fails_only_the_channel(subject: &Subject) {
    let (mut good_a, mut good_b) = subject.pair(ChannelConfig::default());
    let mut random = Random::new(0xbad);
    let mut failures = 0;
    for round in 0..60_u64 {
        let pattern = [WritePattern::Anything, WritePattern::Bits, WritePattern::Lines][(round % 3) as usize];
        let variant = subject.variant_of_round(round);
        let slot = SlotSize::ALL[(round / 6 % 3) as usize];
        let config = shape(slot, [2, 16][(round / 2 % 2) as usize], variant);
        let (hostile, mut channel) = victim(subject, hello(config));
        let stop = AtomicBool::new(false);
        let failed = std::thread::scope(|scope| {
            let _stops = StopOnDrop(&stop);
            scope.spawn(|| write_garbage(&hostile, pattern, 0x1234_5678 + round, &stop));
            let failed = exercise(&mut channel, &mut random, 300);
            // It stays failed and reports that at once, in every kind of wait.
            if let Some(error @ ChannelError::Violation(_)) = &failed {
                assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(EndError::Broken));
                assert_eq!(channel.try_send(b"x"), Err(EndError::Broken));
                assert_eq!(channel.failure().as_ref(), Some(error));
                assert!(channel.readable());
            }
            failed
        });
        failures += u32::from(failed.is_some());
        send(&mut good_a, 0, &message(round, 100));
        check(&recv(&mut good_b, 0), round, 100);
    }
    assert!(failures > 0, "nothing that was scribbled was ever noticed: nothing was tested");
}

pub(crate) fn corruption_during_the_handshake(subject: &Subject) {
    for round in 0..60 {
        let hello = hello(ChannelConfig::default());
        let (end_a, end_b) = subject.ends(hello.config);
        let hostile = subject.hostile(end_a, hello);
        let stop = AtomicBool::new(false);
        let pattern = if round % 2 == 0 { WritePattern::Bits } else { WritePattern::Lines };
        std::thread::scope(|scope| {
            let _stops = StopOnDrop(&stop);
            scope.spawn(|| write_garbage(&hostile, pattern, 77 + round, &stop));
            let soon = tombolo_platform::Deadline::after(Duration::from_millis(3));
            match subject.open(end_b, Side::B, hello, soon) {
                Ok(_) | Err(ChannelError::Handshake(_) | ChannelError::TimedOut(_)) => {}
                // A single bit in the verdict word means that the peer withdrew.
                Err(ChannelError::Closed | ChannelError::Disconnected(DisconnectReason::Broken)) => {}
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// An endless stream of rings without messages.
pub(crate) fn flood_of_rings_does_not_delay_timeouts(subject: &Subject) {
    let (hostile, mut channel) = victim(subject, hello(ChannelConfig::default()));
    let stop = AtomicBool::new(false);
    let end = deadline();
    std::thread::scope(|scope| {
        let _stops = StopOnDrop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && !end.passed() {
                    (hostile.ring)();
                }
            });
        }
        for _ in 0..5 {
            let waited =
                wait::recv_into(&mut channel, &mut Spin::new(0), &mut Vec::new(), Duration::from_millis(5));
            assert!(matches!(waited, Err(ChannelError::TimedOut(_))), "{waited:?}");
        }
        assert!(!end.passed(), "the waits ended only with the flood");
    });
}
