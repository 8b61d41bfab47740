//! Ids of capabilities, rights, and extents of regions.

use core::fmt;
use core::ops::{BitAnd, BitOr};

/// Id of a capability. Never reused while the machine is up. The number alone gives no access: only the
/// holder recorded in the machine's table can use it, so it may travel in any message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CapabilityId(pub u64);

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capability {}", self.0)
    }
}

/// Set of rights to memory or to a service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rights(u8);

impl Rights {
    /// Empty set of rights.
    pub const NONE: Rights = Rights(0);
    /// Right to map it for reading, or to copy from it.
    pub const READ: Rights = Rights(1);
    /// Right to map it for writing, or to copy to it.
    pub const WRITE: Rights = Rights(2);
    /// Right to grant capabilities to it to other domains.
    pub const GRANT: Rights = Rights(4);
    /// Right to open channels to a service.
    pub const CONNECT: Rights = Rights(8);
    /// Rights to read and write.
    pub const READ_WRITE: Rights = Rights(3);
    /// Rights to read, write and grant: all rights to memory.
    pub const ALL: Rights = Rights(7);

    /// Returns the rights as bits: 1 to read, 2 to write, 4 to grant, 8 to connect.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the rights for `bits`; `None` for unknown bits. The inverse of [`bits`](Self::bits).
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Rights> {
        if bits <= Rights::ALL.0 | Rights::CONNECT.0 { Some(Rights(bits)) } else { None }
    }

    /// Whether the set contains all of `other`.
    #[must_use]
    pub const fn contains(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

/// Formats the rights as `rwg`, with a dash for each missing right, followed by `c` for the right to connect.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (right, letter) in [(Rights::READ, "r"), (Rights::WRITE, "w"), (Rights::GRANT, "g")] {
            f.write_str(if self.contains(right) { letter } else { "-" })?;
        }
        if self.contains(Rights::CONNECT) { f.write_str("c") } else { Ok(()) }
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

/// Part of a region, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// Offset of the first byte.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

impl Extent {
    /// Creates the extent of `length_bytes` from `offset_bytes` on.
    #[must_use]
    pub const fn new(offset_bytes: u64, length_bytes: u64) -> Self {
        Extent { offset_bytes, length_bytes }
    }

    /// Returns the offset after the last byte; `None` on overflow.
    #[must_use]
    pub const fn end_bytes(self) -> Option<u64> {
        self.offset_bytes.checked_add(self.length_bytes)
    }

    /// Whether all of `other` lies inside.
    #[must_use]
    pub const fn contains(self, other: Extent) -> bool {
        match (self.end_bytes(), other.end_bytes()) {
            (Some(end), Some(other_end)) => other.offset_bytes >= self.offset_bytes && other_end <= end,
            _ => false,
        }
    }

    /// Whether they have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Extent) -> bool {
        match (self.end_bytes(), other.end_bytes()) {
            (Some(end), Some(other_end)) => {
                let begins_bytes = match self.offset_bytes < other.offset_bytes {
                    true => other.offset_bytes,
                    false => self.offset_bytes,
                };
                begins_bytes < end && begins_bytes < other_end
            }
            _ => false,
        }
    }

    /// Converts an extent `relative` to the start of this one to an extent of the same region. Returns `None`
    /// if it is empty or does not lie inside.
    #[must_use]
    pub fn part(self, relative: Extent) -> Option<Extent> {
        let offset_bytes = self.offset_bytes.checked_add(relative.offset_bytes)?;
        let part = Extent { offset_bytes, length_bytes: relative.length_bytes };
        (relative.length_bytes > 0 && self.contains(part)).then_some(part)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset_bytes, self.length_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_golden() {
        assert_eq!((Rights::ALL.bits(), Rights::READ.bits(), Rights::READ_WRITE.bits()), (7, 1, 3));
        assert_eq!((Rights::from_bits(7), Rights::from_bits(16)), (Some(Rights::ALL), None));
        assert_eq!(Rights::from_bits(12), Some(Rights::GRANT | Rights::CONNECT));
        assert_eq!((Rights::GRANT | Rights::CONNECT).to_string(), "--gc");
        assert_eq!((Rights::READ | Rights::GRANT).to_string(), "r-g");
    }

    #[test]
    fn extents_overlap_where_they_have_a_byte_in_common() {
        let of = |offset, length| Extent::new(offset, length);
        for (one, other, overlaps) in [
            (of(0, 4), of(4, 4), false),
            (of(0, 5), of(4, 4), true),
            (of(4, 4), of(0, 5), true),
            (of(0, 9), of(4, 1), true),
            (of(4, 1), of(0, 9), true),
            (of(0, 4), of(0, 0), false),
            (of(0, 4), of(2, 0), false),
            (of(u64::MAX, 1), of(0, 4), false),
        ] {
            assert_eq!(one.overlaps(other), overlaps, "{one} and {other}");
        }
    }

    #[test]
    fn parts_lie_inside_at_every_limit() {
        let whole = Extent::new(4096, 8192);
        for (offset, length, inside) in [
            (0, 8192, true),
            (0, 8193, false),
            (8191, 1, true),
            (8192, 0, false),
            (8192, 1, false),
            (0, 0, false),
            (u64::MAX, 1, false),
            (1, u64::MAX, false),
            (u64::MAX, u64::MAX, false),
        ] {
            let part = whole.part(Extent::new(offset, length));
            assert_eq!(part.is_some(), inside, "{offset}+{length}");
            if let Some(part) = part {
                assert_eq!(part, Extent::new(4096 + offset, length));
            }
        }
    }
}
