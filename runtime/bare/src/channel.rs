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
    ChannelConfig, ChannelLayout, DisconnectReason, GroupCounter, HandshakeError, Hello, Side, TransportKind,
};
use tombolo_platform_bare::program::{self, Doorbell};
use tombolo_ring::{SlotSize, Variant};

use crate::error::Error;
use crate::link::{GrantedObjects, Link};
use crate::time::{after_ns, sleep_until};

/// How long a wait polls before it sleeps: about the cost of a wake-up.
const SPIN_NS: u64 = 20_000;

/// Options of a channel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChannelOptions {
    pub(crate) config: ChannelConfig,
    pub(crate) interface_hash: u64,
    /// Polling time of waits, if it differs from the default.
    pub(crate) spin_ns: Option<u64>,
    /// Timeout of the channel, if it differs from the domain's.
    pub(crate) timeout: Option<Duration>,
}

impl ChannelOptions {
    /// Sets the size of a slot in bytes: 32, 64 or 128; 8 of them are the control word. A message may span
    /// many slots. Both sides must use the same size.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another size.
    pub fn slot_bytes(mut self, bytes: usize) -> Result<Self, Error> {
        let (option, given, allowed) = ("slot_bytes", bytes as u64, "32, 64 or 128");
        let slot = SlotSize::from_bytes(bytes);
        self.config.slot = slot.ok_or(Error::BadOption { option, given, allowed })?;
        Ok(self)
    }

    /// Sets the number of slots of each ring: a power of two from 2 to 65,536. The connecting side's number
    /// applies.
    ///
    /// # Errors
    /// [`Error::BadOption`] for another number.
    pub fn slots(mut self, slots: u32) -> Result<Self, Error> {
        let (option, given, allowed) = ("slots", slots.into(), "a power of two from 2 to 65536");
        let config = ChannelConfig::new(self.config.slot, slots, self.config.variant);
        self.config = config.map_err(|_| Error::BadOption { option, given, allowed })?;
        Ok(self)
    }

    /// Returns slots with a flag in the slot instead of credits: for coherent memory only.
    #[must_use]
    pub fn used_flag(mut self) -> Self {
        self.config.variant = Variant::UsedFlag;
        self
    }

    /// Sets the hash of the interface, which must be the same on both sides. 0 means none.
    #[must_use]
    pub fn interface_hash(mut self, hash: u64) -> Self {
        self.interface_hash = hash;
        self
    }

    /// Sets how long a wait polls before it sleeps, in nanoseconds; 0 sleeps at once, `u64::MAX` never.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = Some(spin_ns);
        self
    }

    /// Sets the timeout of the channel's operations, which [`Channel::within`] overrides; by default the
    /// domain's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// One end of a channel, which carries whole messages, in order, in both directions.
///
/// Dropping it closes the channel in order: the peer receives everything sent before, and then the end.
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

/// Doorbell of the peer, and the connection to the monitor, which reports the peer's end.
struct BoardSignals {
    link: Rc<Link>,
    id: ChannelId,
    bell: Doorbell,
    /// Counts the rings of this side, for a peer that shares its doorbell with others.
    rings: EitherRings,
    /// Counts them for a group of channels, if there is one.
    group: Option<GroupCounter>,
    /// Invalid message of the monitor, until an operation reports it.
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

    fn poll_signals(&mut self) {
        if let Err(error) = self.link.process_messages() {
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
        self.link.process_messages()
    }
}

/// Returns the error for a death, as reported by a relay. A relay that died reported nothing.
fn death_error(peer: DomainId, node: String, via: &[RelayNode], reason: Option<DisconnectReason>) -> Error {
    let relay = match reason {
        None => via.first(),
        Some(DisconnectReason::RelayDied(on)) => via.iter().find(|relay| relay.node == on),
        Some(DisconnectReason::Died) => None,
        Some(DisconnectReason::Broken) if via.is_empty() => None,
        Some(DisconnectReason::Broken) => {
            let what = "the relay beside it received what cannot be".to_string();
            return Error::Violation { peer, node, what };
        }
    };
    match relay {
        Some(relay) => Error::RelayDied { peer, node, relay: relay.name.clone() },
        None => Error::PeerDied { peer, node },
    }
}

/// Converts the reason why a granted end was not opened.
fn open_error(
    error: OpenError<Error>,
    grant: &Grant,
    timeout: Duration,
    reason: Option<DisconnectReason>,
) -> Error {
    let (peer, node) = (grant.peer, grant.peer_node.clone());
    match error {
        OpenError::Handshake(HandshakeError::Withdrawn) => Error::Closed { peer, node },
        OpenError::Handshake(why) => Error::Refused { peer, node, why },
        OpenError::PeerGone => death_error(peer, node, &grant.via, reason),
        OpenError::TimedOut => Error::TimedOut { what: "the peer's handshake".to_string(), timeout },
        OpenError::Park(error) => error,
    }
}

impl Channel {
    /// Opens this end of a channel that a monitor granted.
    pub(crate) fn open(
        link: &Rc<Link>,
        (grant, objects): (&Grant, GrantedObjects),
        own: DomainId,
        options: &ChannelOptions,
        (timeout, default_timeout): (Duration, Duration),
    ) -> Result<Channel, Error> {
        match Self::handshake(link, (grant, objects), own, options, timeout) {
            Ok(mut channel) => {
                channel.timeout = OperationTimeout::new(options.timeout.unwrap_or(default_timeout));
                Ok(channel)
            }
            Err(error) => {
                link.release(grant.hop);
                Err(error)
            }
        }
    }

