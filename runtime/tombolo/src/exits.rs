//! Exits of children: kept while a handle of the child exists, and queued for `next_exit`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use tombolo_base::DomainId;
use tombolo_control::Exit;

/// Maximum length of the queue; beyond it the oldest exits are dropped.
pub(crate) const MAX_WAITING: usize = 4096;

/// Exit of a child, set once it has ended.
pub(crate) type Ended = Arc<OnceLock<Exit>>;

/// Exits of a program's children.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    waiting: VecDeque<(DomainId, Exit)>,
    /// Children that have not ended, with the cells for their exits; the owners may have dropped these.
    watched: HashMap<DomainId, Weak<OnceLock<Exit>>>,
}

impl Exits {
    /// Records that a child has ended.
    pub(crate) fn push(&mut self, domain: DomainId, exit: Exit) {
        if let Some(ended) = self.watched.remove(&domain).and_then(|ended| ended.upgrade()) {
            // Ids are unique, so the cell was empty.
            let _ = ended.set(exit.clone());
        }
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((domain, exit));
    }

    /// Takes the next exit from the queue.
    pub(crate) fn next(&mut self) -> Option<(DomainId, Exit)> {
        self.waiting.pop_front()
    }

    /// Returns the cell for the exit of a child that was just started; it is set already if the child has
    /// ended.
    pub(crate) fn exit_cell(&mut self, domain: DomainId) -> Ended {
        let ended = Ended::default();
        match self.waiting.iter().find(|(waiting, _)| *waiting == domain) {
            Some((_, exit)) => {
                let _ = ended.set(exit.clone());
            }
            None => {
                self.watched.insert(domain, Arc::downgrade(&ended));
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::id;

    fn child(index: usize) -> DomainId {
        id(0x0001_0001_0000_0001 + index as u64)
    }

    fn exit(index: usize) -> Exit {
        Exit::Exited { status: index as u8 }
    }

    #[test]
    fn untaken_exits_are_bounded_held_ones_are_kept() {
        let mut exits = Exits::default();
        let in_hand = exits.exit_cell(child(0));
        for count in [MAX_WAITING - 1, MAX_WAITING, MAX_WAITING + 1] {
            let mut exits = Exits::default();
            (0..count).for_each(|index| exits.push(child(index), exit(index)));
            assert_eq!(exits.waiting.len(), count.min(MAX_WAITING));
            let first = count - count.min(MAX_WAITING);
            assert_eq!(exits.next(), Some((child(first), exit(first))), "in the order of their ends");
        }
        (0..3 * MAX_WAITING).for_each(|index| exits.push(child(index), exit(index)));
        assert_eq!(in_hand.get(), Some(&exit(0)), "it is in hand, wherever the line is");
        assert!(exits.watched.is_empty());
    }

    #[test]
    fn exit_before_its_child_handle_is_found() {
        let mut exits = Exits::default();
        exits.push(child(1), exit(1));
        assert_eq!(exits.exit_cell(child(1)).get(), Some(&exit(1)));
        assert!(exits.watched.is_empty());
        drop(exits.exit_cell(child(2)));
        exits.push(child(2), exit(2));
        assert!(exits.watched.is_empty(), "nothing is kept of a child without a handle");
    }
}
