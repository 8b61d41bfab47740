//! Cost of creating a region, mapping it and touching its pages, while other domains do the same (thesis,
//! figure C.1).

use std::path::Path;

use serde::Serialize;
use tombolo::Domain;
use tombolo_bench_far::figures::median;

use super::{Failed, Peers, failures, gather, host_of};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::Error;
use crate::table::{align, cells, significant};

/// Lengths of regions in the thesis, in bytes.
pub const LENGTHS: [u64; 2] = [4 << 10, 32 << 20];

/// Numbers of concurrent domains in the thesis; 1 is its "local".
pub const DOMAINS: [u32; 3] = [1, 2, 40];

/// Summary of the text on figure C.1, which has bars without numbers.
pub const THESIS: &str = "\
Thesis, figure C.1 (bars without numbers): mapping 4 KiB takes about the same locally, with 2 and with 40 domains;
mapping 32 MiB takes longer, and with 40 domains two orders of magnitude longer, as one memory server gives out the
frames for all page tables.";

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Numbers of concurrent domains.
    pub domains: Vec<u32>,
    /// Lengths of regions, in bytes.
    pub lengths: Vec<u64>,
    /// Number of regions that each domain maps, one after another.
    pub rounds: u32,
}

/// Times of concurrently mapping domains: medians over all rounds of a domain, then over the domains.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Length of each region, in bytes.
    pub bytes: u64,
    /// Number of concurrent domains.
    pub domains: u32,
    /// Time to create the region.
    pub create_ns: f64,
    /// Time to obtain the right and map the region.
    pub map_ns: f64,
    /// Time to touch each page for the first time.
    pub touch_ns: f64,
    /// Time to unmap and free the region.
    pub unmap_ns: f64,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Rows by length, then by number of domains.
    pub rows: Vec<Row>,
    /// Measurements that failed, with reasons.
    pub failed: Vec<Failed>,
    /// Summary of the thesis' result.
    pub thesis: &'static str,
}

/// Measures on the host.
///
/// # Errors
/// The machine is gone. A row that fails is part of the result.
pub fn run(
    (domain, image): (&Domain, &Path),
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let peers = Peers::new(domain, image)?;
    let host = host_of(domain)?;
    let all =
        options.lengths.iter().flat_map(|bytes| options.domains.iter().map(|domains| (*bytes, *domains)));
    let name = |(bytes, domains): &(u64, u32)| format!("{} KiB, {domains} domains", bytes / 1024);
    let (rows, failed) = gather(all, name, progress, |(bytes, domains)| {
        let barrier = format!("bench/map/{}/{bytes}/{domains}", domain.id());
        let words =
            ["map".to_owned(), barrier, domains.to_string(), bytes.to_string(), options.rounds.to_string()];
        let all = peers.run_all(&host, &words, domains)?;
        let of = |name: &str| median(all.iter().filter_map(|it| it.get(name).copied()).collect());
        Ok::<_, Error>(Row {
            bytes,
            domains,
            create_ns: of("create_ns"),
            map_ns: of("map_ns"),
            touch_ns: of("touch_ns"),
            unmap_ns: of("unmap_ns"),
        })
    });
    Ok(Report { host: Host::describe(), rows, failed, thesis: THESIS })
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut lines =
            vec![cells(&["KiB", "domains", "create", "map", "touch", "unmap", "map + touch by one"])];
        for row in &self.rows {
            let times = [row.create_ns, row.map_ns, row.touch_ns, row.unmap_ns];
            let mut line = vec![(row.bytes / 1024).to_string(), row.domains.to_string()];
            line.extend(times.map(|time_ns| significant(time_ns / 1000.0)));
            let alone = self.rows.iter().find(|other| other.bytes == row.bytes && other.domains == 1);
            let ratio = alone.map(|alone| (row.map_ns + row.touch_ns) / (alone.map_ns + alone.touch_ns));
            line.push(ratio.map_or_else(crate::table::none, |ratio| format!("{ratio:.2}")));
            lines.push(line);
        }
        let title = "Times to make a region, map it, touch its pages and unmap it, in µs (medians); and the ratio to one domain alone";
        format!("{title}\n\n{}{}\n{THESIS}\n", align(&lines), failures(&self.failed))
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_compared_with_that_of_one_domain() {
        let row = |domains, map_ns| Row {
            bytes: 4096,
            domains,
            create_ns: 1e4,
            map_ns,
            touch_ns: 1e3,
            unmap_ns: 1e4,
        };
        let rows = vec![row(1, 9e3), row(40, 199e3)];
        let report = Report { host: Host::describe(), rows, failed: vec![], thesis: THESIS };
        let text = report.table();
        assert!(text.contains("1.00") && text.contains("20.00") && text.contains("C.1"), "{text}");
    }
}
