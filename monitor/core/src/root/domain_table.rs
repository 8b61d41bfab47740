//! Living domains and their parents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use tombolo_base::DomainId;

use super::DomainRecord;

/// Domains by id. The parent of a domain never changes, so that families are updated incrementally, and
/// starting or ending one domain among ten thousand need not search the others.
#[derive(Debug, Default)]
pub(super) struct DomainTable {
    records: BTreeMap<DomainId, DomainRecord>,
    /// Children by parent; no set is empty.
    children: BTreeMap<DomainId, BTreeSet<DomainId>>,
}

impl Deref for DomainTable {
    type Target = BTreeMap<DomainId, DomainRecord>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl DomainTable {
    /// Adds a domain. Ids are never reused.
    pub(super) fn insert(&mut self, domain: DomainId, record: DomainRecord) {
        if let Some((parent, _)) = record.parent {
            self.children.entry(parent).or_default().insert(domain);
        }
        self.records.insert(domain, record);
    }

    pub(super) fn remove(&mut self, domain: DomainId) -> Option<DomainRecord> {
        let record = self.records.remove(&domain)?;
        if let Some((parent, _)) = record.parent
            && let Some(family) = self.children.get_mut(&parent)
        {
            family.remove(&domain);
            if family.is_empty() {
                self.children.remove(&parent);
            }
        }
        Some(record)
    }

    /// Returns a record, of which all but the parent's id may be changed.
    pub(super) fn get_mut(&mut self, domain: DomainId) -> Option<&mut DomainRecord> {
        self.records.get_mut(&domain)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (DomainId, &mut DomainRecord)> {
        self.records.iter_mut().map(|(id, record)| (*id, record))
    }

    /// Returns the living children of a domain, which itself may have ended.
    pub(super) fn children(&self, parent: DomainId) -> impl ExactSizeIterator<Item = DomainId> + '_ {
        static NONE: BTreeSet<DomainId> = BTreeSet::new();
        self.children.get(&parent).unwrap_or(&NONE).iter().copied()
    }

    /// Returns the number of domains that have living children.
    pub(super) fn families(&self) -> usize {
        self.children.len()
    }
}
