//! What an end needs besides memory.

/// A bell at the peer, a lifeline to it, and a clock.
pub trait Signals {
    /// Rings the peer, which sleeps or is about to. A bell remembers: rung before the sleep, it ends it.
    fn ring(&mut self);

    /// Whether the lifeline has said that the peer is gone: evidence, not suspicion. It is asked with every operation,
    /// and says what [`listen`](Self::listen) found last.
    fn peer_gone(&self) -> bool;

    /// Takes note of what bell and lifeline say.
    fn listen(&mut self);

    /// Nanoseconds on a clock that never goes back.
    fn now_ns(&self) -> u64;

    /// Makes every processor that may run the peer execute a full barrier. Called with
    /// [`WakeOrder::Asymmetric`](tombolo_ring::WakeOrder::Asymmetric) only.
    fn barrier(&mut self) {}
}

/// Signals for a caller that sees to bell and lifeline itself, between operations: a ring is noted and
/// [taken](Self::take_ring), and an end is [reported](Self::report_peer_gone). There is no time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Deferred {
    ring_due: bool,
    peer_gone: bool,
}

impl Deferred {
    /// Whether the peer must be rung for what was done since the last call.
    #[must_use = "a bell that is not rung leaves the peer asleep"]
    pub fn take_ring(&mut self) -> bool {
        core::mem::take(&mut self.ring_due)
    }

    /// There is evidence that the peer is gone.
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
