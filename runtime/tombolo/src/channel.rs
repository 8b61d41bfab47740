//! One end of a channel, independent of its transport.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tombolo_base::coherence::Flushed;
use tombolo_base::{ChannelId, DomainId, OperationTimeout};
use tombolo_control::{Grant, RelayNode};
use tombolo_link::{Hello, Side};
use tombolo_platform::event::Interest;
use tombolo_platform::{Deadline, socket};
use tombolo_transport::contract::{ShortMessage, Stored};
use tombolo_transport::message::B64_PAYLOAD_BYTES;
use tombolo_transport::trace::Recorder;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::traced::{Traced, TracedEnd};
use tombolo_transport::wrap::{DebugChecked, debug_checked, into_unchecked};
use tombolo_transport::{
    ChannelError, Description, EndError, MemoryChannel, PendingChannel, StreamChannel, Transport,
    TransportExt, shm,
    window::{self, WindowChannel},
};

pub use tombolo_link::TransportKind;
pub use tombolo_link::either::Either;
pub use tombolo_transport::memory::RawMemory;
pub use tombolo_transport::{Batch, Draft, Message, NotAdded, Stats};

pub use crate::capture::CAPTURE_VARIABLE;

use crate::capture::{self, Captured};
use crate::channel_descriptors::pending_channel;
use crate::error::{self, Error};
use crate::in_transit::RightsInTransit;
use crate::monitor::MonitorLink;
use crate::options::ChannelOptions;
use crate::reactor::Registration;

/// One end of a channel, which carries whole messages, in order, in both directions.
///
/// Operations that wait do so up to the channel's timeout, see [`ChannelOptions::timeout`] and
/// [`within`](Self::within).
///
/// Dropping it closes the channel in order: the peer receives everything sent before, and then
/// [`Error::Closed`]. If the program dies instead, the peer gets [`Error::PeerDied`].
#[derive(Debug)]
pub struct Channel {
    pub(crate) carrier: Carrier,
    /// Copy of the carrier's kind: asking the carrier would cost a call per typed message.
    kind: TransportKind,
    max_message_bytes: usize,
    spin: Spin,
    pub(crate) timeout: OperationTimeout,
    id: ChannelId,
    peer: DomainId,
    peer_node: String,
    /// Relays between the two ends, starting at this end.
    via: Vec<RelayNode>,
    accepting: bool,
    /// Whether a bulk channel was opened beside it.
    pub(crate) has_bulk: bool,
    /// Rights that were sent over the channel and not taken up yet; revoked when it ends.
    rights: RightsInTransit,
    /// Socket to the peer for passing descriptors, if there is one.
    companion: Option<OwnedFd>,
    /// Registration with the reactor, from the first future that waited on the channel.
    pub(crate) registration: Option<Registration>,
}

/// Transport of a channel with counters and tracing; in debug builds also with checks.
pub(crate) type Carrier = Traced<DebugChecked<Plain>>;

/// Transport of a channel. An enum, not a trait object: a send takes a few nanoseconds.
#[derive(Debug)]
pub(crate) enum Plain {
    Memory(Box<MemoryChannel>),
    Flushed(Box<MemoryChannel<Flushed>>),
    Stream(Box<StreamChannel>),
    Captured(Box<Captured>),
}

tombolo_transport::transport_of_variants!(Plain { Memory, Flushed, Stream, Captured });

/// Domain that owns a channel, with its counters and tracing.
pub(crate) struct Owner<'a> {
    pub(crate) id: DomainId,
    pub(crate) recorder: &'a Arc<Recorder>,
    pub(crate) link: Weak<MonitorLink>,
    /// Timeout of the channel's operations, unless its options set one.
    pub(crate) timeout: Duration,
}

