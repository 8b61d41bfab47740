//! One end of a channel.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use tombolo_base::coherence::{Coherent, Flushed};
use tombolo_base::{ChannelId, DomainId, OperationTimeout, SharedMemory, WindowId};
use tombolo_control::{Grant, RelayNode, WindowPlace};
pub use tombolo_link::either::Either;
use tombolo_link::either::{EitherEnd, EitherMemory, EitherRings};
pub use tombolo_link::end::Stats;
use tombolo_link::end::{Announced, Awaited, EndError, Signals};
use tombolo_link::open::{OpenError, Park};
use tombolo_link::wait::{Spin, Waiter, until};
use tombolo_link::{
    ChannelConfig, ChannelLayout, FarEnd, GroupCounter, HandshakeError, Hello, Side, TransportKind,
};
use tombolo_platform_bare::program::{self, Doorbell};
use tombolo_ring::{SlotSize, Variant};

use crate::error::Error;
use crate::link::{Given, Link};
use crate::time::{after_ns, sleep_until};

/// How long a wait polls before it sleeps: about what waking costs.
const SPIN_NS: u64 = 20_000;

/// How a channel is to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelOptions {
    pub(crate) config: ChannelConfig,
    pub(crate) interface_hash: u64,
    /// The usual one, where it is not given.
    pub(crate) spin_ns: Option<u64>,
    /// The domain's, where it is not given.
    pub(crate) timeout: Option<Duration>,
}

impl ChannelOptions {
    /// Bytes of a slot: 32, 64 or 128; each carries 8 less. A message may take many slots. Both sides must
    /// agree.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another size.
    pub fn slot_bytes(mut self, bytes: usize) -> Result<Self, Error> {
        let (option, given, allowed) = ("slot_bytes", bytes as u64, "32, 64 or 128");
        let slot = SlotSize::from_bytes(bytes);
        self.config.slot = slot.ok_or(Error::BadOption { option, given, allowed })?;
        Ok(self)
    }

    /// Slots of each ring: a power of two from 2 to 65,536. The connecting side's number holds.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another number.
    pub fn slots(mut self, slots: u32) -> Result<Self, Error> {
        let (option, given, allowed) = ("slots", slots.into(), "a power of two from 2 to 65536");
        let config = ChannelConfig::new(self.config.slot, slots, self.config.variant);
        self.config = config.map_err(|_| Error::BadOption { option, given, allowed })?;
        Ok(self)
    }

    /// Returns slots by a flag in the slot rather than by credit: for coherent memory only.
    #[must_use]
    pub fn used_flag(mut self) -> Self {
        self.config.variant = Variant::UsedFlag;
        self
    }

    /// The hash of the interface that is spoken, which both sides must give. 0 for none.
    #[must_use]
    pub fn interface_hash(mut self, hash: u64) -> Self {
        self.interface_hash = hash;
        self
    }

    /// How long a wait polls before it sleeps, in nanoseconds; 0 sleeps at once, `u64::MAX` never.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = Some(spin_ns);
        self
    }

    /// How long the channel's operations wait, where [`Channel::within`] does not say otherwise: as long as
    /// the domain's, by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// One end of a channel: whole messages, in order, both ways.
///
/// Dropping it closes it in order: the peer receives everything sent before and then that it is closed.
pub struct Channel {
    end: EitherEnd<BoardSignals>,
    spin: Spin,
    memory: EitherMemory,
    timeout: OperationTimeout,
    peer: DomainId,
    peer_node: String,
    side: Side,
    via: Vec<RelayNode>,
    released: bool,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("peer", &self.peer).field("peer_node", &self.peer_node).finish()
    }
}

/// The doorbell of the peer, and the monitor, which watches it.
struct BoardSignals {
    link: Rc<Link>,
    id: ChannelId,
    bell: Doorbell,
    /// Says that this side rang, where the peer shares its doorbell with others.
    rings: EitherRings,
    /// Says so for a group of channels, where there is one.
    group: Option<GroupCounter>,
    /// What the monitor said that makes no sense, until an operation reports it.
    failure: Option<Error>,
}

impl Signals for BoardSignals {
    fn ring(&mut self) {
        self.rings.count();
        if let Some(group) = &self.group {
            group.count();
        }
        self.bell.ring();
    }

    #[inline]
    fn peer_gone(&self) -> bool {
        self.link.is_hung_up(self.id)
    }

