//! Cache maintenance: the steps that make a store visible to the other side of a memory.
//!
//! Processors of one kernel keep their caches coherent: a store becomes visible without further action.
//! Across PCIe without snooping, CXL without back-invalidation, or between microcontrollers and the caches of
//! a host, it does not. There the writer must write its cache lines back, and the reader must invalidate its
//! own before it loads. [`CacheMaintenance`] makes this difference a type parameter: for [`Coherent`] memory,
//! the default everywhere, the operations compile to nothing.
//!
//! Guarantees of both kinds of memory, which all code above relies on:
//! - An aligned word of eight bytes is read and written atomically.
//! - A line, [`CACHE_LINE_BYTES`] at a multiple of that, is written back as a whole, and overwrites what
//!   another side wrote to it meanwhile. So a line has one writer at a time.
//! - A cache may write a line back, or load it, at any time and in any order without being asked.

#[cfg(all(feature = "alloc", not(loom)))]
mod emulated;
#[cfg(all(feature = "alloc", not(loom)))]
mod flushed;
#[cfg(not(loom))]
mod hardware;

use core::num::NonZeroU32;

use crate::sync::AtomicU64;

#[cfg(all(feature = "alloc", not(loom)))]
pub use emulated::{CacheCosts, CacheCounters, EmulatedCache};
#[cfg(all(feature = "alloc", not(loom)))]
pub use flushed::{Flushed, NoCacheInstructions};
#[cfg(not(loom))]
pub use hardware::CacheInstructions;

/// Transfer unit of memory that is not coherent, in bytes: the cache line of x86-64 and of most Arm and
/// RISC-V processors. Caches with longer lines need [`LINE_BYTES`](crate::LINE_BYTES) between writers, which
/// layouts keep anyway.
pub const CACHE_LINE_BYTES: usize = 64;

/// Method of keeping the caches of the sides of a memory consistent.
pub trait CacheMaintenance: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Whether stores become visible in both directions without further action. If so, the operations do
    /// nothing, and callers can skip work that only prepares them.
    const COHERENT: bool;

    /// Writes back the lines of `words`. On return, every store of this thread to them is visible to another
    /// side that invalidates the lines.
    fn write_back(&self, words: &[AtomicU64]);

    /// Invalidates the lines of `words`: later loads see everything that other sides wrote back before.
    ///
    /// Dirty lines of this side are written back first.
    fn invalidate(&self, words: &[AtomicU64]);

    /// Marks a point between two stores to `words` whose order matters if the line is evicted in between.
    /// Only an emulated cache implements it: it may evict here.
    #[inline(always)]
    fn between_stores(&self, words: &[AtomicU64]) {
        let _ = words;
    }
}

/// Memory of one kernel, or on a snooping bus: every operation is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coherent;

impl CacheMaintenance for Coherent {
    const COHERENT: bool = true;

    #[inline(always)]
    fn write_back(&self, _words: &[AtomicU64]) {}

    #[inline(always)]
    fn invalidate(&self, _words: &[AtomicU64]) {}
}

/// Caches between a side and memory that is not coherent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caches {
    /// The processor's caches, maintained by its cache instructions.
    Processor,
    /// A separate emulated cache for each mapping.
    Emulated(Evictions),
}

/// Schedule of the evictions of an emulated cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evictions {
    /// Seed of the choice of lines and times.
    pub seed: u64,
    /// Mean number of operations per eviction; `None` disables evictions.
    pub one_in: Option<NonZeroU32>,
}
