//! `socket`: channels over a byte stream, local or TCP, for nodes that share no memory.
//!
//! After the same hello and verdict as in memory, the stream carries frames: a 32-bit little-endian length
//! and the message. A length of all ones closes the stream in order; an end of the stream without it is the
//! peer's death.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown};
use tombolo_link::handshake::HandshakeError;
use tombolo_link::hello::{HELLO_BYTES, Hello, words_from_bytes};
use tombolo_link::verdict::{ACCEPTED, DISAGREED, WITHDRAWN, check_verdict, declined};
use tombolo_link::{ChannelConfig, DisconnectReason, TransportKind};
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, OsError};

use crate::capabilities::Capabilities;
use crate::contract::{Announced, Description, EndError, Stats, Transport};
use crate::error::{Awaited, ChannelError};
use crate::frames::{CLOSE, DISCONNECTED, Frame, Incoming, is_peer_loss};
use crate::message::Message;

/// Time that a dropped channel waits for the kernel to take accepted messages.
const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of consecutive reads when a channel ends. Bounded, so that a peer that never stops sending
/// cannot hold this side.
const MAX_FINAL_READS: usize = 64;

/// End of a channel over a byte stream.
#[derive(Debug)]
pub struct StreamChannel {
    socket: OwnedFd,
    /// Bytes accepted for sending and not yet taken by the kernel.
    outgoing: Vec<u8>,
    /// Number of these bytes that the kernel has taken.
    flushed: usize,
    incoming: Incoming,
    /// Reason why nothing more is read from the kernel. What was received before is still delivered.
    ended: Option<EndError>,
    /// Reason why nothing more can be sent.
    unsendable: Option<EndError>,
    /// Cause of a failure.
    failure: Option<ChannelError>,
    /// Whether this end was closed.
    closed: bool,
    max_message_bytes: usize,
    stats: Stats,
}

impl StreamChannel {
    /// Creates one end of a stream, before the handshake, for a channel with this configuration.
    pub(crate) fn new_unopened(socket: OwnedFd, config: ChannelConfig) -> Result<Self, ChannelError> {
        rustix::io::ioctl_fionbio(&socket, true).context("make a socket non-blocking")?;
        let max_message_bytes = max_message_bytes(config);
        Ok(StreamChannel {
            socket,
            outgoing: Vec::new(),
            flushed: 0,
            incoming: Incoming::new(max_message_bytes),
            ended: None,
            unsendable: None,
            failure: None,
            closed: false,
            max_message_bytes,
            stats: Stats::default(),
        })
    }

    /// Returns the socket of the stream.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends a part of a handshake.
    pub(crate) fn send_handshake(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
        self.flush();
    }

    /// Returns the next `N` bytes of a handshake, once they have arrived.
    ///
    /// # Errors
    /// The end of the peer.
    pub(crate) fn try_receive_handshake<const N: usize>(&mut self) -> Result<Option<[u8; N]>, ChannelError> {
        self.flush();
        loop {
            if let Some(bytes) = self.incoming.take() {
                return Ok(Some(bytes));
            }
            if let Some(end) = self.ended {
                return match self.incoming.take() {
                    Some(word) if u64::from_le_bytes(word) == WITHDRAWN => Err(ChannelError::Closed),
                    _ => Err(ChannelError::of(self, end, 0)),
                };
            }
            if !self.fill() && self.ended.is_none() {
                return Ok(None);
            }
        }
    }

    /// Ends a handshake so that dropping the channel sends nothing that the peer would not expect.
    pub(crate) fn abort_handshake(&mut self) {
        self.unsendable = Some(EndError::Closed);
    }

    /// Ends this side as a relay does when the end behind it is gone. Drop the channel afterwards.
    pub(crate) fn abort(&mut self, why: DisconnectReason) {
        if self.unsendable.is_none() {
            self.outgoing.extend_from_slice(&DISCONNECTED.to_le_bytes());
            self.send_handshake(&why.to_word().to_le_bytes());
        }
        // The remaining bytes are still sent, but no close.
        self.closed = true;
    }

    /// Ends this side without closing. Drop the channel afterwards.
    pub(crate) fn abandon(&mut self) {
        self.abort_handshake();
        self.closed = true;
    }

