//! Trial of the window: words that one side writes and the other reads, before either relies on it.
//!
//! Without it, a window that occasionally loses or corrupts stores would show only as failures of programs.
//! The trial is short: it detects frequent faults, and `tombolo litmus` detects rare ones.

use tombolo_base::{CacheMaintenance, SharedMemory};

use super::Nonce;
use super::page::read;

/// Number of words in the trial of each side.
pub const TRIAL_WORDS: usize = 48;

/// Returns the value of a trial word for a session or attempt. Every byte depends on that number.
const fn word(nonce: Nonce, index: usize) -> u64 {
    nonce.get().wrapping_add(index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the stores that write a trial whose first word is at `first`.
pub(super) fn stores(first: usize, nonce: Nonce) -> impl Iterator<Item = (usize, u64)> {
    (0..TRIAL_WORDS).map(move |index| (first + index, word(nonce, index)))
}

/// Result of reading the other side's trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrialResult {
    /// Number of words that differ from what the other side wrote.
    pub(super) lost: u8,
    /// Number of those that one of `others` wrote.
    pub(super) from_others: u8,
}

/// Reads the trial of `nonce`. `others` are attempts that may have overwritten it.
pub(super) fn read_words<C: CacheMaintenance>(
    window: &SharedMemory<C>,
    first: usize,
    nonce: Nonce,
    others: &[u64],
) -> TrialResult {
    let mut found = TrialResult { lost: 0, from_others: 0 };
    for index in 0..TRIAL_WORDS {
        let value = read(window, first + index);
        if value == word(nonce, index) {
            continue;
        }
        found.lost += 1;
        let others = others.iter().filter_map(|other| Nonce::new(*other));
        found.from_others += u8::from(others.into_iter().any(|other| value == word(other, index)));
    }
    found
}
