//! What operations on a channel end do to shared memory at most, whatever the peer does.
//!
//! The sum of the bounds of what they consist of ([`RingConfig::send_bound`](tombolo_ring::RingConfig) and
//! its like). Calls of [`Signals`] come on top: at most one ring of the bell and one look at bell and
//! lifeline each, and with [`WakeOrder::Asymmetric`](tombolo_ring::WakeOrder::Asymmetric) one barrier.
//! `tests/bounds.rs` counts every path and compares.

use tombolo_base::{CacheMaintenance, Steps};
use tombolo_ring::{Consumer, Producer, Sleeper, Waker};

use super::{ChannelEnd, Signals};

/// A look whether the peer closed, and the end of sending if it did.
const NOTE_END: Steps = Steps::of(1, 1);

impl<S: Signals, C: CacheMaintenance> ChannelEnd<S, C> {
    /// [`try_send`](Self::try_send) of a message of `message_bytes`, sent or refused, a sleeping peer rung.
    #[must_use]
    pub fn send_bound(&self, message_bytes: usize) -> Steps {
        let waking = Waker::<C>::QUIET_BOUND + Waker::<C>::CHECK_BOUND + NOTE_END;
        let failing = self.close_bound();
        self.producer().config().send_bound(message_bytes) + waking.max(failing)
    }

    /// [`try_recv`](Self::try_recv) that copies the message once, if messages have at most `message_bytes`;
    /// also one that finds nothing, or an end.
    #[must_use]
    pub fn receive_bound(&self, message_bytes: usize) -> Steps {
        // Slots may be returned by the poll before the message, and the fast path may have looked in vain.
        let again = Steps::of(2, 0);
        let waking = Waker::<C>::CHECK_BOUND + NOTE_END;
        let failing = self.close_bound();
        self.consumer().config().receive_bound(message_bytes) + again + waking.max(failing)
    }

    /// [`close`](Self::close), also that after a violation.
    #[must_use]
    pub fn close_bound(&self) -> Steps {
        let ring = self.producer().config().close_bound();
        ring + self.consumer().config().close_bound() + Sleeper::<C>::ARM_BOUND
    }

    /// [`announce`](Self::announce) and [`awake`](Self::awake) around a sleep, without the last poll between
    /// them.
    #[must_use]
    pub fn announce_bound(&self) -> Steps {
        (Sleeper::<C>::ARM_BOUND + Sleeper::<C>::DISARM_BOUND).times(2) + NOTE_END
    }

    fn producer(&self) -> &Producer<C> {
        &self.ends.producer
    }

    fn consumer(&self) -> &Consumer<C> {
        &self.ends.consumer
    }
}