    /// Opens a channel over a connected stream. Both sides call this, in any order.
    ///
    /// # Errors
    /// A difference between the two sides, the end of the peer, a timeout, or an error of the kernel.
    pub fn open(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<Self, ChannelError> {
        let mut channel = Self::new_unopened(socket, hello.config)?;
        match channel.handshake(hello, deadline) {
            Ok(()) => Ok(channel),
            Err(error) => {
                channel.abort_handshake();
                Err(error)
            }
        }
    }

    fn handshake(&mut self, hello: Hello, deadline: Deadline) -> Result<(), ChannelError> {
        let hello = Hello { expedited_barrier: false, ..hello };
        self.outgoing.extend_from_slice(&hello.to_bytes());
        let peer_hello: [u8; HELLO_BYTES] = match self.exchange(deadline) {
            Err(error @ ChannelError::TimedOut(_)) => {
                self.outgoing.extend_from_slice(&WITHDRAWN.to_le_bytes());
                self.flush();
                return Err(error);
            }
            Err(ChannelError::PeerDied) => {
                return Err(match self.incoming.take().map(u64::from_le_bytes) {
                    Some(WITHDRAWN) => ChannelError::Closed,
                    word => word
                        .and_then(DisconnectReason::from_word)
                        .map_or(ChannelError::PeerDied, ChannelError::Disconnected),
                });
            }
            peer_hello => peer_hello?,
        };
        let agreed = hello.agree(&words_from_bytes(&peer_hello));
        let verdict = if agreed.is_ok() { ACCEPTED } else { DISAGREED };
        self.outgoing.extend_from_slice(&verdict.to_le_bytes());
        if let Err(refusal) = agreed {
            self.flush();
            return Err(HandshakeError::from(refusal).into());
        }
        match self.exchange(deadline) {
            Err(error @ ChannelError::TimedOut(_)) => {
                // This side accepted, so the peer may use the channel already.
                self.close();
                Err(error)
            }
            verdict => {
                let word = u64::from_le_bytes(verdict?);
                match DisconnectReason::from_word(word) {
                    // A relay whose other end is gone writes the reason in place of a verdict.
                    Some(reason) => Err(ChannelError::Disconnected(reason)),
                    None => Ok(check_verdict(word)?),
                }
            }
        }
    }

    /// Declines a peer that opens a channel, with a reason defined by the interface.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn decline(socket: OwnedFd, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        let mut bytes = hello.to_bytes().to_vec();
        bytes.extend_from_slice(&declined(reason).to_le_bytes());
        // Fits into the empty send buffer of any socket.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(&socket, &bytes, flags).context("decline a channel")?;
        Ok(())
    }

    /// Notifies a peer that opens a channel that this side will not.
    pub fn withdraw(socket: &OwnedFd) {
        // Fits into the empty send buffer of any socket. A peer that is gone need not be notified.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(socket, &WITHDRAWN.to_le_bytes(), flags);
    }

    /// Connects to `address` by TCP and opens a channel over the connection.
    ///
    /// # Errors
    /// Same as [`open`](Self::open), or a refused connection.
    pub fn connect_tcp(address: SocketAddr, hello: Hello, deadline: Deadline) -> Result<Self, ChannelError> {
        let remaining = deadline.remaining().max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, remaining) {
            Ok(stream) => Self::open_tcp(stream, hello, deadline),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(ChannelError::TimedOut(Awaited::Handshake))
            }
            Err(error) => Err(OsError::from_io(format!("connect to {address}"), &error).into()),
        }
    }

    /// Opens a channel over an accepted TCP connection.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn open_tcp(stream: TcpStream, hello: Hello, deadline: Deadline) -> Result<Self, ChannelError> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Self::open(stream.into(), hello, deadline)
    }

    /// Sends pending bytes and receives exactly `N` bytes.
    fn exchange<const N: usize>(&mut self, deadline: Deadline) -> Result<[u8; N], ChannelError> {
        loop {
            self.flush();
            if let Some(bytes) = self.incoming.take() {
                return Ok(bytes);
            }
            if let Some(end) = self.ended {
                return Err(ChannelError::of(self, end, 0));
            }
            if deadline.passed() {
                return Err(ChannelError::TimedOut(Awaited::Handshake));
            }
            poll(&[(self.socket.as_fd(), self.interest(Interest::Read))], Some(deadline))?;
            self.fill();
        }
    }

    /// Offers pending bytes to the kernel.
    fn flush(&mut self) {
        while self.flushed < self.outgoing.len() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.socket, &self.outgoing[self.flushed..], flags) {
                Ok(count) => self.flushed += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    let error = match is_peer_loss(errno) {
                        true if self.peer_closed() => EndError::Closed,
                        true => EndError::PeerDied,
                        false => self.record_failure(OsError::new("send on a stream", errno).into()),
                    };
                    self.stop_sending(error);
                }
            }
        }
        self.outgoing.clear();
        self.flushed = 0;
    }

    /// Records the cause of a broken channel, unless the error only means that it ended.
    fn record_failure(&mut self, error: ChannelError) -> EndError {
        let end = EndError::from(&error);
        if end == EndError::Broken {
            self.failure.get_or_insert(error);
        }
        end
    }

    fn stop_sending(&mut self, why: EndError) {
        self.unsendable.get_or_insert(why);
        self.outgoing.clear();
        self.flushed = 0;
    }

    /// Reads from the kernel once. Returns whether there was anything to read.
    fn fill(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        match self.incoming.fill(&self.socket) {
            Ok(something) => something,
            Err(error) => {
                let end = self.record_failure(error);
                let closed = self.incoming.contains_close();
                self.stop_sending(if closed { EndError::Closed } else { end });
                self.ended = Some(end);
                false
            }
        }
    }

    /// Whether the peer has closed, as far as this side has read. Its close may lie behind more messages than
    /// are read ahead.
    fn peer_closed(&mut self) -> bool {
        for _ in 0..MAX_FINAL_READS {
            if !self.fill() {
                break;
            }
        }
        self.incoming.contains_close()
    }

    /// Whether a message, an end or an error can be received.
    fn is_receivable(&mut self) -> bool {
        while self.incoming.peek() == Frame::Partial {
            if self.ended.is_some() || self.closed {
                return true;
            }
            if !self.fill() && self.ended.is_none() {
                return false;
            }
        }
        true
    }

    /// Offers pending bytes to the kernel. Returns whether it took all of them.
    fn try_flush(&mut self) -> bool {
        self.flush();
        self.outgoing.is_empty()
    }

    /// Returns the events to sleep on for `awaited`, taking other pending work into account.
    fn interest(&self, awaited: Interest) -> Interest {
        let reads = match awaited {
            Interest::Read | Interest::ReadWrite => true,
            // Not for messages, but for a close: a peer that stops reading makes no room.
            Interest::Write => self.ended.is_none() && self.incoming.has_room(),
        };
        match (reads, self.outgoing.is_empty()) {
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
            (false, _) => Interest::Write,
        }
    }
}