    fn listen(&mut self) {
        if let Err(error) = self.link.listen() {
            self.failure = Some(error);
        }
    }

    fn now_ns(&self) -> u64 {
        program::clock_ns()
    }
}

impl Park for BoardSignals {
    type Error = Error;

    fn park(&mut self, until_ns: u64) -> Result<(), Error> {
        sleep_until(until_ns);
        self.link.listen()
    }
}

/// Who died, by what a relay said. One that died said nothing.
fn died(peer: DomainId, node: String, via: &[RelayNode], told: Option<FarEnd>) -> Error {
    let relay = match told {
        None => via.first(),
        Some(FarEnd::RelayDied(on)) => via.iter().find(|relay| relay.node == on),
        Some(FarEnd::Died) => None,
        Some(FarEnd::Broken) if via.is_empty() => None,
        Some(FarEnd::Broken) => {
            let what = "the relay beside it received what cannot be".to_string();
            return Error::Violation { peer, node, what };
        }
    };
    match relay {
        Some(relay) => Error::RelayDied { peer, node, relay: relay.name.clone() },
        None => Error::PeerDied { peer, node },
    }
}

/// Why the end that a monitor granted was not opened.
fn not_opened(error: OpenError<Error>, grant: &Grant, timeout: Duration, told: Option<FarEnd>) -> Error {
    let (peer, node) = (grant.peer, grant.peer_node.clone());
    match error {
        OpenError::Handshake(HandshakeError::Withdrawn) => Error::Closed { peer, node },
        OpenError::Handshake(why) => Error::Refused { peer, node, why },
        OpenError::PeerGone => died(peer, node, &grant.via, told),
        OpenError::TimedOut => Error::TimedOut { what: "the peer's handshake".to_string(), timeout },
        OpenError::Park(error) => error,
    }
}

impl Channel {
    /// Opens the end that a monitor granted.
    pub(crate) fn open(
        link: &Rc<Link>,
        (grant, given): (&Grant, Given),
        own: DomainId,
        options: &ChannelOptions,
        (timeout, usual): (Duration, Duration),
    ) -> Result<Channel, Error> {
        match Self::shake_hands(link, (grant, given), own, options, timeout) {
            Ok(mut channel) => {
                channel.timeout = OperationTimeout::new(options.timeout.unwrap_or(usual));
                Ok(channel)
            }
            Err(error) => {
                link.release(grant.hop);
                Err(error)
            }
        }
    }

    fn shake_hands(
        link: &Rc<Link>,
        (grant, given): (&Grant, Given),
        own: DomainId,
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        let config = match grant.side {
            Side::A => grant.config,
            // The depth is the connecting side's; the slot size is what this side expects.
            Side::B => ChannelConfig { slot: options.config.slot, ..grant.config },
        };
        let no_place = || Error::MonitorProtocol("a channel without a place in a window".to_string());
        let (place, window) = grant.window.as_ref().zip(given.window).ok_or_else(no_place)?;
        let (memory, bell) = granted_memory(window, place, config).ok_or_else(no_place)?;
        let memory = EitherMemory::view(memory, place.caches)?;
        let unusable = |error: &dyn core::fmt::Display| Error::MonitorProtocol(error.to_string());
        let deadline_ns = after_ns(timeout);
        // No barrier of an operating system reaches across: neither side says that it takes part in them.
        let hello = Hello::new(config, options.interface_hash, Some(own));
        let rings = memory.rings(grant.side).map_err(|error| unusable(&error))?;
        let group = place.group.map(|word| group_counter(window, word)).transpose()?;
        let link = Rc::clone(link);
        let mut signals = BoardSignals { link, id: grant.hop, bell, rings, group, failure: None };
        let mut opening = memory.open(grant.side, hello, &mut signals).map_err(|error| unusable(&error))?;
        let agreed = opening
            .wait(&mut signals, deadline_ns)
            .map_err(|error| not_opened(error, grant, timeout, memory.told(grant.side)))?;
        let end = opening.end(agreed, signals).map_err(|error| unusable(&error))?;
        let (peer, peer_node) = (grant.peer, grant.peer_node.clone());
        let spin = Spin::new(options.spin_ns.unwrap_or(SPIN_NS));
        let timeout = OperationTimeout::new(timeout);
        let (side, via) = (grant.side, grant.via.clone());
        Ok(Channel { end, spin, memory, timeout, side, peer, peer_node, via, released: false })
    }

    /// Has the next operation that waits do so up to `timeout`.
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Channel {
        self.timeout.set_once(timeout);
        self
    }

