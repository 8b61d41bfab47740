//! What a simulator is told of every store, in program order. Only a build with `--cfg sim` tells anything.
//!
//! A simulated link carries the stores of one side to the other's copy of the memory, so it must know in which order
//! they were made and what ordered them. `record` starts to note the stores of this thread, `take` gives them.

#[cfg(all(sim, not(loom)))]
pub use noting::{AtomicU64, fence, record, take};

/// Something that a side did to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted {
    /// A store that changed a word.
    Store {
        /// Where, in this process.
        address: usize,
        /// The word as it lies in memory.
        word: u64,
        /// Everything noted before is ordered before it.
        release: bool,
    },
    /// Everything noted before is ordered before everything after.
    Fence,
}

#[cfg(all(sim, not(loom)))]
mod noting {
    use std::cell::RefCell;

    use core::sync::atomic::Ordering;

    use super::Noted;

    std::thread_local! {
        static NOTES: RefCell<Option<Vec<Noted>>> = const { RefCell::new(None) };
    }

    /// Starts to note what this thread does; what was noted before is forgotten.
    pub fn record() {
        NOTES.with(|notes| *notes.borrow_mut() = Some(Vec::new()));
    }

    /// What was noted since the last call; nothing unless [`record`] was called.
    #[must_use]
    pub fn take() -> Vec<Noted> {
        NOTES.with(|notes| notes.borrow_mut().as_mut().map(core::mem::take)).unwrap_or_default()
    }

    fn note(noted: Noted) {
        NOTES.with(|notes| {
            if let Some(notes) = notes.borrow_mut().as_mut() {
                notes.push(noted);
            }
        });
    }

    /// A word whose stores are noted.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(core::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// A word with a value.
        #[must_use]
        pub const fn new(value: u64) -> Self {
            AtomicU64(core::sync::atomic::AtomicU64::new(value))
        }

        /// Loads it.
        #[inline]
        #[must_use]
        pub fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        /// Stores it, and notes that. A relaxed store that changes nothing orders nothing either, and is not noted.
        #[inline]
        pub fn store(&self, word: u64, order: Ordering) {
            let release = order != Ordering::Relaxed;
            if release || self.0.load(Ordering::Relaxed) != word {
                note(Noted::Store { address: core::ptr::from_ref(self).addr(), word, release });
            }
            self.0.store(word, order);
        }

        /// Changes it by `change`, as the word of `core` does, and notes that as a store that orders.
        ///
        /// # Errors
        /// The value that `change` made nothing of.
        pub fn fetch_update(
            &self,
            set_order: Ordering,
            fetch_order: Ordering,
            mut change: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            let mut word = None;
            let before = self.0.fetch_update(set_order, fetch_order, |value| {
                word = change(value);
                word
            })?;
            if let Some(word) = word {
                note(Noted::Store { address: core::ptr::from_ref(self).addr(), word, release: true });
            }
            Ok(before)
        }

        /// Stores it as the far end of a link does: not noted.
        #[inline]
        pub fn arrive(&self, word: u64) {
            self.0.store(word, Ordering::Release);
        }
    }

    /// As the fence of `core`, and noted.
    #[inline]
    pub fn fence(order: Ordering) {
        note(Noted::Fence);
        core::sync::atomic::fence(order);
    }
}
