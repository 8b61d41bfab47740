//! The content of messages: every byte is written, and checked on arrival.

use tombolo_bench_far::content;
pub use tombolo_bench_far::content::{Aligned, bulk_word, fill, fill_bulk, sum, word};

use super::Error;

/// Whether every byte of a message is as [`fill`] left it.
///
/// # Errors
/// [`crate::ring::Error::Corrupt`].
#[inline(always)]
pub fn check<const N: usize>(message: &[u8], sequence: u64) -> Result<(), Error> {
    Ok(content::check::<N>(message, sequence)?)
}

/// Whether a sum is that of `bytes` of bulk data with that number.
///
/// # Errors
/// [`crate::ring::Error::Corrupt`].
#[inline(always)]
pub fn check_sum(sum: u64, bytes: usize, sequence: u64) -> Result<(), Error> {
    Ok(content::check_sum(sum, bytes, sequence)?)
}

/// The error of a message that is not what was sent.
#[cold]
#[must_use]
pub fn corrupt(message: u64) -> Error {
    content::corrupt(message).into()
}
