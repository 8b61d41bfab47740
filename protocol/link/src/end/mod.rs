//! One end of a channel in memory, without anything of an operating system.
//!
//! It holds both rings, both doorbells and what there is to know of the channel's end. What it needs besides memory is
//! behind [`Signals`]: a bell, a lifeline and a clock. Linux, boards and the simulator supply these and nothing else, so
//! that what is simulated and model-checked is what ships.
//!
//! Every operation that may have something for a sleeping peer to hear rings by itself. To sleep:
//! [`announce`](ChannelEnd::announce), [`may_sleep`](ChannelEnd::may_sleep), sleep if that is true on a bell that
//! remembers, and [`awake`](ChannelEnd::awake).

mod receive;
mod send;
mod signals;
mod sleep;
#[cfg(all(test, not(loom)))]
mod tests;

use tombolo_base::{OutOfRange, SharedMemory};
use tombolo_ring::{RecvError, SendError, WakeCheck};

pub use signals::{Deferred, Signals};
pub use sleep::{Announced, Awaited};
pub use tombolo_ring::{Violation, WakeOrder};

use crate::layout::{AttachError, ChannelConfig, ChannelLayout, Ends, Side};

/// Fruitless polls between two looks at the clock, to see whether a look at the lifeline is due.
const POLLS_PER_CLOCK: u32 = 32;

/// Time between two looks at the lifeline, in nanoseconds, for programs that poll and never sleep. A look is a
/// system call or two: at this distance a thousandth of a processor.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// Why an operation on an end of a channel did not happen, whatever carries the channel. One byte, so that it stays in a
/// register on the fast path: what there is to add, the end [says](ChannelEnd::violation) or the caller knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndError {
    /// No room until the peer has received more.
    #[error("the channel has no room until the peer has received more")]
    Full,
    /// Longer than the channel carries; it would never fit.
    #[error("the message is longer than this channel carries")]
    TooLong,
    /// The peer, or this end, closed; everything sent before was received.
    #[error("the channel is closed")]
    Closed,
    /// The lifeline said that the peer is gone; everything sent before was received.
    #[error("the peer died")]
    PeerDied,
    /// The channel failed for good: the peer broke the protocol, or the carrier failed. The end says which.
    #[error("the channel broke")]
    Broken,
}

/// What has passed through one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// How often this end rang a sleeping peer: each is a system call or a device access.
    pub rings: u64,
    /// How often this end went to sleep.
    pub sleeps: u64,
    /// Bytes of accepted messages that the kernel has not taken yet. None where sending is a store to memory.
    pub unsent_bytes: u64,
    /// Room to send, as far as this end knows.
    pub room: Room,
}

/// Room to send, where sending takes slots of a ring. All zero where it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Slots of the ring.
    pub slots: u32,
    /// Of these, how many this end knows to be free without looking: there may be more.
    pub free_slots: u32,
}

/// One end of a channel.
#[derive(Debug)]
pub struct ChannelEnd<S> {
    ends: Ends,
    signals: S,
    /// How the peer broke the protocol, which is final.
    violation: Option<Violation>,
    /// This end was closed.
    closed: bool,
    /// How often credit had been given back when the peer was last told.
    credit_stores: u64,
    /// Messages sent when the last was received: more of them since then are answers.
    sent_at_receive: u64,
    fruitless_polls: u32,
    next_look_ns: u64,
    /// Messages both ways at the last look at the lifeline.
    passed_at_look: u64,
    rings: u64,
    sleeps: u64,
}

impl<S: Signals> ChannelEnd<S> {
    /// Takes up `side` of a channel of that shape in `memory`, after the handshake. Each side does so once, and both with
    /// the same `order`.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small.
    pub fn attach(
        memory: &SharedMemory,
        side: Side,
        config: ChannelConfig,
        order: WakeOrder,
        signals: S,
    ) -> Result<Self, AttachError> {
        Ok(ChannelEnd {
            ends: ChannelLayout::new(config).attach(memory, side, order)?,
            signals,
            violation: None,
            closed: false,
            credit_stores: 0,
            sent_at_receive: 0,
            fruitless_polls: 0,
            next_look_ns: 0,
            passed_at_look: 0,
            rings: 0,
            sleeps: 0,
        })
    }

    /// Its bell, lifeline and clock.
    #[inline(always)]
    pub fn signals(&self) -> &S {
        &self.signals
    }

    /// Its bell, lifeline and clock.
    pub fn signals_mut(&mut self) -> &mut S {
        &mut self.signals
    }

