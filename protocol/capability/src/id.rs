//! What regions and capabilities are named by, and what a right is to.

use core::fmt;
use core::ops::{BitAnd, BitOr};

/// A capability of a machine. Never given out twice while the machine is up. It says nothing by itself: only its holder,
/// as the machine's table has it, can use it, so it may travel in any message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CapabilityId(pub u64);

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capability {}", self.0)
    }
}

/// What may be done with a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// To map it for reading, or have it copied from.
    pub const READ: Rights = Rights(1);
    /// To map it for writing, or have it copied to.
    pub const WRITE: Rights = Rights(2);
    /// To give others capabilities to it.
    pub const GRANT: Rights = Rights(4);
    /// To read and write.
    pub const READ_WRITE: Rights = Rights(3);
    /// Everything.
    pub const ALL: Rights = Rights(7);

    /// As bits: 1 to read, 2 to write, 4 to grant.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The reverse of [`bits`](Self::bits); `None` for bits that mean nothing.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Rights> {
        if bits <= Rights::ALL.0 { Some(Rights(bits)) } else { None }
    }

    /// Whether all of `other` are among these.
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

/// As in `rwg`, a dash for each that is not there.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (right, letter) in [(Rights::READ, "r"), (Rights::WRITE, "w"), (Rights::GRANT, "g")] {
            f.write_str(if self.contains(right) { letter } else { "-" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

/// A part of a region, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
}

impl Extent {
    /// The part of `length_bytes` from `offset_bytes` on.
    #[must_use]
    pub const fn new(offset_bytes: u64, length_bytes: u64) -> Self {
        Extent { offset_bytes, length_bytes }
    }

    /// The first byte after it; `None` where numbers end.
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

    /// A part that is counted from the start of this one, counted as this one is; `None` when it is empty or does not
    /// lie inside.
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
        assert_eq!((Rights::from_bits(7), Rights::from_bits(8)), (Some(Rights::ALL), None));
        assert_eq!((Rights::READ | Rights::GRANT).to_string(), "r-g");
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
