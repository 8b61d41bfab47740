//! Upper bounds on the accesses of ring operations to shared memory, independent of the peer.
//!
//! Sending and receiving are bounded and wait-free: they neither retry nor use an atomic operation that
//! another processor could make fail. `tests/bounds.rs` counts the accesses of every path and fails if one
//! exceeds its bound, or if no path reaches it; `tests/loom.rs` checks the bounds in every schedule.

use tombolo_base::{CacheMaintenance, Steps};

use crate::config::{RingConfig, Variant};
use crate::doorbell::{Sleeper, Waker};

impl RingConfig {
    /// Bounds [`Producer::try_send`](crate::Producer::try_send) of `message_bytes` bytes, whether sent or
    /// refused.
    ///
    /// One store for each word of the message and for each control word. Loads happen only if there seems to
    /// be no room: whether the consumer closed, and its credit or two slots.
    #[must_use]
    pub const fn send_bound(&self, message_bytes: usize) -> Steps {
        let loads = match self.variant() {
            Variant::EpochCredit => 2,
            Variant::UsedFlag => 3,
        };
        Steps::of(loads, words(message_bytes) + self.slots_of(message_bytes))
    }

    /// Bounds [`Consumer::try_recv`](crate::Consumer::try_recv) of a message of at most `message_bytes` that
    /// is copied once and dropped. Also bounds a poll that finds nothing.
    ///
    /// One load for each word of the message and for each control word. Three more if a message is published
    /// and the ring closed during the poll: the close word twice, and the first control word again. The
    /// stores return slots.
    #[must_use]
    pub const fn receive_bound(&self, message_bytes: usize) -> Steps {
        let slots = self.slots_of(message_bytes);
        let returned = match self.variant() {
            Variant::EpochCredit => 1,
            Variant::UsedFlag => slots,
        };
        Steps::of(words(message_bytes) + slots + 3, returned)
    }

    /// Bounds [`Producer::close`](crate::Producer::close) and [`Consumer::close`](crate::Consumer::close).
    #[must_use]
    pub const fn close_bound(&self) -> Steps {
        Steps::of(0, 2)
    }

    const fn slots_of(&self, message_bytes: usize) -> u64 {
        let slots = message_bytes.div_ceil(self.slot_size().payload_bytes());
        if slots == 0 { 1 } else { slots as u64 }
    }
}

const fn words(message_bytes: usize) -> u64 {
    message_bytes.div_ceil(8) as u64
}

impl<C: CacheMaintenance> Sleeper<C> {
    /// Bounds [`arm`](Self::arm), without the heavy barrier that it may request.
    pub const ARM_BOUND: Steps = Steps::of(1, 1).fenced(1);
    /// Bounds [`disarm`](Self::disarm).
    pub const DISARM_BOUND: Steps = Steps::of(0, 1);
}

impl<C: CacheMaintenance> Waker<C> {
    /// Bounds [`check`](Self::check), without ringing the doorbell.
    pub const CHECK_BOUND: Steps = Steps::of(1, 1).fenced(1);
    /// Bounds [`is_quiet`](Self::is_quiet).
    pub const QUIET_BOUND: Steps = Steps::of(1, 0).fenced(1);
}
