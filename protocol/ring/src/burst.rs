//! Whether further messages have been published, from how many came before.
//!
//! Each slot is a cache miss for its consumer, and the processor looks only a few messages ahead by itself. A
//! prefetch of a slot that is still being written would take its line from the producer, so it needs a sign
//! that more is there (ADR 0141).

/// Slots without an empty poll between them that are such a sign: for the slots after them, and for the next
/// burst from its first slot on, as where messages come in batches.
const LONG_SLOTS: u64 = 16;

/// The slots consumed since the last empty poll.
#[derive(Debug)]
pub(crate) struct Burst {
    /// The position at the last empty poll.
    from: u64,
    /// The position from which on more is expected.
    long_from: u64,
}

impl Burst {
    /// Before the first message.
    pub(crate) const FIRST: Burst = Burst { from: 0, long_from: LONG_SLOTS };

    /// To be called at an empty poll, at the consumer's position.
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

    /// Whether the message at `position` is the first.
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
