//! Consistency controllers: the lines through which a rank learns that its copy of an object is stale.

use core::ops::Range;

use crate::layout::Layout;

/// Method by which ranks learn that an object was written. A controller has no state of its own: it selects
/// lines of the object, whose first word is a version that only increases.
///
/// Lines are numbered as in [`Layout::line`]. A writer raises lines while it has exclusive access to the
/// object, and a rank reads its line while it has the object, so that no line is written and read at the same
/// time.
pub trait Controller {
    /// Returns the line from which `rank` reads the version of the object.
    fn version_line(&self, layout: &Layout, rank: usize) -> usize;

    /// Returns the lines that a writer raises after it acquired the object.
    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize>;

    /// Returns the lines that a writer raises after it has published its writes; `modified` if it wrote
    /// anything.
    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize>;
}

/// BC: a writer notifies every rank when it releases the object. A rank reads a line of its own, which is
/// near it; a write costs a store for each rank.
///
/// TACO-MESH sends the invalidation along a tree of handlers that interrupt ranks. Here no rank is
/// interrupted, and the writer stores the lines of all ranks itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Broadcast;

impl Controller for Broadcast {
    fn version_line(&self, layout: &Layout, rank: usize) -> usize {
        layout.news().start + rank
    }

    fn raised_at_acquire(&self, _layout: &Layout) -> Range<usize> {
        0..0
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        if modified { layout.news() } else { 0..0 }
    }
}

/// OV: like [`Broadcast`], but a writer notifies when it acquires the object, so that the stores overlap with
/// its work and the release is short. It notifies even if nothing is written in the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Overlapped;

impl Controller for Overlapped {
    fn version_line(&self, layout: &Layout, rank: usize) -> usize {
        layout.news().start + rank
    }

    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize> {
        layout.news()
    }

    fn raised_at_release(&self, _layout: &Layout, _modified: bool) -> Range<usize> {
        0..0
    }
}

/// TS: a single version for all, which a writer raises when it releases the object and every rank compares. A
/// write costs one store; every acquisition loads a line that all ranks share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timestamp;

impl Controller for Timestamp {
    fn version_line(&self, layout: &Layout, _rank: usize) -> usize {
        layout.state()
    }

    fn raised_at_acquire(&self, _layout: &Layout) -> Range<usize> {
        0..0
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        if modified { layout.state()..layout.state() + 1 } else { 0..0 }
    }
}

/// Consistency controller, as recorded in the header of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Consistency {
    /// [`Broadcast`].
    Broadcast,
    /// [`Overlapped`].
    Overlapped,
    /// [`Timestamp`].
    Timestamp,
}

impl Consistency {
    /// All controllers, by their numbers in headers.
    pub const ALL: [Consistency; 3] =
        [Consistency::Broadcast, Consistency::Overlapped, Consistency::Timestamp];

    fn controller(self) -> &'static dyn Controller {
        match self {
            Consistency::Broadcast => &Broadcast,
            Consistency::Overlapped => &Overlapped,
            Consistency::Timestamp => &Timestamp,
        }
    }
}

impl Controller for Consistency {
    fn version_line(&self, layout: &Layout, rank: usize) -> usize {
        self.controller().version_line(layout, rank)
    }

    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize> {
        self.controller().raised_at_acquire(layout)
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        self.controller().raised_at_release(layout, modified)
    }
}