    fn handshake(
        link: &Rc<Link>,
        (grant, objects): (&Grant, GrantedObjects),
        own: DomainId,
        options: &ChannelOptions,
        timeout: Duration,
    ) -> Result<Channel, Error> {
        let config = match grant.side {
            Side::A => grant.config,
            // The connecting side chooses the depth; the slot size is the one that this side expects.
            Side::B => ChannelConfig { slot: options.config.slot, ..grant.config },
        };
        let no_place = || Error::MonitorProtocol("a channel without a place in a window".to_string());
        let (place, window) = grant.window.as_ref().zip(objects.window).ok_or_else(no_place)?;
        let (memory, bell) = granted_memory(window, place, config).ok_or_else(no_place)?;
        let memory = EitherMemory::view(memory, place.caches)?;
        let unusable = |error: &dyn core::fmt::Display| Error::MonitorProtocol(error.to_string());
        let deadline_ns = after_ns(timeout);
        // No barrier of an operating system spans both sides, so neither side announces support for them.
        let hello = Hello::new(config, options.interface_hash, Some(own));
        let rings = memory.ring_counter(grant.side).map_err(|error| unusable(&error))?;
        let group = place.group.map(|word| group_counter(window, word)).transpose()?;
        let link = Rc::clone(link);
        let mut signals = BoardSignals { link, id: grant.hop, bell, rings, group, failure: None };
        let mut opening = memory.open(grant.side, hello, &mut signals).map_err(|error| unusable(&error))?;
        let agreed = opening
            .wait(&mut signals, deadline_ns)
            .map_err(|error| open_error(error, grant, timeout, memory.disconnect_reason(grant.side)))?;
        let end = opening.attach(agreed, signals).map_err(|error| unusable(&error))?;
        let (peer, peer_node) = (grant.peer, grant.peer_node.clone());
        let spin = Spin::new(options.spin_ns.unwrap_or(SPIN_NS));
        let timeout = OperationTimeout::new(timeout);
        let (side, via) = (grant.side, grant.via.clone());
        Ok(Channel { end, spin, memory, timeout, side, peer, peer_node, via, released: false })
    }

    /// Sets the timeout of the next operation that waits.
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Channel {
        self.timeout.set_once(timeout);
        self
    }

