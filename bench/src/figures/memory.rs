//! Distance of memory: from every node to its own memory and to every window that it reaches (thesis, table
//! 5.1 and figure 5.2).

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tombolo::names::NewRecord;
use tombolo::nodes::{NodeInfo, NodeKind, WindowInfo};
use tombolo::{Domain, NodeId};

use super::{Failed, Figures, Peers, Thesis, failures, gather, nodes, row, thesis_table};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::Error;
use crate::table::{align, cells, significant};

/// Latencies of accesses in the thesis, in ns.
pub const THESIS: [Thesis; 8] = [
    row("first cache, random", Some(1.0), Some(2.0)),
    row("own memory, random", Some(118.0), Some(522.0)),
    row("memory of the other NUMA node, random", Some(118.0), None),
    row("memory of the card by the host, random", Some(619.0), None),
    row("memory of the card by the host, sequential", Some(562.0), None),
    row("memory of the host by the card, random", None, Some(798.0)),
    row("memory of the host by the card, sequential", None, Some(423.0)),
    row("memory of another card, random", None, Some(1295.0)),
];

/// Minimum length of a long chain in bytes, regardless of the caches.
const MIN_BYTES: u64 = 64 << 20;

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Names of the nodes; empty for all that are up.
    pub nodes: Vec<String>,
    /// Length of a long chain in bytes; by default three times the host's last-level cache.
    pub bytes: Option<u64>,
    /// Duration of each figure.
    pub slice: Duration,
}

/// Figures of a memory as accessed by a node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Node whose processor accesses the memory.
    pub node: String,
    /// Instruction set of the node.
    pub isa: &'static str,
    /// Accessed memory: the node's own, or a window, of a node with the host or shared by several nodes.
    pub memory: String,
    /// Length of the long chain, in bytes.
    pub bytes: u64,
    /// Latency in a random chain of 8 KiB, in ns.
    pub small_ns: f64,
    /// Latency in a random chain of all bytes, in ns.
    pub random_ns: f64,
    /// Latency in a sequential chain of all bytes, in ns.
    pub sequential_ns: f64,
    /// Bandwidth of a long read, in bytes per second.
    pub read_bytes_per_s: f64,
    /// Bandwidth of a long write, in bytes per second.
    pub write_bytes_per_s: f64,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// One row per node and memory.
    pub rows: Vec<Row>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Figures of the thesis.
    pub thesis: [Thesis; 8],
}

/// Measures the memories, and stores the rates of links as records of the machine, which the selection of
/// nodes uses.
///
/// # Errors
/// An unknown node, or one that is down. A node that fails is part of the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let host = Host::describe();
    let bytes = options.bytes.unwrap_or_else(|| (3 * last_cache_bytes(&host)).max(MIN_BYTES));
    let (peers, all, all_windows) = (Peers::new(domain, image)?, domain.nodes()?, domain.windows()?);
    let name = |node: &NodeInfo| format!("memory of {}", node.name);
    let (rows, failed) = gather(nodes(domain, &options.nodes)?, name, progress, |node| {
        let windows = windows_of(&node, &all_windows);
        // Uses half of the free memory, because other programs need memory too.
        let free = free_bytes(domain, &node.name);
        let bytes = free.map_or(bytes, |free| bytes.min(free / 2));
        let mut words = vec!["memory".to_owned(), bytes.to_string(), options.slice.as_millis().to_string()];
        words.extend(windows.iter().cloned());
        let figures = peers.run(&node.name, &words)?;
        let memories = std::iter::once(("own".to_owned(), "own".to_owned()))
            .chain(windows.iter().map(|it| (label(it, &all), format!("window-{it}"))));
        let rows = memories.filter_map(|(memory, key)| row_of(&node, memory, &key, &figures));
        Ok::<Vec<Row>, Error>(rows.collect())
    });
    let rows = rows.concat();
    keep(domain, &all, &rows)?;
    Ok(Report { host, rows, failed, thesis: THESIS })
}

/// Returns the windows that a node reaches: programs on the host's kernel reach all that the host does.
fn windows_of(node: &NodeInfo, all: &[WindowInfo]) -> Vec<String> {
    let kernel = match node.kind {
        NodeKind::Host | NodeKind::User => NodeId::HOST,
        _ => node.id,
    };
    let reaches = |window: &&WindowInfo| window.bytes.1 > 0 && window.nodes.contains(&kernel);
    all.iter().filter(reaches).map(|window| window.name.clone()).collect()
}

/// Returns the label of a window in the table: a window between a node and the host has the name of the node.
fn label(window: &str, all: &[NodeInfo]) -> String {
    let of = if all.iter().any(|node| node.name == window) { "of " } else { "" };
    format!("window {of}{window}")
}

fn free_bytes(domain: &Domain, node: &str) -> Option<u64> {
    let fact = domain.facts(&format!("node/{node}")).ok()?.pop()?;
    u64::try_from(fact.integer("memory_free_bytes").ok()?).ok()
}

/// Returns the size of the last-level cache of the host's first processor.
fn last_cache_bytes(host: &Host) -> u64 {
    let size = host.caches.last().map_or("", |cache| cache.size.as_str());
    let (number, unit) = size.split_at(size.len() - size.chars().last().map_or(0, char::len_utf8));
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return 0,
    };
    number.parse::<u64>().map_or(0, |number| number << shift)
}

