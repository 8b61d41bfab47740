//! The report of a search, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;

use serde::Serialize;

use crate::crew::{Account, MemberReport, Spreading};
use crate::emulation::Emulation;
use crate::graph::{Csr, Input, Names};
use crate::search::{Communities, ROUNDS_PER_SWEEP};

/// Number of central vertices named per community.
const CENTRAL_NAMES: usize = 5;

/// Report of a job. The fields are the keys of `--json`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Source of the graph.
    pub source: String,
    /// Number of vertices.
    pub vertices: usize,
    /// Number of edges after merging.
    pub edges: u64,
    /// Number of edges given more than once.
    pub duplicate_edges: u64,
    /// Seed of the search.
    pub seed: u64,
    /// Modularity reached.
    pub modularity: f64,
    /// Exact numerator of the modularity; the denominator is the square of the total weight.
    pub modularity_numerator: String,
    /// Sum of all degrees.
    pub total_weight: u64,
    /// Number of communities.
    pub communities: usize,
    /// Communities of one vertex.
    pub single_vertices: usize,
    /// Number of communities by minimum size: (vertices, communities).
    pub sizes: Vec<(usize, usize)>,
    /// Largest communities, in descending order of size.
    pub largest: Vec<Community>,
    /// Levels of contraction.
    pub levels: u32,
    /// Rounds on all levels.
    pub rounds: u32,
    /// Number of vertices evaluated for a move.
    pub evaluations: u64,
    /// Moves made.
    pub moves: u64,
    /// Time to read the graph, in seconds.
    pub read_seconds: f64,
    /// Time to start the workers, in seconds.
    pub start_seconds: f64,
    /// Time of the search, in seconds.
    pub search_seconds: f64,
    /// Bytes of the graph sent to each worker.
    pub spread_bytes: u64,
    /// Time until all workers had the graph; part of the search.
    pub spread_seconds: f64,
    /// The same by messages, if both ways were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by_messages_seconds: Option<f64>,
    /// Work of each worker.
    pub workers: Vec<WorkerReport>,
    /// Arcs that the master examined: those of small contracted graphs, and the work of lost workers.
    pub master_arcs: u64,
    /// Computing time of the master, in seconds.
    pub master_compute_seconds: f64,
    /// Whether a search in one thread gave the same labels; absent without `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Time of that search, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_seconds: Option<f64>,
    /// Effect of emulated nodes on the time; absent without emulated nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<Emulation>,
}

/// One of the largest communities.
#[derive(Debug, Serialize)]
pub struct Community {
    /// Number of its vertices.
    pub size: usize,
    /// Its vertices with the most edges within it.
    pub central: Vec<String>,
}

/// Work of one worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// Its node.
    pub node: String,
    /// Its domain.
    pub domain: String,
    /// Its instruction set.
    pub isa: String,
    /// The transport of the channel to it.
    pub transport: String,
    /// Whether its processor is emulated.
    pub emulated: bool,
    /// Parts that it has evaluated.
    pub parts: u64,
    /// Arcs that it has examined.
    pub arcs: u64,
    /// Its share of all arcs examined, from 0 to 1.
    pub share: f64,
    /// Time spent finding moves.
    pub compute_seconds: f64,
    /// Time spent waiting for messages; 0 if it was lost.
    pub wait_seconds: f64,
    /// Peak memory of its graphs and labels, in bytes.
    pub memory_bytes: u64,
    /// Messages sent to it.
    pub messages_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Messages received from it.
    pub messages_received: u64,
    /// Bytes in them.
    pub bytes_received: u64,
    /// Reason for its loss, if it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Durations of the stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Time to read the graph, in seconds.
    pub read_seconds: f64,
    /// Time to start the workers, in seconds.
    pub start_seconds: f64,
    /// Time of the search, in seconds.
    pub search_seconds: f64,
    /// Transfer of the graph to the workers, part of the search.
    pub spreading: Spreading,
}

