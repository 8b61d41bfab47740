//! Byte access to a window at any offset.

use core::sync::atomic::{AtomicU8, Ordering};

use tombolo_base::{OutOfRange, SharedMemory};

/// Size of a word, in bytes.
const WORD_BYTES: usize = 8;

fn check(memory: &SharedMemory, offset_bytes: usize, length_bytes: usize) -> Result<(), OutOfRange> {
    let available_bytes = memory.len_bytes();
    match offset_bytes.checked_add(length_bytes) {
        Some(end) if end <= available_bytes => Ok(()),
        _ => Err(OutOfRange { offset_bytes, length_bytes, available_bytes }),
    }
}

/// Returns the number of bytes before the first whole word of a range.
fn unaligned_prefix_len(offset_bytes: usize, length_bytes: usize) -> usize {
    length_bytes.min(offset_bytes.wrapping_neg() % WORD_BYTES)
}

/// Copies bytes in without touching adjacent ones, so that two writers may write next to each other
/// concurrently.
///
/// # Errors
/// [`OutOfRange`]; nothing was written.
pub fn write(memory: &SharedMemory, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange> {
    check(memory, offset_bytes, source.len())?;
    let (head, rest) = source.split_at(unaligned_prefix_len(offset_bytes, source.len()));
    let (whole, tail) = rest.split_at(rest.len() / WORD_BYTES * WORD_BYTES);
    write_each(memory, offset_bytes, head);
    if !whole.is_empty() {
        memory.copy_in(offset_bytes + head.len(), whole)?;
    }
    write_each(memory, offset_bytes + head.len() + whole.len(), tail);
    Ok(())
}

/// Writes bytes one by one; the range must lie inside.
fn write_each(memory: &SharedMemory, offset_bytes: usize, source: &[u8]) {
    let first = memory.words().as_ptr().cast::<u8>().cast_mut();
    for (index, byte) in source.iter().enumerate() {
        // SAFETY: the caller checked that it lies inside. Words are atomics, so a pointer derived from a
        // shared reference may write, and an atomic byte may be written by others at the same time.
        unsafe { AtomicU8::from_ptr(first.add(offset_bytes + index)) }.store(*byte, Ordering::Relaxed);
    }
}

/// Copies bytes out, loading each once.
///
/// # Errors
/// [`OutOfRange`]; `target` is unchanged.
pub fn read(memory: &SharedMemory, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange> {
    check(memory, offset_bytes, target.len())?;
    let (head, rest) = target.split_at_mut(unaligned_prefix_len(offset_bytes, target.len()));
    if !head.is_empty() {
        let before = offset_bytes % WORD_BYTES;
        let mut word = [0; WORD_BYTES];
        memory.copy_out(offset_bytes - before, &mut word)?;
        head.copy_from_slice(&word[before..before + head.len()]);
    }
    if !rest.is_empty() {
        memory.copy_out(offset_bytes + head.len(), rest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn copies_leave_adjacent_bytes_unchanged(
            before in proptest::array::uniform32(any::<u8>()),
            offset_bytes in 0..40_usize,
            source in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let memory = SharedMemory::zeroed(before.len());
            memory.copy_in(0, &before).unwrap();
            let mut expected = before.to_vec();
            let end = offset_bytes + source.len();
            let mut read_back = vec![0; source.len()];
            if end <= expected.len() {
                expected[offset_bytes..end].copy_from_slice(&source);
                write(&memory, offset_bytes, &source).unwrap();
                read(&memory, offset_bytes, &mut read_back).unwrap();
                prop_assert_eq!(&read_back, &source);
            } else {
                let refused = OutOfRange { offset_bytes, length_bytes: source.len(), available_bytes: 32 };
                prop_assert_eq!(write(&memory, offset_bytes, &source), Err(refused));
                prop_assert_eq!(read(&memory, offset_bytes, &mut read_back), Err(refused));
            }
            let mut after = [0; 32];
            memory.copy_out(0, &mut after).unwrap();
            prop_assert_eq!(&after[..], &expected[..]);
        }
    }
}
