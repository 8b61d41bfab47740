//! `socket`: a channel over a byte stream, local or TCP, for nodes that share no memory.
//!
//! The same hello and verdict as in memory, then frames: a 32-bit little-endian length and the message. The
//! length [`CLOSE`] ends the stream in order; an end without it is the peer's death.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags};
use tombolo_link::handshake::HandshakeError;
use tombolo_link::hello::{HELLO_BYTES, Hello, words_from_bytes};
use tombolo_link::{ChannelConfig, TransportKind};
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::time::Deadline;
use tombolo_platform::{Errno, OsError};

use crate::contract::{Limits, Stats, Transport};
use crate::error::{Awaited, ChannelError};

/// The length that is none: the peer closed.
const CLOSE: u32 = u32::MAX;

const ACCEPTED: u64 = 1;
const DISAGREED: u64 = 2;
const DECLINED: u64 = 3;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// One end of a channel over a byte stream.
#[derive(Debug)]
pub struct StreamChannel {
    socket: OwnedFd,
    /// Accepted for sending, not yet taken by the kernel.
    outgoing: Vec<u8>,
    /// Received, not yet given out; the first `taken` bytes were.
    incoming: Vec<u8>,
    taken: usize,
    end: Option<ChannelError>,
    closed: bool,
    max_message_bytes: usize,
    stats: Stats,
}

impl StreamChannel {
    /// Opens a channel over a connected stream. Both sides call this; neither is special.
    ///
    /// # Errors
    /// What the two sides disagree on, the peer's end, the deadline, or what the kernel refused.
    pub fn open(socket: OwnedFd, hello: Hello, deadline: Deadline) -> Result<Self, ChannelError> {
        rustix::io::ioctl_fionbio(&socket, true).context("make a socket non-blocking")?;
        let mut channel = StreamChannel {
            socket,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            taken: 0,
            end: None,
            closed: false,
            max_message_bytes: max_message_bytes(hello.config),
            stats: Stats::default(),
        };
        channel.outgoing.extend_from_slice(&hello.to_bytes());
        let theirs: [u8; HELLO_BYTES] = channel.exchange(deadline)?;
        let agreed = hello.agree(&words_from_bytes(&theirs));
        let verdict = if agreed.is_ok() { ACCEPTED } else { DISAGREED };
        channel.outgoing.extend_from_slice(&verdict.to_le_bytes());
        if let Err(refusal) = agreed {
            let _ = channel.flush();
            return Err(HandshakeError::from(refusal).into());
        }
        let theirs = u64::from_le_bytes(channel.exchange(deadline)?);
        match theirs & 0xffff_ffff {
            ACCEPTED => Ok(channel),
            DECLINED => Err(HandshakeError::Declined { reason: (theirs >> 32) as u32 }.into()),
            _ => Err(HandshakeError::Nonsense { found: theirs }.into()),
        }
    }

    /// Declines a peer that opens a channel, with a reason that its program understands.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn decline(socket: OwnedFd, hello: Hello, reason: u32) -> Result<(), ChannelError> {
        rustix::io::ioctl_fionbio(&socket, true).context("make a socket non-blocking")?;
        let mut bytes = hello.to_bytes().to_vec();
        bytes.extend_from_slice(&(DECLINED | u64::from(reason) << 32).to_le_bytes());
        rustix::net::send(&socket, &bytes, SendFlags::NOSIGNAL).context("decline a channel")?;
        Ok(())
    }

    /// Connects by TCP.
    ///
    /// # Errors
    /// As [`open`](Self::open); also when nobody listens there.
    pub fn connect_tcp(
        address: std::net::SocketAddr,
        hello: Hello,
        deadline: Deadline,
    ) -> Result<Self, ChannelError> {
        let remaining = deadline.remaining().max(std::time::Duration::from_millis(1));
        let stream =
            TcpStream::connect_timeout(&address, remaining).context(&format!("connect to {address}"))?;
        Self::open_tcp(stream, hello, deadline)
    }

    /// Opens a channel over an accepted TCP connection.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_tcp(stream: TcpStream, hello: Hello, deadline: Deadline) -> Result<Self, ChannelError> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Self::open(stream.into(), hello, deadline)
    }

    /// Sends what is pending and receives exactly `N` bytes.
    fn exchange<const N: usize>(&mut self, deadline: Deadline) -> Result<[u8; N], ChannelError> {
        loop {
            self.flush()?;
            if let Some(bytes) = self.incoming[self.taken..].first_chunk::<N>() {
                self.taken += N;
                return Ok(*bytes);
            }
            if self.end.is_some() {
                return Err(ChannelError::PeerDied);
            }
            if deadline.passed() {
                return Err(ChannelError::TimedOut(Awaited::Handshake));
            }
            let interest = if self.outgoing.is_empty() { Interest::Read } else { Interest::ReadWrite };
            poll(&[(self.socket.as_fd(), interest)], Some(deadline))?;
            self.fill();
        }
    }

    /// Gives the kernel what it takes of what is pending.
    fn flush(&mut self) -> Result<(), ChannelError> {
        let mut sent = 0;
        let result = loop {
            if sent == self.outgoing.len() {
                break Ok(());
            }
            match rustix::net::send(
                &self.socket,
                &self.outgoing[sent..],
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => break Err(ChannelError::PeerDied),
                Err(errno) => break Err(OsError::new("send on a stream", errno).into()),
            }
        };
        self.outgoing.drain(..sent);
        result
    }

    /// Takes what the kernel has.
    fn fill(&mut self) {
        if self.end.is_some() {
            return;
        }
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        let held = self.incoming.len();
        self.incoming.resize(held + READ_BYTES, 0);
        let result = loop {
            match rustix::net::recv(&self.socket, &mut self.incoming[held..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                result => break result.map(|(count, _)| count),
            }
        };
        self.incoming.truncate(held + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) | Err(Errno::CONNRESET) => self.end = Some(ChannelError::PeerDied),
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(errno) => self.end = Some(OsError::new("receive on a stream", errno).into()),
        }
    }

    /// The next whole frame in what was received: its range.
    fn frame(&mut self) -> Result<Option<std::ops::Range<usize>>, ChannelError> {
        let rest = &self.incoming[self.taken..];
        let Some(head) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head);
        if length == CLOSE {
            self.end = Some(ChannelError::Closed);
            return Err(ChannelError::Closed);
        }
        let length_bytes = length as usize;
        if length_bytes > self.max_message_bytes {
            let error = ChannelError::Violation(format!("a frame of {length_bytes} bytes"));
            self.end = Some(error.clone());
            self.incoming.truncate(self.taken);
            return Err(error);
        }
        let start = self.taken + 4;
        Ok((rest.len() >= 4 + length_bytes).then_some(start..start + length_bytes))
    }
}

