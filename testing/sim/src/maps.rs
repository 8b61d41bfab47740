//! Real mappings of the processes, and the holders of their lifelines. Monitors cannot observe these, but
//! must not contradict them.

use std::collections::BTreeMap;

use tombolo_base::DomainId;
use tombolo_capability::{Extent, RegionId};

use crate::descriptor::Watch;

/// A mapping of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Process that has the mapping.
    pub pid: i32,
    /// Domain of the process.
    pub holder: DomainId,
    /// Region that is mapped.
    pub region: RegionId,
    /// Mapped range of the region.
    pub extent: Extent,
    /// Whether the mapping is writable.
    pub writable: bool,
    /// Byte offset in the window of the region's node, if the region is in one.
    pub in_window: Option<u64>,
}

/// All mappings of a machine.
#[derive(Debug, Default)]
pub struct Maps {
    mapped: BTreeMap<u64, Mapped>,
    /// Lifeline of each mapping; `None` if the agent failed to create it.
    lifelines: BTreeMap<u64, Option<Watch>>,
}

impl Maps {
    /// Records a lifeline that an agent created; `None` if it failed.
    pub fn lifeline(&mut self, number: u64, theirs: Option<Watch>) {
        self.lifelines.insert(number, theirs);
    }

    /// Removes the mappings of a node that the root destroyed and whose end it awaited.
    pub fn destroyed(&mut self, node: u16) {
        self.mapped.retain(|_, mapped| mapped.holder.node().0 != node);
    }

    /// Records a mapping by a process. Returns `false` if its number is in use.
    pub fn map(&mut self, number: u64, mapped: Mapped) -> bool {
        self.mapped.insert(number, mapped).is_none()
    }

    /// Removes a mapping that its process unmapped.
    pub fn unmap(&mut self, number: u64) {
        self.mapped.remove(&number);
    }

    /// Removes the mappings of a process whose monitor died. Others see its domain as ended, although the
    /// process itself unmaps only once it notices.
    pub fn drop_process_mappings(&mut self, pid: i32) {
        self.mapped.retain(|_, mapped| mapped.pid != pid);
    }

    /// Returns the mapping with this number, if it exists.
    #[must_use]
    pub fn mapped_as(&self, number: u64) -> Option<&Mapped> {
        self.mapped.get(&number)
    }

    /// Lists the mappings of any part of a region.
    pub fn of(&self, region: RegionId) -> impl Iterator<Item = &Mapped> {
        self.mapped.values().filter(move |mapped| mapped.region == region)
    }

    /// Finds a mapping that overlaps a range of a node's window, in this generation of the node.
    #[must_use]
    pub fn in_window(&self, node: u16, generation: u16, first: u64, end: u64) -> Option<&Mapped> {
        self.mapped.values().find(|mapped| {
            let there = (mapped.region.node().0, mapped.region.generation().get()) == (node, generation);
            let begins = mapped.in_window.filter(|_| there);
            begins.is_some_and(|begins| begins < end && first < begins + mapped.extent.length_bytes)
        })
    }

    /// Returns whether this mapping provably cannot exist: its lifeline was never created or is closed, and
    /// no process has it mapped.
    #[must_use]
    pub fn is_released(&self, number: u64) -> bool {
        let closed = match self.lifelines.get(&number) {
            None => false,
            Some(None) => true,
            Some(Some(watch)) => watch.is_closed(),
        };
        closed && !self.mapped.contains_key(&number)
    }

    /// Removes a lifeline that is no longer needed.
    pub fn forget(&mut self, number: u64) {
        self.lifelines.remove(&number);
    }

    /// Returns the number of mappings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Returns whether there are no mappings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }
}
