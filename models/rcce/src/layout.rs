//! Layout of a job's memory, as specified in `docs/specs/rcce.md`.

use tombolo_base::LINE_BYTES;

/// Minimum length of a message buffer and granularity of its length, in bytes: two halves of whole cache
/// lines.
pub const BUFFER_UNIT_BYTES: usize = 128;

/// Length of a rank's message buffer on the Single-chip Cloud Computer, in bytes.
pub const DEFAULT_BUFFER_BYTES: usize = 8 << 10;

/// Maximum length of a message buffer, in bytes.
pub const MAX_BUFFER_BYTES: usize = 16 << 20;

/// Maximum shared memory of a job, in bytes: 1 TiB, or a quarter of a 32-bit address space.
pub const MAX_SHARED_BYTES: usize = if usize::BITS > 40 { (1_u64 << 40) as usize } else { usize::MAX / 4 };

/// Maximum number of ranks of a job, `RCCE_MAXNP` in the header.
pub const MAX_RANKS: usize = 256;

/// One of two independent sets of flags and staging buffers, which separate messages of collectives from
/// those of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneKind {
    /// Send and receive.
    Messages,
    /// Broadcast and reduce.
    Collectives,
}

/// The layout of a job's memory: an area for each rank, then the memory for `RCCE_shmalloc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of ranks of the job.
    pub ranks: usize,
    /// Length of each rank's message buffer, and of each of its two staging buffers, in bytes.
    pub buffer_bytes: usize,
    /// Memory for `RCCE_shmalloc`, in bytes.
    pub shared_bytes: usize,
}

impl Layout {
    /// Returns whether all numbers are in range. Validates layouts received from other ranks.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (1..=MAX_RANKS).contains(&self.ranks)
            && (BUFFER_UNIT_BYTES..=MAX_BUFFER_BYTES).contains(&self.buffer_bytes)
            && self.buffer_bytes.is_multiple_of(BUFFER_UNIT_BYTES)
            && self.shared_bytes.is_multiple_of(LINE_BYTES)
            && self.shared_bytes <= MAX_SHARED_BYTES
    }

    /// Returns the length of the whole memory, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.shared() + self.shared_bytes
    }

    /// Returns the offset of the memory for `RCCE_shmalloc`.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.ranks * self.area_bytes()
    }

    /// Returns the offset of a rank's message buffer, which `RCCE_malloc` allocates from.
    #[must_use]
    pub fn buffer(&self, rank: usize) -> usize {
        self.area(rank) + self.lines_bytes() + 2 * self.buffer_bytes
    }

    /// Returns the offset of a rank's staging buffer, from which others get its messages.
    #[must_use]
    pub fn staging(&self, lane: LaneKind, rank: usize) -> usize {
        self.area(rank) + self.lines_bytes() + lane as usize * self.buffer_bytes
    }

    /// Returns the offset of the flag with which `from` signals a piece of a message for `to`. It lies in the
    /// area of its reader.
    #[must_use]
    pub fn sent(&self, lane: LaneKind, from: usize, to: usize) -> usize {
        self.line(to, 2 * lane as usize, from)
    }

    /// Returns the offset of the flag with which `to` acknowledges a piece of a message from `from`.
    #[must_use]
    pub fn taken(&self, lane: LaneKind, from: usize, to: usize) -> usize {
        self.line(from, 2 * lane as usize + 1, to)
    }

    /// Returns the offset of the flag with which `from` signals `to` in a barrier.
    #[must_use]
    pub fn signal(&self, from: usize, to: usize) -> usize {
        self.line(to, 4, from)
    }

    fn line(&self, owner: usize, kind: usize, writer: usize) -> usize {
        self.area(owner) + (kind * self.ranks + writer) * LINE_BYTES
    }

    fn area(&self, rank: usize) -> usize {
        rank * self.area_bytes()
    }

    fn area_bytes(&self) -> usize {
        self.lines_bytes() + 3 * self.buffer_bytes
    }

    /// Returns the length of a rank's flags: five kinds, one line per kind and other rank.
    fn lines_bytes(&self) -> usize {
        5 * self.ranks * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneKind::{Collectives, Messages};

    #[test]
    fn layout_has_no_overlaps_or_gaps() {
        let layout = Layout { ranks: 3, buffer_bytes: 256, shared_bytes: 1024 };
        let mut all = vec![(layout.shared(), layout.shared_bytes)];
        for rank in 0..3 {
            all.push((layout.buffer(rank), 256));
            for lane in [Messages, Collectives] {
                all.push((layout.staging(lane, rank), 256));
                for other in 0..3 {
                    all.push((layout.sent(lane, rank, other), LINE_BYTES));
                    all.push((layout.taken(lane, rank, other), LINE_BYTES));
                }
            }
            all.extend((0..3).map(|other| (layout.signal(rank, other), LINE_BYTES)));
        }
        all.sort_unstable();
        let mut end = 0;
        for (start, length) in all {
            assert_eq!(start, end);
            end = start + length;
        }
        assert_eq!(end, layout.total_bytes());
    }

    #[test]
    fn layout_limits() {
        let valid = Layout { ranks: 48, buffer_bytes: 8192, shared_bytes: 0 };
        assert!(valid.is_valid());
        for (ranks, buffer_bytes, shared_bytes) in
            [(0, 8192, 0), (257, 8192, 0), (2, 0, 0), (2, 8200, 0), (2, 32 << 20, 0), (2, 8192, 100)]
        {
            assert!(!Layout { ranks, buffer_bytes, shared_bytes }.is_valid(), "{ranks} {buffer_bytes}");
        }
    }
}
