//! Records every store to shared memory, in program order, for a simulator. Active only with `--cfg sim`.
//!
//! A simulated link applies the stores of one side to the other side's copy of the memory, so it must know
//! their order and what ordered them. `record` starts recording on this thread; `take` returns what was
//! recorded.

#[cfg(loom)]
pub use counted::{AtomicU64, fence};
#[cfg(all(sim, not(loom)))]
pub use recording::{AtomicU64, fence, record, take};

/// Words whose accesses are counted while a model checker observes them.
#[cfg(loom)]
mod counted {
    use loom::sync::atomic::Ordering;

    use crate::steps::count;

    /// A word of loom whose loads and stores are counted ([`crate::steps`]). What else loom's word can do is
    /// not counted.
    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// A word that holds `value`.
        #[must_use]
        pub fn new(value: u64) -> Self {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        /// Loads the word as loom does.
        #[inline]
        #[must_use]
        pub fn load(&self, order: Ordering) -> u64 {
            count(|steps| &mut steps.loads);
            self.0.load(order)
        }

        /// Stores `word` as loom does.
        #[inline]
        pub fn store(&self, word: u64, order: Ordering) {
            count(|steps| &mut steps.stores);
            self.0.store(word, order);
        }
    }

    impl core::ops::Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    /// As the fence of loom, and counted.
    #[inline]
    pub fn fence(order: Ordering) {
        count(|steps| &mut steps.fences);
        loom::sync::atomic::fence(order);
    }
}

/// An operation of one side on shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// A store that changed a word, or that releases.
    Store {
        /// The address in this process.
        address: usize,
        /// The value as it lies in memory.
        word: u64,
        /// Whether everything recorded earlier is ordered before this store.
        release: bool,
    },
    /// Orders everything recorded earlier before everything recorded later.
    Fence,
}

#[cfg(all(sim, not(loom)))]
mod recording {
    use std::cell::RefCell;

    use core::sync::atomic::Ordering;

    use super::Recorded;
    use crate::steps::count;

    std::thread_local! {
        static RECORDS: RefCell<Option<Vec<Recorded>>> = const { RefCell::new(None) };
    }

    /// Starts recording on this thread and discards earlier records.
    pub fn record() {
        RECORDS.with(|records| *records.borrow_mut() = Some(Vec::new()));
    }

    /// What this thread did since the last call; empty unless [`record`] was called.
    #[must_use]
    pub fn take() -> Vec<Recorded> {
        RECORDS.with(|records| records.borrow_mut().as_mut().map(core::mem::take)).unwrap_or_default()
    }

    fn push(record: Recorded) {
        RECORDS.with(|records| {
            if let Some(records) = records.borrow_mut().as_mut() {
                records.push(record);
            }
        });
    }

    /// A word whose stores are recorded.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(core::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// A word that holds `value`.
        #[must_use]
        pub const fn new(value: u64) -> Self {
            AtomicU64(core::sync::atomic::AtomicU64::new(value))
        }

        /// Loads the word. Loads are not recorded.
        #[inline]
        #[must_use]
        pub fn load(&self, order: Ordering) -> u64 {
            count(|steps| &mut steps.loads);
            self.0.load(order)
        }

        /// Stores `word` and records it, except for a relaxed store of the current value, which has nothing
        /// to carry.
        #[inline]
        pub fn store(&self, word: u64, order: Ordering) {
            count(|steps| &mut steps.stores);
            let release = order != Ordering::Relaxed;
            if release || self.0.load(Ordering::Relaxed) != word {
                push(Recorded::Store { address: core::ptr::from_ref(self).addr(), word, release });
            }
            self.0.store(word, order);
        }

        /// As the method of `core`; recorded as a releasing store.
        #[inline]
        pub fn swap(&self, word: u64, order: Ordering) -> u64 {
            count(|steps| &mut steps.read_modify_writes);
            push(Recorded::Store { address: core::ptr::from_ref(self).addr(), word, release: true });
            self.0.swap(word, order)
        }

        /// As the method of `core`; recorded as a releasing store.
        ///
        /// # Errors
        /// The current value when `change` returned `None`.
        pub fn fetch_update(
            &self,
            set_order: Ordering,
            fetch_order: Ordering,
            mut change: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            count(|steps| &mut steps.read_modify_writes);
            let mut word = None;
            let before = self.0.fetch_update(set_order, fetch_order, |value| {
                word = change(value);
                word
            })?;
            if let Some(word) = word {
                push(Recorded::Store { address: core::ptr::from_ref(self).addr(), word, release: true });
            }
            Ok(before)
        }

        /// Stores `word` as the peer's side of a simulated link does: not recorded.
        #[inline]
        pub fn arrive(&self, word: u64) {
            self.0.store(word, Ordering::Release);
        }
    }

    /// As the fence of `core`, and recorded.
    #[inline]
    pub fn fence(order: Ordering) {
        count(|steps| &mut steps.fences);
        push(Recorded::Fence);
        core::sync::atomic::fence(order);
    }
}
