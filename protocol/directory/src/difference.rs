//! Differences between a page and an earlier content of it.
//!
//! A difference is a sequence of 64-byte lines in which any byte differs, in order: the number of the line (2
//! bytes), a mask with a bit for each byte that differs (8 bytes, the lowest bit for the first byte), and
//! those bytes. Little-endian. It contains only bytes that differ, so that two ranks that write to different
//! bytes of a page never overwrite each other's writes.

use alloc::vec::Vec;

/// Length of a line, in bytes.
pub const LINE_BYTES: usize = 64;
/// Length of the number and mask of a line, in bytes.
const HEAD_BYTES: usize = 10;

/// Returns the maximum length of a difference between two contents of a page, in bytes.
#[must_use]
pub const fn max_bytes(page_bytes: usize) -> usize {
    page_bytes.div_ceil(LINE_BYTES) * (HEAD_BYTES + LINE_BYTES)
}

/// Appends the difference between `before` and `now`, which have equal length. Returns whether they differ.
///
/// Compares only the first 65,536 lines of pages longer than 4 MiB.
pub fn encode(before: &[u8], now: &[u8], target: &mut Vec<u8>) -> bool {
    let start = target.len();
    let lines = before.chunks(LINE_BYTES).zip(now.chunks(LINE_BYTES));
    for (number, (before, now)) in (0..=u16::MAX).zip(lines) {
        if before == now {
            continue;
        }
        let differs = before.iter().zip(now).enumerate();
        let mask = differs.fold(0_u64, |mask, (at, (before, now))| mask | u64::from(before != now) << at);
        target.extend_from_slice(&number.to_le_bytes());
        target.extend_from_slice(&mask.to_le_bytes());
        target.extend(now.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, byte)| *byte));
    }
    target.len() > start
}

/// Line of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Offset of the line in the page, in bytes.
    pub offset_bytes: usize,
    /// Mask with a bit for each byte that differs.
    pub mask: u64,
    /// Bytes at their positions; zero where nothing differs.
    pub bytes: [u8; LINE_BYTES],
}

/// Decodes the next line and advances `rest` past it. Returns `None` for bytes that are not a line of a page
/// of `page_bytes`.
fn decode_line(rest: &mut &[u8], page_bytes: usize) -> Option<Line> {
    let (number, after) = rest.split_first_chunk::<2>()?;
    let (mask, mut after) = after.split_first_chunk::<8>()?;
    let (offset_bytes, mask) =
        (usize::from(u16::from_le_bytes(*number)) * LINE_BYTES, u64::from_le_bytes(*mask));
    let room = page_bytes.checked_sub(offset_bytes).filter(|room| *room > 0)?.min(LINE_BYTES);
    if mask == 0 || u64::BITS - mask.leading_zeros() > room as u32 {
        return None;
    }
    let mut bytes = [0; LINE_BYTES];
    for (_, byte) in bytes.iter_mut().enumerate().filter(|(at, _)| mask >> at & 1 == 1) {
        (*byte, after) = after.split_first().map(|(first, after)| (*first, after))?;
    }
    *rest = after;
    Some(Line { offset_bytes, mask, bytes })
}

/// Returns the lines of a difference in a page of `page_bytes`, if it is valid from its first byte to its
/// last.
#[must_use]
pub fn decode_lines(difference: &[u8], page_bytes: usize) -> Option<impl Iterator<Item = Line>> {
    let (mut rest, mut least) = (difference, 0);
    while !rest.is_empty() {
        let line = decode_line(&mut rest, page_bytes).filter(|line| line.offset_bytes >= least)?;
        least = line.offset_bytes + LINE_BYTES;
    }
    let mut rest = difference;
    Some(core::iter::from_fn(move || if rest.is_empty() { None } else { decode_line(&mut rest, page_bytes) }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(page: &mut [u8], difference: &[u8]) -> bool {
        let Some(lines) = decode_lines(difference, page.len()) else { return false };
        for line in lines {
            for at in (0..LINE_BYTES).filter(|at| line.mask >> at & 1 == 1) {
                page[line.offset_bytes + at] = line.bytes[at];
            }
        }
        true
    }

    proptest! {
        #[test]
        fn concurrent_writes_to_different_bytes_merge(
            before in proptest::collection::vec(any::<u8>(), 200),
            writes in proptest::collection::vec((0..200_usize, any::<u8>(), any::<bool>()), 0..300),
        ) {
            // Each byte has a single writer.
            let (mut ours, mut theirs, mut all) = (before.clone(), before.clone(), before.clone());
            for (at, byte, _) in writes {
                let by = if at % 3 == 0 { &mut ours } else { &mut theirs };
                (by[at], all[at]) = (byte, byte);
            }
            let mut merged = before.clone();
            for written in [ours, theirs] {
                let mut difference = Vec::new();
                let differs = encode(&before, &written, &mut difference);
                prop_assert_eq!(differs, before != written);
                prop_assert!(difference.len() <= max_bytes(200));
                prop_assert!(apply(&mut merged, &difference));
            }
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_stay_within_the_page(
            given in proptest::collection::vec(any::<u8>(), 0..100),
            small in 0..4_u8,
        ) {
            let mut given = given;
            if let Some(first) = given.first_mut() { *first = small; }
            if let Some(second) = given.get_mut(1) { *second = 0; }
            let mut page = vec![0; 200];
            apply(&mut page, &given);
        }
    }

    #[test]
    fn invalid_differences_are_refused() {
        let line = |number: u16, mask: u64, bytes: &[u8]| {
            [&number.to_le_bytes()[..], &mask.to_le_bytes(), bytes].concat()
        };
        let is_one = |difference: &[u8]| decode_lines(difference, 200).is_some();
        assert!(is_one(&line(0, 0b101, &[7, 8])) && is_one(&[line(0, 1, &[7]), line(3, 1, &[7])].concat()));
        for wrong in [
            line(0, 0, &[]),
            line(0, 0b101, &[7]),
            line(0, 1, &[7, 8]),
            line(4, 1, &[7]),
            // The last line has 8 bytes.
            line(3, 1 << 8, &[7]),
            [line(1, 1, &[7]), line(1, 1, &[7])].concat(),
            [line(1, 1, &[7]), line(0, 1, &[7])].concat(),
        ] {
            assert!(!is_one(&wrong), "{wrong:?}");
        }
    }
}
