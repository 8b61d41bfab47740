//! One end of a channel in memory, independent of the operating system.
//!
//! It holds both rings, both doorbells and the state of the channel's end. What it needs besides memory is
//! behind [`Signals`]: a bell, a lifeline and a clock. Linux, boards and the simulator supply these and
//! nothing else, so that what is simulated and model-checked is what ships.
//!
//! Every operation that a sleeping peer must learn of rings by itself. To sleep:
//! [`announce`](ChannelEnd::announce), [`may_sleep`](ChannelEnd::may_sleep), sleep if that is true on a
//! bell that latches, and [`awake`](ChannelEnd::awake).

mod bounds;
mod receive;
mod send;
mod signals;
mod sleep;
#[cfg(all(test, not(loom)))]
mod tests;

use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory};
use tombolo_ring::{RecvError, SendError, WakeCheck};

pub use signals::{Deferred, Signals};
pub use sleep::{Announced, Awaited};
pub use tombolo_ring::{Head, Look, ShortMessage, Violation, WakeOrder};

use crate::layout::{AttachError, ChannelConfig, ChannelLayout, Ends, Side};

/// Empty polls between two reads of the clock, which tells whether a check of the lifeline is due.
const POLLS_PER_CLOCK: u32 = 32;

/// Time between two checks of the lifeline, in nanoseconds, for programs that poll and never sleep. A check
/// is one or two system calls: at this rate about 0.1 % of a processor.
const LIFELINE_CHECK_NS: u64 = 1_000_000;

/// Why an operation on a channel end failed, on any transport. One byte, so that it stays in a register on
/// the fast path; details come from the [end](ChannelEnd::violation) or from the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndError {
    /// No room until the peer receives more.
    #[error("the channel is full until the peer receives more")]
    Full,
    /// Longer than the channel's limit; it will never fit.
    #[error("the message exceeds this channel's limit")]
    TooLong,
    /// Either end closed; everything sent before was received.
    #[error("the channel is closed")]
    Closed,
    /// The lifeline reported that the peer is gone; everything sent before was received.
    #[error("the peer died")]
    PeerDied,
    /// The channel failed for good: the peer broke the protocol, or the carrier failed. The end has the
    /// details.
    #[error("the channel failed")]
    Broken,
}

/// What an attempt to send by stores alone did.
///
/// A sender that makes no call saves no registers. A stream of messages is bound by the processor's store
/// buffer, which drains in order behind lines that are fetched from the peer: a store of the sender's own
/// takes as much of it as a store to the ring (ADR 0069).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// Nothing: the message needs more than stores, and an ordinary send does that.
    Nothing,
    /// The message is sent, and nothing is left to do.
    Message,
    /// The message is sent; the end's `finish` wakes the peer or brings counters up to date.
    Unfinished,
}

/// Counters of one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Messages accepted for sending.
    pub messages_sent: u64,
    /// Bytes of the messages sent.
    pub bytes_sent: u64,
    /// Messages received.
    pub messages_received: u64,
    /// Bytes of the messages received.
    pub bytes_received: u64,
    /// How often this end rang a sleeping peer; each ring is a system call or a device access.
    pub rings: u64,
    /// How often this end went to sleep.
    pub sleeps: u64,
    /// Bytes of accepted messages that the kernel has not taken yet; always 0 where sending is a store to
    /// memory.
    pub unsent_bytes: u64,
    /// Room to send, as far as this end knows.
    pub room: Room,
}

/// Room to send, in slots of the ring. All zero on transports without rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Slots of the ring.
    pub slots: u32,
    /// Slots that this end knows to be free without loading the peer's memory; there may be more.
    pub free_slots: u32,
}

