//! Members of a job.

/// Maximum number of ranks that share pages.
pub const MAX_RANKS: u8 = 64;

/// Member of the job, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rank(pub u8);

impl core::fmt::Display for Rank {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "rank {}", self.0)
    }
}

/// Set of ranks, as bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ranks(pub u64);

impl Ranks {
    /// Empty set of ranks.
    pub const NONE: Ranks = Ranks(0);

    /// Returns the set of one rank.
    #[must_use]
    pub const fn of(rank: Rank) -> Ranks {
        if rank.0 < MAX_RANKS { Ranks(1 << rank.0) } else { Ranks::NONE }
    }

    /// Returns the set of ranks below `count`.
    #[must_use]
    pub const fn below(count: u8) -> Ranks {
        if count >= MAX_RANKS { Ranks(u64::MAX) } else { Ranks((1 << count) - 1) }
    }

    /// Whether `rank` is in the set.
    #[must_use]
    pub const fn contains(self, rank: Rank) -> bool {
        self.0 & Ranks::of(rank).0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of members of the set.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Adds a rank to the set.
    pub fn add(&mut self, rank: Rank) {
        self.0 |= Ranks::of(rank).0;
    }

    /// Removes a rank from the set.
    pub fn remove(&mut self, rank: Rank) {
        self.0 &= !Ranks::of(rank).0;
    }

    /// Returns the set without a rank.
    #[must_use]
    pub const fn without(self, rank: Rank) -> Ranks {
        Ranks(self.0 & !Ranks::of(rank).0)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Ranks) -> Ranks {
        Ranks(self.0 | other.0)
    }

    /// Returns the lowest rank in the set.
    #[must_use]
    pub fn first(self) -> Option<Rank> {
        (self.0 != 0).then(|| Rank(self.0.trailing_zeros() as u8))
    }

    /// Returns the first member after `rank`, in cyclic order; `rank` itself comes last.
    #[must_use]
    pub fn next_after(self, rank: Rank) -> Option<Rank> {
        let above = Ranks(self.0 & !Ranks::below(rank.0.saturating_add(1)).0);
        above.first().or(self.first())
    }

    /// Returns the members in order.
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        let mut left = self;
        core::iter::from_fn(move || {
            let first = left.first()?;
            left.remove(first);
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_ranks() {
        let mut set = Ranks::of(Rank(3)).union(Ranks::of(Rank(63)));
        assert!(set.contains(Rank(63)) && !set.contains(Rank(62)) && set.count() == 2);
        assert_eq!(set.next_after(Rank(3)), Some(Rank(63)));
        assert_eq!(set.next_after(Rank(63)), Some(Rank(3)));
        set.remove(Rank(63));
        assert_eq!((set.next_after(Rank(3)), set.first()), (Some(Rank(3)), Some(Rank(3))));
        assert_eq!(set.without(Rank(3)), Ranks::NONE);
        // Not a valid rank.
        set.add(Rank(64));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Rank(3)]);
        assert_eq!((Ranks::below(64).count(), Ranks::below(0).count()), (64, 0));
        assert!(Ranks::NONE.next_after(Rank(0)).is_none());
    }
}
