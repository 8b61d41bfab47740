//! Control word of a slot: its last eight bytes.
//!
//! | bits | content |
//! |---|---|
//! | 0..15 | lap: how many times the ring was filled before this slot was written, modulo 2¹⁵ |
//! | 15 | 1: written. A zero word was never written, or was returned |
//! | 16..24 | bytes of payload in this slot |
//! | 24 | 1: the message continues in the next slot |
//! | 25..32 | zero |
//! | 32..64 | credit for the reverse ring: slots consumed of it, modulo 2³² |
//!
//! Bits 0..16 are the *tag*. The tag of a position is never zero, and the consumer waits for exactly that
//! tag. Laps may wrap at 2¹⁵: the producer writes lap *n* of a slot only after the consumer returned lap
//! *n*-1 of it, so a slot holds the tag of the consumer's lap or of the one before, which a single bit could
//! distinguish. The other fourteen bits turn a peer that runs ahead, or memory that was not zeroed, into a
//! [`Violation`](crate::Violation) instead of stale messages.

pub(crate) const TAG_MASK: u64 = 0xffff;
pub(crate) const WRITTEN: u64 = 1 << 15;
pub(crate) const LENGTH_SHIFT: u32 = 16;
pub(crate) const MORE: u64 = 1 << 24;
pub(crate) const RESERVED_MASK: u64 = 0xfe00_0000;
pub(crate) const CREDIT_SHIFT: u32 = 32;
pub(crate) const CREDIT_MASK: u64 = !0 << CREDIT_SHIFT;

/// Bits that must equal the tag in the control word of a single-slot message.
pub(crate) const SINGLE_MASK: u64 = TAG_MASK | MORE | RESERVED_MASK;
/// Differs from every word masked by [`SINGLE_MASK`] or [`TAG_MASK`]. An ended consumer waits for it.
pub(crate) const IMPOSSIBLE: u64 = u64::MAX;

/// Returns the tag of a slot written in `lap`.
#[inline]
pub(crate) const fn tag(lap: u64) -> u64 {
    WRITTEN | (lap & (WRITTEN - 1))
}

/// Returns the tag of a slot that is free for `lap` when slots are returned by credit: that of the lap
/// before.
#[inline]
pub(crate) const fn tag_before(lap: u64) -> u64 {
    if lap == 0 { 0 } else { tag(lap - 1) }
}

/// Returns the payload length that the word claims, from 0 to 255. Not validated.
#[inline]
pub(crate) const fn length_bytes(word: u64) -> usize {
    (word >> LENGTH_SHIFT) as u8 as usize
}

#[inline]
pub(crate) const fn reverse_credit(word: u64) -> u32 {
    (word >> CREDIT_SHIFT) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_never_zero_and_differs_from_the_lap_before() {
        assert_eq!(tag_before(0), 0);
        for lap in [0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0xffff, 0x1_0000, u64::MAX >> 1] {
            assert_ne!(tag(lap), 0);
            assert!(tag(lap) <= TAG_MASK);
            assert_ne!(tag(lap), tag_before(lap));
            assert_eq!(tag_before(lap + 1), tag(lap));
        }
    }

    #[test]
    fn fields_do_not_overlap() {
        let fields = [TAG_MASK, 0xff << LENGTH_SHIFT, MORE, RESERVED_MASK, 0xffff_ffff << CREDIT_SHIFT];
        assert_eq!(fields.iter().fold(0, |all, field| all | field), u64::MAX);
        assert_eq!(fields.iter().map(|field| field.count_ones()).sum::<u32>(), 64);
        assert_ne!(SINGLE_MASK & IMPOSSIBLE, IMPOSSIBLE);
    }
}
