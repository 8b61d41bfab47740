//! Emulated cache: one side's view of memory that is not coherent.
//!
//! The side works on its own copy of the memory, the cache, at full processor speed. Lines move between copy
//! and memory only through the operations of [`CacheMaintenance`](super::CacheMaintenance) and through random
//! evictions. The cache also keeps the contents that the two had in common at the last transfer, and so
//! recognises words that the side has stored since.
//!
//! A missing write-back leaves the store in the copy. A missing invalidation leaves the old value there,
//! forever if there are no evictions. With frequent evictions lines move at any time, which exposes stores in
//! the wrong order. Test with both.
//!
//! The emulation is stricter than a hardware cache in one respect: a line moves word by word, the last word
//! last, so another side can observe a partially written line. Only single words are atomic here.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::{CACHE_LINE_BYTES, Evictions, Flushed};
use crate::memory::SharedMemory;
use crate::random::{SPLIT_MIX_STEP, split_mix};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicBool, AtomicU64, Unobserved as Counter};

/// Number of words per line.
const LINE_WORDS: usize = CACHE_LINE_BYTES / 8;

/// Number of most recently used lines that are candidates for eviction. A real cache evicts any line, but
/// only lines in use matter.
const RECENT_LINES: usize = 16;

/// Cost of each operation on the modelled processor, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheCosts {
    /// Cost of writing a line back to memory.
    pub write_back_cycles: u64,
    /// Cost of invalidating a line.
    pub invalidate_cycles: u64,
    /// Cost of loading a line from memory after it was invalidated.
    pub load_cycles: u64,
}

impl CacheCosts {
    /// Message buffers of the Single-chip Cloud Computer, in core cycles: means over the 23 other tiles of
    /// the tables of Barrelfish Technical Note 005 (Peter, Roscoe, Baumann; a whole line written 84 to 119, a
    /// word read 63 to 102, `CL1INVMB` 1).
    pub const SCC: CacheCosts = CacheCosts { write_back_cycles: 98, invalidate_cycles: 1, load_cycles: 80 };
}

/// Operation counts of a cache, in lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Lines written back on request that held new stores.
    pub written_back: u64,
    /// Lines for which a write-back was requested although they held no new store.
    pub clean_write_backs: u64,
    /// Lines invalidated.
    pub invalidated: u64,
    /// Invalidated lines that held an old value: a load without the invalidation would have returned stale
    /// data.
    pub stale: u64,
    /// Lines that the cache evicted or loaded spontaneously.
    pub evicted: u64,
}

impl CacheCounters {
    /// Returns an estimate of the time that the operations took on a processor with these `costs`, in cycles.
    #[must_use]
    pub fn cycles(&self, costs: CacheCosts) -> u64 {
        self.written_back * costs.write_back_cycles
            + self.invalidated * (costs.invalidate_cycles + costs.load_cycles)
    }
}

/// Emulated cache of one side of a memory.
pub struct EmulatedCache {
    /// The memory that all sides share.
    memory: SharedMemory,
    /// Copy of the memory that this side reads and writes.
    cached: SharedMemory,
    lines: Box<[Line]>,
    evictions: Evictions,
    /// Operation counter; evictions are drawn from it.
    operations: Counter,
    recent: [Counter; RECENT_LINES],
    counters: [Counter; 5],
}

/// The state of a line.
struct Line {
    /// Lock held while the line moves: the side's threads and an evicting thread may use it concurrently.
    locked: AtomicBool,
    /// Words that cache and memory had in common at the last transfer.
    synced: [Counter; LINE_WORDS],
}

