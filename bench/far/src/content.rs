//! Content of messages: the sender writes every byte and the receiver checks all of them.

use tombolo_base::sync::AtomicU64;
use tombolo_base::sync::Ordering::Relaxed;

use crate::Error;

/// Returns word `index` of the message with that sequence number.
#[inline(always)]
#[must_use]
pub fn word(sequence: u64, index: usize) -> u64 {
    sequence.wrapping_add((index as u64).wrapping_mul(0x0101_0101_0101_0101))
}

/// Message buffer aligned to a cache line.
///
/// The compiler fills messages with wide stores. A store that crosses a line boundary delays all later ones
/// and can halve the rate of a stream; without the alignment, this depends on the address of the stack (ADR
/// 0142).
#[derive(Debug)]
#[repr(align(64))]
pub struct Aligned<const N: usize>(pub [u8; N]);

/// Fills a message, whose length is a multiple of eight.
#[inline(always)]
pub fn fill<const N: usize>(message: &mut [u8; N], sequence: u64) {
    for (index, chunk) in message.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *chunk = word(sequence, index).to_le_bytes();
    }
}

/// Checks that every byte of a message is as [`fill`] wrote it.
///
/// # Errors
/// [`Error::Corrupt`].
#[inline(always)]
pub fn check<const N: usize>(message: &[u8], sequence: u64) -> Result<(), Error> {
    let Ok(message) = <&[u8; N]>::try_from(message) else { return Err(corrupt(sequence)) };
    let mut wrong = 0;
    for (index, chunk) in message.as_chunks::<8>().0.iter().enumerate() {
        wrong |= u64::from_le_bytes(*chunk) ^ word(sequence, index);
    }
    if wrong == 0 { Ok(()) } else { Err(corrupt(sequence)) }
}

/// Returns zero if a message, given as its numbers, is as [`fill`] wrote it; `None` is a message of another
/// length.
#[inline(always)]
#[must_use]
pub fn wrong_words<const N: usize>(words: Option<[u64; N]>, sequence: u64) -> u64 {
    let Some(words) = words else { return 1 };
    words.iter().enumerate().fold(0, |wrong, (index, found)| wrong | (found ^ word(sequence, index)))
}

/// Returns the word with which a buffer of bulk data is filled.
#[inline(always)]
#[must_use]
pub fn bulk_word(sequence: u64) -> u64 {
    sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Fills a private buffer with bulk data.
#[inline(always)]
pub fn fill_bulk(buffer: &mut [u8], sequence: u64) {
    let word = bulk_word(sequence).to_le_bytes();
    for chunk in buffer.as_chunks_mut::<8>().0 {
        *chunk = word;
    }
}

/// Returns the wrapping sum of all words of a buffer.
#[inline(always)]
#[must_use]
pub fn sum(buffer: &[u8]) -> u64 {
    let words = buffer.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk));
    words.fold(0, u64::wrapping_add)
}

/// Checks the sum over `bytes` of bulk data with that sequence number.
///
/// # Errors
/// [`Error::Corrupt`].
#[inline(always)]
pub fn check_sum(sum: u64, bytes: usize, sequence: u64) -> Result<(), Error> {
    let expected = bulk_word(sequence).wrapping_mul(bytes as u64 / 8);
    if sum == expected { Ok(()) } else { Err(corrupt(sequence)) }
}

/// Fills shared memory with bulk data.
#[inline(never)]
pub fn fill_words(words: &[AtomicU64], sequence: u64) {
    let value = bulk_word(sequence).to_le();
    for word in words {
        word.store(value, Relaxed);
    }
}

/// Reads and checks all of the shared memory that [`fill_words`] has filled.
///
/// # Errors
/// [`Error::Corrupt`].
#[inline(never)]
pub fn check_words(words: &[AtomicU64], sequence: u64) -> Result<(), Error> {
    // Four independent sums, for instruction-level parallelism.
    let mut sums = [0_u64; 4];
    let (fours, _) = words.as_chunks::<4>();
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = sum.wrapping_add(u64::from_le(word.load(Relaxed)));
        }
    }
    let sum = sums.iter().fold(0_u64, |all, sum| all.wrapping_add(*sum));
    check_sum(sum, 8 * words.len(), sequence)
}

/// Creates the error of a message with wrong content.
#[cold]
#[must_use]
pub fn corrupt(message: u64) -> Error {
    Error::Corrupt { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_detected() {
        let mut message = [0; 64];
        fill(&mut message, 7);
        check::<64>(&message, 7).expect("untouched");
        assert!(check::<64>(&message, 8).is_err());
        assert!(check::<64>(&message[..56], 7).is_err());
        for index in 0..64 {
            let mut changed = message;
            changed[index] ^= 0x10;
            assert!(check::<64>(&changed, 7).is_err(), "byte {index}");
        }
        let words: [u64; 8] = std::array::from_fn(|index| word(7, index));
        assert_eq!(wrong_words(Some(words), 7), 0);
        assert_ne!(wrong_words::<8>(None, 7), 0);
        for index in 0..8 {
            let mut changed = words;
            changed[index] ^= 0x10;
            assert_ne!(wrong_words(Some(changed), 7), 0, "word {index}");
        }
    }

    #[test]
    fn sums_of_consecutive_buffers_differ() {
        let mut buffer = vec![0; 4096];
        fill_bulk(&mut buffer, 3);
        check_sum(sum(&buffer), 4096, 3).expect("untouched");
        assert!(check_sum(sum(&buffer), 4096, 4).is_err());
        buffer[4095] ^= 1;
        assert!(check_sum(sum(&buffer), 4096, 3).is_err());
    }
}
