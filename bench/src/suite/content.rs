//! Content of messages: the sender writes every byte and the receiver checks all of them.

use tombolo_bench_far::content;
pub use tombolo_bench_far::content::{Aligned, bulk_word, fill, fill_bulk, sum, word};

use super::Error;

/// Checks that every byte of a message is as [`fill`] wrote it.
///
/// # Errors
/// [`crate::ring::Error::Corrupt`].
#[inline(always)]
pub fn check<const N: usize>(message: &[u8], sequence: u64) -> Result<(), Error> {
    Ok(content::check::<N>(message, sequence)?)
}

/// Checks the sum over `bytes` of bulk data with that sequence number.
///
/// # Errors
/// [`crate::ring::Error::Corrupt`].
#[inline(always)]
pub fn check_sum(sum: u64, bytes: usize, sequence: u64) -> Result<(), Error> {
    Ok(content::check_sum(sum, bytes, sequence)?)
}

/// Creates the error of a message with wrong content.
#[cold]
#[must_use]
pub fn corrupt(message: u64) -> Error {
    content::corrupt(message).into()
}