    /// Sends a message if there is room, whole or not at all.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none; [`Error::TooLong`]; or the end of the peer.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), Error> {
        match self.end.try_send(message) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error, message.len())),
        }
    }

    /// Sends a message, whole, waiting for room.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the peer did not take enough in time: nothing was sent. [`Error::TooLong`];
    /// or the end of the peer.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let timeout = self.timeout.take();
        let sent = self.until(Awaited::Room, timeout, |channel| match channel.try_send(message) {
            Err(Error::WouldBlock) => None,
            result => Some(result),
        });
        sent?.unwrap_or_else(|| Err(Error::TimedOut { what: "room in the channel".to_string(), timeout }))
    }

    /// Receives the next message, if there is one, in place of what `buffer` held. Returns its length.
    ///
    /// # Errors
    /// The end of the peer, after everything it sent has been received.
    #[inline]
    pub fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        match self.end.try_recv_into(buffer) {
            Ok(Some(length)) => Ok(Some(length)),
            Ok(None) => self.check_monitor().map(|()| None),
            Err(error) => Err(self.failed(error, 0)),
        }
    }

    /// Waits for the next message and receives it in place of what `buffer` held. Returns its length.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or the end of the peer after everything it sent has been received.
    pub fn recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Error> {
        let timeout = self.timeout.take();
        let received =
            self.until(Awaited::Message, timeout, |channel| channel.try_recv_into(buffer).transpose());
        received?.unwrap_or_else(|| Err(Error::TimedOut { what: "a message".to_string(), timeout }))
    }

    /// Attempts until there is something; `None` when `timeout` has passed.
    fn until<T>(
        &mut self,
        awaited: Awaited,
        timeout: Duration,
        mut attempt: impl FnMut(&mut Channel) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut spin = self.spin;
        let channels = &mut [&mut *self];
        let found = until(&mut Channels { channels, awaited }, &mut spin, timeout, |waiter| {
            attempt(waiter.channels[0])
        });
        self.spin = spin;
        found
    }

    /// Why nothing was sent or received. A message was of `length_bytes`.
    #[cold]
    fn failed(&mut self, error: EndError, length_bytes: usize) -> Error {
        let (peer, node) = (self.peer, self.peer_node.clone());
        match error {
            EndError::Full => self.check_monitor().err().unwrap_or(Error::WouldBlock),
            EndError::TooLong => Error::TooLong { length_bytes, max_bytes: self.end.max_message_bytes() },
            EndError::Closed => Error::Closed { peer, node },
            EndError::PeerDied => died(peer, node, &self.via, self.memory.told(self.side)),
            EndError::Broken => {
                let what = self.end.violation().map(|violation| violation.to_string()).unwrap_or_default();
                Error::Violation { peer, node, what }
            }
        }
    }

    /// Reports what the monitor said that makes no sense.
    #[inline]
    fn check_monitor(&mut self) -> Result<(), Error> {
        self.end.signals_mut().failure.take().map_or(Ok(()), Err)
    }

    /// Says that this program is about to sleep until `awaited` is possible, for one that waits for more than
    /// this channel. What follows is [`may_sleep`](Self::may_sleep), [`Domain::sleep`](crate::Domain::sleep)
    /// if that is true of everything that is waited for, and always [`awake`](Self::awake).
    pub fn announce_sleep(&mut self, awaited: Awaited) {
        // The order is that of fences, so that nothing is lacking.
        let _complete: Announced = self.end.announce(awaited);
    }

    /// The last look before a sleep: false when what is awaited came meanwhile, or the end.
    ///
    /// Once it returned true, whatever the peer does that was awaited ends the sleep.
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        self.end.may_sleep(awaited) && !self.is_hung_up()
    }

    /// Whether the monitor has reported that the peer is gone. What it sent before may still be there.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.end.signals().peer_gone()
    }

    /// After a sleep: whether what it was for has come. Unlike [`may_sleep`](Self::may_sleep) it counts no
    /// sleep.
    #[must_use]
    pub fn is_rung(&mut self, awaited: Awaited) -> bool {
        self.end.is_ready(awaited) || self.is_hung_up()
    }

    /// Takes back the announcement, and takes note of an end.
    pub fn awake(&mut self) {
        self.end.awake(true);
    }

    /// Whether [`try_recv_into`](Self::try_recv_into) would return something other than "none yet".
    pub fn readable(&mut self) -> bool {
        self.end.readable()
    }

    /// The longest message it carries, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.end.max_message_bytes()
    }

    /// Its id, the same on both sides.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.end.signals().id
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

    /// What carries it: a window, on a board.
    #[must_use]
    pub fn transport(&self) -> TransportKind {
        TransportKind::Window
    }

    /// What has passed through this end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.end.stats()
    }

    /// The bare memory under the channel, for measuring, whether it is coherent or not. Both ends must do
    /// this: the rings are of no use afterwards.
    #[must_use]
    pub fn into_raw_memory(self) -> Option<Either<RawMemory, RawMemory<Flushed>>> {
        Some(match self.memory.clone() {
            Either::Coherent(memory) => Either::Coherent(RawMemory { memory, _channel: self }),
            Either::Flushed(memory) => Either::Flushed(RawMemory { memory, _channel: self }),
        })
    }

    /// Closes this end in order: the peer receives everything sent before.
    pub fn close(&mut self) {
        self.end.close();
        if !self.released {
            self.released = true;
            let signals = self.end.signals();
            signals.link.release(signals.id);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

/// The bare memory of what was a channel.
pub struct RawMemory<C = Coherent> {
    /// Header, then rings.
    pub memory: SharedMemory<C>,
    /// Keeps the channel, so that the peer's end stays open as long as the memory is used.
    _channel: Channel,
}

/// The memory of a channel, and what rings the peer.
fn granted_memory(
    window: WindowId,
    place: &WindowPlace,
    config: ChannelConfig,
) -> Option<(SharedMemory, Doorbell)> {
    let needed = ChannelLayout::new(config).length_bytes() as u64;
    let memory = (place.length_bytes >= needed)
        .then(|| program::window(window, place.offset_bytes, needed, Arc::default()))??;
    Some((memory, Doorbell::new(window, place.ring?)?))
}

/// What counts the rings of a channel together with those of others.
fn group_counter(window: WindowId, offset_bytes: u64) -> Result<GroupCounter, Error> {
    let word = program::window(window, offset_bytes, 8, Arc::default());
    let word = word.and_then(|word| GroupCounter::new(&word, 0).ok());
    word.ok_or_else(|| Error::MonitorProtocol("a group outside the window".to_string()))
}

/// Where the next [`wait_any`] begins to look.
static START: AtomicUsize = AtomicUsize::new(0);

/// Waits until one of `channels` has something to receive, or has ended, and returns its index. Each call
/// begins to look at another channel than the one before, so that one that is never empty starves no other.
///
/// # Errors
/// [`Error::TimedOut`] when nothing happened on any.
pub fn wait_any(channels: &mut [&mut Channel], timeout: Duration) -> Result<usize, Error> {
    // A program has one thread.
    let start = START.load(Ordering::Relaxed).wrapping_add(1);
    START.store(start, Ordering::Relaxed);
    let first_ready = |waiter: &mut Channels<'_, '_>| {
        let count = waiter.channels.len();
        let mut places = (0..count).map(|place| place.wrapping_add(start) % count);
        places.find(|place| waiter.channels[*place].readable())
    };
    let mut waiter = Channels { channels, awaited: Awaited::Message };
    until(&mut waiter, &mut Spin::new(SPIN_NS), timeout, first_ready)?
        .ok_or_else(|| Error::TimedOut { what: "a message on any channel".to_string(), timeout })
}

/// Any number of channels, to be waited for.
struct Channels<'a, 'b> {
    channels: &'a mut [&'b mut Channel],
    awaited: Awaited,
}

impl Waiter for Channels<'_, '_> {
    type Error = Error;

    fn now_ns(&self) -> u64 {
        program::clock_ns()
    }

    fn announce(&mut self) -> Announced {
        // The order is that of fences, so that nothing is lacking.
        self.channels.iter_mut().for_each(|channel| channel.announce_sleep(self.awaited));
        Announced::Complete
    }

    fn barrier(&mut self) {}

    fn may_sleep(&mut self) -> bool {
        self.channels.iter_mut().all(|channel| channel.may_sleep(self.awaited))
    }

    fn sleep(&mut self, until_ns: u64) -> Result<(), Error> {
        sleep_until(until_ns);
        Ok(())
    }

    fn awake(&mut self) -> Result<(), Error> {
        self.channels.iter_mut().for_each(|channel| channel.awake());
        self.channels.iter_mut().try_for_each(|channel| channel.check_monitor())
    }
}