/// A stream carries what rings of that shape would, so that a program sees no difference.
fn max_message_bytes(config: ChannelConfig) -> usize {
    config.slots as usize * config.slot.payload_bytes()
}

impl Transport for StreamChannel {
    fn kind(&self) -> TransportKind {
        TransportKind::Socket
    }

    fn limits(&self) -> Limits {
        Limits { max_message_bytes: self.max_message_bytes }
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        if message.len() > self.max_message_bytes {
            let (length_bytes, max_bytes) = (message.len(), self.max_message_bytes);
            return Err(ChannelError::TooLong { length_bytes, max_bytes });
        }
        if self.closed {
            return Err(ChannelError::Closed);
        }
        if let Some(end @ (ChannelError::Closed | ChannelError::Violation(_))) = &self.end {
            return Err(end.clone());
        }
        self.flush()?;
        if !self.outgoing.is_empty() {
            return Err(ChannelError::WouldBlock);
        }
        self.outgoing.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(message);
        if let Err(error) = self.flush() {
            self.outgoing.clear();
            return Err(error);
        }
        self.stats.messages_sent += 1;
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, ChannelError> {
        let mut range = self.frame()?;
        if range.is_none() {
            self.flush()
                .or_else(|error| if error == ChannelError::PeerDied { Ok(()) } else { Err(error) })?;
            self.fill();
            range = self.frame()?;
        }
        let Some(range) = range else {
            return self.end.clone().map_or(Ok(None), Err);
        };
        self.taken = range.end;
        buffer.clear();
        buffer.extend_from_slice(&self.incoming[range]);
        self.stats.messages_received += 1;
        self.stats.bytes_received += buffer.len() as u64;
        Ok(Some(buffer.len()))
    }

    fn readable(&mut self) -> bool {
        if !matches!(self.frame(), Ok(None)) || self.end.is_some() {
            return true;
        }
        self.fill();
        !matches!(self.frame(), Ok(None)) || self.end.is_some()
    }

    fn about_to_sleep(&mut self, awaited: Interest) -> bool {
        self.stats.sleeps += 1;
        let flushed = self.flush().is_ok();
        match awaited {
            Interest::Read => flushed && !self.readable(),
            Interest::Write => flushed && !self.outgoing.is_empty(),
            Interest::ReadWrite => flushed && !self.outgoing.is_empty() && !self.readable(),
        }
    }

    fn sources<'a>(&'a self, awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        let interest = match (awaited, self.outgoing.is_empty()) {
            (Interest::Read, true) => Interest::Read,
            (Interest::Write, _) => Interest::Write,
            _ => Interest::ReadWrite,
        };
        sources.push((self.socket.as_fd(), interest));
    }

    fn wake_up(&mut self) {
        let _ = self.flush();
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.outgoing.extend_from_slice(&CLOSE.to_le_bytes());
            let _ = self.flush();
        }
    }
}

impl Drop for StreamChannel {
    /// Closes in order. What the kernel does not take within a second is lost, and the peer then sees a death.
    fn drop(&mut self) {
        self.close();
        let deadline = Deadline::after(std::time::Duration::from_secs(1));
        while !self.outgoing.is_empty() && !deadline.passed() {
            let woken = poll(&[(self.socket.as_fd(), Interest::Write)], Some(deadline));
            if woken.is_err() || self.flush().is_err() {
                return;
            }
        }
    }
}
