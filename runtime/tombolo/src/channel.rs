//! One end of a channel, whatever carries it.

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
use tombolo_transport::message::USUAL_PAYLOAD_BYTES;
use tombolo_transport::trace::Recorder;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::traced::{Traced, TracedEnd};
use tombolo_transport::wrap::{Guarded, guarded, unguarded};
use tombolo_transport::{
    ChannelError, Description, EndError, Joint, MemoryChannel, StreamChannel, Transport, TransportExt, shm,
    window::{self, WindowChannel},
};

pub use tombolo_link::TransportKind;
pub use tombolo_link::either::Either;
pub use tombolo_transport::memory::RawMemory;
pub use tombolo_transport::{Batch, Draft, Message, NotAdded, Stats};

pub use crate::capture::CAPTURE_VARIABLE;

use crate::capture::{self, Captured};
use crate::error::{self, Error};
use crate::joint::joint;
use crate::monitor::MonitorLink;
use crate::on_the_way::OnTheWay;
use crate::options::ChannelOptions;
use crate::reactor::Registration;

/// One end of a channel: whole messages, in order, both ways.
///
/// Operations that wait do so up to its timeout, see [`ChannelOptions::timeout`] and
/// [`within`](Self::within).
///
/// Dropping it closes it in order: the peer receives everything sent before and then [`Error::Closed`]. When
/// the program dies instead, the peer gets [`Error::PeerDied`].
#[derive(Debug)]
pub struct Channel {
    pub(crate) carrier: Carrier,
    /// Of the carrier, which it would take a call to ask with each typed message.
    kind: TransportKind,
    max_message_bytes: usize,
    spin: Spin,
    pub(crate) timeout: OperationTimeout,
    id: ChannelId,
    peer: DomainId,
    peer_node: String,
    /// The relays on the way, from this end on.
    via: Vec<RelayNode>,
    accepting: bool,
    /// A bulk channel is beside it.
    pub(crate) has_bulk: bool,
    /// What lets go what came over it and was not taken up.
    rights: OnTheWay,
    /// A socket to the peer for descriptors, where there is one.
    companion: Option<OwnedFd>,
    /// Its place in the reactor, from the first time on that a future waited for it.
    pub(crate) registration: Option<Registration>,
}

/// What carries a channel, counted and traced; in debug builds also watched.
pub(crate) type Carrier = Traced<Guarded<Plain>>;

/// What carries a channel. An enum, not a trait object: sending is a few nanoseconds.
#[derive(Debug)]
pub(crate) enum Plain {
    Memory(Box<MemoryChannel>),
    Flushed(Box<MemoryChannel<Flushed>>),
    Stream(Box<StreamChannel>),
    Captured(Box<Captured>),
}

tombolo_transport::transport_of_variants!(Plain { Memory, Flushed, Stream, Captured });

/// Whose a channel is, and what it counts and traces with.
pub(crate) struct Owner<'a> {
    pub(crate) id: DomainId,
    pub(crate) recorder: &'a Arc<Recorder>,
    pub(crate) link: Weak<MonitorLink>,
    /// How long its operations wait, where its options do not say.
    pub(crate) timeout: Duration,
}

impl Channel {
    /// Opens the end that a monitor granted.
    pub(crate) fn open(
        grant: Grant,
        fds: Vec<OwnedFd>,
        owner: Owner<'_>,
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        let config = match grant.side {
            Side::A => grant.config,
            // The depth is the connecting side's; the slot size is what this side expects.
            Side::B => tombolo_link::ChannelConfig { slot: options.config.slot, ..grant.config },
        };
        let hello = Hello::new(config, options.interface_hash, Some(owner.id));
        let (carrier, companion) =
            carry(&grant, fds, hello, options, Deadline::after(timeout)).map_err(|error| {
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
        let carrier = Traced::new(guarded(carrier), owner.recorder, end);
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
            rights: OnTheWay::new(owner.link, grant.channel, grant.peer),
            companion,
            registration: None,
        })
    }

    /// What may be on its way over it.
    pub(crate) fn rights(&self) -> &OnTheWay {
        &self.rights
    }