fn row_of(node: &NodeInfo, memory: String, key: &str, figures: &Figures) -> Option<Row> {
    let figure = |name: &str| figures.get(&format!("{key}.{name}")).copied();
    Some(Row {
        node: node.name.clone(),
        isa: node.isa.name(),
        memory,
        bytes: figure("bytes")? as u64,
        small_ns: figure("small_ns")?,
        random_ns: figure("random_ns")?,
        sequential_ns: figure("sequential_ns")?,
        read_bytes_per_s: figure("read_bytes_per_s")?,
        write_bytes_per_s: figure("write_bytes_per_s")?,
    })
}

/// Stores the cost of a long copy over each link, from the host's own access to the window.
fn keep(domain: &Domain, all: &[NodeInfo], rows: &[Row]) -> Result<(), Error> {
    let Some(host) = all.first() else { return Ok(()) };
    for row in rows.iter().filter(|row| row.node == host.name) {
        if let Some(node) = row.memory.strip_prefix("window of ") {
            let rate = row.write_bytes_per_s.min(row.read_bytes_per_s) as i64;
            let record = NewRecord::new(&format!("link.costs/{}/{node}", host.name))
                .persistent()
                .with("bytes_per_s", rate)
                .with("latency_ns", row.random_ns as i64);
            domain.names().set(&record)?;
        }
    }
    Ok(())
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let heads = ["from", "isa", "to", "MiB", "8 KiB", "random", "sequential", "read", "write"];
        let mut lines = vec![cells(&heads)];
        for row in &self.rows {
            let mut line = vec![row.node.clone(), row.isa.to_owned(), row.memory.clone()];
            line.push(significant(row.bytes as f64 / f64::from(1 << 20)));
            line.extend([row.small_ns, row.random_ns, row.sequential_ns].map(significant));
            line.extend([row.read_bytes_per_s, row.write_bytes_per_s].map(|rate| significant(rate / 1e9)));
            lines.push(line);
        }
        let title = "Latency of an access to a line, in ns (medians), and rates of long copies, in GB/s";
        let mut text = format!("{title}\n\n{}", align(&lines));
        text += &failures(&self.failed);
        text += &thesis_table("Thesis, table 5.1: Xeon E5 v2 and Xeon Phi over PCIe, ns", &THESIS);
        text
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Cache;

    #[test]
    fn the_last_cache_is_read_with_its_unit() {
        let host = |size: &str| Host {
            caches: vec![
                Cache { name: "L1d".into(), size: "32K".into(), shared_by: 1 },
                Cache { name: "L3".into(), size: size.into(), shared_by: 8 },
            ],
            ..Host::describe()
        };
        assert_eq!(last_cache_bytes(&host("32768K")), 32 << 20);
        assert_eq!(last_cache_bytes(&host("1M")), 1 << 20);
        assert_eq!([last_cache_bytes(&host("")), last_cache_bytes(&host("12"))], [0, 0]);
    }

    #[test]
    fn a_node_reaches_the_windows_of_its_kernel() {
        let node = |id, name: &str, kind| NodeInfo::new(NodeId(id), name, kind, tombolo::Isa::Aarch64);
        let all = [
            node(0, "host", NodeKind::Host),
            node(1, "arm0", NodeKind::Vm),
            node(2, "arm1", NodeKind::Vm),
            node(3, "user", NodeKind::User),
        ];
        let window = |id, name: &str, nodes: &[u16], lendable_bytes| WindowInfo {
            id,
            name: name.into(),
            nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
            bytes: (0, lendable_bytes),
            trust: String::new(),
            home: NodeId::HOST,
            read_ns: 0,
            line_ns: 0,
        };
        let windows = [
            window(0, "arm0", &[0, 1], 1 << 20),
            window(1, "arm1", &[0, 2], 1 << 20),
            window(2, "arms", &[1, 2], 1 << 20),
            window(3, "down", &[0, 1, 2], 0),
        ];
        let reached = all.each_ref().map(|node| windows_of(node, &windows).join(" "));
        assert_eq!(reached, ["arm0 arm1", "arm0 arms", "arm1 arms", "arm0 arm1"]);
        assert_eq!([label("arm0", &all), label("arms", &all)], ["window of arm0", "window arms"]);
    }

    #[test]
    fn table_is_compared_with_the_thesis() {
        let row = Row {
            node: "arm0".into(),
            isa: "aarch64",
            memory: "window of arm0".into(),
            bytes: 64 << 20,
            small_ns: 1.5,
            random_ns: 96.0,
            sequential_ns: 4.0,
            read_bytes_per_s: 1.2e10,
            write_bytes_per_s: 9e9,
        };
        let failed = vec![Failed::new("memory of x", &"it ended")];
        let report = Report { host: Host::describe(), rows: vec![row], failed, thesis: THESIS };
        let text = report.table();
        assert!(text.contains("window of arm0  64.0   1.50    96.0        4.00  12.0   9.00"), "{text}");
        assert!(text.contains("not measured: memory of x: it ended") && text.contains("1295"), "{text}");
        assert!(report.to_json().contains("\"random_ns\": 96.0"));
    }
}
