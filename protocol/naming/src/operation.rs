//! What is asked of a scope, and what it says: what the declarations of `interfaces/control/names.tbl` do by themselves.

use crate::names::{EventMask, Lifetime};

#[allow(clippy::derivable_impls, reason = "the declaration is written by the compiler of interfaces")]
impl Default for Lifetime {
    fn default() -> Self {
        Lifetime::Transient
    }
}

impl EventMask {
    /// Whatever happens to records.
    pub const RECORDS: EventMask = EventMask(3);

    /// Both.
    #[must_use]
    pub fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// Whether any of `other` is among them.
    #[must_use]
    pub fn has(self, other: EventMask) -> bool {
        self.0 & other.0 != 0
    }
}
