//! Targets for MPI over Tombolo, relative to other stacks.

use super::stack::{NodePair, OPEN_MPI, TOMBOLO, TOMBOLO_OPEN_MPI, UCX, VIRTIO};
use crate::stacks::{Figure, Group, Report, Row, find};
use crate::target::Bound::{AtLeast, AtMost};
use crate::target::{Bound, Target};

/// Unit of the figures' sizes.
pub(super) const SIZES: &str = "bytes";

/// Target for one stack relative to another: stacks, metric, bytes and bound.
type Promise = (&'static str, &'static str, &'static str, u64, Bound);

/// Targets for two ranks of this host.
const ON_HOST: [Promise; 5] = [
    (TOMBOLO_OPEN_MPI, OPEN_MPI, "latency", 8, AtMost(1.5)),
    (TOMBOLO_OPEN_MPI, UCX, "bandwidth", 64 << 10, AtLeast(1.0)),
    (TOMBOLO, UCX, "bandwidth", 64 << 10, AtLeast(1.0)),
    (TOMBOLO_OPEN_MPI, UCX, "bandwidth", 4 << 20, AtLeast(1.0)),
    (TOMBOLO, UCX, "bandwidth", 4 << 20, AtLeast(1.0)),
];

/// Targets for a node: a twentieth of the latency and three times the bandwidth of TCP to a separate machine.
const TO_NODE: [Promise; 3] = [
    (TOMBOLO, VIRTIO, "latency", 8, AtMost(0.05)),
    (TOMBOLO, VIRTIO, "bandwidth", 64 << 10, AtLeast(3.0)),
    (TOMBOLO, VIRTIO, "bandwidth", 4 << 20, AtLeast(3.0)),
];

/// Returns the targets for the measured rows.
pub(super) fn all(rows: &[Row], places: &[Group]) -> Vec<Target> {
    let mut targets = Vec::new();
    for place in places {
        let is_host = place.name == NodePair::host().to_string();
        let promises: &[Promise] = if is_host { &ON_HOST } else { &TO_NODE };
        for (ours, theirs, metric, size, bound) in promises {
            let figure = Figure { group: place.name.clone(), metric: (*metric).to_owned(), size: *size };
            if let (Some(own), Some(other)) = (find(rows, ours, &figure), find(rows, theirs, &figure)) {
                let what = Report::promise(&figure, SIZES, &format!("{ours} / {theirs}"));
                targets.push(own.compare_with(other, &what, *bound, 0.0));
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::tests::found;
    use crate::stacks::{is_same, rows};
    use crate::target::Verdict;

    #[test]
    fn bandwidth_is_promised_to_be_more_and_latency_less() {
        let verdicts = |place: &str, runs: &[(&str, &str, u64, f64)]| {
            let runs = runs.iter().map(|(stack, metric, size, p50)| found(place, stack, metric, *size, *p50));
            let group = Group { name: place.into(), title: place.into() };
            all(&rows(runs.collect(), is_same), &[group])
                .iter()
                .map(|target| target.verdict)
                .collect::<Vec<_>>()
        };
        let to_node = [
            (TOMBOLO, "latency", 8, 1000.0),
            (TOMBOLO, "bandwidth", 65536, 1.0),
            (VIRTIO, "latency", 8, 10_000.0),
            (VIRTIO, "bandwidth", 65536, 0.25),
        ];
        assert_eq!(verdicts("host-arm0", &to_node), [Verdict::Missed, Verdict::Met]);
        let on_host = [(TOMBOLO_OPEN_MPI, "latency", 8, 140.0), (OPEN_MPI, "latency", 8, 100.0)];
        assert_eq!(verdicts("host-host", &on_host), [Verdict::Met]);
    }
}
