//! Status of a hub, as seen from outside.

use alloc::vec::Vec;

use crate::{Description, Kind};

/// Number of waiting requests of one priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Waiting {
    /// Priority, including inherited priority.
    pub priority: u8,
    /// Number of requests.
    pub count: u32,
}

/// Status of a hub.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// Description that it was declared with.
    pub description: Description,
    /// Number of items that can be taken: values, the bit of an event, the count of a semaphore, free blocks.
    pub depth: u32,
    /// Number of blocks that are held; 1 for a locked resource.
    pub held: u32,
    /// Domain that holds the oldest of them, as a number, and its fencing token.
    pub owner: Option<(u64, u64)>,
    /// Whether the hub was closed.
    pub closed: bool,
    /// Waiting putters, the highest priority first.
    pub putters: Vec<Waiting>,
    /// Waiting getters, the highest priority first.
    pub getters: Vec<Waiting>,
}

impl Status {
    /// Maximum number of priorities listed for each side: the highest ones.
    pub const MAX_PRIORITIES: usize = 32;

    /// Returns the priority that the owner of a resource inherits here, if inheritance is on.
    #[must_use]
    pub fn inherited(&self) -> Option<u8> {
        let Description { kind, inheritance, .. } = self.description;
        let inherits = kind == Kind::Resource && inheritance && self.owner.is_some();
        self.getters.iter().map(|waiting| waiting.priority).max().filter(|_| inherits)
    }
}