    /// Sends a message, whole or not at all, if there is room.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is no room; [`Error::TooLong`]; or the end of the peer.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), Error> {
        match self.end.try_send(message) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.convert_error(error, message.len())),
        }
    }

    /// Sends a whole message, waiting for room.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the peer did not make room in time: nothing was sent. [`Error::TooLong`]; or
    /// the end of the peer.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let timeout = self.timeout.take();
        let sent = self.until(Awaited::Room, timeout, |channel| match channel.try_send(message) {
            Err(Error::WouldBlock) => None,
            result => Some(result),
        });
        sent?.unwrap_or_else(|| Err(Error::TimedOut { what: "room in the channel".to_string(), timeout }))
    }

    /// Receives the next message, if there is one, and replaces the contents of `buffer` with it. Returns its
    /// length.
    ///
    /// # Errors
    /// The end of the peer, after everything that it sent has been received.
    #[inline]
    pub fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        match self.end.try_recv_into(buffer) {
            Ok(Some(length)) => Ok(Some(length)),
            Ok(None) => self.check_monitor().map(|()| None),
            Err(error) => Err(self.convert_error(error, 0)),
        }
    }

    /// Waits for the next message and replaces the contents of `buffer` with it. Returns its length.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or the end of the peer, after everything that it sent has been received.
    pub fn recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Error> {
        let timeout = self.timeout.take();
        let received =
            self.until(Awaited::Message, timeout, |channel| channel.try_recv_into(buffer).transpose());
        received?.unwrap_or_else(|| Err(Error::TimedOut { what: "a message".to_string(), timeout }))
    }

    /// Repeats an attempt until it returns a result; `None` if `timeout` has passed.
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

    /// Converts the reason why a message of `length_bytes` bytes was not sent, or none was received.
    #[cold]
    fn convert_error(&mut self, error: EndError, length_bytes: usize) -> Error {
        let (peer, node) = (self.peer, self.peer_node.clone());
        match error {
            EndError::Full => self.check_monitor().err().unwrap_or(Error::WouldBlock),
            EndError::TooLong => Error::TooLong { length_bytes, max_bytes: self.end.max_message_bytes() },
            EndError::Closed => Error::Closed { peer, node },
            EndError::PeerDied => {
                death_error(peer, node, &self.via, self.memory.disconnect_reason(self.side))
            }
            EndError::Broken => {
                let what = self.end.violation().map(|violation| violation.to_string()).unwrap_or_default();
                Error::Violation { peer, node, what }
            }
        }
    }

    /// Reports an invalid message of the monitor.
    #[inline]
    fn check_monitor(&mut self) -> Result<(), Error> {
        self.end.signals_mut().failure.take().map_or(Ok(()), Err)
    }

    /// Announces that this program is about to sleep until `awaited` is possible, for programs that wait for
    /// more than this channel. Then call [`may_sleep`](Self::may_sleep),
    /// [`Domain::sleep`](crate::Domain::sleep) if that returned true for everything that is awaited, and in
    /// any case [`finish_sleep`](Self::finish_sleep).
    pub fn announce_sleep(&mut self, awaited: Awaited) {
        // The fences already order everything, so no further barrier is needed.
        let _complete: Announced = self.end.announce(awaited);
    }

    /// Last check before a sleep: false if the awaited event, or the end, has already happened.
    ///
    /// Once it has returned true, the awaited action of the peer ends the sleep.
    #[must_use = "sleeping on what is already there can last for ever"]
    pub fn may_sleep(&mut self, awaited: Awaited) -> bool {
        self.end.may_sleep(awaited) && !self.is_hung_up()
    }

    /// Whether the monitor has reported the end of the peer. Messages that it sent before may still be
    /// available.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.end.signals().peer_gone()
    }

    /// Check after a sleep: whether the awaited event has happened. Unlike [`may_sleep`](Self::may_sleep), it
    /// counts no sleep.
    #[must_use]
    pub fn is_rung(&mut self, awaited: Awaited) -> bool {
        self.end.is_ready(awaited) || self.is_hung_up()
    }

    /// Withdraws the announcement of a sleep, and detects an end of the peer.
    pub fn finish_sleep(&mut self) {
        self.end.finish_sleep(true);
    }

    /// Whether [`try_recv_into`](Self::try_recv_into) would return anything other than `None`.
    pub fn readable(&mut self) -> bool {
        self.end.readable()
    }

    /// Maximum length of a message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.end.max_message_bytes()
    }

    /// Channel id, the same on both sides.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.end.signals().id
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

    /// Kind of transport: always a window on a board.
    #[must_use]
    pub fn transport(&self) -> TransportKind {
        TransportKind::Window
    }

    /// Returns the counters of this end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.end.stats()
    }

    /// Returns the memory under the channel, coherent or not, for measurements. Both ends have to call this:
    /// the rings are unusable afterwards.
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

/// Memory of a former channel.
pub struct RawMemory<C = Coherent> {
    /// The memory: header, then rings.
    pub memory: SharedMemory<C>,
    /// Keeps the channel, so that the peer's end stays open while the memory is used.
    _channel: Channel,
}

/// Returns the memory of a channel, and the doorbell of the peer.
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

/// Returns the counter for the rings of a group of channels.
fn group_counter(window: WindowId, offset_bytes: u64) -> Result<GroupCounter, Error> {
    let word = program::window(window, offset_bytes, 8, Arc::default());
    let word = word.and_then(|word| GroupCounter::new(&word, 0).ok());
    word.ok_or_else(|| Error::MonitorProtocol("a group outside the window".to_string()))
}

/// Index at which the next [`wait_any`] starts.
static START: AtomicUsize = AtomicUsize::new(0);

/// Waits until one of `channels` has a message or has ended, and returns its index. Each call starts with a
/// different channel, so that a channel that is never empty does not starve the others.
///
/// # Errors
/// [`Error::TimedOut`] if nothing happened on any channel.
pub fn wait_any(channels: &mut [&mut Channel], timeout: Duration) -> Result<usize, Error> {
    // No atomic increment is needed: a program has one thread.
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

/// Channels to wait for.
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
        // The fences already order everything, so no further barrier is needed.
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

    fn finish_sleep(&mut self) -> Result<(), Error> {
        self.channels.iter_mut().for_each(|channel| channel.finish_sleep());
        self.channels.iter_mut().try_for_each(|channel| channel.check_monitor())
    }
}
