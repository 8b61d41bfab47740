//! Records every store to shared memory, in program order, for a simulator. Active only with `--cfg sim`.
//!
//! A simulated link applies the stores of one side to the other side's copy of the memory, so it must know
//! their order and the operations that ordered them. `start_recording` starts recording on this thread;
//! `take_records` returns the records.

#[cfg(loom)]
pub use counted::{AtomicU64, fence};
#[cfg(all(sim, not(loom)))]
pub use recording::{AtomicU64, fence, start_recording, take_records};

/// Words whose accesses are counted while a model checker observes them.
#[cfg(loom)]
mod counted {
    use loom::sync::atomic::Ordering;

    use crate::steps::count;

    /// Atomic word of loom with counted loads and stores ([`crate::steps`]). Other operations of loom's word
    /// are not counted.
    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// Creates a word with the value `value`.
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

    /// Executes loom's fence and counts it.
    #[inline]
    pub fn fence(order: Ordering) {
        count(|steps| &mut steps.fences);
        loom::sync::atomic::fence(order);
    }
}

/// An operation of one side on shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedAccess {
    /// A store that changed a word, or a release store.
    Store {
        /// Address of the word in this process.
        address: usize,
        /// The value in memory byte order.
        word: u64,
        /// Whether everything recorded earlier is ordered before this store.
        release: bool,
    },
    /// A fence: everything recorded earlier is ordered before everything recorded later.
    Fence,
}

#[cfg(all(sim, not(loom)))]
mod recording {
    use std::cell::RefCell;

    use core::sync::atomic::Ordering;

    use super::RecordedAccess;
    use crate::steps::count;

    std::thread_local! {
        static RECORDS: RefCell<Option<Vec<RecordedAccess>>> = const { RefCell::new(None) };
    }

    /// Starts recording on this thread and discards earlier records.
    pub fn start_recording() {
        RECORDS.with(|records| *records.borrow_mut() = Some(Vec::new()));
    }

    /// Returns the operations of this thread since the last call; empty unless [`start_recording`] was
    /// called.
    #[must_use]
    pub fn take_records() -> Vec<RecordedAccess> {
        RECORDS.with(|records| records.borrow_mut().as_mut().map(core::mem::take)).unwrap_or_default()
    }

    fn push(record: RecordedAccess) {
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
        /// Creates a word with the value `value`.
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

        /// Stores `word` and records the store, unless it is relaxed and does not change the value.
        #[inline]
        pub fn store(&self, word: u64, order: Ordering) {
            count(|steps| &mut steps.stores);
            let release = order != Ordering::Relaxed;
            if release || self.0.load(Ordering::Relaxed) != word {
                push(RecordedAccess::Store { address: core::ptr::from_ref(self).addr(), word, release });
            }
            self.0.store(word, order);
        }

        /// Swaps the word as in `core`; recorded as a release store.
        #[inline]
        pub fn swap(&self, word: u64, order: Ordering) -> u64 {
            count(|steps| &mut steps.read_modify_writes);
            push(RecordedAccess::Store { address: core::ptr::from_ref(self).addr(), word, release: true });
            self.0.swap(word, order)
        }

        /// Updates the word as in `core`; recorded as a release store.
        ///
        /// # Errors
        /// Returns the current value if `change` returned `None`.
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
                push(RecordedAccess::Store {
                    address: core::ptr::from_ref(self).addr(),
                    word,
                    release: true,
                });
            }
            Ok(before)
        }

        /// Applies a store that arrived from the peer over a simulated link; not recorded.
        #[inline]
        pub fn apply_peer_store(&self, word: u64) {
            self.0.store(word, Ordering::Release);
        }
    }

    /// Executes the fence of `core` and records it.
    #[inline]
    pub fn fence(order: Ordering) {
        count(|steps| &mut steps.fences);
        push(RecordedAccess::Fence);
        core::sync::atomic::fence(order);
    }
}
