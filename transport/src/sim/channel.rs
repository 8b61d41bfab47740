//! Channels over a simulated link.

use std::os::fd::BorrowedFd;

use tombolo_link::verdict::{ACCEPTED, DISAGREED, WITHDRAWN, check_verdict, declined};
use tombolo_link::{ChannelConfig, HandshakeError, Hello, TransportKind};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;

use super::world::{Packet, Peer, Polled, SimEnd};
use crate::capabilities::Capabilities;
use crate::contract::{Announced, Description, EndError, Stats, Transport};
use crate::error::{Awaited, ChannelError};
use crate::message::Message;

/// End of a simulated channel. It stands in for a stream, with the same message limit.
#[derive(Debug)]
pub struct SimChannel {
    end: SimEnd,
    max_message_bytes: usize,
    closed: bool,
    /// How the channel ended, once the end was received.
    ended: Option<EndError>,
    stats: Stats,
}

/// Opens a channel over a link. Both sides call this, in any order.
///
/// # Errors
/// A difference between the two sides, the end of the peer, or the deadline.
pub fn open(end: SimEnd, hello: Hello, deadline: Deadline) -> Result<SimChannel, ChannelError> {
    let hello = Hello { expedited_barrier: false, ..hello };
    end.send(Packet::Hello(hello.to_words()));
    let theirs = exchange(&end, deadline, Packet::Verdict(WITHDRAWN), |packet| match packet {
        Packet::Hello(words) => Some(words),
        _ => None,
    })?;
    let agreed = hello.agree(&theirs);
    end.send(Packet::Verdict(if agreed.is_ok() { ACCEPTED } else { DISAGREED }));
    if let Err(refusal) = agreed {
        return Err(HandshakeError::from(refusal).into());
    }
    // This side accepted, so the peer may use the channel already.
    let verdict = exchange(&end, deadline, Packet::Close, |packet| match packet {
        Packet::Verdict(verdict) => Some(verdict),
        _ => None,
    })?;
    check_verdict(verdict)?;
    Ok(SimChannel {
        end,
        max_message_bytes: max_message_bytes(hello.config),
        closed: false,
        ended: None,
        stats: Stats::default(),
    })
}

/// Declines a peer that opens a channel, with a reason defined by the interface.
pub fn decline(end: &SimEnd, hello: Hello, reason: u32) {
    end.send(Packet::Hello(hello.to_words()));
    end.send(Packet::Verdict(declined(reason)));
}

/// Receives the next packet of a handshake. Sends `last` to a peer that sends none in time.
fn exchange<P>(
    end: &SimEnd,
    deadline: Deadline,
    last: Packet,
    expected: impl Fn(Packet) -> Option<P>,
) -> Result<P, ChannelError> {
    loop {
        match end.poll(|_| true, &expected) {
            Polled::Arrived(Some(Some(found))) => return Ok(found),
            Polled::Arrived(_) => {
                return Err(ChannelError::Violation("a handshake message out of order".into()));
            }
            Polled::Never => return Err(ChannelError::PeerDied),
            Polled::NotYet if deadline.passed() => {
                end.send(last);
                return Err(ChannelError::TimedOut(Awaited::Handshake));
            }
            Polled::NotYet => std::thread::yield_now(),
        }
    }
}

fn max_message_bytes(config: ChannelConfig) -> usize {
    config.slots as usize * config.slot.payload_bytes()
}

impl SimChannel {
    /// Returns the link below the channel.
    #[must_use]
    pub fn end(&self) -> &SimEnd {
        &self.end
    }

    /// Returns the error that permanently keeps this end from sending.
    fn send_error(&self) -> Option<EndError> {
        if self.closed {
            return Some(EndError::Closed);
        }
        if self.end.killed() {
            return Some(EndError::PeerDied);
        }
        match self.end.peer() {
            Peer::Open => self.ended,
            Peer::Closed => Some(EndError::Closed),
            Peer::Gone => Some(EndError::PeerDied),
        }
    }

    /// Returns the error that permanently keeps this end from receiving.
    fn receive_error(&self) -> Option<EndError> {
        if self.closed {
            return Some(EndError::Closed);
        }
        if self.end.killed() {
            return Some(EndError::PeerDied);
        }
        self.ended
    }
}

impl Transport for SimChannel {
    fn describe(&self) -> Description {
        let capabilities = Capabilities::EVIDENCE_OF_DEATH | Capabilities::NO_SPURIOUS_RESULTS;
        let max_message_bytes = self.max_message_bytes;
        Description { kind: TransportKind::Socket, capabilities, max_message_bytes }
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn failure(&self) -> Option<ChannelError> {
        let what = "a handshake message on an open channel";
        (self.ended == Some(EndError::Broken)).then(|| ChannelError::Violation(what.into()))
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        if message.len() > self.max_message_bytes {
            return Err(EndError::TooLong);
        }
        if let Some(error) = self.send_error() {
            return Err(error);
        }
        if !self.end.has_room() {
            return Err(EndError::Full);
        }
        self.end.send(Packet::Message(message.to_vec()));
        self.stats.messages_sent += 1;
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        if let Some(error) = self.receive_error() {
            return Err(error);
        }
        let error = match self.end.poll(|_| true, |packet| packet) {
            Polled::NotYet | Polled::Arrived(None) => return Ok(None),
            Polled::Arrived(Some(Packet::Message(message))) => {
                self.stats.messages_received += 1;
                self.stats.bytes_received += message.len() as u64;
                return Ok(Some(read(&Message::of_bytes(&message))));
            }
            Polled::Arrived(Some(Packet::Close)) => EndError::Closed,
            Polled::Arrived(Some(Packet::Hello(_) | Packet::Verdict(_))) => EndError::Broken,
            Polled::Never => EndError::PeerDied,
        };
        self.ended = Some(error);
        Err(error)
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        let readable = |channel: &mut Self| {
            channel.receive_error().is_some()
                || !matches!(channel.end.poll(|_| false, |_| ()), Polled::NotYet)
        };
        let sendable = |channel: &Self| channel.send_error().is_some() || channel.end.has_room();
        match awaited {
            Interest::Read => readable(self),
            Interest::Write => sendable(self),
            Interest::ReadWrite => readable(self) || sendable(self),
        }
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        Announced::Complete
    }

    /// Always false: nothing would end the sleep.
    fn may_sleep(&mut self, _awaited: Interest) -> bool {
        false
    }

    fn sources<'a>(&'a self, _awaited: Interest, _sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {}

    fn finish_sleep(&mut self, _rung: bool) {}

    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) && !self.end.killed() {
            self.end.send(Packet::Close);
        }
    }
}

impl Drop for SimChannel {
    fn drop(&mut self) {
        self.close();
    }
}