impl Channel {
    /// Opens this end of a channel that a monitor granted.
    pub(crate) fn open(
        grant: Grant,
        fds: Vec<OwnedFd>,
        owner: Owner<'_>,
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        let config = match grant.side {
            Side::A => grant.config,
            // The connecting side chooses the depth; the slot size is the one that this side expects.
            Side::B => tombolo_link::ChannelConfig { slot: options.config.slot, ..grant.config },
        };
        let hello = Hello::new(config, options.interface_hash, Some(owner.id));
        let (carrier, companion) = open_transport(&grant, fds, hello, options, Deadline::after(timeout))
            .map_err(|error| {
                let (node, via) = (grant.peer_node.as_str(), grant.via.as_slice());
                let far = error::End { channel: grant.channel, peer: grant.peer, node, via };
                Error::of_channel(error, &far, timeout)
            })?;
        let carrier = match capture::folder() {
            Some(folder) => Plain::Captured(Box::new(capture::start(carrier, &folder, &grant, owner.id)?)),
            None => carrier,
        };
        let accepting = grant.side == Side::B;
        let end = TracedEnd { channel: grant.channel.0, accepting, peer: grant.peer.to_bits() };
        let carrier = Traced::new(debug_checked(carrier), owner.recorder, end);
        let spin = Spin::new(options.spin_ns);
        let Description { kind, max_message_bytes, .. } = carrier.describe();
        Ok(Channel {
            carrier,
            kind,
            max_message_bytes,
            spin,
            timeout: OperationTimeout::new(options.timeout.unwrap_or(owner.timeout)),
            id: grant.channel,
            peer: grant.peer,
            peer_node: grant.peer_node,
            via: grant.via,
            accepting,
            has_bulk: false,
            rights: RightsInTransit::new(owner.link, grant.channel, grant.peer),
            companion,
            registration: None,
        })
    }

    /// Rights in flight over this channel.
    pub(crate) fn rights(&self) -> &RightsInTransit {
        &self.rights
    }