/// Returns the limit of rings with this configuration, so that programs see no difference.
fn max_message_bytes(config: ChannelConfig) -> usize {
    config.slots as usize * config.slot.payload_bytes()
}

impl Transport for StreamChannel {
    fn describe(&self) -> Description {
        let max_message_bytes = self.max_message_bytes;
        Description { kind: TransportKind::Socket, capabilities: Capabilities::OF_STREAM, max_message_bytes }
    }

    fn stats(&self) -> Stats {
        Stats { unsent_bytes: (self.outgoing.len() - self.flushed) as u64, ..self.stats }
    }

    fn failure(&self) -> Option<ChannelError> {
        self.failure.clone()
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        if message.len() > self.max_message_bytes {
            return Err(EndError::TooLong);
        }
        self.flush();
        if let Some(error) = self.unsendable {
            return Err(error);
        }
        if !self.outgoing.is_empty() {
            return Err(EndError::Full);
        }
        self.outgoing.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(message);
        self.flush();
        if let Some(error) = self.unsendable {
            return Err(error);
        }
        self.stats.messages_sent += 1;
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        if self.closed {
            return Err(EndError::Closed);
        }
        loop {
            match self.incoming.peek() {
                Frame::Message(range) => {
                    let message = self.incoming.take_message(range);
                    self.stats.messages_received += 1;
                    self.stats.bytes_received += message.len() as u64;
                    return Ok(Some(read(&Message::of_bytes(message))));
                }
                Frame::Close => {
                    self.stop_sending(EndError::Closed);
                    return Err(EndError::Closed);
                }
                Frame::Disconnected(why) => {
                    self.failure.get_or_insert(ChannelError::Disconnected(why));
                    self.stop_sending(EndError::PeerDied);
                    return Err(EndError::PeerDied);
                }
                Frame::TooLong(length_bytes) => {
                    let error = self.record_failure(ChannelError::Violation(format!(
                        "a frame with the invalid length {length_bytes}"
                    )));
                    self.stop_sending(error);
                    return Err(error);
                }
                Frame::Partial => {
                    if let Some(end) = self.ended {
                        return Err(end);
                    }
                    self.flush();
                    if !self.fill() && self.ended.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        match awaited {
            Interest::Read => self.is_receivable(),
            Interest::Write => self.try_flush(),
            Interest::ReadWrite => self.is_receivable() || self.try_flush(),
        }
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        self.flush();
        Announced::Complete
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        let may_sleep = match awaited {
            Interest::Read => !self.is_receivable(),
            Interest::Write => !self.outgoing.is_empty(),
            Interest::ReadWrite => !self.is_receivable() && !self.outgoing.is_empty(),
        };
        self.stats.sleeps += u64::from(may_sleep);
        may_sleep
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        sources.push((self.socket.as_fd(), self.interest(awaited)));
    }

    fn finish_sleep(&mut self, rung: bool) {
        self.flush();
        if rung && !self.outgoing.is_empty() {
            // The sleep for room may have been ended by the peer's close.
            self.fill();
        }
    }

    fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        if self.unsendable.is_none() {
            self.outgoing.extend_from_slice(&CLOSE.to_le_bytes());
            self.flush();
        }
        self.unsendable.get_or_insert(EndError::Closed);
        if self.outgoing.is_empty() {
            // The peer sees the end although this end is not dropped yet.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
    }
}

impl Drop for StreamChannel {
    /// Closes in order. Bytes that the kernel does not take within a second are lost, and the peer then sees
    /// a death.
    fn drop(&mut self) {
        self.close();
        let deadline = Deadline::after(LINGER);
        while !self.outgoing.is_empty() && !deadline.passed() {
            // The peer may be lingering too: incoming bytes are not needed but must be read.
            self.incoming.discard();
            if poll(&[(self.socket.as_fd(), self.interest(Interest::Write))], Some(deadline)).is_err() {
                return;
            }
            self.fill();
            self.flush();
        }
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        // TCP discards undelivered bytes if a socket with unread bytes is closed.
        for _ in 0..MAX_FINAL_READS {
            self.incoming.discard();
            if !self.fill() {
                return;
            }
        }
    }
}