impl Report {
    /// Assembles the report. `ranking` comes from [`rank`]; `top` communities are described.
    #[must_use]
    pub fn new(
        input: &Input,
        seed: u64,
        found: &Communities,
        ranking: &Ranking,
        crew: (Vec<MemberReport>, Account),
        times: Times,
        top: usize,
    ) -> Self {
        let (members, own) = crew;
        let arcs: u64 = members.iter().map(|member| member.account.arcs).sum::<u64>() + own.arcs;
        let sizes = &ranking.sizes;
        let at_least = |limit: usize| sizes.iter().filter(|&&size| size >= limit).count();
        Self {
            source: input.origin.clone(),
            vertices: input.graph.vertices(),
            edges: input.graph.edges(),
            duplicate_edges: input.merged.duplicates,
            seed,
            modularity: found.modularity.value(),
            modularity_numerator: found.modularity.numerator().to_string(),
            total_weight: input.graph.total_weight(),
            communities: found.count,
            single_vertices: found.count - at_least(2),
            sizes: [10_000, 1_000, 100, 10, 2].map(|limit| (limit, at_least(limit))).to_vec(),
            largest: describe(&input.graph, &input.names, found, ranking, top),
            levels: found.tally.levels,
            rounds: found.tally.rounds,
            evaluations: found.tally.evaluations,
            moves: found.tally.moves,
            read_seconds: times.read_seconds,
            start_seconds: times.start_seconds,
            search_seconds: times.search_seconds,
            spread_bytes: times.spreading.bytes,
            spread_seconds: times.spreading.seconds,
            spread_by_messages_seconds: times.spreading.by_messages_seconds,
            workers: members.into_iter().map(|member| worker_report(member, arcs)).collect(),
            master_arcs: own.arcs,
            master_compute_seconds: seconds(own.compute_ns),
            verified: None,
            verify_seconds: None,
            emulation: None,
        }
    }
}

fn worker_report(member: MemberReport, all_arcs: u64) -> WorkerReport {
    let MemberReport { identity, account, lost } = member;
    WorkerReport {
        node: identity.node,
        domain: identity.domain,
        isa: identity.isa,
        transport: identity.transport,
        emulated: identity.emulated,
        parts: account.parts,
        arcs: account.arcs,
        share: account.arcs as f64 / all_arcs.max(1) as f64,
        compute_seconds: seconds(account.compute_ns.max(account.summary.compute_ns)),
        wait_seconds: seconds(account.summary.wait_ns),
        memory_bytes: account.summary.memory_bytes,
        messages_sent: account.messages_sent,
        bytes_sent: account.bytes_sent,
        messages_received: account.messages_received,
        bytes_received: account.bytes_received,
        lost,
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Communities in the order of their sizes.
#[derive(Debug)]
pub struct Ranking {
    /// Number of the community by rank, the largest first.
    pub order: Vec<u32>,
    /// Size of the community by rank.
    pub sizes: Vec<usize>,
    /// Rank of the community by number.
    pub rank_of: Vec<u32>,
}

/// Ranks communities by size, largest first; ties are broken by the smaller first vertex.
#[must_use]
pub fn rank(found: &Communities) -> Ranking {
    let mut sizes = vec![0usize; found.count];
    for &member in &found.members {
        sizes[member as usize] += 1;
    }
    let mut order: Vec<u32> = (0..found.count as u32).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(sizes[number as usize]));
    let mut rank_of = vec![0; found.count];
    for (rank, &number) in order.iter().enumerate() {
        rank_of[number as usize] = rank as u32;
    }
    Ranking { sizes: order.iter().map(|&number| sizes[number as usize]).collect(), order, rank_of }
}

fn describe(
    graph: &Csr,
    names: &Names,
    found: &Communities,
    ranking: &Ranking,
    top: usize,
) -> Vec<Community> {
    let shown = top.min(found.count);
    let mut members: Vec<Vec<(u64, u32)>> = vec![Vec::new(); shown];
    for (vertex, &community) in found.members.iter().enumerate() {
        let Some(list) = members.get_mut(ranking.rank_of[community as usize] as usize) else { continue };
        let arcs = graph.arcs_of(vertex as u32);
        let within = arcs.filter(|&(target, _)| found.members[target as usize] == community);
        list.push((within.map(|(_, weight)| weight).sum(), vertex as u32));
    }
    members
        .into_iter()
        .map(|mut list| {
            list.sort_by_key(|&(degree, vertex)| (std::cmp::Reverse(degree), vertex));
            let central = list.iter().take(CENTRAL_NAMES);
            Community {
                size: list.len(),
                central: central.map(|&(_, vertex)| names.name(vertex).into_owned()).collect(),
            }
        })
        .collect()
}

/// Writes `vertex<TAB>community` lines; community 1 is the largest.
///
/// # Errors
/// Those of `output`.
pub fn write_labels(
    output: &mut impl io::Write,
    names: &Names,
    found: &Communities,
    ranking: &Ranking,
) -> io::Result<()> {
    for (vertex, &community) in found.members.iter().enumerate() {
        writeln!(output, "{}\t{}", names.name(vertex as u32), ranking.rank_of[community as usize] + 1)?;
    }
    output.flush()
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "graph        {}", self.source)?;
        writeln!(
            out,
            "             {} vertices, {} edges",
            grouped(self.vertices as u64),
            grouped(self.edges)
        )?;
        writeln!(out, "modularity   {:.6}", self.modularity)?;
        let several = self.communities - self.single_vertices;
        writeln!(
            out,
            "communities  {}: {} of several vertices, {} of one",
            grouped(self.communities as u64),
            grouped(several as u64),
            grouped(self.single_vertices as u64)
        )?;
        let sizes = self.sizes.iter().filter(|(_, count)| *count > 0);
        let sizes: Vec<String> = sizes
            .map(|&(limit, count)| format!("{} of {}+", grouped(count as u64), grouped(limit as u64)))
            .collect();
        writeln!(out, "sizes        {}", sizes.join(", "))?;
        if !self.largest.is_empty() {
            writeln!(out, "\nlargest communities, and the vertices with most edges within them")?;
            for (index, community) in self.largest.iter().enumerate() {
                let size = grouped(community.size as u64);
                writeln!(out, "{:>4} {size:>9}  {}", index + 1, community.central.join(", "))?;
            }
        }
        writeln!(
            out,
            "\nsearch       {:.3} s (reading {:.3} s, starting workers {:.3} s): {} levels, {} rounds ({} make a sweep), {} moves",
            self.search_seconds,
            self.read_seconds,
            self.start_seconds,
            self.levels,
            self.rounds,
            ROUNDS_PER_SWEEP,
            grouped(self.moves),
        )?;
        self.write_spreading(out)?;
        self.write_nodes(out)?;
        if let Some(emulation) = &self.emulation {
            write!(out, "{emulation}")?;
        }
        match self.verified {
            Some(true) => writeln!(
                out,
                "verified     one thread gives the same labels for all vertices, in {:.3} s",
                self.verify_seconds.unwrap_or_default()
            ),
            Some(false) => writeln!(out, "NOT VERIFIED one thread gives other labels: this is a bug"),
            None => Ok(()),
        }
    }
}

