//! What was found, as tables and as JSON.

use serde::Serialize;

use super::Options;
use super::run::Found;
use super::stack::{NodePair, OPEN_MPI, Stack, TOMBOLO, TOMBOLO_OPEN_MPI, UCX, VIRTIO};
use crate::host::Host;
use crate::limit::Limit;
use crate::report::BenchReport;
use crate::stacks::{groups, head, median_of};
use crate::table::{align, none, significant};

/// A stack that was not measured, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Absent {
    /// Between which places.
    pub place: NodePair,
    /// Its name.
    pub stack: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.place, self.stack, self.why)
    }
}

/// A stack that was measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct About {
    place: NodePair,
    stack: String,
    about: String,
}

impl About {
    pub(super) fn of(stack: &Stack) -> About {
        About { place: stack.place.clone(), stack: stack.name.clone(), about: stack.about.clone() }
    }
}

/// A figure of a stack: medians over the rounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Between which places.
    pub place: NodePair,
    /// The stack, by its name.
    pub stack: String,
    /// The metric, as `measure` names it.
    pub metric: String,
    /// The length of a message, in bytes.
    pub bytes: u64,
    /// `ns`, `GB/s` or `1/s`.
    pub unit: &'static str,
    /// Median of the rounds' medians.
    pub p50: f64,
    /// Median of the rounds' 99th percentiles.
    pub p99: f64,
    /// The least and the most of the rounds' medians.
    pub range: [f64; 2],
    /// The number of rounds.
    pub rounds: usize,
}

/// A ratio that Tombolo is to keep, and what it was.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Target {
    /// What is compared.
    pub what: String,
    /// What was found.
    pub ratio: f64,
    /// What it is to be: at most, or at least.
    pub limit: f64,
    /// `at most` or `at least`.
    pub bound: &'static str,
    /// Whether it is.
    pub met: bool,
}

/// All that one run found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    host: Host,
    version: &'static str,
    rounds: u32,
    seconds: f64,
    /// The physical limit of the host, as the median of looks before every run of the program.
    pub limit: Limit,
    stacks: Vec<About>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is promised of them.
    pub targets: Vec<Target>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
    /// Whether every stack that is there was measured.
    pub complete: bool,
}

fn unit(metric: &str) -> &'static str {
    match metric {
        "rate" => "1/s",
        metric if metric.ends_with("bandwidth") => "GB/s",
        _ => "ns",
    }
}

impl Report {
    pub(super) fn new(
        host: Host,
        options: &Options,
        limit: Limit,
        stacks: Vec<About>,
        found: Vec<Found>,
        absent: Vec<Absent>,
        complete: bool,
    ) -> Report {
        let rows = rows(found);
        let targets = targets(&rows);
        let (rounds, seconds) = (options.rounds, options.length.as_secs_f64());
        let version = env!("CARGO_PKG_VERSION");
        Report { host, version, rounds, seconds, limit, stacks, rows, targets, absent, complete }
    }

    fn table_of(&self, place: &NodePair) -> String {
        let stacks: Vec<&About> = self.stacks.iter().filter(|about| about.place == *place).collect();
        let mut table = vec![vec!["".to_owned(), "bytes".to_owned(), "unit".to_owned()]];
        table[0].extend(stacks.iter().map(|about| about.stack.clone()));
        let mut keys: Vec<(&str, u64)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.place == *place) {
            if !keys.contains(&(&row.metric, row.bytes)) {
                keys.push((&row.metric, row.bytes));
            }
        }
        for (metric, bytes) in keys {
            let mut cells = vec![metric.to_owned(), bytes.to_string(), shown_unit(unit(metric)).to_owned()];
            let cell = |about: &&About| {
                find(&self.rows, place, &about.stack, metric, bytes)
                    .map_or_else(none, |row| significant(scaled(row.p50, row.unit)))
            };
            cells.extend(stacks.iter().map(cell));
            table.push(cells);
        }
        align(&table)
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let how = format!("{} rounds of {} s for each figure", self.rounds, self.seconds);
        let mut text = head(&self.host, &how, &self.limit);
        let mut places: Vec<&NodePair> = self.stacks.iter().map(|about| &about.place).collect();
        places.dedup();
        for place in places {
            text += &format!("\n{place}\n{}", self.table_of(place));
        }
        if !self.targets.is_empty() {
            text +=
                &format!("\ntargets\n{}", align(&self.targets.iter().map(target_cells).collect::<Vec<_>>()));
        }
        if !self.absent.is_empty() {
            let cells =
                |absent: &Absent| vec![absent.place.to_string(), absent.stack.clone(), absent.why.clone()];
            text += &format!("\nnot measured\n{}", align(&self.absent.iter().map(cells).collect::<Vec<_>>()));
        }
        text
    }

    fn failures(&self) -> Vec<String> {
        if self.complete { Vec::new() } else { self.absent.iter().map(ToString::to_string).collect() }
    }
}

