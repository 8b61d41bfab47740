//! Where in the memory of a job everything lies: `docs/specs/rcce.md`.

use tombolo_base::LINE_BYTES;

/// The smallest message buffer and the unit of its length, in bytes: two halves of whole cache lines.
pub const BUFFER_UNIT_BYTES: usize = 128;

/// The message buffer of the Single-chip Cloud Computer, in bytes for each rank.
pub const DEFAULT_BUFFER_BYTES: usize = 8 << 10;

/// The largest message buffer, in bytes.
pub const MAX_BUFFER_BYTES: usize = 16 << 20;

/// The most shared memory of a job, in bytes: 1 TiB, or with addresses of 32 bits a quarter of what these
/// reach.
pub const MAX_SHARED_BYTES: usize = if usize::BITS > 40 { (1_u64 << 40) as usize } else { usize::MAX / 4 };

/// The most ranks of a job, `RCCE_MAXNP` of the header.
pub const MAX_RANKS: usize = 256;

/// Which of two independent sets of flags and staging buffers a message takes, so that messages of
/// collectives do not meet those of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneKind {
    /// Send and receive.
    Messages,
    /// Broadcast and reduce.
    Collectives,
}

/// The layout of a job's memory: an area for each rank, then the memory that `RCCE_shmalloc` gives out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Ranks of the job.
    pub ranks: usize,
    /// The message buffer of each rank, and each of its two staging buffers, in bytes.
    pub buffer_bytes: usize,
    /// Memory for `RCCE_shmalloc`, in bytes.
    pub shared_bytes: usize,
}

impl Layout {
    /// Whether all numbers are in their ranges; what comes from another rank is checked by this.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (1..=MAX_RANKS).contains(&self.ranks)
            && (BUFFER_UNIT_BYTES..=MAX_BUFFER_BYTES).contains(&self.buffer_bytes)
            && self.buffer_bytes.is_multiple_of(BUFFER_UNIT_BYTES)
            && self.shared_bytes.is_multiple_of(LINE_BYTES)
            && self.shared_bytes <= MAX_SHARED_BYTES
    }

    /// The memory of a whole job, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.shared() + self.shared_bytes
    }

    /// The memory that `RCCE_shmalloc` gives out.
    #[must_use]
    pub fn shared(&self) -> usize {
        self.ranks * self.area_bytes()
    }

    /// The message buffer of a rank, which `RCCE_malloc` gives out.
    #[must_use]
    pub fn buffer(&self, rank: usize) -> usize {
        self.area(rank) + self.lines_bytes() + 2 * self.buffer_bytes
    }

    /// The staging buffer of a rank, from which others get its messages.
    #[must_use]
    pub fn staging(&self, lane: LaneKind, rank: usize) -> usize {
        self.area(rank) + self.lines_bytes() + lane as usize * self.buffer_bytes
    }

    /// The flag by which `from` says that a piece of a message for `to` is there. It lies with its reader.
    #[must_use]
    pub fn sent(&self, lane: LaneKind, from: usize, to: usize) -> usize {
        self.line(to, 2 * lane as usize, from)
    }

    /// The flag by which `to` says that it has taken a piece of a message of `from`.
    #[must_use]
    pub fn taken(&self, lane: LaneKind, from: usize, to: usize) -> usize {
        self.line(from, 2 * lane as usize + 1, to)
    }

    /// The flag by which `from` says that it is in a barrier.
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

    /// Flags of five kinds from every rank.
    fn lines_bytes(&self) -> usize {
        5 * self.ranks * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaneKind::{Collectives, Messages};

    #[test]
    fn no_two_things_overlap_and_all_is_used() {
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
    fn the_limits_of_a_layout() {
        let valid = Layout { ranks: 48, buffer_bytes: 8192, shared_bytes: 0 };
        assert!(valid.is_valid());
        for (ranks, buffer_bytes, shared_bytes) in
            [(0, 8192, 0), (257, 8192, 0), (2, 0, 0), (2, 8200, 0), (2, 32 << 20, 0), (2, 8192, 100)]
        {
            assert!(!Layout { ranks, buffer_bytes, shared_bytes }.is_valid(), "{ranks} {buffer_bytes}");
        }
    }
}
