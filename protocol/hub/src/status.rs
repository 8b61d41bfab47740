//! What a hub looks like from outside.

use alloc::vec::Vec;

use crate::{Description, Kind};

/// Requests of one priority that wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Waiting {
    /// Their priority, with what their clients inherited.
    pub priority: u8,
    /// How many.
    pub count: u32,
}

/// What a hub looks like.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// What it was declared as.
    pub description: Description,
    /// Items that can be taken: values, the bit of an event, the count of a semaphore, free blocks.
    pub depth: u32,
    /// Blocks that are held; 1 for a resource that is locked.
    pub held: u32,
    /// The domain that holds the oldest of them, as a number, and its fencing token.
    pub owner: Option<(u64, u64)>,
    /// Whether it was closed.
    pub closed: bool,
    /// Those that wait to put, the highest priority first.
    pub putters: Vec<Waiting>,
    /// Those that wait to get, the highest priority first.
    pub getters: Vec<Waiting>,
}

impl Status {
    /// The most priorities that are told for each side: the highest ones.
    pub const MAX_PRIORITIES: usize = 32;

    /// The priority that the owner of a resource inherits here, where it does.
    #[must_use]
    pub fn inherited(&self) -> Option<u8> {
        let Description { kind, inheritance, .. } = self.description;
        let inherits = kind == Kind::Resource && inheritance && self.owner.is_some();
        self.getters.iter().map(|waiting| waiting.priority).max().filter(|_| inherits)
    }
}
