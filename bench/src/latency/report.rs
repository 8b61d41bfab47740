//! Reports of distributions, for people and for programs.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::report::BenchReport;
use crate::sample::Ordered;
use crate::table::align;

/// Collector of times for a distribution.
#[derive(Debug)]
pub(super) struct Histogram {
    times_ns: Vec<u64>,
}

/// Distribution of round-trip times, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of round trips.
    pub rounds: usize,
    /// Mean of the times.
    pub mean: f64,
    /// Standard deviation of the times.
    pub deviation: f64,
    /// Median of the times.
    pub p50: u64,
    /// 90th percentile of the times.
    pub p90: u64,
    /// 99th percentile of the times.
    pub p99: u64,
    /// 99.9th percentile of the times.
    pub p999: u64,
    /// 99.99th percentile of the times.
    pub p9999: u64,
    /// Maximum of the times.
    pub max: u64,
    /// Histogram: bounds of 2, 4, 8, … µs with the number of times in each bucket; the last one counts all
    /// longer times.
    pub up_to_us: Vec<(u64, usize)>,
}

/// Bound of the last bucket, in µs.
const LAST_US: u64 = 1 << 15;

impl Histogram {
    pub(super) fn new() -> Self {
        Histogram { times_ns: Vec::new() }
    }

    pub(super) fn add(&mut self, time_ns: u64) {
        self.times_ns.push(time_ns);
    }

    pub(super) fn distribution(self) -> Distribution {
        let ordered = Ordered::new(self.times_ns);
        let at = |share: f64| ordered.at(share);
        let times = &ordered.0;
        let count = times.len().max(1);
        let mean = times.iter().map(|time| *time as f64).sum::<f64>() / count as f64;
        let variance = times.iter().map(|time| (*time as f64 - mean).powi(2)).sum::<f64>() / count as f64;
        let bounds = (1..).map(|power| 1_u64 << power).take_while(|us| *us <= LAST_US);
        let mut before = 0;
        let up_to_us = bounds.map(|us| {
            let below =
                if us == LAST_US { times.len() } else { times.partition_point(|time| *time <= us * 1000) };
            let in_bucket = below - before;
            before = below;
            (us, in_bucket)
        });
        Distribution {
            rounds: times.len(),
            mean,
            deviation: variance.sqrt(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: times.last().copied().unwrap_or(0),
            up_to_us: up_to_us.collect(),
        }
    }
}

/// Figures of one treatment of the two threads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Treatment: pinned, priority, both or neither.
    pub treatment: String,
    /// Whether other threads loaded the processors.
    pub loaded: bool,
    /// Times, or the reason why they were not measured.
    pub times: Result<Distribution, String>,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Real-time priority of the prioritised threads.
    pub priority: u8,
    /// Rows, first idle, then under load.
    pub rows: Vec<Row>,
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let what = "round trips of 48 bytes between two processes that sleep, µs";
        let mut text = format!("{}\n{what}\n\n", self.host);
        let heads = ["", "", "p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "deviation", "rounds"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let Ok(times) = &row.times else { continue };
            let micros = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
            let mut line = vec![load(row).to_owned(), row.treatment.clone()];
            let percentiles =
                [times.p50, times.p90, times.p99, times.p999, times.p9999, times.max].map(micros);
            line.extend(percentiles);
            line.extend([times.mean, times.deviation].map(|ns| micros(ns as u64)));
            line.push(times.rounds.to_string());
            lines.push(line);
        }
        text += &align(&lines);
        for row in &self.rows {
            match &row.times {
                Ok(times) => text += &histogram(row, times),
                Err(why) => text += &format!("\n{}, {}: {why}\n", load(row), row.treatment),
            }
        }
        text
    }
}

fn load(row: &Row) -> &'static str {
    if row.loaded { "under load" } else { "idle" }
}

/// Formats the histogram with bars on a logarithmic scale, so that rare times remain visible.
fn histogram(row: &Row, times: &Distribution) -> String {
    let mut text = format!("\n{}, {}\n", load(row), row.treatment);
    let used = |bucket: &&(u64, usize)| bucket.1 > 0;
    for (us, count) in times.up_to_us.iter().filter(used) {
        let bar = "#".repeat(1 + (10.0 * (*count as f64).log10()) as usize);
        let bound = if *us == LAST_US { format!("≥ {}", us / 2) } else { format!("≤ {us}") };
        text += &format!("  {bound:>8} µs {count:>8} {bar}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_one_bucket() {
        let mut times = Histogram::new();
        for time_ns in [0, 2_000, 2_001, 7_000, 1_000_000, 10_000_000_000] {
            times.add(time_ns);
        }
        let times = times.distribution();
        assert_eq!(times.up_to_us.iter().map(|(_, count)| count).sum::<usize>(), times.rounds);
        assert_eq!(times.up_to_us[..3], [(2, 2), (4, 1), (8, 1)]);
        assert_eq!(times.up_to_us.last(), Some(&(LAST_US, 1)));
        assert_eq!((times.p50, times.max), (7_000, 10_000_000_000));
        let none = Histogram::new().distribution();
        assert_eq!((none.rounds, none.p9999, none.mean), (0, 0, 0.0));
    }

    #[test]
    fn refused_permissions_are_reported() {
        let mut times = Histogram::new();
        (1..=100).for_each(|us| times.add(us * 1_000));
        let row = |times| Row { treatment: "pinned".into(), loaded: true, times };
        let rows = vec![row(Ok(times.distribution())), row(Err("it is not permitted".into()))];
        let report = Report { host: Host::describe(), priority: 10, rows };
        let text = report.table();
        assert!(text.contains("under load, pinned: it is not permitted"), "{text}");
        assert!(text.contains("≤ 64 µs") && text.contains("####"), "{text}");
        assert!(report.to_json().contains("\"p9999\""));
    }
}
