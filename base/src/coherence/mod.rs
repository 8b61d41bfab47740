//! What it takes for a store to reach the other side of a memory.
//!
//! Processors of one kernel keep their caches coherent: a store becomes visible without further action.
//! Across PCIe without snooping, CXL without back-invalidation, or between microcontrollers and the caches of
//! a host, it does not. There the writer must write its cache lines back, and the reader must invalidate its
//! own before it loads. [`CacheMaintenance`] is that difference as a parameter: what is written for it
//! compiles to nothing extra for [`Coherent`] memory, the default everywhere.
//!
//! What holds on memory of either kind, and is all that code above relies on:
//! - An aligned word of eight bytes is read and written whole.
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

/// The unit in which memory that is not coherent moves, in bytes: the cache line of x86-64 and of most Arm
/// and RISC-V processors. Caches with longer lines need [`LINE_BYTES`](crate::LINE_BYTES) between writers,
/// which layouts keep anyway.
pub const CACHE_LINE_BYTES: usize = 64;

/// How the caches of those that share a memory are kept consistent.
pub trait CacheMaintenance: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Whether stores reach other sides, and theirs this one, without further action. The operations then do
    /// nothing, and code can omit what only prepares them.
    const COHERENT: bool;

    /// Writes back the lines of `words`: when this returns, another side that invalidates them sees every
    /// store of this thread to them.
    fn write_back(&self, words: &[AtomicU64]);

    /// Invalidates the lines of `words`: later loads see everything that other sides wrote back before.
    ///
    /// Unwritten stores of this side to those lines are written back first.
    fn invalidate(&self, words: &[AtomicU64]);

    /// Called between two stores to `words` whose order matters if the line is evicted between them. Only an
    /// emulated cache does something here: it may evict.
    #[inline(always)]
    fn between_stores(&self, words: &[AtomicU64]) {
        let _ = words;
    }
}

/// Memory of one kernel, or of a bus that snoops: every operation is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coherent;

impl CacheMaintenance for Coherent {
    const COHERENT: bool = true;

    #[inline(always)]
    fn write_back(&self, _words: &[AtomicU64]) {}

    #[inline(always)]
    fn invalidate(&self, _words: &[AtomicU64]) {}
}

/// By what means one side keeps its view of a memory that is not coherent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caches {
    /// The processor's caches and the instructions for them.
    Processor,
    /// An emulated cache for each mapping.
    Emulated(Evictions),
}

/// When the cache moves lines by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evictions {
    /// Chooses which lines move, and when.
    pub seed: u64,
    /// At one in this many operations on average a line moves; never if `None`.
    pub one_in: Option<NonZeroU32>,
}
