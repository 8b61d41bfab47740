//! A trial of the window: words that one side writes and the other reads, before either relies on it.
//!
//! A window that loses or changes stores now and then would otherwise be found by what it does to programs.
//! The trial is short: it finds what is wrong often or always, and `tombolo litmus` what is wrong rarely.

use tombolo_base::SharedMemory;

use super::Nonce;
use super::page::{read, write};

/// Words of the trial of each side.
pub const TRIAL_WORDS: usize = 48;

/// What a word of a trial is, by the session or attempt. Each byte of it changes with that.
const fn word(of: Nonce, index: usize) -> u64 {
    of.get().wrapping_add(index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes the trial whose first word is at `first`.
pub(super) fn write_words(window: &SharedMemory, first: usize, of: Nonce) {
    (0..TRIAL_WORDS).for_each(|index| write(window, first + index, word(of, index)));
}

/// How many words of the other side's trial are not as it wrote them.
pub(super) fn lost(window: &SharedMemory, first: usize, of: Nonce) -> u8 {
    (0..TRIAL_WORDS).filter(|index| read(window, first + index) != word(of, *index)).count() as u8
}