/// One end of a channel.
#[derive(Debug)]
pub struct ChannelEnd<S, C: CacheMaintenance = Coherent> {
    ends: Ends<C>,
    signals: S,
    /// How the peer broke the protocol; final.
    violation: Option<Violation>,
    /// Whether this end was closed.
    closed: bool,
    /// How often slots had been returned when the peer was last told.
    credit_stores: u64,
    /// The position of the sending ring when the last message was received: what was sent since are replies.
    sent_at_receive: u64,
    empty_polls: u32,
    next_check_ns: u64,
    /// Messages in both directions at the last check of the lifeline.
    passed_at_check: u64,
    rings: u64,
    sleeps: u64,
}

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Attaches to `side` of a channel with the shape `config` in `memory`, after the handshake. Each side
    /// attaches once, both with the same `order`.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small or the shape invalid.
    pub fn attach(
        memory: &SharedMemory<C>,
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
            empty_polls: 0,
            next_check_ns: 0,
            passed_at_check: 0,
            rings: 0,
            sleeps: 0,
        })
    }

    /// The bell, lifeline and clock.
    #[inline(always)]
    pub fn signals(&self) -> &S {
        &self.signals
    }

    /// The bell, lifeline and clock.
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

    /// What has passed so far, and how much room there is.
    // Inlined, so that callers on the fast path load only the two or three counters they use.
    #[inline(always)]
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (sent, received) = (self.ends.producer.counters(), self.ends.consumer.counters());
        let slots = self.ends.producer.config().slot_count().get();
        let credit = self.ends.consumer.reverse_credit();
        // A ring has at most 65,536 slots.
        let free_slots = self.ends.producer.known_free_slots_with(credit) as u32;
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

    /// Checks bell and lifeline, and ends sending if the peer is gone or has closed. Messages sent before
    /// are still received.
    pub fn listen(&mut self) {
        self.signals.listen();
        self.note_end();
    }

    /// Closes this end. The peer receives everything sent before.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Monitors that hold the lifelines also hang up when this end's own monitor is killed. The peer is
        // told that this domain died with it; an orderly close in memory would contradict that.
        self.signals.listen();
        if self.signals.peer_gone() {
            self.ends.producer.abandon();
            self.ends.consumer.abandon();
            return;
        }
        self.ends.close();
        // Left armed for good, see `ring_peer`. No last poll follows, so no barrier is needed.
        let _ = sleep::arm(&mut self.ends.sleeper);
        // Unconditional: closing is rare, and the last event.
        self.signals.ring();
    }

    /// Ends this side without a close: once the lifeline hangs up, the peer finds a death after everything
    /// that was sent. A relay says first, by [`tell`](crate::far_end::tell), whose death it is.
    pub fn abandon(&mut self) {
        self.closed = true;
        self.ends.producer.abandon();
        self.ends.consumer.abandon();
    }

    /// Call after everything of which a peer that sleeps for a message must learn.
    #[inline(always)]
    fn wake_peer(&mut self) {
        match self.ends.waker.check() {
            WakeCheck::NotNeeded => {}
            WakeCheck::Ring => self.ring_peer(),
            WakeCheck::StopFencing => self.ends.waker.stop_fencing(|| self.signals.barrier()),
        }
    }

    /// Tells a peer that sleeps for room when slots were returned.
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
        // A peer that closes leaves its line at "asleep", so that a sender that never looks elsewhere comes
        // here.
        self.note_end();
    }

    fn note_end(&mut self) {
        // In this order: a peer hangs up right after it closes. The ring keeps what was found, because the
        // peer can overwrite the line at any time.
        if self.ends.producer.peer_closed() {
            self.ends.producer.close();
        } else if self.signals.peer_gone() {
            self.ends.producer.abandon();
        }
    }

    /// Checks the lifeline now and then, for programs that poll and never sleep. What it finds shows in the
    /// next operation, because the ring must be polled again first.
    #[inline(always)]
    fn check_lifeline_now_and_then(&mut self) {
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls.is_multiple_of(POLLS_PER_CLOCK) {
            self.check_lifeline_if_due();
        }
    }

    #[cold]
    fn check_lifeline_if_due(&mut self) {
        let now_ns = self.signals.now_ns();
        if now_ns < self.next_check_ns {
            return;
        }
        self.next_check_ns = now_ns + LIFELINE_CHECK_NS;
        // A peer that sends or returns slots is alive, so there is nothing to ask. Messages sent into room
        // that was there before prove nothing, but a ring bounds their number.
        let stats = self.stats();
        let passed = stats.messages_sent.wrapping_add(stats.messages_received);
        if passed == self.passed_at_check {
            self.listen();
        }
        self.passed_at_check = passed;
    }

    /// Records that the peer broke the protocol; every later operation returns the error.
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
                self.check_lifeline_now_and_then();
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

/// The memory of a channel with the shape `config` at `offset_bytes` of a window.
///
/// # Errors
/// [`OutOfRange`] when it does not lie inside the window.
pub fn memory_of(
    window: &SharedMemory,
    offset_bytes: usize,
    config: ChannelConfig,
) -> Result<SharedMemory, OutOfRange> {
    window.slice(offset_bytes, ChannelLayout::new(config).length_bytes())
}
