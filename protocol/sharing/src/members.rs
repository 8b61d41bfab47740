//! Ranks that take part in collectives, and their tree.
//!
//! The tree is binomial over the places of members, with rank 0 at its root. The parent of a place is its
//! number without the lowest set bit, and the subtree of a place consists of the places from itself on, as
//! many as that bit's value. So a reduction combines values in the order of ranks.
//!
//! When a rank has ended, the survivors ask to continue without it, and rank 0 decides ([`Members::decide`]).
//! A single rank decides for all, so they agree; and since rank 0 owns the memory of a job, its death ends
//! the job anyway.

use tombolo_directory::{Rank, Ranks};

/// Ranks that take part in collectives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Members(Ranks);

fn lowest_bit(place: u32) -> u32 {
    if place == 0 { 1 << 31 } else { place & place.wrapping_neg() }
}

impl Members {
    /// Creates the members from a set that contains rank 0.
    #[must_use]
    pub fn new(ranks: Ranks) -> Members {
        Members(ranks)
    }

    /// Returns the members as a set.
    #[must_use]
    pub fn ranks(self) -> Ranks {
        self.0
    }

    /// Returns the place of a rank among the members.
    fn place(self, rank: Rank) -> Option<u32> {
        self.0.contains(rank).then(|| Ranks(self.0.0 & Ranks::below(rank.0).0).count())
    }

    fn rank_at(self, place: u32) -> Option<Rank> {
        self.0.iter().nth(place as usize)
    }

    /// Returns the parent of a rank; `None` for rank 0.
    #[must_use]
    pub fn parent(self, rank: Rank) -> Option<Rank> {
        let place = self.place(rank)?;
        if place == 0 { None } else { self.rank_at(place & (place - 1)) }
    }

    /// Returns the children of a rank, in order.
    pub fn children(self, rank: Rank) -> impl Iterator<Item = Rank> {
        let place = self.place(rank);
        let below = place.map_or(0, lowest_bit);
        (0..31)
            .map(|bit| 1_u32 << bit)
            .take_while(move |bit| *bit < below)
            .map_while(move |bit| self.rank_at(place? + bit))
    }

    /// Whether a member is `top` or in its subtree.
    #[must_use]
    pub fn is_below(self, rank: Rank, top: Rank) -> bool {
        match (self.place(rank), self.place(top)) {
            (Some(place), Some(top)) => place >= top && place - top < lowest_bit(top),
            _ => false,
        }
    }

    /// Decides which members continue without the ranks that have ended: all others, once each of them has
    /// asked.
    ///
    /// # Errors
    /// A member that has neither ended nor asked, and must be waited for, because it could be in a
    /// collective.
    pub fn decide(self, gone: Ranks, asked: Ranks) -> Result<Members, Rank> {
        let left = Ranks(self.0.0 & !gone.0);
        match Ranks(left.0 & !asked.0).first() {
            Some(rank) => Err(rank),
            None => Ok(Members(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn every_member_is_below_one_child_of_each_member_above_it() {
        let sets = (1..=64).map(Ranks::below).chain([0b1, 0b11_0101, 0xfff0_0000_1111_0001].map(Ranks));
        for ranks in sets {
            let members = Members::new(ranks);
            for rank in ranks.iter() {
                let children: Vec<Rank> = members.children(rank).collect();
                assert!(children.iter().all(|child| members.parent(*child) == Some(rank)));
                for other in ranks.iter() {
                    let above = children.iter().filter(|child| members.is_below(other, **child)).count();
                    let is_below = other != rank && members.is_below(other, rank);
                    assert_eq!(above, usize::from(is_below), "{other:?} below {rank:?} of {ranks:?}");
                }
                // Checks the order of ranks: the subtree of the first child starts right after the rank.
                let below: Vec<Rank> = children
                    .iter()
                    .flat_map(|child| ranks.iter().filter(|rank| members.is_below(*rank, *child)))
                    .collect();
                let next = ranks.iter().skip_while(|other| *other != rank).skip(1);
                assert_eq!(below, next.take(below.len()).collect::<Vec<_>>());
            }
            assert!(ranks.iter().all(|rank| members.is_below(rank, Rank(0))));
        }
    }

    #[test]
    fn non_member_has_no_place() {
        let members = Members::new(Ranks(0b101));
        assert_eq!(members.parent(Rank(1)), None);
        assert_eq!(members.children(Rank(1)).count(), 0);
        assert!(!members.is_below(Rank(1), Rank(0)));
    }

    #[test]
    fn survivors_continue_once_all_have_asked() {
        let members = Members::new(Ranks::below(4));
        let gone = Ranks::of(Rank(2));
        assert_eq!(members.decide(gone, Ranks(0b0001)), Err(Rank(1)));
        assert_eq!(members.decide(gone, Ranks(0b0011)), Err(Rank(3)));
        let left = members.decide(gone, Ranks(0b1011)).unwrap();
        assert_eq!(left.ranks(), Ranks(0b1011));
        // A rank that asked and then died is not waited for, and one that ended before does not become a
        // member again.
        assert_eq!(left.decide(Ranks(0b1100), Ranks(0b0011)).unwrap().ranks(), Ranks(0b0011));
    }
}
