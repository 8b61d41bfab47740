//! Typed interfaces over channels: the runtime of generated stubs.
//!
//! `tombolo idl compile`, or `tombolo_idl::build` in a build script, generates stubs from `.tbl` files. A
//! [`Channel`] is a [`Port`], which the stubs' `bind` takes. Open it with the interface's `HASH`
//! ([`ChannelOptions::interface_hash`](crate::ChannelOptions::interface_hash)), so that peers with another
//! interface are refused when they connect.

mod queued;
mod service;
mod shared;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use queued::Queued;
pub use service::{Service, Turn, serve, serve_async};
pub use shared::SharedClient;
pub use tombolo_interface::*;
use tombolo_platform::time::now_ns;
use tombolo_transport::message::{B64_PAYLOAD_BYTES, copy_short};

use crate::channel::Channel;
use crate::error::Error;
use crate::options::ChannelOptions;
use crate::{Draft, Message, TransportKind};

/// Length up to which messages are copied rather than accessed in place: one that fits in a slot of the usual
/// size. Copying its words together is faster than computing the location of each.
const SHORT_BYTES: usize = B64_PAYLOAD_BYTES;

/// Message in the ring, read in place.
struct Received<'a, 'm>(&'a Message<'m>);

impl InPlace for Received<'_, '_> {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn word(&self, at: u32) -> Option<u64> {
        self.0.read_u64_le(at as usize).ok()
    }

    fn copy(&self, at: u32, target: &mut [u8]) -> bool {
        self.0.read_at(at as usize, target).is_ok()
    }
}

/// Space in the ring, written in place.
struct Room<'a, 'd>(&'a mut Draft<'d>);

impl Sink for Room<'_, '_> {
    #[inline]
    fn word(&mut self, at: u32, value: u64) {
        // The length was computed before; writes beyond it are dropped, as the trait specifies.
        let _ = self.0.write_u64_le(at as usize, value);
    }

    fn bytes(&mut self, at: u32, bytes: &[u8]) {
        // Write the whole words together: locating each word separately takes longer than writing it.
        let (words, rest) = bytes.split_at(bytes.len() / 8 * 8);
        let _ = self.0.write_at(at as usize, words);
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at.saturating_add(words.len() as u32), u64::from_le_bytes(last));
        }
    }
}

impl Connect for crate::Domain {
    type Port = Channel;
    type Error = Error;

    fn connect_for(&self, name: &str, interface_hash: u64) -> Result<Channel, Error> {
        ChannelOptions::default().interface_hash(interface_hash).connect(self, name)
    }
}

impl Port for Channel {
    type Error = Error;

    #[inline]
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn timeout(&self) -> Duration {
        Channel::timeout(self)
    }

    #[inline]
    fn max_message_bytes(&self) -> usize {
        Channel::max_message_bytes(self)
    }

    /// Capabilities are passed only between domains that share memory: a stream may lead to a domain that no
    /// monitor knows. Buffers travel on a separate bulk channel, which [`Channel::open_bulk`] opens.
    fn carries(&self) -> Carries {
        Carries { capabilities: self.transport() != TransportKind::Socket, buffers: self.has_bulk }
    }

    fn bound(&mut self, needs: Carries) {
        if needs.capabilities {
            self.rights().mark_expected();
        }
    }

    #[inline]
    fn is_polled(&self) -> bool {
        self.transport() != TransportKind::Socket
    }

    #[inline]
    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, timeout: Duration) -> Result<Sent, Error> {
        let mut short = [0; SHORT_BYTES];
        if let Some(bytes) = short.get_mut(..message.length_bytes()) {
            message.write(bytes);
            if self.try_send(bytes).is_ok() {
                return Ok(Sent::Accepted);
            }
        }
        send_any(self, message, timeout)
    }

    #[inline]
    fn recv(&mut self, timeout: Duration, mut read: impl FnMut(Source<'_>)) -> Result<bool, Error> {
        let mut short = [0; SHORT_BYTES];
        let glimpsed = self.glance(timeout, |message| {
            let copied = copy_short(message, &mut short);
            if copied.is_none() {
                read_in_place(message, &mut read);
            }
            copied
        });
        match glimpsed {
            Ok(Some(Some(length_bytes))) => {
                read(Source::Bytes(&short[..length_bytes.min(SHORT_BYTES)]));
                Ok(true)
            }
            Ok(Some(None)) => Ok(true),
            Ok(None) if timeout.is_zero() => Ok(false),
            // The end of a channel is permanent, so the slow path reports it.
            Ok(None) | Err(_) => recv_any(self, timeout, &mut read),
        }
    }
}

/// Passes a message to `read` in place.
#[inline(never)]
fn read_in_place(message: &Message<'_>, read: &mut dyn FnMut(Source<'_>)) {
    read(Source::InPlace(&Received(message)));
}

/// Sends any message over any transport.
#[inline(never)]
fn send_any<B: Body>(
    channel: &mut Channel,
    message: &Outgoing<'_, B>,
    timeout: Duration,
) -> Result<Sent, Error> {
    // A stream has no place to write to directly, and a send waits until the kernel has accepted all of it.
    if channel.transport() != TransportKind::Socket {
        let written =
            channel.try_send_in_place(message.length_bytes(), |draft| message.write(&mut Room(draft)));
        match written {
            Ok(()) => return Ok(Sent::Accepted),
            Err(Error::WouldBlock) if timeout.is_zero() => return Ok(Sent::NoRoom),
            Err(Error::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    send_when_there_is_room(channel, message, timeout)
}

/// Receives any message, waiting up to `timeout`.
#[inline(never)]
fn recv_any(
    channel: &mut Channel,
    timeout: Duration,
    read: &mut dyn FnMut(Source<'_>),
) -> Result<bool, Error> {
    let read = |message: &Message<'_>| read_in_place(message, read);
    if timeout.is_zero() {
        return Ok(channel.try_recv_in_place(read)?.is_some());
    }
    match channel.within(timeout).recv_in_place(read) {
        Ok(()) => Ok(true),
        Err(Error::TimedOut { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cold]
fn send_when_there_is_room<B: Body>(
    channel: &mut Channel,
    message: &Outgoing<'_, B>,
    timeout: Duration,
) -> Result<Sent, Error> {
    let mut bytes = vec![0; message.length_bytes()];
    message.write(&mut *bytes);
    match channel.within(timeout).send(&bytes) {
        Ok(()) => Ok(Sent::Accepted),
        Err(Error::TimedOut { .. } | Error::WouldBlock) => Ok(Sent::NoRoom),
        Err(error) => Err(error),
    }
}
