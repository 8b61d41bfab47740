//! Cost of coherent pages between this host and each node: faults of rank 0 on the host, which involve rank 1
//! on the node, compared with a bare fault, a round trip of a channel and the copy of a page.

use std::path::Path;

use serde::Serialize;
use tombolo::Domain;
use tombolo::nodes::NodeInfo;

use super::{Failed, Figures, Peers, failures, gather, host_of, nodes};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::Error;
use crate::table::{align, cells, significant};

/// Target for a remote read fault, as a multiple of its lower bound: a bare fault, a round trip, and the copy
/// of a page.
pub const TARGET: f64 = 3.0;

/// Measurements by name of the figure, with their labels.
const ROWS: [(&str, &str); 17] = [
    ("bare_fault", "bare fault, resolved by a thread of the program"),
    ("round_trip", "round trip of a channel, both awake"),
    ("round_trip_asleep", "the same to a receiver that sleeps"),
    ("round_trip_page", "both awake, answered with a page in the message"),
    ("copy", "copy of a page"),
    ("read_home_there", "read fault, home at the other rank"),
    ("read_home_here", "read fault, home at this rank"),
    ("write_home_there", "write fault, home at the other rank"),
    ("write_home_here", "write fault, home at this rank"),
    ("upgrade_home_there", "read page written, home at the other rank"),
    ("upgrade_home_here", "read page written (an invalidation), home here"),
    ("turn", "turn of two that write to one page"),
    ("turn_held", "the same, pages stay for 100 µs"),
    ("interleaved", "both compute every second word of a page, 10 µs each, meet, read"),
    ("interleaved_released", "the same with release consistency"),
    ("floor", "floor: bare fault + round trip to a sleeper + copy"),
    ("floor_awake", "bare fault + round trip of two awake + copy"),
];

/// Figures of one pair of nodes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// Node of rank 1; rank 0 is on the host.
    pub node: String,
    /// Figures in ns, by name.
    pub figures: Figures,
    /// Median of read faults with a remote home, divided by the lower bound. The thread that serves pages
    /// sleeps until a message arrives, so the round trip is that to a sleeping peer.
    pub read_ratio: f64,
    /// Ratio with the round trip between two threads that are awake.
    pub read_ratio_awake: f64,
    /// Whether `read_ratio` meets [`TARGET`].
    pub met: bool,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Results by node.
    pub pairs: Vec<Pair>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Maximum target of `read_ratio`.
    pub target: f64,
}

/// Measures between the host and each node, including the host.
///
/// # Errors
/// The machine is gone, or a node does not exist or is down. A pair that fails is part of the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    (wanted, rounds): (&[String], u32),
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let peers = Peers::new(domain, image)?;
    let near = host_of(domain)?;
    let name = |node: &NodeInfo| format!("pages of {near} and {}", node.name);
    let (pairs, failed) = gather(nodes(domain, wanted)?, name, progress, |node| {
        let job = format!("bench/pages/{}/{}", domain.id(), node.name);
        let words = ["pages".to_owned(), rounds.to_string()];
        let figures = peers.run_job(&[&near, &node.name], &job, &words)?;
        Ok::<_, Error>(Pair::new(node.name, figures))
    });
    Ok(Report { host: Host::describe(), pairs, failed, target: TARGET })
}

impl Pair {
    fn new(node: String, mut figures: Figures) -> Pair {
        let of = |name: &str| figures.get(&format!("{name}_p50_ns")).copied().unwrap_or(0.0);
        let floor_ns = of("bare_fault") + of("round_trip_asleep") + of("copy");
        let awake_ns = of("bare_fault") + of("round_trip") + of("copy");
        let read_ns = of("read_home_there");
        figures.insert("floor_p50_ns".to_owned(), floor_ns);
        figures.insert("floor_awake_p50_ns".to_owned(), awake_ns);
        let read_ratio = read_ns / floor_ns.max(1.0);
        Pair {
            node,
            figures,
            read_ratio,
            read_ratio_awake: read_ns / awake_ns.max(1.0),
            met: read_ratio <= TARGET,
        }
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut text =
            String::from("Coherent pages, in µs; rank 0 on this host measures, rank 1 is on the node\n");
        for pair in &self.pairs {
            let mut lines = vec![cells(&["", "median", "p99", "by the floor"])];
            let floor_ns = pair.figures.get("floor_p50_ns").copied().unwrap_or(0.0).max(1.0);
            for (name, what) in ROWS {
                let of = |suffix: &str| pair.figures.get(&format!("{name}{suffix}")).copied();
                let Some(median_ns) = of("_p50_ns").or(of("_ns")) else { continue };
                let p99 =
                    of("_p99_ns").map_or_else(crate::table::none, |time_ns| significant(time_ns / 1000.0));
                let ratio = format!("{:.2}", median_ns / floor_ns);
                lines.push(vec![what.to_owned(), significant(median_ns / 1000.0), p99, ratio]);
            }
            let faults = |name: &str| {
                let faults = pair.figures.get(&format!("{name}_faults")).copied();
                faults.map_or_else(crate::table::none, significant)
            };
            let met = if pair.met { "met" } else { "missed" };
            text += &format!(
                "\nrank 1 on {}\n\n{}\nfaults of rank 0 at the page that both compute, each time: {}; with release consistency {}\nread fault by the floor: {:.2}; target {:.1}, {met}; with both awake {:.2}\n",
                pair.node,
                align(&lines),
                faults("interleaved"),
                faults("interleaved_released"),
                pair.read_ratio,
                self.target,
                pair.read_ratio_awake
            );
        }
        text + &failures(&self.failed)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_fault_is_compared_with_its_minimum() {
        let figures = |read_ns| {
            let all = [
                ("bare_fault", 5e4),
                ("round_trip_asleep", 4e4),
                ("copy", 1e4),
                ("read_home_there", read_ns),
            ];
            all.iter().map(|(name, value)| (format!("{name}_p50_ns"), *value)).collect()
        };
        let pairs = vec![Pair::new("a".to_owned(), figures(2e5)), Pair::new("b".to_owned(), figures(3.1e5))];
        let report = Report { host: Host::describe(), pairs, failed: vec![], target: TARGET };
        assert!(report.pairs[0].met && !report.pairs[1].met);
        let text = report.table();
        assert!(
            text.contains("2.00; target 3.0, met") && text.contains("3.10; target 3.0, missed"),
            "{text}"
        );
    }
}