impl Report {
    fn write_spreading(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.workers.is_empty() {
            return Ok(());
        }
        let (size, seconds) = (bytes(self.spread_bytes), self.spread_seconds);
        write!(out, "spreading    {size} to each of {} workers in {seconds:.4} s", self.workers.len())?;
        match self.spread_by_messages_seconds {
            Some(by_messages) if seconds > 0.0 => {
                writeln!(out, "; by messages {by_messages:.4} s, {:.1} times as long", by_messages / seconds)
            }
            _ => writeln!(out),
        }
    }

    fn write_nodes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nodes: BTreeMap<(&str, &str), Vec<&WorkerReport>> = BTreeMap::new();
        for worker in &self.workers {
            nodes.entry((&worker.node, &worker.transport)).or_default().push(worker);
        }
        let mut table = vec![
            ["node", "isa", "workers", "share", "compute", "wait", "memory", "link", "to it", "from it"]
                .map(str::to_owned),
        ];
        for ((node, transport), workers) in nodes {
            let sum =
                |field: fn(&WorkerReport) -> f64| workers.iter().map(|worker| field(worker)).sum::<f64>();
            let count =
                |field: fn(&WorkerReport) -> u64| workers.iter().map(|worker| field(worker)).sum::<u64>();
            let lost = workers.iter().filter(|worker| worker.lost.is_some()).count();
            let lost = if lost > 0 { format!(" ({lost} lost)") } else { String::new() };
            table.push([
                node.to_owned(),
                workers[0].isa.clone(),
                format!("{}{lost}", workers.len()),
                format!("{:.1} %", 100.0 * sum(|worker| worker.share)),
                format!("{:.3} s", sum(|worker| worker.compute_seconds)),
                format!("{:.3} s", sum(|worker| worker.wait_seconds)),
                bytes(count(|worker| worker.memory_bytes)),
                transport.to_owned(),
                traffic(count(|worker| worker.messages_sent), count(|worker| worker.bytes_sent)),
                traffic(count(|worker| worker.messages_received), count(|worker| worker.bytes_received)),
            ]);
        }
        let all: f64 = self.workers.iter().map(|worker| worker.share).sum();
        let mut master = [const { String::new() }; 10];
        master[0] = "(master)".to_owned();
        master[3] = format!("{:.1} %", 100.0 * (1.0 - all).max(0.0));
        master[4] = format!("{:.3} s", self.master_compute_seconds);
        table.push(master);
        write_table(out, &table)
    }
}

fn write_table<const COLUMNS: usize>(
    out: &mut fmt::Formatter<'_>,
    table: &[[String; COLUMNS]],
) -> fmt::Result {
    let mut widths = [0; COLUMNS];
    for row in table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in table {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:<width$}  ")?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn traffic(messages: u64, count: u64) -> String {
    format!("{} messages, {}", grouped(messages), bytes(count))
}

/// Formats a number as in `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes as in `1.5 MiB`.
fn bytes(count: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| count >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", count as f64 / *size as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
    }
}
