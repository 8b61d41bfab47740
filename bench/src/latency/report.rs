//! Distributions, for people and for programs.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::report::BenchReport;
use crate::sample::Ordered;
use crate::table::align;

/// Times, until all are known.
#[derive(Debug)]
pub(super) struct Histogram {
    times_ns: Vec<u64>,
}

/// Of round trips, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub rounds: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// Half are no longer.
    pub p50: u64,
    /// 90 % are no longer.
    pub p90: u64,
    /// 99 % are no longer.
    pub p99: u64,
    /// 99.9 % are no longer.
    pub p999: u64,
    /// 99.99 % are no longer.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
    /// Counts of times up to 2, 4, 8, … µs; the last one counts all longer times.
    pub up_to_us: Vec<(u64, usize)>,
}

/// The last bucket, in µs.
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

/// One treatment of the two threads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The treatment: pinned, priority, both or neither.
    pub treatment: String,
    /// Others wanted the processors too.
    pub loaded: bool,
    /// The times, or why they were not measured.
    pub times: Result<Distribution, String>,
}

/// All that was measured in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The host that was measured.
    pub host: Host,
    /// The real-time priority of the threads that had one.
    pub priority: u8,
    /// Idle, then under load.
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

/// Bars of as many tenths as a bucket has digits' worth of rounds: rare ones must show, so the scale is
/// logarithmic.
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
    fn what_is_not_permitted_is_said() {
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
