//! What a channel end needs besides memory.

/// A bell at the peer, a lifeline to it, and a clock.
pub trait Signals {
    /// Rings the peer, which sleeps or is about to. The bell latches: a ring before the sleep ends it.
    fn ring(&mut self);

    /// Whether the lifeline has reported that the peer is gone: evidence, not suspicion. Called with every
    /// operation, so it returns what [`listen`](Self::listen) last found.
    fn peer_gone(&self) -> bool;

    /// Reads bell and lifeline.
    fn listen(&mut self);

    /// The time in nanoseconds on a monotonic clock.
    fn now_ns(&self) -> u64;

    /// Makes every processor that may run the peer execute a full barrier. Called with
    /// [`WakeOrder::Asymmetric`](tombolo_ring::WakeOrder::Asymmetric) only.
    fn barrier(&mut self) {}
}

/// Signals for a caller that handles bell and lifeline itself between operations: it
/// [takes](Self::take_ring) pending rings and [reports](Self::report_peer_gone) the death of the peer. The
/// clock always shows zero.
#[derive(Clone, Copy, Default, Debug)]
pub struct Deferred {
    ring_due: bool,
    peer_gone: bool,
}

impl Deferred {
    /// Whether the peer must be rung for operations since the last call.
    #[must_use = "a bell that is not rung leaves the peer asleep"]
    pub fn take_ring(&mut self) -> bool {
        core::mem::take(&mut self.ring_due)
    }

    /// Reports evidence that the peer is gone.
    pub fn report_peer_gone(&mut self) {
        self.peer_gone = true;
    }
}

impl Signals for Deferred {
    fn ring(&mut self) {
        self.ring_due = true;
    }

    fn peer_gone(&self) -> bool {
        self.peer_gone
    }

    fn listen(&mut self) {}

    fn now_ns(&self) -> u64 {
        0
    }
}
