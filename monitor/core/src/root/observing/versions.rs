//! Versions of the machine's parts, the basis of differences.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_control::RegionId;
use tombolo_control::observation::Part;

/// A part of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::root) enum PartKey {
    Node(NodeId),
    Domain(DomainId),
    Channel(ChannelId),
    Region(RegionId),
    /// Link between two nodes, the lower number first.
    Link(NodeId, NodeId),
    Event(u64),
}

impl From<PartKey> for Part {
    fn from(key: PartKey) -> Part {
        match key {
            PartKey::Node(node) => Part::Node(node),
            PartKey::Domain(domain) => Part::Domain { domain },
            PartKey::Channel(channel) => Part::Channel(channel),
            PartKey::Region(region) => Part::Region(region),
            PartKey::Link(a, b) => Part::Link { a, b },
            PartKey::Event(number) => Part::Event { number },
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
    reported: bool,
}

/// Parts of the machine in the order of their last changes.
///
/// **Invariants:** every part has one version, that of its last change, and all versions are distinct. A part
/// that changes again before any observer was informed of the previous change keeps its version, so that
/// repeated changes cost next to nothing.
#[derive(Debug, Default)]
pub(in crate::root) struct Versions {
    newest: u64,
    entries: BTreeMap<PartKey, PartVersion>,
    by_version: BTreeMap<u64, PartKey>,
    gone: BTreeSet<u64>,
    /// Last version of a gone part that is no longer retained.
    last_dropped: u64,
    /// Last version that any observer was informed of.
    reported: u64,
}

impl Versions {
    /// Returns the version of the last change.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the last version of a dropped gone part. An observer at an earlier version may have missed a
    /// removal.
    pub(super) fn last_dropped(&self) -> u64 {
        self.last_dropped
    }

    /// Returns the number of parts, and the number of gone ones retained.
    #[cfg(test)]
    pub(in crate::root) fn counts(&self) -> (usize, usize) {
        (self.entries.len() - self.gone.len(), self.gone.len())
    }

    /// Records that a part was added or changed.
    pub(in crate::root) fn mark_changed(&mut self, key: PartKey) {
        match self.entries.get(&key).copied() {
            Some(entry) if !entry.gone && entry.version > self.reported => {}
            before => self.set(key, before, false),
        }
    }

    /// Records that a part is gone.
    pub(in crate::root) fn mark_removed(&mut self, key: PartKey) {
        let Some(before) = self.entries.get(&key).copied().filter(|entry| !entry.gone) else { return };
        if !before.reported {
            // No observer knows it, so its removal need not be reported.
            self.entries.remove(&key);
            self.by_version.remove(&before.version);
            return;
        }
        self.set(key, Some(before), true);
        while self.gone.len() > MAX_GONE
            && let Some(version) = self.gone.pop_first()
        {
            self.last_dropped = version;
            if let Some(key) = self.by_version.remove(&version) {
                self.entries.remove(&key);
            }
        }
    }

    fn set(&mut self, key: PartKey, before: Option<PartVersion>, gone: bool) {
        if let Some(before) = before {
            self.by_version.remove(&before.version);
            if before.gone {
                self.gone.remove(&before.version);
            }
        }
        self.newest += 1;
        let (version, reported) = (self.newest, before.is_some_and(|before| before.reported));
        self.entries.insert(key, PartVersion { version, gone, reported });
        self.by_version.insert(version, key);
        if gone {
            self.gone.insert(version);
        }
    }

    /// Returns the changes after a version, in order: each with its version, and whether it is gone.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, PartKey, bool)> + '_ {
        let rest = self.by_version.range((Bound::Excluded(version), Bound::Unbounded));
        rest.map(|(version, key)| (*version, *key, self.gone.contains(version)))
    }

    /// Records that an observer was informed of these parts, and of no version after `until`.
    pub(super) fn mark_reported(&mut self, keys: impl IntoIterator<Item = PartKey>, until: u64) {
        for key in keys {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.reported = true;
            }
        }
        self.reported = self.reported.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(versions: &Versions) -> Vec<(u64, PartKey, bool)> {
        versions.after(0).collect()
    }

    #[test]
    fn part_has_the_version_of_its_last_unreported_change() {
        let mut versions = Versions::default();
        let (one, two) = (PartKey::Event(1), PartKey::Event(2));
        versions.mark_changed(one);
        versions.mark_changed(two);
        versions.mark_changed(one);
        assert_eq!(all(&versions), [(1, one, false), (2, two, false)], "no observer was told of the first");
        versions.mark_reported([one], 1);
        versions.mark_changed(one);
        assert_eq!(all(&versions), [(2, two, false), (3, one, false)]);
        versions.mark_removed(two);
        assert_eq!(all(&versions), [(3, one, false)], "no observer knows it");
        versions.mark_removed(one);
        versions.mark_removed(one);
        assert_eq!(all(&versions), [(4, one, true)]);
        versions.mark_changed(one);
        assert_eq!(all(&versions), [(5, one, false)], "it is there again");
        assert_eq!(versions.counts(), (1, 0));
    }

    #[test]
    fn removed_parts_are_retained_up_to_the_limit() {
        for (count, last_dropped) in [(MAX_GONE - 1, 0), (MAX_GONE, 0), (MAX_GONE + 1, 1)] {
            let mut versions = Versions::default();
            let keys: Vec<PartKey> = (1..=count as u64).map(PartKey::Event).collect();
            keys.iter().for_each(|key| versions.mark_changed(*key));
            versions.mark_reported(keys.clone(), versions.newest());
            keys.iter().for_each(|key| versions.mark_removed(*key));
            assert_eq!(versions.counts(), (0, count.min(MAX_GONE)));
            assert_eq!(versions.last_dropped() > 0, last_dropped > 0, "{count}");
            assert_eq!(versions.entries.len(), versions.by_version.len());
        }
    }
}
