//! Versions of the machine's parts, the basis of differences.

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
    /// Link between two nodes, the lower number first.
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

/// Maximum number of gone parts retained. An observer that missed a dropped one gets everything again.
pub(in crate::root) const MAX_GONE: usize = 8192;

/// Version of a part.
#[derive(Clone, Copy, Debug)]
struct PartVersion {
    version: u64,
    gone: bool,
    /// Whether any observer has been informed of the part, in this version or another.
    told: bool,
}

/// Parts of the machine in the order of their last changes.
///
/// **Invariants:** every part has one version, that of its last change, and all versions are distinct. A part
/// that changes again before any observer was informed of the previous change keeps its version, so that
/// repeated changes cost next to nothing.
#[derive(Debug, Default)]
pub(in crate::root) struct Versions {
    newest: u64,
    entries: BTreeMap<Key, PartVersion>,
    by_version: BTreeMap<u64, Key>,
    gone: BTreeSet<u64>,
    /// Last version of a gone part that is no longer retained.
    forgotten: u64,
    /// Last version that any observer was informed of.
    told: u64,
}

impl Versions {
    /// Returns the version of the last change.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the last version of a dropped gone part. An observer at an earlier version may have missed a
    /// removal.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the number of parts, and the number of gone ones retained.
    #[cfg(test)]
    pub(in crate::root) fn counts(&self) -> (usize, usize) {
        (self.entries.len() - self.gone.len(), self.gone.len())
    }

    /// Records that a part was added or changed.
    pub(in crate::root) fn changed(&mut self, key: Key) {
        match self.entries.get(&key).copied() {
            Some(entry) if !entry.gone && entry.version > self.told => {}
            before => self.set(key, before, false),
        }
    }

    /// Records that a part is gone.
    pub(in crate::root) fn gone(&mut self, key: Key) {
        let Some(before) = self.entries.get(&key).copied().filter(|entry| !entry.gone) else { return };
        if !before.told {
            // No observer knows it, so its removal need not be reported.
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

    /// Returns the changes after a version, in order: each with its version, and whether it is gone.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, Key, bool)> + '_ {
        let rest = self.by_version.range((Bound::Excluded(version), Bound::Unbounded));
        rest.map(|(version, key)| (*version, *key, self.gone.contains(version)))
    }

    /// Records that an observer was informed of these parts, and of no version after `until`.
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
