//! Distance between the two processors of a measurement.
//!
//! Hardware conforms to the topology that its kernel exposes. A hypervisor may expose a different topology to
//! its guest, and may move virtual processors at any time; there the round trip of two bare cache lines
//! reveals the distance: 60 to 80 ns between hardware threads of one core, 100 to 140 ns with a shared cache,
//! 300 ns and more without one.

use serde::{Deserialize, Serialize};

use crate::cpus::Sharing;
use crate::host::Host;

/// Distance between two processors, in order of preference where only one figure is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Two cores that share a cache. The serialized name dates from when there were only two distances.
    #[serde(rename = "near")]
    OneCache,
    /// Two cores that share no cache.
    #[serde(rename = "far")]
    Apart,
    /// Two hardware threads of one core, which also share its execution units.
    TwinThreads,
    /// The distance is irrelevant, or differs between slices.
    Any,
}

impl Distance {
    /// Distances that a slice can have, in table order.
    pub const MEASURED: [Distance; 3] = [Distance::OneCache, Distance::Apart, Distance::TwinThreads];

    /// Returns a short description for tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Distance::OneCache => "one cache",
            Distance::Apart => "apart",
            Distance::TwinThreads => "twin threads",
            Distance::Any => "",
        }
    }
}

/// Longest round trip of the bare lines between twin threads, in ns: between the 80 ns of the slowest and the
/// 100 ns of the fastest cores that share a cache.
pub const TWIN_THREADS_NS: f64 = 90.0;

/// Longest round trip of the bare lines between cores that share a cache, in ns: between 140 ns and 300 ns.
pub const ONE_CACHE_NS: f64 = 205.0;

/// Determines distances on a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Classifier {
    /// Resource that the two processors share, if the topology is reliable (no hypervisor).
    topology: Option<Sharing>,
}

impl Classifier {
    /// Creates the classifier for two processors that share `sharing` according to the kernel of `host`.
    pub(crate) fn new(host: &Host, sharing: Option<Sharing>) -> Classifier {
        Classifier { topology: sharing.filter(|_| !host.virtual_machine) }
    }

    /// Returns the distance of the processors when a round trip of the bare lines took `probe_ns`.
    pub(crate) fn distance(self, probe_ns: f64) -> Distance {
        match self.topology {
            Some(Sharing::Core) => Distance::TwinThreads,
            Some(Sharing::Cache) => Distance::OneCache,
            Some(Sharing::Nothing) => Distance::Apart,
            None if probe_ns <= TWIN_THREADS_NS => Distance::TwinThreads,
            None if probe_ns <= ONE_CACHE_NS => Distance::OneCache,
            None => Distance::Apart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classifier(virtual_machine: bool, sharing: Option<Sharing>) -> Classifier {
        Classifier::new(&Host { virtual_machine, ..Host::describe() }, sharing)
    }

    #[test]
    fn guests_are_classified_by_latency() {
        // In a virtual machine, the topology is ignored.
        for sharing in [None, Some(Sharing::Core), Some(Sharing::Cache), Some(Sharing::Nothing)] {
            let distances = |series: &[f64]| -> Vec<Distance> {
                series.iter().map(|probe_ns| classifier(true, sharing).distance(*probe_ns)).collect()
            };
            use Distance::{Apart, OneCache, TwinThreads};
            // A run that began between twin threads: this does not change the class of its other slices.
            assert_eq!(
                distances(&[68.0, 68.4, 120.0, 68.1, 121.5, 118.0]),
                [TwinThreads, TwinThreads, OneCache, TwinThreads, OneCache, OneCache]
            );
            assert_eq!(distances(&[55.0, 60.0, 80.0]), [TwinThreads; 3]);
            assert_eq!(distances(&[100.0, 111.0, 140.0, 175.0]), [OneCache; 4]);
            assert_eq!(distances(&[300.0, 491.0, 550.0]), [Apart; 3]);
        }
    }

    #[test]
    fn hardware_is_classified_by_topology() {
        for probe_ns in [45.0, 120.0, 600.0] {
            let distance = |sharing| classifier(false, Some(sharing)).distance(probe_ns);
            assert_eq!(distance(Sharing::Core), Distance::TwinThreads);
            assert_eq!(distance(Sharing::Cache), Distance::OneCache);
            assert_eq!(distance(Sharing::Nothing), Distance::Apart);
        }
        // Without a topology, only the probe is left.
        assert_eq!(classifier(false, None).distance(120.0), Distance::OneCache);
    }

    #[test]
    fn distance_names_are_stable() {
        let words = Distance::MEASURED.map(|distance| serde_json::to_string(&distance).expect("a word"));
        assert_eq!(words, ["\"near\"", "\"far\"", "\"twin_threads\""]);
    }
}
