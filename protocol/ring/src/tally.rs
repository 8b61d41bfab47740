//! Counts messages and their bytes without a store for each message.

/// Number of messages and bytes that passed an end of a ring, as a function of its position.
///
/// While consecutive messages of one or two slots have equal length, only the position changes, which the end
/// maintains anyway. A stream of messages is bound by the processor's store buffer, so a counter stored for
/// each message would lower its rate (ADR 0069).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Position at which the current run of equal messages begins.
    since: u64,
    /// Messages before the run, and their bytes.
    messages: u64,
    bytes: u64,
    /// Bytes of each message of the run; greater than any message length while there is no run.
    run_bytes: usize,
    /// Binary logarithm of the slots of each message of the run.
    run_shift: u32,
    /// Whether the last message took more than two slots and is therefore in no run.
    is_long: bool,
}

impl Tally {
    pub(crate) const EMPTY: Tally =
        Tally { since: 0, messages: 0, bytes: 0, run_bytes: 0, run_shift: 0, is_long: false };

    /// Counts a message of `message_slots` slots at `position`, before the position moves past it.
    /// `message_slots` must follow from the length.
    #[inline(always)]
    pub(crate) fn count(&mut self, position: u64, message_bytes: usize, message_slots: u64) {
        if message_bytes != self.run_bytes {
            self.end_run(position, message_bytes, message_slots);
        }
    }

    /// Inlined although rare: a caller without calls saves no registers.
    #[inline(always)]
    fn end_run(&mut self, position: u64, message_bytes: usize, message_slots: u64) {
        (self.messages, self.bytes) = (self.messages(position), self.bytes(position));
        self.is_long = message_slots > 2;
        if self.is_long {
            self.messages += 1;
            self.bytes += message_bytes as u64;
            (self.since, self.run_bytes, self.run_shift) = (position + message_slots, usize::MAX, 0);
        } else {
            (self.since, self.run_bytes, self.run_shift) =
                (position, message_bytes, message_slots as u32 - 1);
        }
    }

    /// Returns the number of messages before `position`.
    #[inline(always)]
    pub(crate) fn messages(&self, position: u64) -> u64 {
        self.messages + self.messages_in_run(position)
    }

    /// Returns the bytes of the messages before `position`.
    #[inline(always)]
    pub(crate) fn bytes(&self, position: u64) -> u64 {
        self.bytes + self.messages_in_run(position).wrapping_mul(self.run_bytes as u64)
    }

    /// Whether the message that ends at `position` took several slots.
    #[inline(always)]
    pub(crate) fn last_was_multi_slot(&self, position: u64) -> bool {
        self.is_long || (self.run_shift > 0 && position != self.since)
    }

    #[inline(always)]
    fn messages_in_run(&self, position: u64) -> u64 {
        (position - self.since) >> (self.run_shift & 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_and_of_unequal_messages_are_counted() {
        let mut tally = Tally::EMPTY;
        let (mut position, mut messages, mut bytes) = (0, 0, 0);
        let lengths =
            [(0, 1), (0, 1), (56, 1), (57, 2), (57, 2), (57, 2), (3, 1), (300, 6), (300, 6), (0, 1)];
        for (message_bytes, slots) in lengths {
            tally.count(position, message_bytes, slots);
            position += slots;
            (messages, bytes) = (messages + 1, bytes + message_bytes as u64);
            assert_eq!((tally.messages(position), tally.bytes(position)), (messages, bytes));
            assert_eq!(tally.last_was_multi_slot(position), slots > 1);
        }
    }

    #[test]
    fn counts_are_zero_at_first() {
        let tally = Tally::EMPTY;
        assert_eq!((tally.messages(0), tally.bytes(0), tally.last_was_multi_slot(0)), (0, 0, false));
    }
}
