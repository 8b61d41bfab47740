//! End of a channel in memory, independent of the operating system.
//!
//! It combines both rings, both doorbells and the state of the channel's end. Everything else that it needs
//! is behind [`Signals`]: a bell, a lifeline and a clock. Linux, boards and the simulator implement only
//! that, so the code that is simulated and model-checked is the code that ships.
//!
//! Every operation that a sleeping peer must notice rings by itself. To sleep: call
//! [`announce`](ChannelEnd::announce), then [`may_sleep`](ChannelEnd::may_sleep), sleep on a latching bell if
//! that returned true, and call [`finish_sleep`](ChannelEnd::finish_sleep).

mod bounds;
mod receive;
mod send;
mod signals;
mod sleep;
#[cfg(all(test, not(loom)))]
mod tests;

use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory};
use tombolo_ring::{RecvError, SendError, WakeCheck};

pub use signals::{DeferredSignals, Signals};
pub use sleep::{Announced, Awaited};
pub use tombolo_ring::{Head, Peek, ShortMessage, Violation, WakeOrder};

use crate::layout::{AttachError, ChannelConfig, ChannelLayout, Ends, Side};

/// Empty polls between two reads of the clock, which determines whether a lifeline check is due.
const POLLS_PER_CLOCK: u32 = 32;

/// Interval between lifeline checks, in nanoseconds, for programs that poll and never sleep. A check takes
/// one or two system calls: at this rate about 0.1 % of a processor.
const LIFELINE_CHECK_NS: u64 = 1_000_000;

/// Error of an operation on a channel end, on any transport. One byte, so that it stays in a register on the
/// fast path; details come from the [end](ChannelEnd::violation) or from the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndError {
    /// There is no room until the peer receives more.
    #[error("the channel is full until the peer receives more")]
    Full,
    /// The message exceeds the channel's limit and will never fit.
    #[error("the message exceeds this channel's limit")]
    TooLong,
    /// Either end closed. Everything sent before was received.
    #[error("the channel is closed")]
    Closed,
    /// The lifeline reported that the peer is gone. Everything sent before was received.
    #[error("the peer died")]
    PeerDied,
    /// The channel failed permanently: the peer violated the protocol, or the carrier failed. The end has the
    /// details.
    #[error("the channel failed")]
    Broken,
}

/// Result of an attempt to send with stores alone.
///
/// A sender that makes no call saves no registers. A stream of messages is bound by the processor's store
/// buffer, which drains in order behind lines that are fetched from the peer: a store to the sender's own
/// memory occupies as much of it as a store to the ring (ADR 0069).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// Nothing was sent: the message needs more than stores. Use an ordinary send.
    Nothing,
    /// The message was sent, and nothing is left to do.
    Message,
    /// The message was sent. Call the end's `finish` to wake the peer and to update counters.
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
    /// Number of times that this end rang a sleeping peer; each ring is a system call or a device access.
    pub rings: u64,
    /// Number of times that this end slept.
    pub sleeps: u64,
    /// Bytes of accepted messages that the kernel has not taken yet. Always 0 if sending is a store to
    /// memory.
    pub unsent_bytes: u64,
    /// Room to send that this end knows of.
    pub room: Room,
}

/// Room to send, in slots of the ring. All zero on transports without rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Number of slots in the ring.
    pub slots: u32,
    /// Slots known to be free without loading the peer's memory. There may be more.
    pub free_slots: u32,
}

