//! Views: sets of members.

use alloc::collections::BTreeSet;

use crate::MemberId;

/// Set of members that one of them knows of.
///
/// Ids increase with each member that joins and are never reused. So an id that is not among the members, and
/// not above the highest, belongs to a member that is gone, and any two views have a common successor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// Highest id that any member has had.
    pub highest: MemberId,
    /// Ids of members that are not known to be gone.
    pub members: BTreeSet<MemberId>,
}

impl View {
    /// Creates the view of these members.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = MemberId>) -> View {
        let members: BTreeSet<MemberId> = members.into_iter().collect();
        View { highest: members.last().copied().unwrap_or(MemberId(0)), members }
    }

    /// Whether a member is known to be gone.
    #[must_use]
    pub fn is_gone(&self, member: MemberId) -> bool {
        member <= self.highest && !self.members.contains(&member)
    }

    /// Merges two views: all members of either, without those that are gone according to either.
    #[must_use]
    pub fn merged(&self, other: &View) -> View {
        let all = self.members.union(&other.members);
        View {
            highest: self.highest.max(other.highest),
            members: all
                .copied()
                .filter(|member| !self.is_gone(*member) && !other.is_gone(*member))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(highest: u64, members: &[u64]) -> View {
        View { highest: MemberId(highest), members: members.iter().copied().map(MemberId).collect() }
    }

    #[test]
    fn joins_and_deaths_are_merged() {
        let merged = view(3, &[1, 3]).merged(&view(4, &[1, 2, 3, 4]));
        assert_eq!(merged, view(4, &[1, 3, 4]));
        // 4 joined and died unseen by the first view; 5 is known to that view alone.
        let merged = view(5, &[1, 5]).merged(&view(4, &[1, 3, 4]));
        assert_eq!(merged, view(5, &[1, 5]));
        assert!(merged.is_gone(MemberId(4)) && !merged.is_gone(MemberId(6)));
    }

    #[test]
    fn the_order_of_merging_does_not_matter() {
        let views = [view(3, &[1, 3]), view(4, &[1, 2, 3, 4]), view(5, &[1, 5]), view(2, &[2])];
        for (a, b, c) in [(0, 1, 2), (1, 2, 3), (3, 0, 1)] {
            let [a, b, c] = [&views[a], &views[b], &views[c]];
            assert_eq!(a.merged(b), b.merged(a));
            assert_eq!(a.merged(b).merged(c), a.merged(&b.merged(c)));
            assert_eq!(a.merged(a), *a);
        }
    }
}
