//! Reports as a table and as JSON.

use serde::Serialize;

use super::Times;
use crate::report::BenchReport;
use crate::suite::Absent;
use crate::table::{align, cells, missing, none};

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Rows of the nodes, in order, then of this host.
    pub rows: Vec<Row>,
    /// Peers that were not measured.
    pub absent: Vec<Absent>,
}

/// Figure with its counterpart in the paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Name of the operation.
    pub what: String,
    /// Node of the hub, or the mechanism on this host.
    #[serde(rename = "where")]
    pub place: String,
    /// Number of channels that a request passes; 0 without channels.
    pub hops: usize,
    /// Length of a value, in bytes; 0 without values.
    pub bytes: usize,
    /// Number of operations measured.
    pub count: u64,
    /// Mean time per operation, in ns.
    pub ns_each: f64,
    /// Median of batches of ten, in ns per operation.
    pub p50_ns: f64,
    /// Figure of the paper, in nanoseconds.
    pub paper_ns: Option<f64>,
}

impl Row {
    pub(super) fn new(what: &str, place: &str, bytes: usize, count: u64, times: Times) -> Row {
        let (what, place) = (what.to_owned(), place.to_owned());
        let Times { mean_ns: ns_each, p50_ns } = times;
        Row { what, place, hops: 1, bytes, count, ns_each, p50_ns, paper_ns: None }
    }

    /// Marks a row of this host, which passes no channels.
    pub(super) fn of_host(self) -> Row {
        Row { hops: 0, ..self }
    }

    pub(super) fn with_paper_value(self, paper_ns: f64) -> Row {
        Row { paper_ns: Some(paper_ns), ..self }
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let heads =
            ["WHAT", "WHERE", "HOPS", "BYTES", "MEAN, us", "MEDIAN, us", "PER s", "MB/s", "PAPER, us"];
        let mut lines = vec![cells(&heads)];
        for row in &self.rows {
            let number = |value: usize| if value == 0 { none() } else { value.to_string() };
            let us = |ns: f64| format!("{:.2}", ns / 1e3);
            let rate = row.bytes as f64 * 1e3 / row.ns_each;
            lines.push(vec![
                row.what.clone(),
                row.place.clone(),
                number(row.hops),
                number(row.bytes),
                us(row.ns_each),
                us(row.p50_ns),
                format!("{:.0}", 1e9 / row.ns_each),
                if row.bytes > 0 { format!("{rate:.1}") } else { none() },
                row.paper_ns.map_or_else(none, us),
            ]);
        }
        align(&lines) + &missing(&self.absent, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_rates_and_the_paper() {
        let of = |ns| Times { mean_ns: ns, p50_ns: ns };
        let looped = Row::new("semaphore loop", "arm0", 0, 10, of(10_000.0)).with_paper_value(4900.0);
        let port = Row::new("port", "host", 4096, 10, of(4000.0));
        let absent = vec![Absent { peer: "NNG".into(), why: "it was not built".into() }];
        let text = Report { rows: vec![looped, port], absent }.table();
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[1])[3..], ["1", "-", "10.00", "10.00", "100000", "-", "4.90"]);
        assert!(lines[2].contains("1024.0"), "{}", lines[2]);
        assert_eq!(lines[3], "not there: NNG: it was not built");
    }
}
