//! Copies payload between byte slices and the words of a slot.
//!
//! Words are moved by relaxed atomic accesses, two at a time where the processor supports it, and each word
//! is accessed once. Bytes keep their address order on every processor. A tail shorter than eight bytes is
//! copied as 4, 2 and 1 bytes, because the compiler would turn a copy of unknown length into a call.

use tombolo_base::sync::{AtomicU64, Ordering::Relaxed, load_pair, store_block, store_both};

/// Stores `source` at the start of a slot's payload and zeroes the rest of the last word written.
///
/// Callers keep `source` within the payload; any excess is not stored. The loops here and in [`load`] iterate
/// over the slot and exit at the end of the message: the compiler unrolls them completely, whereas a loop
/// over the message length costs more to set up than to run.
#[inline(always)]
pub(crate) fn store<const WORDS: usize>(words: &[AtomicU64; WORDS], source: &[u8]) {
    // Constant indices, so that a block needs only two registers: the base addresses of `words` and `source`.
    let _ = store_block::<0, WORDS>(words, source)
        && store_block::<1, WORDS>(words, source)
        && store_block::<2, WORDS>(words, source)
        && store_block::<3, WORDS>(words, source)
        && store_block::<4, WORDS>(words, source)
        && store_block::<5, WORDS>(words, source)
        && store_block::<6, WORDS>(words, source);
    store_rest(words, source);
}

/// Stores the last bytes of a message after its 16-byte blocks, fewer than sixteen.
#[inline(always)]
fn store_rest<const WORDS: usize>(words: &[AtomicU64; WORDS], source: &[u8]) {
    let (_, rest) = source.as_chunks::<16>();
    let (chunks, tail) = rest.as_chunks::<8>();
    // Slots have 3, 7 or 15 payload words, so the mask makes the bounds check redundant.
    let mut index = (source.len() / 8) & !1 & (WORDS - 1);
    if let [chunk, ..] = chunks {
        words[index].store(u64::from_ne_bytes(*chunk), Relaxed);
        index += 1;
    }
    if !tail.is_empty()
        && let Some(word) = words.get(index)
    {
        word.store(low_bytes(tail).to_le(), Relaxed);
    }
}

/// Stores `numbers[FIRST..]` in the payload of a 64-byte slot, as many as fit.
///
/// All indices are constants: if the array is inlined, its numbers are stored from registers.
#[inline(always)]
pub(crate) fn store_numbers<const FIRST: usize, const N: usize>(words: &[AtomicU64; 7], numbers: &[u64; N]) {
    let ([pair_0, pair_2, pair_4], [last]) = words.as_chunks::<2>() else { return };
    store_two::<FIRST, N>(pair_0, numbers, 0);
    store_two::<FIRST, N>(pair_2, numbers, 2);
    store_two::<FIRST, N>(pair_4, numbers, 4);
    if FIRST + 6 < N {
        last.store(numbers[FIRST + 6].to_le(), Relaxed);
    }
}

/// Stores the numbers of two adjacent words, or only the first if the array ends there.
#[inline(always)]
fn store_two<const FIRST: usize, const N: usize>(words: &[AtomicU64; 2], numbers: &[u64; N], at: usize) {
    if FIRST + at + 1 < N {
        store_both(words, [numbers[FIRST + at].to_le(), numbers[FIRST + at + 1].to_le()]);
    } else if FIRST + at < N {
        words[0].store(numbers[FIRST + at].to_le(), Relaxed);
    }
}

/// Loads the start of a slot's payload into `target`, with the same bounds as [`store`].
#[inline(always)]
pub(crate) fn load<const WORDS: usize>(words: &[AtomicU64; WORDS], target: &mut [u8]) {
    let (pairs, last) = words.as_chunks::<2>();
    let (blocks, rest) = target.as_chunks_mut::<16>();
    for (index, pair) in pairs.iter().enumerate() {
        let Some(block) = blocks.get_mut(index) else { return load_words(pair, rest) };
        *block = load_pair(pair);
    }
    load_words(last, rest);
}

