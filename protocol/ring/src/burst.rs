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
    pub(crate) fn record_empty_poll(&mut self, position: u64) {
        let slots = position - self.from;
        if slots != 0 {
            self.from = position;
            self.long_from = position + if slots >= LONG_SLOTS { 0 } else { LONG_SLOTS };
        }
    }

    /// Whether slots after the message at `position` have probably been published.
    #[inline(always)]
    pub(crate) fn predicts_more(&self, position: u64) -> bool {
        position >= self.long_from
    }

    /// Whether the message at `position` is the first of its burst.
    #[inline(always)]
    pub(crate) fn starts_at(&self, position: u64) -> bool {
        position == self.from
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_burst_enables_prefetch_in_the_next_burst() {
        let mut burst = Burst::FIRST;
        assert!(burst.starts_at(0) && !burst.predicts_more(15) && burst.predicts_more(16));
        burst.record_empty_poll(15);
        assert!(burst.starts_at(15) && !burst.starts_at(16));
        assert!(!burst.predicts_more(30) && burst.predicts_more(31), "15 slots are no long burst");
        burst.record_empty_poll(31);
        assert!(burst.predicts_more(31), "16 slots are");
        burst.record_empty_poll(31);
        assert!(burst.predicts_more(31), "further empty polls say nothing");
        burst.record_empty_poll(32);
        assert!(!burst.predicts_more(47) && burst.predicts_more(48));
    }
}