    /// Whether this is the accepting end.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting
    }

    /// Takes the socket for passing descriptors, if there is one and it was not taken before.
    pub(crate) fn take_companion(&mut self) -> Option<OwnedFd> {
        self.companion.take()
    }

    /// Converts the error of an operation that failed or exceeded `timeout`.
    #[cold]
    pub(crate) fn error(&self, error: ChannelError, timeout: Duration) -> Error {
        Error::of_channel(error, &self.far_end(), timeout)
    }

    /// Like [`error`](Self::error), for waits whose results are values of the caller: `error` itself would be
    /// called with the place of the result, and no part of a result would be in registers any more.
    #[cold]
    #[inline(never)]
    fn boxed_error(&self, error: ChannelError, timeout: Duration) -> Box<Error> {
        Box::new(self.error(error, timeout))
    }

    /// Describes the other end in errors.
    fn far_end(&self) -> error::End<'_> {
        error::End { channel: self.id, peer: self.peer, node: &self.peer_node, via: &self.via }
    }

    /// Returns the error for a peer that broke the protocol, as described by `what`.
    #[cold]
    pub(crate) fn violation(&self, what: String) -> Error {
        Error::Violation { peer: self.peer, node: self.peer_node.clone(), channel: self.id, what }
    }

    /// Converts the error of an operation that was not performed. Polling returns `Full` more often than a
    /// message, so only that case is inlined.
    #[inline]
    pub(crate) fn refused(&self, error: EndError, length_bytes: usize) -> Error {
        if error == EndError::Full { Error::WouldBlock } else { self.end_error(error, length_bytes) }
    }

    #[cold]
    fn end_error(&self, error: EndError, length_bytes: usize) -> Error {
        self.error(ChannelError::of(&self.carrier, error, length_bytes), Duration::ZERO)
    }

    /// Sets the timeout of the next operation that waits.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), tombolo::Error> {
    /// # let mut channel: tombolo::Channel = unimplemented!();
    /// channel.within(Duration::from_millis(5)).send(b"urgent")?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Channel {
        self.timeout.set_once(timeout);
        self
    }

    /// Timeout of operations that wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.default_timeout()
    }

    /// Sends a message, whole or not at all, if there is room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is no room; [`Error::TooLong`]; or the end of the peer.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), Error> {
        if self.store(message) { Ok(()) } else { self.try_send_slow(message) }
    }

    /// Sends a message if that takes only stores to memory.
    #[inline(always)]
    fn store(&mut self, message: &[u8]) -> bool {
        // Whole words that fit a slot of the usual size come first: this path needs no callee-saved
        // registers. The comparisons fold away if the length is known at compile time.
        if message.len().is_multiple_of(8) && message.len() <= B64_PAYLOAD_BYTES {
            self.store_words(message)
        } else {
            self.store_other(message)
        }
    }

    /// Not inlined, with a call only in tail position, so that no registers are saved; see [`Stored`].
    #[inline(never)]
    fn store_words(&mut self, message: &[u8]) -> bool {
        // Tells the compiler that no tail is left. (Flattening a slice of words would be a call.)
        let Some(words) = message.get(..message.len() & !7) else { return false };
        debug_assert_eq!(words.len(), message.len(), "whole words");
        match self.carrier.try_store(words, ShortMessage::OneSlot) {
            Stored::Nothing => false,
            Stored::Message => true,
            Stored::Unfinished => self.finish(),
        }
    }

    /// Like [`store_words`](Self::store_words), for messages of two slots or of odd lengths.
    #[inline(never)]
    fn store_other(&mut self, message: &[u8]) -> bool {
        let mut stored = self.carrier.try_store(message, ShortMessage::TwoSlots);
        if stored == Stored::Nothing {
            stored = self.carrier.try_store(message, ShortMessage::OneSlot);
        }
        match stored {
            Stored::Nothing => false,
            Stored::Message => true,
            Stored::Unfinished => self.finish(),
        }
    }

    #[cold]
    #[inline(never)]
    fn finish(&mut self) -> bool {
        self.carrier.finish();
        // Opaque to the optimizer: if callers knew the result, this would not be a tail call of `store`.
        std::hint::black_box(true)
    }

    #[inline(never)]
    fn try_send_slow(&mut self, message: &[u8]) -> Result<(), Error> {
        match self.carrier.try_send(message) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused(error, message.len())),
        }
    }

    /// Sends a whole message, waiting for room.
    ///
    /// The message is in the ring when this returns, and is lost if the peer dies before it receives it.
    /// Sends to a dead peer succeed while the ring has room.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the peer did not make room in time: nothing was sent. [`Error::TooLong`]; or
    /// the end of the peer.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        if self.store(message) {
            let _ = self.timeout.take();
            return Ok(());
        }
        self.send_slow(message)
    }

    #[inline(never)]
    fn send_slow(&mut self, message: &[u8]) -> Result<(), Error> {
        let timeout = self.timeout.take();
        match wait::send(&mut self.carrier, &mut self.spin, message, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.error(error, timeout)),
        }
    }

    /// Receives the next message, if there is one, and replaces the contents of `buffer` with it. Returns its
    /// length.
    ///
    /// # Errors
    /// The end of the peer, after everything that it sent has been received.
    #[inline]
    pub fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        match self.carrier.try_recv_into(buffer) {
            Ok(length) => Ok(length),
            Err(error) => Err(self.end_error(error, 0)),
        }
    }

    /// Waits for the next message and replaces the contents of `buffer` with it. Returns its length.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or the end of the peer, after everything that it sent has been received.
    pub fn recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Error> {
        let timeout = self.timeout.take();
        wait::recv_into(&mut self.carrier, &mut self.spin, buffer, timeout)
            .map_err(|error| self.error(error, timeout))
    }

    /// Passes the next message, if there is one, to `read` in place, without a copy. The message is consumed
    /// when `read` returns; returns the result of `read`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), tombolo::Error> {
    /// # let mut channel: tombolo::Channel = unimplemented!();
    /// let reading = channel.try_recv_in_place(|message| message.read_u64_le(0))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`try_recv_into`](Self::try_recv_into).
    #[inline(always)]
    pub fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, Error> {
        match self.carrier.try_recv_in_place(read) {
            Ok(received) => Ok(received),
            Err(error) => Err(self.end_error(error, 0)),
        }
    }

    /// Waits for the next message and passes it to `read` in place, see
    /// [`try_recv_in_place`](Self::try_recv_in_place).
    ///
    /// # Errors
    /// Same as [`recv_into`](Self::recv_into).
    #[inline]
    pub fn recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<R, Error> {
        let timeout = self.timeout.take();
        match wait::recv_in_place(&mut self.carrier, &mut self.spin, timeout, read) {
            Ok(received) => Ok(received),
            Err(error) => Err(*self.boxed_error(error, timeout)),
        }
    }

    /// Polls briefly for a message, as a wait does before it sleeps; polls once if `timeout` is zero.
    #[inline(always)]
    pub(crate) fn glance<R>(
        &mut self,
        timeout: Duration,
        mut read: impl FnMut(&Message<'_>) -> R,
    ) -> Result<Option<R>, EndError> {
        let Channel { carrier, spin, .. } = self;
        let mut once = Spin::new(0);
        let spin = if timeout.is_zero() { &mut once } else { spin };
        let found = spin.poll_briefly(|| match carrier.try_recv_in_place(|message| read(message)) {
            Ok(None) => None,
            found => Some(found),
        });
        found.unwrap_or(Ok(None))
    }

    /// Receives up to `max` messages in place, at a lower cost per message than one by one. Returns their
    /// number.
    ///
    /// # Errors
    /// Same as [`try_recv_into`](Self::try_recv_into), if no message was received.
    #[inline(always)]
    pub fn try_recv_batch(&mut self, max: usize, read: impl FnMut(&Message<'_>)) -> Result<usize, Error> {
        match self.carrier.try_recv_batch(max, read) {
            Ok(received) => Ok(received),
            Err(error) => Err(self.end_error(error, 0)),
        }
    }

    /// Sends a message of `length_bytes` bytes if there is room: `write` writes it in place, into the buffer
    /// that it is sent from. Over shared memory, the peer reads it from the same place.
    ///
    /// # Errors
    /// Same as [`try_send`](Self::try_send); `write` was not called, or what it wrote was not sent.
    #[inline(always)]
    pub fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), Error> {
        match self.carrier.try_send_in_place(length_bytes, write) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused(error, length_bytes)),
        }
    }

    /// Sends the messages that `fill` adds to a batch. Over shared memory they become visible together, and
    /// each costs less than a separate send. Returns their number, which is smaller than intended if there
    /// was no room.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), tombolo::Error> {
    /// # let mut channel: tombolo::Channel = unimplemented!();
    /// # let readings: Vec<[u8; 16]> = Vec::new();
    /// let sent = channel.try_send_batch(|batch| {
    ///     // Ends at the first that finds no room.
    ///     let _ = readings.iter().try_for_each(|reading| batch.push(reading));
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`try_send`](Self::try_send), if the channel had ended before.
    #[inline(always)]
    pub fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, Error> {
        match self.carrier.try_send_batch(fill) {
            Ok(sent) => Ok(sent),
            Err(error) => Err(self.end_error(error, 0)),
        }
    }

    /// Whether a message that recently found no room would find it now.
    pub(crate) fn has_room(&mut self) -> bool {
        self.carrier.is_ready(Interest::Write)
    }

    /// Maximum length of a message, in bytes.
    #[inline]
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Channel id, the same on both sides.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Domain at the other end, as reported by the monitors.
    #[must_use]
    pub fn peer(&self) -> DomainId {
        self.peer
    }

    /// Name of the node that the peer runs on.
    #[must_use]
    pub fn peer_node(&self) -> &str {
        &self.peer_node
    }

    /// Names of the nodes whose relays are between the two ends, starting at this end; empty if the two nodes
    /// have a direct link.
    pub fn via(&self) -> impl Iterator<Item = &str> {
        self.via.iter().map(|relay| relay.name.as_str())
    }

    /// Kind of transport that carries this channel; if there are relays, that up to the first one.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> TransportKind {
        self.kind
    }

    /// Returns the counters of this end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.carrier.stats()
    }

    /// Returns the memory under the channel, coherent or not, for measurements; `None` if the ends share no
    /// memory. Both ends have to call this: the rings are unusable afterwards.
    #[must_use]
    pub fn into_raw_memory(self) -> Option<Either<RawMemory, RawMemory<Flushed>>> {
        match into_unchecked(self.carrier.into_inner()) {
            Plain::Memory(channel) => Some(Either::Coherent(channel.into_raw_memory())),
            Plain::Flushed(channel) => Some(Either::Flushed(channel.into_raw_memory())),
            Plain::Stream(_) | Plain::Captured(_) => None,
        }
    }
}

