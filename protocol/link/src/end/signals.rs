//! Interface of a channel end to everything besides memory.

/// A bell at the peer, a lifeline to it, and a clock.
pub trait Signals {
    /// Rings the peer, which sleeps or is about to. The bell must latch: a ring before the sleep ends that
    /// sleep.
    fn ring(&mut self);

    /// Whether the lifeline has reported that the peer is gone: evidence, not suspicion. Called with every
    /// operation, so it must only return what [`poll_signals`](Self::poll_signals) last found.
    fn peer_gone(&self) -> bool;

    /// Reads the bell and the lifeline.
    fn poll_signals(&mut self);

    /// Returns the time on a monotonic clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Makes every processor that may run the peer execute a full barrier. Called only with
    /// [`WakeOrder::Asymmetric`](tombolo_ring::WakeOrder::Asymmetric).
    fn barrier(&mut self) {}
}

/// Signals for a caller that handles bell and lifeline itself between operations: it [takes](Self::take_ring)
/// pending rings and [reports](Self::report_peer_gone) the death of the peer. The clock always reads zero.
#[derive(Clone, Copy, Default, Debug)]
pub struct DeferredSignals {
    ring_due: bool,
    peer_gone: bool,
}

impl DeferredSignals {
    /// Returns whether operations since the last call require ringing the peer, and clears the flag.
    #[must_use = "a bell that is not rung leaves the peer asleep"]
    pub fn take_ring(&mut self) -> bool {
        core::mem::take(&mut self.ring_due)
    }

    /// Records evidence that the peer is gone.
    pub fn report_peer_gone(&mut self) {
        self.peer_gone = true;
    }
}

impl Signals for DeferredSignals {
    fn ring(&mut self) {
        self.ring_due = true;
    }

    fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    fn poll_signals(&mut self) {}

    fn now_ns(&self) -> u64 {
        0
    }
}