impl EmulatedCache {
    /// Returns a side's view of `memory` through its own cache. `memory` must start at a line boundary.
    #[must_use]
    pub fn view(memory: SharedMemory, evictions: Evictions) -> SharedMemory<Flushed> {
        let cached = SharedMemory::zeroed(memory.len_bytes());
        let lines: Vec<Line> = (0..cached.words().len().div_ceil(LINE_WORDS)).map(|_| Line::new()).collect();
        let cache = Arc::new(EmulatedCache {
            memory,
            cached: cached.clone(),
            lines: lines.into(),
            evictions,
            operations: Counter::new(0),
            recent: [const { Counter::new(0) }; RECENT_LINES],
            counters: [const { Counter::new(0) }; 5],
        });
        for line in 0..cache.lines.len() {
            cache.load_line(line);
        }
        Flushed::emulated(cached, cache)
    }

    /// Returns the operation counts so far.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        let [written_back, clean_write_backs, invalidated, stale, evicted] =
            self.counters.each_ref().map(|counter| counter.load(Relaxed));
        CacheCounters { written_back, clean_write_backs, invalidated, stale, evicted }
    }

    /// Moves a recently used line as an eviction does. Called by a thread that evicts while others work.
    pub fn evict_one(&self) {
        self.evict(self.operations.fetch_add(1, Relaxed));
    }

    pub(super) fn write_back(&self, words: &[AtomicU64]) {
        for line in self.lines_of(words) {
            self.record_use(line);
            let counter = usize::from(!self.with_line_locked(line, || self.write_back_line(line)));
            self.counters[counter].fetch_add(1, Relaxed);
        }
    }

    pub(super) fn invalidate(&self, words: &[AtomicU64]) {
        for line in self.lines_of(words) {
            self.record_use(line);
            let stale = self.with_line_locked(line, || {
                self.write_back_line(line);
                self.load_line(line)
            });
            self.counters[2].fetch_add(1, Relaxed);
            self.counters[3].fetch_add(stale.into(), Relaxed);
        }
    }

    /// Records that the lines of `words` are in use; may evict one of them.
    pub(super) fn touch(&self, words: &[AtomicU64]) {
        for line in self.lines_of(words) {
            self.record_use(line);
        }
    }

    /// Returns the lines that contain `words`, which must lie in the cached copy.
    fn lines_of(&self, words: &[AtomicU64]) -> Range<usize> {
        let start_bytes = words.as_ptr() as usize - self.cached.words().as_ptr() as usize;
        let end_bytes = start_bytes + size_of_val(words);
        start_bytes / CACHE_LINE_BYTES..end_bytes.div_ceil(CACHE_LINE_BYTES)
    }

    fn words_of(&self, line: usize) -> Range<usize> {
        line * LINE_WORDS..self.cached.words().len().min((line + 1) * LINE_WORDS)
    }

    fn record_use(&self, line: usize) {
        let operation = self.operations.fetch_add(1, Relaxed);
        self.recent[operation as usize % RECENT_LINES].store(line as u64, Relaxed);
        let Some(one_in) = self.evictions.one_in else { return };
        if mix(self.evictions.seed ^ operation).is_multiple_of(one_in.get().into()) {
            self.evict(operation);
        }
    }

    fn evict(&self, operation: u64) {
        let chosen = mix(self.evictions.seed.rotate_left(32) ^ operation) as usize % RECENT_LINES;
        let line = self.recent[chosen].load(Relaxed) as usize;
        self.with_line_locked(line, || {
            self.write_back_line(line);
            self.load_line(line);
        });
        self.counters[4].fetch_add(1, Relaxed);
    }

    /// Runs `operation` while no other thread of this side moves the line.
    fn with_line_locked<R>(&self, line: usize, operation: impl FnOnce() -> R) -> R {
        let locked = &self.lines[line].locked;
        while locked.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            crate::sync::spin_hint();
        }
        let result = operation();
        locked.store(false, Release);
        result
    }

    /// Writes the whole line to memory if it holds a new store. Returns whether it did.
    fn write_back_line(&self, line: usize) -> bool {
        let words = self.words_of(line);
        let (cached, synced) = (self.cached.words(), &self.lines[line].synced);
        let is_new = |index: usize| cached[index].load(Acquire) != synced[index % LINE_WORDS].load(Relaxed);
        if !words.clone().any(is_new) {
            return false;
        }
        for index in words {
            let word = cached[index].load(Acquire);
            self.memory.words()[index].store(word, Release);
            synced[index % LINE_WORDS].store(word, Relaxed);
        }
        true
    }

    /// Loads the line from memory, except words that hold a new store. Returns whether any word changed.
    fn load_line(&self, line: usize) -> bool {
        let (cached, synced) = (self.cached.words(), &self.lines[line].synced);
        let mut changed = false;
        // From the last word to the first: the control word is the last of its line, and the words before it
        // must be at least as new.
        for index in self.words_of(line).rev() {
            let word = self.memory.words()[index].load(Acquire);
            let before = synced[index % LINE_WORDS].load(Relaxed);
            // Fails if the side has stored to the word in the meantime.
            let replace = |now| (now == before).then_some(word);
            if word != before && cached[index].fetch_update(Release, Relaxed, replace).is_ok() {
                synced[index % LINE_WORDS].store(word, Relaxed);
                changed = true;
            }
        }
        changed
    }
}

