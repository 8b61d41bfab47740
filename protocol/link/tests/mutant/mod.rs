//! Caches that make mistakes: for tests of what works in memory that is not coherent, which must notice them.
//!
//! Also used by `protocol/onesided` and `models/rcce`.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};
use tombolo_base::sync::AtomicU64;
use tombolo_base::{CacheMaintenance, SharedMemory};

/// What a mutant does with a kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutation {
    /// Nothing: the cache is right.
    None,
    /// Stores stay in the cache.
    NoWriteBack,
    /// Loads find what the cache holds.
    NoInvalidate,
    /// Every other write-back takes place some operations later, after others that follow it.
    LateWriteBack,
}

/// After how many operations of the cache a late write-back takes place.
const LATE_BY: u64 = 6;

#[derive(Default, Debug)]
struct Late {
    /// Operations so far.
    operations: u64,
    /// At which operation the write-back of which words is due.
    pending: Vec<(u64, Range<usize>)>,
}

/// The operations of a cache, some of them wrong.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    inner: Flushed,
    mutation: Mutation,
    late: Arc<Mutex<Late>>,
    memory: SharedMemory<Flushed>,
}

impl Mutant {
    /// A view of `memory` by such a cache.
    pub(crate) fn view(
        memory: &SharedMemory,
        evictions: Evictions,
        mutation: Mutation,
    ) -> SharedMemory<Mutant> {
        let view = EmulatedCache::view(memory.clone(), evictions);
        let mutant =
            Mutant { inner: view.caches().clone(), mutation, late: Arc::default(), memory: view.clone() };
        view.with_caches(mutant)
    }

    /// Counts an operation; performs the write-backs that are due.
    fn count(&self) -> u64 {
        let mut late = self.late.lock().unwrap();
        let Late { operations, pending } = &mut *late;
        *operations += 1;
        pending.retain(|(due, words)| {
            let is_due = due <= operations;
            if is_due {
                self.inner.write_back(&self.memory.words()[words.clone()]);
            }
            !is_due
        });
        *operations
    }

    fn write_back_later(&self, words: &[AtomicU64], due: u64) {
        let first = (words.as_ptr() as usize - self.memory.words().as_ptr() as usize) / 8;
        self.late.lock().unwrap().pending.push((due, first..first + words.len()));
    }
}

impl CacheMaintenance for Mutant {
    const COHERENT: bool = false;

    fn write_back(&self, words: &[AtomicU64]) {
        let operation = self.count();
        match self.mutation {
            Mutation::NoWriteBack => {}
            Mutation::LateWriteBack if operation.is_multiple_of(2) => {
                self.write_back_later(words, operation + LATE_BY);
            }
            _ => self.inner.write_back(words),
        }
    }

    fn invalidate(&self, words: &[AtomicU64]) {
        self.count();
        if self.mutation != Mutation::NoInvalidate {
            self.inner.invalidate(words);
        }
    }

    fn between_stores(&self, words: &[AtomicU64]) {
        self.inner.between_stores(words);
    }
}
