//! What operations on a ring do to shared memory at most, whatever the peer does.
//!
//! Sending and receiving are bounded and do not wait: they neither retry nor use an atomic operation that
//! another processor could make fail. `tests/bounds.rs` counts every path and fails when one exceeds what is
//! stated here, or when a bound is larger than any path; `tests/loom.rs` does so in every schedule.

use tombolo_base::{CacheMaintenance, Steps};

use crate::config::{RingConfig, Variant};
use crate::doorbell::{Sleeper, Waker};

impl RingConfig {
    /// [`Producer::try_send`](crate::Producer::try_send) of a message of `message_bytes`, sent or refused.
    ///
    /// A store for each word of the message and for the control word of each slot. Loads only if there seems
    /// to be no room: whether the consumer closed, and its credit or two slots.
    #[must_use]
    pub const fn send_bound(&self, message_bytes: usize) -> Steps {
        let loads = match self.variant() {
            Variant::EpochCredit => 2,
            Variant::UsedFlag => 3,
        };
        Steps::of(loads, words(message_bytes) + self.slots_of(message_bytes))
    }

    /// [`Consumer::try_recv`](crate::Consumer::try_recv), the message copied once and dropped, if messages
    /// have at most `message_bytes`; also a poll that finds nothing.
    ///
    /// A load for each word of the message and for the control word of each slot. Three more when a message
    /// is published and the ring closed while the poll looks: the close, twice, and the first control word
    /// again. Stores return slots.
    #[must_use]
    pub const fn receive_bound(&self, message_bytes: usize) -> Steps {
        let slots = self.slots_of(message_bytes);
        let returned = match self.variant() {
            Variant::EpochCredit => 1,
            Variant::UsedFlag => slots,
        };
        Steps::of(words(message_bytes) + slots + 3, returned)
    }

    /// [`Producer::close`](crate::Producer::close) or [`Consumer::close`](crate::Consumer::close).
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
    /// [`arm`](Self::arm), without the heavy barrier that it may ask for.
    pub const ARM_BOUND: Steps = Steps::of(1, 1).fenced(1);
    /// [`disarm`](Self::disarm).
    pub const DISARM_BOUND: Steps = Steps::of(0, 1);
}

impl<C: CacheMaintenance> Waker<C> {
    /// [`check`](Self::check), without the ring that it may ask for.
    pub const CHECK_BOUND: Steps = Steps::of(1, 1).fenced(1);
    /// [`is_quiet`](Self::is_quiet).
    pub const QUIET_BOUND: Steps = Steps::of(1, 0).fenced(1);
}