/// End of a channel.
#[derive(Debug)]
pub struct ChannelEnd<S, C: CacheMaintenance = Coherent> {
    ends: Ends<C>,
    signals: S,
    /// Violation by the peer, if any. Never cleared.
    violation: Option<Violation>,
    /// Whether this end was closed.
    closed: bool,
    /// Number of slot returns when the peer was last notified.
    credit_stores: u64,
    /// Position of the sending ring when the last message was received. Slots sent since then are replies.
    sent_at_receive: u64,
    empty_polls: u32,
    next_check_ns: u64,
    /// Messages in both directions at the last lifeline check.
    messages_at_check: u64,
    rings: u64,
    sleeps: u64,
}

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Attaches to `side` of a channel with the configuration `config` in `memory`, after the handshake. Each
    /// side must attach once, both with the same `order`.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small or the configuration invalid.
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
            messages_at_check: 0,
            rings: 0,
            sleeps: 0,
        })
    }

    /// Returns the bell, lifeline and clock.
    #[inline(always)]
    pub fn signals(&self) -> &S {
        &self.signals
    }

    /// Returns the bell, lifeline and clock.
    pub fn signals_mut(&mut self) -> &mut S {
        &mut self.signals
    }

    /// Returns the peer's violation of the protocol, if any.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Returns the length limit of a message, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self) -> usize {
        self.ends.producer.max_message_bytes()
    }

    /// Returns the counters and the room to send.
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

    /// Reads bell and lifeline, and ends sending if the peer is gone or has closed. Messages sent before can
    /// still be received.
    pub fn poll_signals(&mut self) {
        self.signals.poll_signals();
        self.record_peer_end();
    }

    /// Closes this end. The peer receives everything sent before.
    pub fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Monitors that hold the lifelines also hang up when this end's own monitor is killed. The peer
        // learns that this domain died with it; an orderly close in memory would contradict that.
        self.signals.poll_signals();
        if self.signals.peer_gone() {
            self.ends.producer.abandon();
            self.ends.consumer.abandon();
            return;
        }
        self.ends.close();
        // Stays armed permanently, see `ring_peer`. No last poll follows, so no barrier is needed.
        let _ = sleep::arm(&mut self.ends.sleeper);
        // Unconditional: closing is rare, and is the last event.
        self.signals.ring();
    }

    /// Ends this side without closing: once the lifeline hangs up, the peer detects a death after everything
    /// that was sent. A relay first reports the reason with [`report`](crate::disconnect_reason::report).
    pub fn abandon(&mut self) {
        self.closed = true;
        self.ends.producer.abandon();
        self.ends.consumer.abandon();
    }

    /// Wakes a peer that sleeps for a message. Call it after every event that such a peer must notice.
    #[inline(always)]
    fn wake_peer(&mut self) {
        match self.ends.waker.check() {
            WakeCheck::NotNeeded => {}
            WakeCheck::Ring => self.ring_peer(),
            WakeCheck::StopFencing => self.ends.waker.stop_fencing(|| self.signals.barrier()),
        }
    }

    /// Wakes a peer that sleeps for room if slots were returned.
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
        // A closing peer leaves its line in the asleep state, so that a sender that never checks elsewhere
        // gets here.
        self.record_peer_end();
    }

    fn record_peer_end(&mut self) {
        // The order matters: a peer hangs up right after it closes. The producer records the close, because
        // the peer can overwrite the line at any time.
        if self.ends.producer.peer_closed() {
            self.ends.producer.close();
        } else if self.signals.peer_gone() {
            self.ends.producer.abandon();
        }
    }

    /// Checks the lifeline periodically, for programs that poll and never sleep. The result takes effect in
    /// the next operation, because the ring must be polled again first.
    #[inline(always)]
    fn check_lifeline_periodically(&mut self) {
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
        // A peer that sends or returns slots is alive, so no check is needed. Messages sent into known room
        // prove nothing, but the ring bounds their number.
        let stats = self.stats();
        let message_count = stats.messages_sent.wrapping_add(stats.messages_received);
        if message_count == self.messages_at_check {
            self.poll_signals();
        }
        self.messages_at_check = message_count;
    }

    /// Records a violation by the peer. Every later operation returns an error.
    #[cold]
    fn on_violation(&mut self, violation: Violation) -> EndError {
        self.violation.get_or_insert(violation);
        self.close();
        EndError::Broken
    }

    #[cold]
    fn on_receive_error(&mut self, error: RecvError) -> EndError {
        match error {
            RecvError::Violation(violation) => self.on_violation(violation),
            RecvError::Closed => {
                self.record_peer_end();
                if self.violation.is_some() { EndError::Broken } else { EndError::Closed }
            }
        }
    }

    #[cold]
    fn on_send_error(&mut self, error: SendError) -> EndError {
        match error {
            SendError::Full => {
                self.check_lifeline_periodically();
                EndError::Full
            }
            SendError::TooLong { .. } => EndError::TooLong,
            SendError::Violation(violation) => self.on_violation(violation),
            SendError::Closed | SendError::Abandoned if self.violation.is_some() => EndError::Broken,
            SendError::Abandoned if !self.closed => EndError::PeerDied,
            SendError::Closed | SendError::Abandoned => EndError::Closed,
        }
    }
}

/// Returns the memory of a channel with the configuration `config` at `offset_bytes` of a window.
///
/// # Errors
/// [`OutOfRange`] when it does not lie inside the window.
pub fn channel_memory(
    window: &SharedMemory,
    offset_bytes: usize,
    config: ChannelConfig,
) -> Result<SharedMemory, OutOfRange> {
    window.slice(offset_bytes, ChannelLayout::new(config).length_bytes())
}
