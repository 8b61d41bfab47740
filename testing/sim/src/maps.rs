//! What processes really have mapped, and which lifelines of mappings anybody holds: what no monitor can
//! know, and what must not be contradicted by what they say.

use std::collections::BTreeMap;

use tombolo_base::DomainId;
use tombolo_capability::{Extent, RegionId};

use crate::descriptor::Watch;

/// Memory as a process has it mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// The process.
    pub pid: i32,
    /// Whose process it is.
    pub holder: DomainId,
    /// The region.
    pub region: RegionId,
    /// The part of the test.
    pub extent: Extent,
    /// It can write.
    pub writable: bool,
    /// Its offset in the window of its node, if it lies in one.
    pub in_window: Option<u64>,
}

/// All mappings of a machine.
#[derive(Debug, Default)]
pub struct Maps {
    mapped: BTreeMap<u64, Mapped>,
    /// Lifelines that were made, or could not be, by the number of the mapping.
    lifelines: BTreeMap<u64, Option<Watch>>,
}

impl Maps {
    /// An agent made a lifeline, or could not.
    pub fn lifeline(&mut self, number: u64, theirs: Option<Watch>) {
        self.lifelines.insert(number, theirs);
    }

    /// The root has destroyed a node, and waited until it was gone: what lived there maps nothing any more.
    pub fn destroyed(&mut self, node: u16) {
        self.mapped.retain(|_, mapped| mapped.holder.node().0 != node);
    }

    /// A process maps. False when another does as this already.
    pub fn map(&mut self, number: u64, mapped: Mapped) -> bool {
        self.mapped.insert(number, mapped).is_none()
    }

    /// A process has nothing mapped as this any more.
    pub fn unmap(&mut self, number: u64) {
        self.mapped.remove(&number);
    }

    /// The monitor of a process is dead, which to everybody else is the end of its domain. It lets go as soon
    /// as it sees that, and not before.
    pub fn stray(&mut self, pid: i32) {
        self.mapped.retain(|_, mapped| mapped.pid != pid);
    }

    /// The mappings of this.
    #[must_use]
    pub fn mapped_as(&self, number: u64) -> Option<&Mapped> {
        self.mapped.get(&number)
    }

    /// The processes that have any part of a region mapped.
    pub fn of(&self, region: RegionId) -> impl Iterator<Item = &Mapped> {
        self.mapped.values().filter(move |mapped| mapped.region == region)
    }

    /// The processes that have any part of a range of a node's window mapped, in this generation of the node.
    #[must_use]
    pub fn in_window(&self, node: u16, generation: u16, first: u64, end: u64) -> Option<&Mapped> {
        self.mapped.values().find(|mapped| {
            let there = (mapped.region.node().0, mapped.region.generation().get()) == (node, generation);
            let begins = mapped.in_window.filter(|_| there);
            begins.is_some_and(|begins| begins < end && first < begins + mapped.extent.length_bytes)
        })
    }

    /// Whether there is evidence that no process can have this mapped: its lifeline was never made, or is
    /// closed, and the process, if there is one, has unmapped.
    #[must_use]
    pub fn is_let_go(&self, number: u64) -> bool {
        let closed = match self.lifelines.get(&number) {
            None => false,
            Some(None) => true,
            Some(Some(watch)) => watch.is_closed(),
        };
        closed && !self.mapped.contains_key(&number)
    }

    /// Forgets a lifeline that is of no interest any more.
    pub fn forget(&mut self, number: u64) {
        self.lifelines.remove(&number);
    }

    /// The number of mappings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Whether there are no mappings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }
}
