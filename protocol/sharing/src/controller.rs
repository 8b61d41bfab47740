//! Consistency controllers: by which lines a rank learns that its copy of an object is old.

use core::ops::Range;

use crate::layout::Layout;

/// How ranks learn that an object was written. A controller has no state of its own: it names lines of the
/// object, whose first word is a version that only grows.
///
/// Lines are numbered as [`Layout::line`] has them. A writer raises lines while it alone has the object, and
/// a rank looks at its line while it has the object, so that no line is written and read at the same time.
pub trait Controller {
    /// The line that says to `rank` which version the object has.
    fn looks_at(&self, layout: &Layout, rank: usize) -> usize;

    /// The lines that a writer raises once it has the object.
    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize>;

    /// The lines that a writer raises after it has published what it wrote; `modified` says whether it wrote
    /// anything.
    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize>;
}

/// BC: a writer tells every rank when it releases the object. A rank looks at a line of its own, which is
/// near it; a write costs a store for each rank.
///
/// TACO-MESH sends the invalidation along a tree of handlers that interrupt ranks. Here no rank is
/// interrupted, and the writer stores the lines of all ranks itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Broadcast;

impl Controller for Broadcast {
    fn looks_at(&self, layout: &Layout, rank: usize) -> usize {
        layout.news().start + rank
    }

    fn raised_at_acquire(&self, _layout: &Layout) -> Range<usize> {
        0..0
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        if modified { layout.news() } else { 0..0 }
    }
}

/// OV: as [`Broadcast`], but a writer tells when it acquires the object, so that the stores overlap with its
/// work and the release is short. It tells also if nothing is written in the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Overlapped;

impl Controller for Overlapped {
    fn looks_at(&self, layout: &Layout, rank: usize) -> usize {
        layout.news().start + rank
    }

    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize> {
        layout.news()
    }

    fn raised_at_release(&self, _layout: &Layout, _modified: bool) -> Range<usize> {
        0..0
    }
}

/// TS: one version for all, which a writer raises when it releases the object and every rank compares. A
/// write costs one store; every acquisition loads a line that all ranks share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timestamp;

impl Controller for Timestamp {
    fn looks_at(&self, layout: &Layout, _rank: usize) -> usize {
        layout.state()
    }

    fn raised_at_acquire(&self, _layout: &Layout) -> Range<usize> {
        0..0
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        if modified { layout.state()..layout.state() + 1 } else { 0..0 }
    }
}

/// One of the three, as the header of an object names it.
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
    /// All of them, by their numbers in headers.
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
    fn looks_at(&self, layout: &Layout, rank: usize) -> usize {
        self.controller().looks_at(layout, rank)
    }

    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize> {
        self.controller().raised_at_acquire(layout)
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        self.controller().raised_at_release(layout, modified)
    }
}
