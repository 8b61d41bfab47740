//! The loop for every processor: aligned words of eight bytes, and single bytes at the edges.

use super::Range;
use super::opaque::{load_byte, load_word, store_byte, store_word};

const WORD: usize = 8;

/// Copies by words. Shared memory is accessed only in aligned words and single bytes, so it may be device
/// memory; private memory may have any alignment.
///
/// # Safety
/// As [`super::copy_by`].
pub(super) unsafe fn copy(range: Range) {
    let Range { mut source, mut target, mut length, .. } = range;
    let edge = match range.aligned_address() {
        Some(address) => length.min(address.wrapping_neg() % WORD),
        // Both sides are shared, and can never be aligned at the same time.
        None => length,
    };
    // SAFETY: by this function's contract both ranges are valid for `length` bytes. Each step advances both
    // by what it subtracts from the length, and takes no more than is left. A shared side is aligned after
    // the edge (`aligned_address`).
    unsafe {
        for _ in 0..edge {
            store_byte(target, load_byte(source));
            (source, target) = (source.add(1), target.add(1));
        }
        length -= edge;
        while length >= WORD {
            let word =
                if range.source_shared { load_word(source) } else { source.cast::<u64>().read_unaligned() };
            if range.target_shared {
                store_word(target, word);
            } else {
                target.cast::<u64>().write_unaligned(word);
            }
            (source, target) = (source.add(WORD), target.add(WORD));
            length -= WORD;
        }
        for _ in 0..length {
            store_byte(target, load_byte(source));
            (source, target) = (source.add(1), target.add(1));
        }
    }
}

/// Fills by words.
///
/// # Safety
/// `target` must be valid for writes of `length` bytes.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn fill(mut target: *mut u8, mut length: usize, byte: u8) {
    let word = u64::from_ne_bytes([byte; WORD]);
    let edge = length.min(target.addr().wrapping_neg() % WORD);
    // SAFETY: by this function's contract `length` bytes can be written. Each step subtracts from the
    // length what it advances by, and words begin after the edge, at an aligned address.
    unsafe {
        for _ in 0..edge {
            store_byte(target, byte);
            target = target.add(1);
        }
        length -= edge;
        while length >= WORD {
            store_word(target, word);
            target = target.add(WORD);
            length -= WORD;
        }
        for _ in 0..length {
            store_byte(target, byte);
            target = target.add(1);
        }
    }
}