    /// Whether this end accepted it.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting
    }

    /// The socket to the peer for descriptors, if there is one and it was not taken.
    pub(crate) fn take_companion(&mut self) -> Option<OwnedFd> {
        self.companion.take()
    }

    /// The error for an operation that failed or took longer than `timeout`.
    #[cold]
    pub(crate) fn error(&self, error: ChannelError, timeout: Duration) -> Error {
        Error::of_channel(error, &self.far_end(), timeout)
    }

    /// The other end, for errors.
    fn far_end(&self) -> error::End<'_> {
        error::End { channel: self.id, peer: self.peer, node: &self.peer_node, via: &self.via }
    }

    /// The error for a peer that sent `what` it should not have.
    #[cold]
    pub(crate) fn violation(&self, what: String) -> Error {
        Error::Violation { peer: self.peer, node: self.peer_node.clone(), channel: self.id, what }
    }

    /// The error for an operation that did not happen. Pollers get `Full` more often than a message, so that
    /// it alone is inlined.
    #[inline]
    pub(crate) fn refused(&self, error: EndError, length_bytes: usize) -> Error {
        if error == EndError::Full { Error::WouldBlock } else { self.ended(error, length_bytes) }
    }

    #[cold]
    fn ended(&self, error: EndError, length_bytes: usize) -> Error {
        self.error(ChannelError::of(&self.carrier, error, length_bytes), Duration::ZERO)
    }

    /// Has the next operation that waits do so up to `timeout`.
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

    /// How long its operations wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.usual()
    }

    /// Sends a message if there is room, whole or not at all.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none; [`Error::TooLong`]; or the end of the peer.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), Error> {
        if self.store(message) { Ok(()) } else { self.try_send_slow(message) }
    }

    /// Sends a message if that takes stores to memory and nothing else.
    #[inline(always)]
    fn store(&mut self, message: &[u8]) -> bool {
        // Of whole words in a slot of the usual size first: with less to do, these need no registers that
        // would have to be saved. Where the caller knows the length, nothing is compared.
        if message.len().is_multiple_of(8) && message.len() <= USUAL_PAYLOAD_BYTES {
            self.store_words(message)
        } else {
            self.store_other(message)
        }
    }

    /// Not inlined, and makes no call but in its last step, so that it saves no registers; see [`Stored`].
    #[inline(never)]
    fn store_words(&mut self, message: &[u8]) -> bool {
        // Tells the compiler that no tail is left. (A slice of words made flat again is a call.)
        let Some(words) = message.get(..message.len() & !7) else { return false };
        debug_assert_eq!(words.len(), message.len(), "whole words");
        match self.carrier.try_store(words, ShortMessage::OneSlot) {
            Stored::Nothing => false,
            Stored::Message => true,
            Stored::Unfinished => self.finish(),
        }
    }

    /// As [`store_words`](Self::store_words), for messages of two slots or of odd lengths.
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
        // Opaque: a result known to callers would make this more than the last step of `store`.
        std::hint::black_box(true)
    }

    #[inline(never)]
    fn try_send_slow(&mut self, message: &[u8]) -> Result<(), Error> {
        match self.carrier.try_send(message) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refused(error, message.len())),
        }
    }

    /// Sends a message, whole, waiting for room.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the peer did not take enough in time: nothing was sent. [`Error::TooLong`];
    /// or the end of the peer.
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

    /// Receives the next message, if there is one, in place of what `buffer` held.
    ///
    /// # Errors
    /// The end of the peer, after everything it sent has been received.
    #[inline]
    pub fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        match self.carrier.try_recv_into(buffer) {
            Ok(length) => Ok(length),
            Err(error) => Err(self.ended(error, 0)),
        }
    }

    /// Waits for the next message and receives it in place of what `buffer` held. Returns its length.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or the end of the peer after everything it sent has been received.
    pub fn recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Error> {
        let timeout = self.timeout.take();
        wait::recv_into(&mut self.carrier, &mut self.spin, buffer, timeout)
            .map_err(|error| self.error(error, timeout))
    }

    /// Receives the next message, if there is one, where it lies, without a copy: it is consumed when `read`
    /// returns, with whatever that returned.
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
    /// As [`try_recv_into`](Self::try_recv_into).
    #[inline(always)]
    pub fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, Error> {
        match self.carrier.try_recv_in_place(read) {
            Ok(received) => Ok(received),
            Err(error) => Err(self.ended(error, 0)),
        }
    }

    /// Waits for the next message and receives it where it lies, see
    /// [`try_recv_in_place`](Self::try_recv_in_place).
    ///
    /// # Errors
    /// As [`recv_into`](Self::recv_into).
    #[inline]
    pub fn recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<R, Error> {
        let timeout = self.timeout.take();
        wait::recv_in_place(&mut self.carrier, &mut self.spin, timeout, read)
            .map_err(|error| self.error(error, timeout))
    }

    /// The first looks of a wait for a message, or the only one if there is no time to wait.
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

    /// Receives up to `max` messages where they lie, at less cost for each than one by one. Says how many.
    ///
    /// # Errors
    /// As [`try_recv_into`](Self::try_recv_into), when not even one was received.
    #[inline(always)]
    pub fn try_recv_batch(&mut self, max: usize, read: impl FnMut(&Message<'_>)) -> Result<usize, Error> {
        match self.carrier.try_recv_batch(max, read) {
            Ok(received) => Ok(received),
            Err(error) => Err(self.ended(error, 0)),
        }
    }

    /// Sends a message of `length_bytes` that `write` writes where it will be sent from, if there is room.
    /// Over shared memory that is where the peer reads it.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send); `write` was not called, or what it wrote was not sent.
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

    /// Sends the messages that `fill` adds to a batch: over shared memory they become visible together, and
    /// each costs less than one sent by itself. Says how many; fewer than were meant to be when there was no
    /// room.
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
    /// As [`try_send`](Self::try_send), when the channel had ended before.
    #[inline(always)]
    pub fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, Error> {
        match self.carrier.try_send_batch(fill) {
            Ok(sent) => Ok(sent),
            Err(error) => Err(self.ended(error, 0)),
        }
    }

    /// Whether what found no room lately would find it now.
    pub(crate) fn has_room(&mut self) -> bool {
        self.carrier.is_ready(Interest::Write)
    }

    /// The longest message it carries, in bytes.
    #[inline]
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Its id, the same on both sides.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Who is at the other end, as the monitors say.
    #[must_use]
    pub fn peer(&self) -> DomainId {
        self.peer
    }

    /// The name of the peer's node.
    #[must_use]
    pub fn peer_node(&self) -> &str {
        &self.peer_node
    }

    /// The names of the nodes whose relays are between the two ends, from this end on; none where the two
    /// nodes have a link.
    pub fn via(&self) -> impl Iterator<Item = &str> {
        self.via.iter().map(|relay| relay.name.as_str())
    }

    /// The kind of transport that carries this channel, up to the first relay if there are any.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> TransportKind {
        self.kind
    }

    /// What has passed through this end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.carrier.stats()
    }

    /// The bare memory under the channel, for measuring, whether it is coherent or not; `None` where none is
    /// shared. Both ends must do this: the rings are of no use afterwards.
    #[must_use]
    pub fn into_raw_memory(self) -> Option<Either<RawMemory, RawMemory<Flushed>>> {
        match unguarded(self.carrier.into_inner()) {
            Plain::Memory(channel) => Some(Either::Coherent(channel.into_raw_memory())),
            Plain::Flushed(channel) => Some(Either::Flushed(channel.into_raw_memory())),
            Plain::Stream(_) | Plain::Captured(_) => None,
        }
    }
}