/// Loads the last bytes of a message, fewer than sixteen.
#[inline(always)]
fn load_words(words: &[AtomicU64], target: &mut [u8]) {
    let (chunks, tail) = target.as_chunks_mut::<8>();
    let mut words = words.iter();
    if let [chunk, ..] = chunks
        && let Some(word) = words.next()
    {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
    if !tail.is_empty()
        && let Some(word) = words.next()
    {
        put_low_bytes(u64::from_le(word.load(Relaxed)), tail);
    }
}

/// Stores `source` at any byte offset without changing the bytes around it.
///
/// `source` must lie within `words`. Partially written words are loaded first.
pub(crate) fn store_at(words: &[AtomicU64], offset_bytes: usize, source: &[u8]) {
    let skip = offset_bytes % 8;
    let (head, rest) = source.split_at(if skip == 0 { 0 } else { source.len().min(8 - skip) });
    let mut words = words.iter().skip(offset_bytes / 8);
    if !head.is_empty()
        && let Some(word) = words.next()
    {
        merge(word, skip, head);
    }
    let (chunks, tail) = rest.as_chunks::<8>();
    for chunk in chunks {
        if let Some(word) = words.next() {
            word.store(u64::from_ne_bytes(*chunk), Relaxed);
        }
    }
    if !tail.is_empty()
        && let Some(word) = words.next()
    {
        merge(word, 0, tail);
    }
}

/// Loads `target` from any byte offset; the range must lie within `words`.
pub(crate) fn load_at(words: &[AtomicU64], offset_bytes: usize, target: &mut [u8]) {
    let skip = offset_bytes % 8;
    let head_bytes = if skip == 0 { 0 } else { target.len().min(8 - skip) };
    let (head, rest) = target.split_at_mut(head_bytes);
    if !head.is_empty()
        && let Some(word) = words.get(offset_bytes / 8)
    {
        put_low_bytes(u64::from_le(word.load(Relaxed)) >> (8 * skip), head);
    }
    let mut words = words.iter().skip(offset_bytes.div_ceil(8));
    let (chunks, tail) = rest.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(&mut words) {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
    if !tail.is_empty()
        && let Some(word) = words.next()
    {
        put_low_bytes(u64::from_le(word.load(Relaxed)), tail);
    }
}

/// Replaces bytes of `word` from `skip` on.
fn merge(word: &AtomicU64, skip: usize, part: &[u8]) {
    let mut bytes = word.load(Relaxed).to_ne_bytes();
    for (byte, new) in bytes[skip..].iter_mut().zip(part) {
        *byte = *new;
    }
    word.store(u64::from_ne_bytes(bytes), Relaxed);
}

/// Packs up to seven bytes into a number, the first byte least significant.
#[inline(always)]
fn low_bytes(bytes: &[u8]) -> u64 {
    let (fours, rest) = bytes.as_chunks::<4>();
    let (twos, ones) = rest.as_chunks::<2>();
    let (mut value, mut shift) = (0, 0);
    if let [four, ..] = fours {
        value = u64::from(u32::from_le_bytes(*four));
        shift = 32;
    }
    if let [two, ..] = twos {
        value |= u64::from(u16::from_le_bytes(*two)) << shift;
        shift += 16;
    }
    if let [one, ..] = ones {
        value |= u64::from(*one) << shift;
    }
    value
}

/// Unpacks up to seven of the least significant bytes of `value`; the inverse of [`low_bytes`].
#[inline(always)]
fn put_low_bytes(mut value: u64, bytes: &mut [u8]) {
    let (fours, rest) = bytes.as_chunks_mut::<4>();
    let (twos, ones) = rest.as_chunks_mut::<2>();
    if let [four, ..] = fours {
        *four = (value as u32).to_le_bytes();
        value >>= 32;
    }
    if let [two, ..] = twos {
        *two = (value as u16).to_le_bytes();
        value >>= 16;
    }
    if let [one, ..] = ones {
        *one = value as u8;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn words(bytes: &[u8]) -> Vec<AtomicU64> {
        bytes.as_chunks().0.iter().map(|chunk| AtomicU64::new(u64::from_ne_bytes(*chunk))).collect()
    }

    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn whole_copies_keep_address_order_and_clear_the_last_word() {
        for length in 0..=24_usize {
            let source: Vec<u8> = (1..=length as u8).collect();
            let memory: [AtomicU64; 3] = words(&[0xee; 24]).try_into().unwrap();
            store(&memory, &source);
            let mut expected = source.clone();
            expected.resize(length.next_multiple_of(8), 0);
            expected.resize(24, 0xee);
            assert_eq!(bytes(&memory), expected);
            let mut target = std::vec![0; length];
            load(&memory, &mut target);
            assert_eq!(target, source);
        }
    }

    #[test]
    fn copies_at_any_offset_leave_their_surroundings() {
        // Under miri, uses a step that still covers every start and end position within a word.
        let step = if cfg!(miri) { 3 } else { 1 };
        for offset in (0..24).step_by(step) {
            for length in (0..=24 - offset).step_by(step) {
                let source: Vec<u8> = (1..=length as u8).collect();
                let memory = words(&[0xee; 24]);
                store_at(&memory, offset, &source);
                let mut expected = std::vec![0xee; 24];
                expected[offset..offset + length].copy_from_slice(&source);
                assert_eq!(bytes(&memory), expected, "{offset}+{length}");
                let mut target = std::vec![0; length];
                load_at(&memory, offset, &mut target);
                assert_eq!(target, source, "{offset}+{length}");
            }
        }
    }
}
