//! Additions to the generated types of `interfaces/control/names.tbl`.

use crate::names::{EventMask, Lifetime};

#[allow(clippy::derivable_impls, reason = "the declaration is written by the compiler of interfaces")]
impl Default for Lifetime {
    fn default() -> Self {
        Lifetime::Transient
    }
}

impl EventMask {
    /// All events of records: set and deleted.
    pub const RECORDS: EventMask = EventMask(3);

    /// Returns the union of both masks.
    #[must_use]
    pub fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// Whether the masks have an event in common.
    #[must_use]
    pub fn has(self, other: EventMask) -> bool {
        self.0 & other.0 != 0
    }
}
