//! Upper bounds on the accesses of channel operations to shared memory, independent of the peer.
//!
//! Each bound is the sum of the bounds of its steps ([`RingConfig::send_bound`](tombolo_ring::RingConfig) and
//! the like). Calls of [`Signals`] come on top: at most one ring of the bell and one check of bell and
//! lifeline each, and with [`WakeOrder::Asymmetric`](tombolo_ring::WakeOrder::Asymmetric) one barrier.
//! `tests/bounds.rs` counts the accesses of every path and compares them.

use tombolo_base::{CacheMaintenance, Steps};
use tombolo_ring::{Consumer, Producer, Sleeper, Waker};

use super::{ChannelEnd, Signals};

/// Checks whether the peer closed, and ends sending if it did.
const RECORD_PEER_END: Steps = Steps::of(1, 1);

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// Bounds [`try_send`](Self::try_send) of `message_bytes` bytes, whether sent or refused, including a
    /// wake-up.
    #[must_use]
    pub fn send_bound(&self, message_bytes: usize) -> Steps {
        let waking = Waker::<C>::QUIET_BOUND + Waker::<C>::CHECK_BOUND + RECORD_PEER_END;
        let failing = self.close_bound();
        self.producer().config().send_bound(message_bytes) + waking.max(failing)
    }

    /// Bounds [`try_recv`](Self::try_recv) that copies one message of at most `message_bytes`. Also bounds a
    /// call that finds no message, or the end of the channel.
    #[must_use]
    pub fn receive_bound(&self, message_bytes: usize) -> Steps {
        // The poll before the message may have returned slots, and the fast path may have polled in vain.
        let again = Steps::of(2, 0);
        let waking = Waker::<C>::CHECK_BOUND + RECORD_PEER_END;
        let failing = self.close_bound();
        self.consumer().config().receive_bound(message_bytes) + again + waking.max(failing)
    }

    /// Bounds [`close`](Self::close), including a close after a violation.
    #[must_use]
    pub fn close_bound(&self) -> Steps {
        let ring = self.producer().config().close_bound();
        ring + self.consumer().config().close_bound() + Sleeper::<C>::ARM_BOUND
    }

    /// Bounds [`announce`](Self::announce) and [`finish_sleep`](Self::finish_sleep) around a sleep, without
    /// the last poll between them.
    #[must_use]
    pub fn announce_bound(&self) -> Steps {
        (Sleeper::<C>::ARM_BOUND + Sleeper::<C>::DISARM_BOUND).times(2) + RECORD_PEER_END
    }

    fn producer(&self) -> &Producer<C> {
        &self.ends.producer
    }

    fn consumer(&self) -> &Consumer<C> {
        &self.ends.consumer
    }
}