    /// How the peer broke the protocol, once it did.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// The longest message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.ends.producer.max_message_bytes()
    }

    /// What has passed so far, and what room there is.
    // Callers on the fast path want two or three of these: the others are not even loaded.
    #[inline(always)]
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (sent, received) = (self.ends.producer.counters(), self.ends.consumer.counters());
        let slots = self.ends.producer.config().slot_count().get();
        // A ring has at most 65,536 slots.
        let free_slots = self.ends.producer.known_free_slots() as u32;
        Stats {
            messages_sent: sent.messages,
            bytes_sent: sent.bytes,
            messages_received: received.messages,
            bytes_received: received.bytes,
            rings: self.rings,
            sleeps: self.sleeps,
            unsent_bytes: 0,
            room: Room { slots, free_slots },
        }
    }

    /// Looks at bell and lifeline, and sends nothing more to a peer that is gone or receives nothing more. What was
    /// sent before is still received.
    pub fn listen(&mut self) {
        self.signals.listen();
        self.note_end();
    }

    /// Closes this end in order: the peer receives everything sent before.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Where monitors hold the lifelines, they also hang up when this end's own monitor is killed. The peer is
        // told that this domain died with it; a memory that says "closed" would say otherwise.
        self.signals.listen();
        if self.signals.peer_gone() {
            self.ends.producer.abandon();
            self.ends.consumer.abandon();
            return;
        }
        self.ends.close();
        // For good: see `ring_peer`. No last look follows, so no barrier is needed.
        let _ = sleep::arm(&mut self.ends.sleeper);
        // Whether it sleeps or not: closing is rare, and the last thing said.
        self.signals.ring();
    }

    /// To be called after everything that a peer asleep for a message must hear of.
    #[inline(always)]
    fn wake_peer(&mut self) {
        match self.ends.waker.check() {
            WakeCheck::NotNeeded => {}
            WakeCheck::Ring => self.ring_peer(),
            WakeCheck::StopFencing => self.ends.waker.stop_fencing(|| self.signals.barrier()),
        }
    }

    /// A peer asleep for room must hear of credit that was given back.
    #[inline(always)]
    fn wake_peer_for_credit(&mut self) {
        let stores = self.ends.consumer.credit_stores();
        if stores != self.credit_stores {
            self.credit_stores = stores;
            self.wake_peer_for_room();
        }
    }

    #[inline(never)]
    fn wake_peer_for_room(&mut self) {
        match self.ends.room_waker.check() {
            WakeCheck::NotNeeded => {}
            WakeCheck::Ring => self.ring_peer(),
            WakeCheck::StopFencing => self.ends.room_waker.stop_fencing(|| self.signals.barrier()),
        }
    }

    #[cold]
    fn ring_peer(&mut self) {
        self.rings += 1;
        self.signals.ring();
        // A peer that closes leaves its line at asleep, so that a sender that never looks elsewhere comes here.
        self.note_end();
    }

    fn note_end(&mut self) {
        // In this order: who closes hangs up right after. What was found is kept by the ring, because the line can
        // be overwritten by the peer at any time.
        if self.ends.producer.peer_closed() {
            self.ends.producer.close();
        } else if self.signals.peer_gone() {
            self.ends.producer.abandon();
        }
    }

    /// Looks at the lifeline now and then, for programs that poll and never sleep. What it finds shows in the next
    /// operation: first the ring must be looked at again.
    #[inline(always)]
    fn look_now_and_then(&mut self) {
        self.fruitless_polls = self.fruitless_polls.wrapping_add(1);
        if self.fruitless_polls.is_multiple_of(POLLS_PER_CLOCK) {
            self.look_if_due();
        }
    }

    #[cold]
    fn look_if_due(&mut self) {
        let now_ns = self.signals.now_ns();
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns + LOOK_EVERY_NS;
        // A peer that sends, or makes room, lives: nothing need be asked. What was sent into room that was there
        // already says nothing, but there is no more of that than a ring holds.
        let stats = self.stats();
        let passed = stats.messages_sent.wrapping_add(stats.messages_received);
        if passed == self.passed_at_look {
            self.listen();
        }
        self.passed_at_look = passed;
    }

    /// Notes that the peer broke the protocol; every later operation says so.
    #[cold]
    fn violated(&mut self, violation: Violation) -> EndError {
        self.violation.get_or_insert(violation);
        self.close();
        EndError::Broken
    }

    #[cold]
    fn not_received(&mut self, error: RecvError) -> EndError {
        match error {
            RecvError::Violation(violation) => self.violated(violation),
            RecvError::Closed => {
                self.note_end();
                if self.violation.is_some() { EndError::Broken } else { EndError::Closed }
            }
        }
    }

    #[cold]
    fn not_sent(&mut self, error: SendError) -> EndError {
        match error {
            SendError::Full => {
                self.look_now_and_then();
                EndError::Full
            }
            SendError::TooLong { .. } => EndError::TooLong,
            SendError::Violation(violation) => self.violated(violation),
            SendError::Closed | SendError::Abandoned if self.violation.is_some() => EndError::Broken,
            SendError::Abandoned if !self.closed => EndError::PeerDied,
            SendError::Closed | SendError::Abandoned => EndError::Closed,
        }
    }
}

/// The memory of a channel of that shape, cut from a window.
///
/// # Errors
/// [`OutOfRange`] when it does not lie there.
pub fn memory_of(
    window: &SharedMemory,
    offset_bytes: usize,
    config: ChannelConfig,
) -> Result<SharedMemory, OutOfRange> {
    window.slice(offset_bytes, ChannelLayout::new(config).length_bytes())
}