/// Waits until one of `channels` has a message or has ended, and returns its index. Each call starts with a
/// different channel, so that a channel that is never empty does not starve the others.
///
/// # Errors
/// [`Error::TimedOut`] if nothing happened on any channel.
pub fn wait_any(channels: &mut [&mut Channel], timeout: Duration) -> Result<usize, Error> {
    let Some(first) = channels.first() else {
        std::thread::sleep(timeout);
        return Err(Error::TimedOut { what: "a message on no channel".into(), timeout });
    };
    let (channel, peer, node, via) = (first.id, first.peer, first.peer_node.clone(), first.via.clone());
    let mut spin = first.spin;
    let start = START.replace(START.get().wrapping_add(1));
    let mut carriers: Vec<&mut Carrier> = channels.iter_mut().map(|channel| &mut channel.carrier).collect();
    let result = wait::any(&mut carriers, &mut spin, timeout, start);
    result.map_err(|error| match error {
        ChannelError::TimedOut(awaited) => Error::TimedOut { what: format!("{awaited} any peer"), timeout },
        error => Error::of_channel(error, &error::End { channel, peer, node: &node, via: &via }, timeout),
    })
}

thread_local! {
    /// Index at which the next [`wait_any`] of this thread starts.
    static START: Cell<usize> = const { Cell::new(0) };
}

