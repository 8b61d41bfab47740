//! Tree along which the chunks of a source travel.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::MemberId;

/// Position of a member in a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    /// Member that it receives from; `None` for the root.
    pub(crate) parent: Option<MemberId>,
    /// Members that it forwards to.
    pub(crate) children: Vec<MemberId>,
}

/// Returns the position of `own` in the tree from `root` over `members`, each of which has up to `fan_out`
/// children. Members fill the tree level by level, in the order of their ids, starting at the root and
/// wrapping around. Every member computes the same tree.
///
/// Both `root` and `own` must be members.
pub(crate) fn position(
    members: &BTreeSet<MemberId>,
    root: MemberId,
    own: MemberId,
    fan_out: usize,
) -> Position {
    let count = members.len();
    let around: Vec<MemberId> = members.range(root..).chain(members.range(..root)).copied().collect();
    let index = around.iter().position(|member| *member == own).unwrap_or(0);
    let first = index.saturating_mul(fan_out).saturating_add(1).min(count);
    let last = first.saturating_add(fan_out).min(count);
    let parent = index.checked_sub(1).map(|before| around[before / fan_out.max(1)]);
    Position { parent, children: around[first..last].to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_reached_once() {
        for count in 1..20 {
            let members: BTreeSet<MemberId> = (0..count).map(|index| MemberId(index * 3 + 1)).collect();
            for fan_out in 1..8 {
                for root in &members {
                    let mut reached = alloc::vec![*root];
                    let mut next = 0;
                    while let Some(member) = reached.get(next).copied() {
                        let children = position(&members, *root, member, fan_out).children;
                        assert!(children.len() <= fan_out);
                        for child in &children {
                            assert_eq!(position(&members, *root, *child, fan_out).parent, Some(member));
                        }
                        reached.extend(children);
                        next += 1;
                    }
                    assert_eq!(position(&members, *root, *root, fan_out).parent, None);
                    let all: BTreeSet<MemberId> = reached.iter().copied().collect();
                    assert_eq!((all.len(), reached.len()), (members.len(), members.len()));
                }
            }
        }
    }

    #[test]
    fn tree_is_golden() {
        let members: BTreeSet<MemberId> = (0..7).map(MemberId).collect();
        let place = position(&members, MemberId(5), MemberId(6), 2);
        assert_eq!(place.parent, Some(MemberId(5)));
        assert_eq!(place.children, [MemberId(1), MemberId(2)]);
    }
}
