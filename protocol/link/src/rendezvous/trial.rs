//! A trial of the window: words that one side writes and the other reads, before either relies on it.
//!
//! A window that loses or changes stores now and then would otherwise be found by what it does to programs.
//! The trial is short: it finds what is wrong often or always, and `tombolo litmus` what is wrong rarely.

use tombolo_base::{CacheMaintenance, SharedMemory};

use super::Nonce;
use super::page::read;

/// Words of the trial of each side.
pub const TRIAL_WORDS: usize = 48;

/// What a word of a trial is, by the session or attempt. Each byte of it changes with that.
const fn word(of: Nonce, index: usize) -> u64 {
    of.get().wrapping_add(index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The stores that write the trial whose first word is at `first`.
pub(super) fn stores(first: usize, of: Nonce) -> impl Iterator<Item = (usize, u64)> {
    (0..TRIAL_WORDS).map(move |index| (first + index, word(of, index)))
}

/// What became of the other side's trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// How many words are not as it wrote them.
    pub(super) lost: u8,
    /// Of these, those that one of `others` wrote.
    pub(super) of_others: u8,
}

/// Reads the trial of `of`; `others` are attempts that may have written over it.
pub(super) fn read_words<C: CacheMaintenance>(
    window: &SharedMemory<C>,
    first: usize,
    of: Nonce,
    others: &[u64],
) -> Read {
    let mut found = Read { lost: 0, of_others: 0 };
    for index in 0..TRIAL_WORDS {
        let value = read(window, first + index);
        if value == word(of, index) {
            continue;
        }
        found.lost += 1;
        let others = others.iter().filter_map(|other| Nonce::new(*other));
        found.of_others += u8::from(others.into_iter().any(|other| value == word(other, index)));
    }
    found
}
