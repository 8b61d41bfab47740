//! Which parts of the machine changed when: what differences are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::RegionId;
use tombolo_control::observation::Part;

/// A part of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::root) enum Key {
    Node(NodeId),
    Domain(DomainId),
    Channel(ChannelId),
    Region(RegionId),
    /// The lower number first.
    Link(NodeId, NodeId),
    Event(u64),
}

impl From<Key> for Part {
    fn from(key: Key) -> Part {
        match key {
            Key::Node(node) => Part::Node(node),
            Key::Domain(domain) => Part::Domain { domain },
            Key::Channel(channel) => Part::Channel(channel),
            Key::Region(region) => Part::Region(region),
            Key::Link(a, b) => Part::Link { a, b },
            Key::Event(number) => Part::Event { number },
        }
    }
}

/// How many gone parts are remembered. An observer that missed a forgotten one gets
/// everything anew.
pub(in crate::root) const MAX_GONE: usize = 8192;

/// What is known of a part.
#[derive(Clone, Copy, Debug)]
struct PartVersion {
    version: u64,
    gone: bool,
    /// An observer was told of it, in this version or another.
    told: bool,
}

/// The parts of the machine in the order of their last changes.
///
/// **Invariants:** every part has one version, that of its last change, and no two have the same. What
/// changes again before anybody was told of the change before keeps its version: so much work does a change
/// make, however many there are.
#[derive(Debug, Default)]
pub(in crate::root) struct Versions {
    newest: u64,
    entries: BTreeMap<Key, PartVersion>,
    by_version: BTreeMap<u64, Key>,
    gone: BTreeSet<u64>,
    /// The last version of a part that is gone, and not remembered any more.
    forgotten: u64,
    /// The last version that anybody was told of.
    told: u64,
}

impl Versions {
    /// Returns the version of the last change.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Who has heard of no version after this one may have missed that something is gone.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// How many parts there are, and how many are gone and remembered.
    #[cfg(test)]
    pub(in crate::root) fn counts(&self) -> (usize, usize) {
        (self.entries.len() - self.gone.len(), self.gone.len())
    }

    /// A part is there, or changed.
    pub(in crate::root) fn changed(&mut self, key: Key) {
        match self.entries.get(&key).copied() {
            Some(entry) if !entry.gone && entry.version > self.told => {}
            before => self.set(key, before, false),
        }
    }

    /// A part is gone.
    pub(in crate::root) fn gone(&mut self, key: Key) {
        let Some(before) = self.entries.get(&key).copied().filter(|entry| !entry.gone) else { return };
        if !before.told {
            // No observer knows of it, so none has to be told that it is gone.
            self.entries.remove(&key);
            self.by_version.remove(&before.version);
            return;
        }
        self.set(key, Some(before), true);
        while self.gone.len() > MAX_GONE
            && let Some(version) = self.gone.pop_first()
        {
            self.forgotten = version;
            if let Some(key) = self.by_version.remove(&version) {
                self.entries.remove(&key);
            }
        }
    }

    fn set(&mut self, key: Key, before: Option<PartVersion>, gone: bool) {
        if let Some(before) = before {
            self.by_version.remove(&before.version);
            if before.gone {
                self.gone.remove(&before.version);
            }
        }
        self.newest += 1;
        let (version, told) = (self.newest, before.is_some_and(|before| before.told));
        self.entries.insert(key, PartVersion { version, gone, told });
        self.by_version.insert(version, key);
        if gone {
            self.gone.insert(version);
        }
    }

    /// What changed after a version, in order: each with its version, and whether it is gone.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, Key, bool)> + '_ {
        let rest = self.by_version.range((Bound::Excluded(version), Bound::Unbounded));
        rest.map(|(version, key)| (*version, *key, self.gone.contains(version)))
    }

    /// An observer was told of these parts, and of nothing after `until`.
    pub(super) fn were_told(&mut self, keys: impl IntoIterator<Item = Key>, until: u64) {
        for key in keys {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.told = true;
            }
        }
        self.told = self.told.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(versions: &Versions) -> Vec<(u64, Key, bool)> {
        versions.after(0).collect()
    }

    #[test]
    fn a_part_has_the_version_of_its_last_change_that_somebody_may_have_missed() {
        let mut versions = Versions::default();
        let (one, two) = (Key::Event(1), Key::Event(2));
        versions.changed(one);
        versions.changed(two);
        versions.changed(one);
        assert_eq!(all(&versions), [(1, one, false), (2, two, false)], "no observer was told of the first");
        versions.were_told([one], 1);
        versions.changed(one);
        assert_eq!(all(&versions), [(2, two, false), (3, one, false)]);
        versions.gone(two);
        assert_eq!(all(&versions), [(3, one, false)], "no observer knows it");
        versions.gone(one);
        versions.gone(one);
        assert_eq!(all(&versions), [(4, one, true)]);
        versions.changed(one);
        assert_eq!(all(&versions), [(5, one, false)], "it is there again");
        assert_eq!(versions.counts(), (1, 0));
    }

    #[test]
    fn what_is_gone_is_remembered_up_to_the_limit() {
        for (count, forgotten) in [(MAX_GONE - 1, 0), (MAX_GONE, 0), (MAX_GONE + 1, 1)] {
            let mut versions = Versions::default();
            let keys: Vec<Key> = (1..=count as u64).map(Key::Event).collect();
            keys.iter().for_each(|key| versions.changed(*key));
            versions.were_told(keys.clone(), versions.newest());
            keys.iter().for_each(|key| versions.gone(*key));
            assert_eq!(versions.counts(), (0, count.min(MAX_GONE)));
            assert_eq!(versions.forgotten() > 0, forgotten > 0, "{count}");
            assert_eq!(versions.entries.len(), versions.by_version.len());
        }
    }
}
