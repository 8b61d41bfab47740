//! Predicts from the recent message rate whether further messages have been published.
//!
//! Each slot is a cache miss for its consumer, and the processor's out-of-order window covers only a few
//! messages. Prefetching a slot that is still being written would steal its line from the producer, so the
//! consumer prefetches only when more messages are likely (ADR 0141).

/// Slots without an empty poll in between that make a burst long. Prefetching then starts, both for the
/// following slots and for the next burst from its first slot on, because messages often come in batches.
const LONG_SLOTS: u64 = 16;

/// Slots consumed since the last empty poll.
#[derive(Debug)]
pub(crate) struct Burst {
    /// Position at the last empty poll.
    from: u64,
    /// Position from which further messages are expected.
    long_from: u64,
}

impl Burst {
    /// State before the first message.
    pub(crate) const FIRST: Burst = Burst { from: 0, long_from: LONG_SLOTS };

    /// Records an empty poll at the consumer's position.
    #[inline(always)]
    pub(crate) fn end(&mut self, position: u64) {
        let slots = position - self.from;
        if slots != 0 {
            self.from = position;
            self.long_from = position + if slots >= LONG_SLOTS { 0 } else { LONG_SLOTS };
        }
    }

    /// Whether slots after the message at `position` have probably been published.
    #[inline(always)]
    pub(crate) fn goes_on(&self, position: u64) -> bool {
        position >= self.long_from
    }

    /// Whether the message at `position` is the first of its burst.
    #[inline(always)]
    pub(crate) fn begins(&self, position: u64) -> bool {
        position == self.from
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_burst_goes_on_and_so_does_the_one_after_it() {
        let mut burst = Burst::FIRST;
        assert!(burst.begins(0) && !burst.goes_on(15) && burst.goes_on(16));
        burst.end(15);
        assert!(burst.begins(15) && !burst.begins(16));
        assert!(!burst.goes_on(30) && burst.goes_on(31), "15 slots are no long burst");
        burst.end(31);
        assert!(burst.goes_on(31), "16 slots are");
        burst.end(31);
        assert!(burst.goes_on(31), "further empty polls say nothing");
        burst.end(32);
        assert!(!burst.goes_on(47) && burst.goes_on(48));
    }
}
