//! Identifies which channel rang a doorbell that several channels share.
//!
//! A window has fewer doorbells than channels. Ends of channels without a doorbell of their own sleep on an
//! event counter that the monitor of their node signals; a doorbell that they all share wakes the monitor. To
//! let the monitor find the right channel, a side counts its rings in a word of its own in the channel's
//! memory before it rings. As everywhere in a window, each word has a single writer.
//!
//! No ring is lost: the count is stored before the doorbell is rung, and a monitor that acknowledges the
//! doorbell before it reads the counts finds every count whose ring it has acknowledged.
//!
//! # Groups
//! A monitor that reads the count of every channel takes time proportional to their number. In coherent
//! memory, a ringer also increments a word shared by up to [`GROUP_CHANNELS`] channels in the same direction,
//! and the monitor reads only the channels of groups whose word has changed: a tree of counts. Programs of
//! one node increment the word with an atomic operation of their own kernel; the other node only loads it. A
//! ringer that dies between its two counts has not rung, so no peer waits for it. In incoherent memory the
//! programs of a node would write one line through several caches, so there are no groups.

use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory};

use crate::layout::{Side, rung_line};

/// Counter of the doorbell rings of one side.
#[derive(Debug)]
pub struct RingCounter<C: CacheMaintenance = Coherent> {
    line: SharedMemory<C>,
    rings: u64,
}

impl<C: CacheMaintenance> RingCounter<C> {
    /// Creates the counter for `side` of the channel in `memory`, before its first ring.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is too short for the channel's header.
    pub fn new(memory: &SharedMemory<C>, side: Side) -> Result<Self, OutOfRange> {
        Ok(RingCounter { line: rung_line(memory, side)?, rings: 0 })
    }

    /// Counts a ring. Call it before each ring.
    pub fn count(&mut self) {
        self.rings = self.rings.wrapping_add(1);
        self.line.store_through_le(0, self.rings, Ordering::Release);
    }
}

/// Maximum number of channels that share a group's word.
pub const GROUP_CHANNELS: usize = 64;

/// Counter of the rings of all sides of a group on one node.
#[derive(Debug)]
pub struct GroupCounter {
    word: SharedMemory,
}

impl GroupCounter {
    /// Creates the counter for the group whose word is at `offset_bytes` of `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] when the word lies outside the memory.
    pub fn new(memory: &SharedMemory, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(GroupCounter { word: memory.slice(offset_bytes, 8)? })
    }

    /// Counts a ring. Call it after the side's own [`RingCounter::count`] and before the ring.
    pub fn count(&self) {
        let add = |word| Some(u64::from_le(word).wrapping_add(1).to_le());
        // Cannot fail: the closure never returns `None`.
        let _ = self.word.words()[0].fetch_update(Ordering::Release, Ordering::Relaxed, add);
    }
}

/// Detects whether one side, or a group, has rung.
#[derive(Debug)]
pub struct RingWatch {
    line: SharedMemory,
    seen: u64,
}

impl RingWatch {
    /// Watches `side` of the channel in `memory`, which must be zero.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is too short for the channel's header.
    pub fn new(memory: &SharedMemory, side: Side) -> Result<Self, OutOfRange> {
        Ok(RingWatch { line: rung_line(memory, side)?, seen: 0 })
    }

    /// Watches the word of a group at `offset_bytes` of `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] when the word lies outside the memory.
    pub fn of_group(memory: &SharedMemory, offset_bytes: usize) -> Result<Self, OutOfRange> {
        Ok(RingWatch { line: memory.slice(offset_bytes, 8)?, seen: 0 })
    }

    /// Whether the side, or any side of the group, has rung since the last call. Call it after acknowledging
    /// the doorbell. The word belongs to the other side: a wrong value causes a spurious or missing wake-up,
    /// and harms only the channel or the group.
    pub fn has_rung(&mut self) -> bool {
        let rings = self.line.load_le(0, Ordering::Acquire);
        core::mem::replace(&mut self.seen, rings) != rings
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::HEADER_BYTES;

    #[test]
    fn each_side_is_watched_by_itself() {
        let memory = SharedMemory::zeroed(HEADER_BYTES);
        let watch = |side| RingWatch::new(&memory, side).unwrap();
        let (mut a, mut b) = (watch(Side::A), watch(Side::B));
        assert!(!a.has_rung() && !b.has_rung());
        let mut counter = RingCounter::new(&memory, Side::A).unwrap();
        counter.count();
        assert!(a.has_rung() && !a.has_rung() && !b.has_rung());
        counter.count();
        counter.count();
        assert!(a.has_rung(), "several rings are one wake-up");
        assert!(!a.has_rung());
        let words: std::vec::Vec<u64> =
            (0..HEADER_BYTES / 8).map(|at| memory.load_le(at, Ordering::Relaxed)).collect();
        assert_eq!(words.iter().position(|word| *word != 0), Some(576 / 8), "beside the producer's word");
        assert_eq!(words.iter().filter(|word| **word != 0).count(), 1);
    }

    #[test]
    fn group_count_changes_with_each_of_its_sides() {
        let memory = SharedMemory::zeroed(64);
        let counters = [(); 2].map(|()| GroupCounter::new(&memory, 16).unwrap());
        let mut watch = RingWatch::of_group(&memory, 16).unwrap();
        assert!(!watch.has_rung());
        counters.iter().for_each(GroupCounter::count);
        assert_eq!(memory.load_le(2, Ordering::Relaxed), 2);
        assert!(watch.has_rung() && !watch.has_rung());
        counters[1].count();
        assert!(watch.has_rung());
        assert!(GroupCounter::new(&memory, 64).is_err() && RingWatch::of_group(&memory, 60).is_err());
    }

    #[test]
    fn memory_without_a_header_is_refused() {
        let memory = SharedMemory::zeroed(HEADER_BYTES / 2);
        assert!(RingCounter::new(&memory, Side::B).is_err() && RingWatch::new(&memory, Side::A).is_err());
    }
}