/// Opens the transport that a grant specifies.
fn open_transport(
    grant: &Grant,
    fds: Vec<OwnedFd>,
    hello: Hello,
    options: &ChannelOptions,
    deadline: Deadline,
) -> Result<(Plain, Option<OwnedFd>), ChannelError> {
    let plain = match pending_channel(grant, fds)? {
        PendingChannel::Shm(socket) if grant.side == Side::A => {
            let pair = options.companion.then(|| socket::pair(socket::SocketKind::Packet)).transpose()?;
            let (ours, theirs) = pair.unzip();
            let channel = shm::connect_with(socket, hello, theirs, deadline)?;
            return Ok((Plain::Memory(Box::new(channel)), ours));
        }
        PendingChannel::Shm(socket) => {
            let (channel, companion) = shm::accept_with(socket, hello, deadline)?;
            return Ok((Plain::Memory(Box::new(channel)), companion));
        }
        PendingChannel::Stream(socket) => {
            Plain::Stream(Box::new(StreamChannel::open(socket, hello, deadline)?))
        }
        PendingChannel::Window(resources) => match window::open(resources, grant.side, hello, deadline)? {
            WindowChannel::Coherent(channel) => Plain::Memory(channel),
            WindowChannel::Flushed(channel) => Plain::Flushed(channel),
        },
    };
    Ok((plain, None))
}

#[cfg(test)]
mod tests {
    use tombolo_platform::socket::{self, SocketKind};

    use super::*;
    use crate::channel_descriptors::withdraw;
    use crate::testing::{LONG, domain_id, grant, pair};

    #[test]
    fn a_channel_that_is_never_empty_starves_no_other() {
        let (mut busy, mut busy_peer) = pair();
        let (mut other, mut other_peer) = pair();
        busy_peer.try_send(b"x").unwrap();
        other_peer.try_send(b"x").unwrap();
        let found = [(); 2].map(|()| wait_any(&mut [&mut busy, &mut other], LONG).unwrap());
        assert_ne!(found[0], found[1]);
    }

    #[test]
    fn unused_grant_is_not_a_death() {
        for transport in [TransportKind::Shm, TransportKind::Socket] {
            for side in [Side::A, Side::B] {
                let (unused, other) = socket::pair(SocketKind::Stream).unwrap();
                withdraw(&grant(side, transport), vec![unused]);
                let recorder = Recorder::disabled();
                let owner = Owner { id: domain_id(), recorder: &recorder, link: Weak::new(), timeout: LONG };
                let options = ChannelOptions::default();
                let opened =
                    Channel::open(grant(side.other(), transport), vec![other], owner, &options, LONG);
                assert!(matches!(opened, Err(Error::Closed { .. })), "{transport:?} {side:?}: {opened:?}");
            }
        }
    }
}