/// Units that people read.
fn shown_unit(unit: &'static str) -> &'static str {
    match unit {
        "ns" => "us",
        "1/s" => "M/s",
        other => other,
    }
}

fn scaled(value: f64, unit: &str) -> f64 {
    match unit {
        "ns" => value / 1e3,
        "1/s" => value / 1e6,
        _ => value,
    }
}

fn target_cells(target: &Target) -> Vec<String> {
    let verdict = if target.met { "met" } else { "missed" };
    let bound = format!("{} {}", target.bound, significant(target.limit));
    vec![target.what.clone(), significant(target.ratio), bound, verdict.to_owned()]
}

fn rows(found: Vec<Found>) -> Vec<Row> {
    groups(found, Found::is_of).iter().filter_map(|rounds| row(rounds)).collect()
}

/// Medians over the rounds.
fn row(rounds: &[Found]) -> Option<Row> {
    let p50s = || rounds.iter().map(|figure| figure.p50);
    let first = rounds.first()?;
    Some(Row {
        place: first.place.clone(),
        stack: first.stack.clone(),
        metric: first.metric.clone(),
        bytes: first.bytes,
        unit: unit(&first.metric),
        p50: median_of(p50s())?,
        p99: median_of(rounds.iter().map(|figure| figure.p99))?,
        range: [p50s().fold(f64::INFINITY, f64::min), p50s().fold(f64::NEG_INFINITY, f64::max)],
        rounds: rounds.len(),
    })
}

fn find<'a>(rows: &'a [Row], place: &NodePair, stack: &str, metric: &str, bytes: u64) -> Option<&'a Row> {
    rows.iter()
        .find(|row| row.place == *place && row.stack == stack && row.metric == metric && row.bytes == bytes)
}

/// What is promised, of what was measured.
fn targets(rows: &[Row]) -> Vec<Target> {
    let mut places: Vec<&NodePair> = rows.iter().map(|row| &row.place).collect();
    places.dedup();
    let mut targets = Vec::new();
    let mut compare =
        |place: &NodePair, ours: &str, theirs: &str, (metric, bytes): (&str, u64), bound, limit: f64| {
            let (Some(own), Some(other)) =
                (find(rows, place, ours, metric, bytes), find(rows, place, theirs, metric, bytes))
            else {
                return;
            };
            let ratio = own.p50 / other.p50;
            let met = if bound == AT_MOST { ratio <= limit } else { ratio >= limit };
            let what = format!("{place}: {metric} of {bytes} B, {ours} / {theirs}");
            targets.push(Target { what, ratio, limit, bound, met });
        };
    for place in places {
        if *place == NodePair::host() {
            compare(place, TOMBOLO_OPEN_MPI, OPEN_MPI, ("latency", 8), AT_MOST, 1.5);
            for bytes in [64 << 10, 4 << 20] {
                compare(place, TOMBOLO_OPEN_MPI, UCX, ("bandwidth", bytes), AT_LEAST, 1.0);
                compare(place, TOMBOLO, UCX, ("bandwidth", bytes), AT_LEAST, 1.0);
            }
        } else {
            // A twentieth of the latency, three times the bandwidth of TCP to a machine of its own.
            compare(place, TOMBOLO, VIRTIO, ("latency", 8), AT_MOST, 0.05);
            for bytes in [64 << 10, 4 << 20] {
                compare(place, TOMBOLO, VIRTIO, ("bandwidth", bytes), AT_LEAST, 3.0);
            }
        }
    }
    targets
}

const AT_MOST: &str = "at most";
const AT_LEAST: &str = "at least";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(stack: &str, metric: &str, bytes: u64, p50: f64) -> Found {
        Found {
            place: NodePair::host(),
            stack: stack.into(),
            metric: metric.into(),
            bytes,
            p50,
            p99: 2.0 * p50,
        }
    }

    #[test]
    fn rounds_become_medians_and_ratios() {
        let rounds = [
            found(TOMBOLO_OPEN_MPI, "latency", 8, 200.0),
            found(OPEN_MPI, "latency", 8, 100.0),
            found(TOMBOLO_OPEN_MPI, "latency", 8, 140.0),
            found(OPEN_MPI, "latency", 8, 900.0),
            found(TOMBOLO_OPEN_MPI, "latency", 8, 130.0),
            found(OPEN_MPI, "latency", 8, 100.0),
        ];
        let rows = rows(rounds.into());
        assert_eq!(
            (rows.len(), rows[0].p50, rows[0].p99, rows[0].range, rows[0].rounds),
            (2, 140.0, 280.0, [130.0, 200.0], 3)
        );
        let targets = targets(&rows);
        assert_eq!((targets.len(), targets[0].ratio, targets[0].met), (1, 1.4, true));
    }

    #[test]
    fn bandwidth_is_promised_to_be_more_and_latency_less() {
        let place = NodePair { from: "host".into(), to: "arm0".into() };
        let at = |stack: &str, metric: &str, bytes, p50| Found {
            place: place.clone(),
            ..found(stack, metric, bytes, p50)
        };
        let rows = rows(vec![
            at(TOMBOLO, "latency", 8, 1000.0),
            at(TOMBOLO, "bandwidth", 65536, 1.0),
            at(VIRTIO, "latency", 8, 10_000.0),
            at(VIRTIO, "bandwidth", 65536, 0.25),
        ]);
        let met: Vec<_> = targets(&rows).iter().map(|target| target.met).collect();
        assert_eq!(met, [false, true]);
    }

    #[test]
    fn tables_have_a_column_for_each_stack() {
        let about =
            |stack: &str| About { place: NodePair::host(), stack: stack.into(), about: String::new() };
        let report = Report {
            limit: Limit { line_ns: 60.0, copy_gb_s: 40.0 },
            stacks: vec![about(TOMBOLO), about("MPICH tcp")],
            ..Report::new(
                Host::describe(),
                &Options::default(),
                Limit { line_ns: 0.0, copy_gb_s: 0.0 },
                Vec::new(),
                vec![found(TOMBOLO, "latency", 8, 1200.0), found(TOMBOLO, "rate", 8, 2.5e6)],
                vec![Absent { place: NodePair::host(), stack: "X".into(), why: "it is not there".into() }],
                true,
            )
        };
        let table = report.table();
        assert!(table.contains("host-host\n"), "{table}");
        assert!(table.contains("latency      8  us       1.20          -"), "{table}");
        assert!(table.contains("rate         8  M/s      2.50"), "{table}");
        assert!(table.contains("it is not there"), "{table}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
        assert_eq!(json["rows"][0]["p50"], 1200.0);
    }
}
