//! Faulty caches, which tests of code for incoherent memory must detect.
//!
//! Also used by `protocol/onesided` and `models/rcce`.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};
use tombolo_base::sync::AtomicU64;
use tombolo_base::{CacheMaintenance, SharedMemory};

/// Fault of a mutant in one kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutation {
    /// No fault: the cache is correct.
    None,
    /// Stores stay in the cache.
    NoWriteBack,
    /// Loads return stale contents of the cache.
    NoInvalidate,
    /// Every other write-back is delayed by some operations, and happens after later ones.
    LateWriteBack,
}

/// Number of cache operations by which a late write-back is delayed.
const LATE_BY: u64 = 6;

#[derive(Default, Debug)]
struct Late {
    /// Number of operations so far.
    operations: u64,
    /// Pending write-backs: the operation at which each is due, and its words.
    pending: Vec<(u64, Range<usize>)>,
}

/// Operations of a cache, some of them faulty.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    inner: Flushed,
    mutation: Mutation,
    late: Arc<Mutex<Late>>,
    memory: SharedMemory<Flushed>,
}

impl Mutant {
    /// Creates a view of `memory` through such a cache.
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
