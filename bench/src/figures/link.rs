//! Cost of the links of a machine: `tombolo bench link`. Between every two nodes with a link, a program on
//! each measures round trips by message length and the rate of long messages, together with the memory under
//! the channel as the limit.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tombolo::names::Record;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{Domain, NodeId, TransportKind};
pub use tombolo_bench_far::figures::link::LENGTHS;
use tombolo_bench_far::figures::link::Plan;

use super::{Failed, Figures, Peers, failures, gather, nodes};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::{Error, processors};
use crate::table::{align, cells, none, significant};

/// Options of the link benchmark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nodes whose links are measured; empty for all.
    pub nodes: Vec<String>,
    /// Duration of each figure.
    pub slice: Duration,
    /// Whether to pin programs on the host's kernel to a processor each.
    pub pin: bool,
}

/// Median and 99th percentile, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Times {
    /// Median, in nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: f64,
}

/// Round trip of messages of one length.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RoundTrip {
    /// Length of the messages, in bytes.
    pub bytes: usize,
    /// Time of the round trip.
    #[serde(flatten)]
    pub times: Times,
}

/// Costs of a link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Link {
    /// Names of the node that sends first and of the other.
    pub nodes: [String; 2],
    /// Transport of the messages.
    pub transport: String,
    /// Round trip of two bare lines in the memory under the channel; `None` if no memory is shared or it is
    /// not coherent.
    pub limit: Option<Times>,
    /// Round trips in ascending order of length.
    pub round_trips: Vec<RoundTrip>,
    /// Rate of long messages from the first node to the other.
    pub bytes_per_s: f64,
    /// Rate of long messages in the other direction.
    pub bytes_per_s_back: f64,
    /// Rate of copies into the shared memory by the first node.
    pub limit_bytes_per_s: Option<f64>,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Measured links, by their nodes.
    pub links: Vec<Link>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
}

impl Link {
    /// Returns the kind of transport, if its name is known.
    #[must_use]
    pub fn transport_kind(&self) -> Option<TransportKind> {
        TransportKind::from_name(&self.transport)
    }

    fn new(nodes: [String; 2], transport: String, figures: &Figures) -> Option<Link> {
        let figure = |name: &str| figures.get(name).copied();
        let times = |name: &str| {
            let [p50_ns, p99_ns] = ["p50", "p99"].map(|part| figure(&format!("{name}_{part}_ns")));
            Some(Times { p50_ns: p50_ns?, p99_ns: p99_ns? })
        };
        let round_trip = |bytes| Some(RoundTrip { bytes, times: times(&format!("round_trip_{bytes}"))? });
        Some(Link {
            nodes,
            transport,
            limit: times("limit"),
            round_trips: LENGTHS.into_iter().map(round_trip).collect::<Option<_>>()?,
            bytes_per_s: figure("bytes_per_s")?,
            bytes_per_s_back: figure("bytes_per_s_back")?,
            limit_bytes_per_s: figure("limit_bytes_per_s"),
        })
    }
}

/// Measures the links between nodes that are up and run programs under Linux.
///
/// # Errors
/// The machine is gone, or a node does not exist or is down. A link that fails is part of the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let wanted = nodes(domain, &options.nodes)?;
    let peers = Peers::new(domain, image)?;
    let all = domain.nodes()?;
    let cpus = if options.pin { Some(processors()?) } else { None };
    let links = pairs(&all, &wanted, &domain.facts("link/*")?);
    let name = |(a, b, _): &(&NodeInfo, &NodeInfo, String)| format!("link of {} and {}", a.name, b.name);
    let (links, failed) = gather(links, name, progress, |(a, b, transport)| {
        let job = format!("bench/link/{}/{}/{}", domain.id(), a.name, b.name);
        let on_host = |node: &NodeInfo| matches!(node.kind, NodeKind::Host | NodeKind::User);
        let cpu =
            |node: &NodeInfo, pick: fn((usize, usize)) -> usize| cpus.filter(|_| on_host(node)).map(pick);
        let plan = Plan {
            slice_ms: (options.slice.as_millis() as u64).max(1),
            cpus: [cpu(a, |(near, _)| near), cpu(b, |(_, far)| far)],
        };
        let figures = peers.run_job(&[&a.name, &b.name], &job, &plan.words())?;
        let nodes = [a.name.clone(), b.name.clone()];
        Link::new(nodes, transport, &figures).ok_or_else(|| Error::of_figures("read all figures of a link"))
    });
    Ok(Report { host: Host::describe(), links, failed })
}