impl Line {
    fn new() -> Self {
        Line { locked: AtomicBool::new(false), synced: [const { Counter::new(0) }; LINE_WORDS] }
    }
}

impl core::fmt::Debug for EmulatedCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EmulatedCache")
            .field("memory", &self.memory)
            .field("evictions", &self.evictions)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// Mixes one word with SplitMix64: each operation draws its own number, without generator state that threads
/// would have to share.
fn mix(word: u64) -> u64 {
    split_mix(word.wrapping_mul(SPLIT_MIX_STEP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheMaintenance, SharedWords};
    use core::num::NonZeroU32;

    const NEVER: Evictions = Evictions { seed: 1, one_in: None };

    fn views(evictions: Evictions) -> (SharedMemory, [SharedMemory<Flushed>; 2]) {
        let memory = SharedMemory::zeroed(4 * CACHE_LINE_BYTES);
        let views = [(); 2].map(|()| EmulatedCache::view(memory.clone(), evictions));
        (memory, views)
    }

    fn counters(view: &SharedMemory<Flushed>) -> CacheCounters {
        view.caches().cache().unwrap().counters()
    }

    #[test]
    fn store_is_visible_only_after_write_back_and_invalidation() {
        let (memory, [writer, reader]) = views(NEVER);
        writer.store_le(3, 7, Relaxed);
        assert_eq!(memory.load_le(3, Relaxed), 0);
        writer.write_back(3..4);
        assert_eq!((memory.load_le(3, Relaxed), reader.load_le(3, Relaxed)), (7, 0));
        reader.invalidate(3..4);
        assert_eq!(reader.load_le(3, Relaxed), 7);
        let counted = counters(&reader);
        assert_eq!((counted.invalidated, counted.stale), (1, 1));
        assert_eq!(counters(&writer).written_back, 1);
        assert_eq!(counted.cycles(CacheCosts::SCC), 81);
        let counted = CacheCounters { written_back: 2, invalidated: 3, ..counted };
        assert_eq!(counted.cycles(CacheCosts::SCC), 2 * 98 + 3 * 81);
    }

    #[test]
    fn line_without_a_new_store_is_clean() {
        let (_, [writer, reader]) = views(NEVER);
        (16..24).for_each(|index| writer.store_le(index, 100 + index as u64, Relaxed));
        (0..2).for_each(|_| writer.write_back(16..17));
        let counted = counters(&writer);
        assert_eq!((counted.written_back, counted.clean_write_backs), (1, 1));
        reader.invalidate(16..17);
        reader.write_back(16..17);
        let counted = counters(&reader);
        assert_eq!((counted.written_back, counted.clean_write_backs), (0, 1));
        assert_eq!((counted.invalidated, counted.stale), (1, 1));
        writer.store_through_le(16, 500, Relaxed);
        reader.invalidate(16..17);
        assert_eq!((reader.load_le(16, Relaxed), reader.load_le(17, Relaxed)), (500, 117));
    }

    #[test]
    fn a_line_is_evicted_on_request() {
        let (memory, [writer, _]) = views(NEVER);
        writer.store_le(0, 7, Relaxed);
        writer.caches().cache().unwrap().evict_one();
        assert_eq!((memory.load_le(0, Relaxed), counters(&writer).evicted), (7, 1));
    }

    #[test]
    fn eviction_numbers_are_those_of_split_mix() {
        let drawn = [1, 2, 1 << 63].map(mix);
        assert_eq!(drawn, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x25c2_6ea5_79ce_a98a]);
    }

    #[test]
    fn load_current_sees_what_another_side_wrote_back() {
        let (_, [writer, reader]) = views(NEVER);
        let (whole, reader) = (reader.clone(), SharedWords::<4, Flushed>::first_of(reader));
        writer.store_through_le(3, 0x0102_0304, Relaxed);
        writer.store_through_le(8, 0x0506, Relaxed);
        assert_eq!(whole.load_le(8, Relaxed), 0, "an old line");
        assert_eq!(whole.load_current_le(8, Relaxed), 0x0506);
        assert_eq!(reader.words()[3].load(Relaxed), 0, "an old line");
        assert_eq!(reader.load_current_le::<3>(Relaxed), 0x0102_0304);
        assert_eq!(reader.words()[3].load(Relaxed).to_le(), 0x0102_0304);
    }

    #[test]
    fn a_line_is_written_back_as_a_whole_and_overwrites_another_writer() {
        let (memory, [a, b]) = views(NEVER);
        a.store_through_le(0, 1, Relaxed);
        b.store_through_le(1, 2, Relaxed);
        assert_eq!((memory.load_le(0, Relaxed), memory.load_le(1, Relaxed)), (0, 2));
    }

    #[test]
    fn an_invalidation_keeps_what_was_not_written_back() {
        let (memory, [a, b]) = views(NEVER);
        a.store_le(0, 1, Relaxed);
        b.store_through_le(8, 2, Relaxed);
        a.invalidate(0..16);
        assert_eq!((a.load_le(0, Relaxed), a.load_le(8, Relaxed), memory.load_le(0, Relaxed)), (1, 2, 1));
    }

    #[test]
    fn a_range_covers_every_line_that_it_touches() {
        let (memory, [writer, reader]) = views(NEVER);
        (0..32).for_each(|index| writer.store_le(index, 5, Relaxed));
        writer.write_back(7..9);
        let written =
            |memory: &SharedMemory| (0..32).filter(|index| memory.load_le(*index, Relaxed) == 5).count();
        assert_eq!(written(&memory), 16);
        reader.invalidate(15..17);
        assert_eq!(reader.load_le(8, Relaxed), 5);
        assert_eq!(reader.load_le(0, Relaxed), 0, "its line was not invalidated");
        writer.write_back(0..0);
        assert_eq!(written(&memory), 16);
    }

    #[test]
    fn lines_in_use_are_evicted_between_stores() {
        let (memory, [writer, _]) = views(Evictions { seed: 3, one_in: NonZeroU32::new(2) });
        writer.store_le(0, 9, Relaxed);
        for _ in 0..200 {
            writer.caches().between_stores(&writer.words()[..1]);
        }
        assert_eq!(memory.load_le(0, Relaxed), 9);
        assert!(counters(&writer).evicted > 50);
        assert_eq!(counters(&writer).written_back, 0);
    }

    #[test]
    fn an_evicting_thread_loses_no_store() {
        let (memory, [writer, _]) = views(NEVER);
        let stop = AtomicBool::new(false);
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    writer.caches().cache().unwrap().evict_one();
                }
            });
            for round in 1..=rounds {
                writer.store_le(4, round, Relaxed);
                writer.write_back(4..5);
                assert_eq!(memory.load_le(4, Relaxed), round);
            }
            stop.store(true, Relaxed);
        });
        assert_eq!(writer.load_le(4, Relaxed), rounds);
    }
}