/// Waits until one of `channels` has something to receive, or has ended, and returns its index. Each call
/// begins to look at another channel than the one before, so that one that is never empty starves no other.
///
/// # Errors
/// [`Error::TimedOut`] when nothing happened on any.
pub fn wait_any(channels: &mut [&mut Channel], timeout: Duration) -> Result<usize, Error> {
    let Some(first) = channels.first() else {
        std::thread::sleep(timeout);
        return Err(Error::TimedOut { what: "anything on no channel".into(), timeout });
    };
    let (channel, peer, node, via) = (first.id, first.peer, first.peer_node.clone(), first.via.clone());
    let mut spin = first.spin;
    let start = START.replace(START.get().wrapping_add(1));
    let mut carriers: Vec<&mut Carrier> = channels.iter_mut().map(|channel| &mut channel.carrier).collect();
    let result = wait::any(&mut carriers, &mut spin, timeout, start);
    result.map_err(|error| match error {
        ChannelError::TimedOut(awaited) => {
            Error::TimedOut { what: format!("that a peer {awaited}"), timeout }
        }
        error => Error::of_channel(error, &error::End { channel, peer, node: &node, via: &via }, timeout),
    })
}

thread_local! {
    /// Where the next [`wait_any`] of this thread begins to look.
    static START: Cell<usize> = const { Cell::new(0) };
}

/// Opens the transport that a grant names.
fn carry(
    grant: &Grant,
    fds: Vec<OwnedFd>,
    hello: Hello,
    options: &ChannelOptions,
    deadline: Deadline,
) -> Result<(Plain, Option<OwnedFd>), ChannelError> {
    let plain = match joint(grant, fds)? {
        Joint::Shm(socket) if grant.side == Side::A => {
            let pair = options.companion.then(|| socket::pair(socket::SocketKind::Packet)).transpose()?;
            let (ours, theirs) = pair.unzip();
            let channel = shm::connect_with(socket, hello, theirs, deadline)?;
            return Ok((Plain::Memory(Box::new(channel)), ours));
        }
        Joint::Shm(socket) => {
            let (channel, companion) = shm::accept_with(socket, hello, deadline)?;
            return Ok((Plain::Memory(Box::new(channel)), companion));
        }
        Joint::Stream(socket) => Plain::Stream(Box::new(StreamChannel::open(socket, hello, deadline)?)),
        Joint::Window(lent) => match window::open(lent, grant.side, hello, deadline)? {
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
    use crate::joint::withdraw;
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
    fn a_grant_that_nobody_takes_up_is_no_death() {
        for transport in [TransportKind::Shm, TransportKind::Socket] {
            for side in [Side::A, Side::B] {
                let (unused, other) = socket::pair(SocketKind::Stream).unwrap();
                withdraw(&grant(side, transport), vec![unused]);
                let recorder = Recorder::none();
                let owner = Owner { id: domain_id(), recorder: &recorder, link: Weak::new(), timeout: LONG };
                let options = ChannelOptions::default();
                let opened =
                    Channel::open(grant(side.other(), transport), vec![other], owner, &options, LONG);
                assert!(matches!(opened, Err(Error::Closed { .. })), "{transport:?} {side:?}: {opened:?}");
            }
        }
    }
}