/// Returns every pair of nodes with a link, at least one of which is wanted, and their transport.
fn pairs<'a>(
    all: &'a [NodeInfo],
    wanted: &[NodeInfo],
    facts: &[Record],
) -> Vec<(&'a NodeInfo, &'a NodeInfo, String)> {
    let named = |name: &str| all.iter().find(|node| node.name == name);
    let is_wanted = |id: NodeId| wanted.iter().any(|node| node.id == id);
    let pair = |fact: &Record| {
        let (a, b) = (named(fact.text("from").ok()?)?, named(fact.text("to").ok()?)?);
        // A route over relays has no transport.
        let transport = fact.text("transport").ok()?.to_owned();
        let measures = |node: &NodeInfo| node.up && (node.kind != NodeKind::Bare || is_wanted(node.id));
        (measures(a) && measures(b) && (is_wanted(a.id) || is_wanted(b.id))).then_some((a, b, transport))
    };
    facts.iter().filter_map(pair).collect()
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut head = cells(&["link", "over", "limit"]);
        head.extend(LENGTHS.iter().map(|bytes| match bytes {
            ..1024 => format!("{bytes} B"),
            _ => format!("{} KiB", bytes >> 10),
        }));
        let mut lines = vec![head];
        for link in &self.links {
            let of = |pick: fn(&Times) -> f64, part: &str| {
                let mut line = vec![link.nodes.join("-"), format!("{}, {part}", link.transport)];
                line.push(link.limit.as_ref().map_or_else(none, |times| significant(pick(times))));
                line.extend(link.round_trips.iter().map(|it| significant(pick(&it.times))));
                line
            };
            lines.extend([of(|times| times.p50_ns, "p50"), of(|times| times.p99_ns, "p99")]);
        }
        let mut text = format!("Round trips by length of the message, in ns\n\n{}", align(&lines));
        let mut lines = vec![cells(&["link", "there", "back", "copies"])];
        for link in &self.links {
            let mut line = vec![link.nodes.join("-")];
            line.extend([link.bytes_per_s, link.bytes_per_s_back].map(|rate| significant(rate / 1e9)));
            line.push(link.limit_bytes_per_s.map_or_else(none, |rate| significant(rate / 1e9)));
            lines.push(line);
        }
        text += &format!("\nMessages of 64 KiB one after another, in GB/s\n\n{}", align(&lines));
        text += "\nlimit   two bare cache lines in the memory under the channel, stored and awaited in turn\n\
                 copies  of 64 KiB into that memory by the first node\n";
        text + &failures(&self.failed)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use tombolo::Isa;
    use tombolo::names::Value;

    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::new();
        for (index, bytes) in (1..).zip(LENGTHS) {
            figures.insert(format!("round_trip_{bytes}_p50_ns"), f64::from(index) * 1000.0);
            figures.insert(format!("round_trip_{bytes}_p99_ns"), f64::from(index) * 2000.0);
        }
        figures.insert("bytes_per_s".into(), 2e9);
        figures.insert("bytes_per_s_back".into(), 1e9);
        figures
    }

    #[test]
    fn links_lack_limits_without_shared_memory() {
        let nodes = || ["host".to_owned(), "arm0".to_owned()];
        let link = Link::new(nodes(), "socket".into(), &figures()).expect("it has all");
        assert_eq!((link.limit, link.limit_bytes_per_s), (None, None));
        assert_eq!(link.transport_kind(), Some(TransportKind::Socket));
        for missing in ["bytes_per_s_back", "round_trip_4096_p99_ns"] {
            let mut figures = figures();
            figures.remove(missing);
            assert_eq!(Link::new(nodes(), "socket".into(), &figures), None, "{missing}");
        }
        let mut figures = figures();
        figures.insert("limit_p50_ns".into(), 123.0);
        figures.insert("limit_p99_ns".into(), 234.0);
        let link = Link::new(nodes(), "shm".into(), &figures).expect("it has all");
        let report = Report {
            host: Host::describe(),
            links: vec![link],
            failed: vec![Failed::new("link of host and arm1", &"it ended")],
        };
        let text = report.table();
        for part in ["host-arm0  shm, p50    123", "2.00  1.00       -", "64 KiB", "host and arm1: it ended"]
        {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
    }

    #[test]
    fn the_links_of_nodes_that_are_up_are_measured() {
        let node = |id, name: &str, kind| NodeInfo::new(NodeId(id), name, kind, Isa::Aarch64);
        let mut all = vec![
            node(0, "host", NodeKind::Host),
            node(1, "arm0", NodeKind::Vm),
            node(2, "arm1", NodeKind::Vm),
            node(3, "bare0", NodeKind::Bare),
        ];
        let fact = |from: &str, to: &str, transport: Option<&str>| {
            let pairs = [("from", Some(from)), ("to", Some(to)), ("transport", transport)];
            let text = |text: &str| Value::Text(text.to_owned());
            Record {
                name: format!("link/{from}/{to}"),
                attributes: pairs
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), text(value?))))
                    .collect(),
                version: 0,
                owner: None,
                endpoint: false,
            }
        };
        let facts = [
            fact("host", "arm0", Some("window")),
            fact("host", "arm1", Some("window")),
            fact("host", "bare0", Some("window")),
            fact("arm0", "arm1", None),
        ];
        let found = |all: &[NodeInfo], wanted: &[usize]| {
            let wanted: Vec<NodeInfo> = wanted.iter().map(|index| all[*index].clone()).collect();
            let pairs = pairs(all, &wanted, &facts);
            pairs.iter().map(|(a, b, _)| format!("{}-{}", a.name, b.name)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(&all, &[0, 1, 2]), "", "none is up");
        all.iter_mut().for_each(|node| node.up = true);
        assert_eq!(found(&all, &[0, 1, 2]), "host-arm0 host-arm1");
        assert_eq!(found(&all, &[2]), "host-arm1");
        assert_eq!(found(&all, &[3]), "host-bare0", "a board is asked for by its name alone");
    }
}
