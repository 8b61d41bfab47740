//! A peer is killed at any moment: everything that it sent is received, then its death is reported, in every
//! kind of wait of this side.

use std::time::Duration;

use tombolo_base::Random;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::Checked;
use tombolo_transport::{ChannelError, EndError, Transport, TransportExt};

use crate::any_channel::AnyChannel;
use crate::messages::{check, message, message_length, recv_until_end};
use crate::patience::{deadline, expect_in_time, patience};
use crate::peer::{KillablePeer, PeerTask, Role};
use crate::subject::Subject;

/// Returns a live peer, and this side's end of the channel to it.
fn open_with_peer(subject: &Subject, role: Role, round: u64) -> (Box<dyn KillablePeer>, Checked<AnyChannel>) {
    let (channel, peer) = subject.spawn_killable_peer(PeerTask { role, round });
    (peer, channel)
}

/// Kills the peer during `wait`.
fn kill_during<R>(mut peer: Box<dyn KillablePeer>, random: &mut Random, wait: impl FnOnce() -> R) -> R {
    let delay = Duration::from_micros(random.below(3_000));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(delay);
            peer.kill();
        });
        wait()
    })
}

const ROUNDS: u64 = 12;

pub(crate) fn of_a_sender(subject: &Subject) {
    let mut random = Random::new(0x5eed);
    for round in 0..subject.effort(ROUNDS) {
        let (peer, mut channel) = open_with_peer(subject, Role::Sends, round);
        let max_bytes = channel.max_message_bytes();
        let spin_ns = if round % 2 == 0 { 0 } else { 50_000 };
        let mut number = 0;
        let end = kill_during(peer, &mut random, || {
            recv_until_end(&mut channel, spin_ns, |bytes| {
                check(bytes, number, message_length(number, max_bytes));
                number += 1;
            })
        });
        assert_eq!(end, ChannelError::PeerDied, "after {number} messages");
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(EndError::PeerDied));
        assert_eq!(channel.try_send(b"too late"), Err(EndError::PeerDied));
    }
}

/// The receiver polls and never sleeps.
pub(crate) fn seen_by_a_poller(subject: &Subject) {
    let mut random = Random::new(0xca11);
    for round in 0..subject.effort(ROUNDS) {
        let role = if round % 2 == 0 { Role::Sends } else { Role::Idles };
        let (peer, mut channel) = open_with_peer(subject, role, round);
        let max_bytes = channel.max_message_bytes();
        let (mut number, mut buffer) = (0, Vec::new());
        let end = kill_during(peer, &mut random, || {
            let deadline = deadline();
            loop {
                match channel.try_recv_into(&mut buffer) {
                    Ok(Some(_)) => {
                        check(&buffer, number, message_length(number, max_bytes));
                        number += 1;
                    }
                    Ok(None) => assert!(!deadline.passed(), "a poller never learned of its peer's death"),
                    Err(error) => break error,
                }
            }
        });
        assert_eq!(end, EndError::PeerDied);
    }
}

/// Kills a receiver, and a peer that does not receive, so that the sender soon sleeps for room.
pub(crate) fn of_a_receiver(subject: &Subject) {
    let mut random = Random::new(0xdead);
    for round in 0..subject.effort(ROUNDS) {
        let role = if round % 2 == 0 { Role::Receives } else { Role::Idles };
        let (peer, mut channel) = open_with_peer(subject, role, round);
        let bytes = message(1, channel.max_message_bytes() / 2);
        let end = kill_during(peer, &mut random, || {
            let mut spin = Spin::new(if round % 3 == 0 { 0 } else { 50_000 });
            loop {
                if let Err(error) = expect_in_time(|| wait::send(&mut channel, &mut spin, &bytes, patience()))
                {
                    return error;
                }
            }
        });
        assert_eq!(end, ChannelError::PeerDied);
        let end = recv_until_end(&mut channel, 0, |_| panic!("it sent nothing"));
        assert_eq!(end, ChannelError::PeerDied);
    }
}

pub(crate) fn of_one_among_several(subject: &Subject) {
    let (mut alive, mut channel) = open_with_peer(subject, Role::Idles, 0);
    let mut random = Random::new(0xfeed);
    let (peer, mut spawn_killable_peer) = open_with_peer(subject, Role::Idles, 1);
    let index = kill_during(peer, &mut random, || {
        expect_in_time(|| {
            wait::any(&mut [&mut channel, &mut spawn_killable_peer], &mut Spin::new(0), patience(), 0)
        })
    });
    assert_eq!(index, Ok(1));
    assert_eq!(spawn_killable_peer.try_recv_into(&mut Vec::new()), Err(EndError::PeerDied));
    assert!(!channel.readable());
    alive.kill();
}

/// A channel closed here reports closed, not dead: this side's own close needs no evidence.
pub(crate) fn of_one_that_closed_first(subject: &Subject) {
    let (mut peer, mut channel) = open_with_peer(subject, Role::Idles, 0);
    channel.close();
    peer.kill();
    for _ in 0..3 {
        assert_eq!(channel.try_send(b"too late"), Err(EndError::Closed));
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(EndError::Closed));
    }
}
