//! What was found, as tables and as JSON.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::run::Found;
use super::stack::{EXCLUSIVE, LIBGOMP, SHARED, Stack};
use super::{Options, Section};
use crate::host::Host;
use crate::limit::Limit;
use crate::report::BenchReport;
use crate::stacks::{groups, head, median_of};
use crate::table::{align, none, significant};

/// Something that was not measured, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Absent {
    /// On which stack.
    pub stack: String,
    /// Sections or rows; none if the stack was not measured at all.
    pub what: Vec<String>,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what: String = self.what.iter().map(|what| format!(", {what}")).collect();
        write!(f, "{}{what}: {}", self.stack, self.why)
    }
}

impl Absent {
    /// Of a stack that cannot be measured at all.
    pub(super) fn whole(stack: &str, why: String) -> Absent {
        Absent { stack: stack.to_owned(), what: Vec::new(), why }
    }

    /// Keeps what is not measured of a stack, once, however often it is said.
    pub(super) fn add(absent: &mut Vec<Absent>, stack: &str, what: &str, why: String) {
        match absent.iter_mut().find(|old| old.stack == stack && old.why == why) {
            Some(old) if old.what.iter().any(|old| old == what) => {}
            Some(old) => old.what.push(what.to_owned()),
            None => absent.push(Absent { stack: stack.to_owned(), what: vec![what.to_owned()], why }),
        }
    }
}

/// A stack that was measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct About {
    stack: String,
    about: String,
}

/// A figure of a stack: medians over the runs, in microseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The section.
    pub section: Section,
    /// The stack, by its name.
    pub stack: String,
    /// The metric, as the program names it.
    pub metric: String,
    /// How many workers, the master among them.
    pub threads: usize,
    /// Median of the runs' medians.
    pub p50_us: f64,
    /// Median of the runs' 99th percentiles.
    pub p99_us: f64,
    /// The medians of the runs, in their order: one or more in each round.
    pub runs_us: Vec<f64>,
    /// In how many of them other programs used the processors.
    pub disturbed: usize,
    /// What it cannot be less than on this host, where that is known.
    pub limit_us: Option<f64>,
}

/// A ratio that Tombolo is to keep, and what it was.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The section.
    pub section: Section,
    /// The metric.
    pub metric: String,
    /// The number of workers.
    pub threads: usize,
    /// What is compared.
    pub what: String,
    /// What was found: the median of the ratios of runs that came after each other, for a hypervisor that
    /// moves processors makes those of another minute another machine's.
    pub ratio: f64,
    /// What it is to be at most.
    pub at_most: f64,
    /// Whether it is.
    pub met: bool,
    /// Whether more than half of the runs of either were disturbed, so that it says little.
    pub doubtful: bool,
}

/// All that one run found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    host: Host,
    version: String,
    rounds: u32,
    /// Workers of most rows, the master among them.
    threads: usize,
    /// Rows and columns of matrices.
    size: u32,
    /// The physical limit of the host, as the median of looks between runs.
    pub limit: Limit,
    stacks: Vec<About>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What is promised of them.
    pub targets: Vec<Target>,
    /// What was not measured.
    pub absent: Vec<Absent>,
    /// Whether all that is there was measured.
    pub complete: bool,
}

/// Shared to libgomp, on each row.
const SHARED_AT_MOST: f64 = 1.1;
/// Exclusive to libgomp, of the empty region while workers are awake.
const EXCLUSIVE_AT_MOST: f64 = 2.0;
/// Unlike processors to the split that fits their speeds.
const NODES_AT_MOST: f64 = 1.15;

/// Overheads below this are those of the loops that they are taken from, and count as so much: ten
/// nanoseconds, and a fiftieth of a schedule's loop.
const fn least_us(section: Section) -> f64 {
    match section {
        Section::Schedules => 0.25,
        _ => 0.01,
    }
}

/// What is compared with the others of its section.
const WARM: &str = "empty region, warm";
const IDEAL: &str = "matmul, ideal";

impl Report {
    pub(super) fn new(
        host: Host,
        options: &Options,
        limit: Limit,
        stacks: &[Stack],
        found: Vec<Found>,
        (absent, complete): (Vec<Absent>, bool),
    ) -> Report {
        let mut rows = rows(found);
        let limits: Vec<Option<f64>> =
            rows.iter().map(|row| limit_of(row, &rows, options.threads, &limit)).collect();
        for (row, limit) in rows.iter_mut().zip(limits) {
            row.limit_us = limit;
        }
        let about = |stack: &Stack| About { stack: stack.name.clone(), about: stack.about.clone() };
        let targets = targets(&rows, options.threads);
        Report {
            host,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rounds: options.rounds,
            threads: options.threads,
            size: options.size,
            limit,
            stacks: stacks.iter().map(about).collect(),
            rows,
            targets,
            absent,
            complete,
        }
    }

    fn table_of(&self, section: Section) -> String {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.section == section).collect();
        let named = |stack: &&About| rows.iter().any(|row| row.stack == stack.stack);
        let stacks: Vec<&str> = self.stacks.iter().filter(named).map(|about| about.stack.as_str()).collect();
        let mut table = vec![vec![String::new(), "workers".to_owned(), "unit".to_owned()]];
        table[0].extend(stacks.iter().map(|stack| (*stack).to_owned()));
        table[0].push("limit".to_owned());
        let promises = self.promises(section);
        table[0].extend(
            promises.iter().map(|(what, at_most)| format!("{what}, at most {}", significant(*at_most))),
        );
        let mut seen = BTreeSet::new();
        for row in &rows {
            if !seen.insert((&row.metric, row.threads)) {
                continue;
            }
            let (unit, divisor) = if row.p50_us >= 1e4 { ("ms", 1e3) } else { ("us", 1.0) };
            let shown = |value: f64| significant(value / divisor);
            let of = |stack: &str| {
                rows.iter().find(|other| {
                    other.stack == stack && other.metric == row.metric && other.threads == row.threads
                })
            };
            let mut cells = vec![row.metric.clone(), row.threads.to_string(), unit.to_owned()];
            cells.extend(stacks.iter().map(|stack| of(stack).map_or_else(none, |row| shown(row.p50_us))));
            cells.push(row.limit_us.map_or_else(none, shown));
            cells.extend(promises.iter().map(|(what, _)| self.verdict(row, what)));
            table.push(cells);
        }
        align(&table)
    }

    /// What is promised of rows of a section: each is a column.
    fn promises(&self, section: Section) -> Vec<(&str, f64)> {
        let mut promises = Vec::new();
        for target in self.targets.iter().filter(|target| target.section == section) {
            let promise = (target.what.as_str(), target.at_most);
            if !promises.contains(&promise) {
                promises.push(promise);
            }
        }
        promises
    }

    /// Whether a promise holds of a row.
    fn verdict(&self, row: &Row, what: &str) -> String {
        let of = |target: &&Target| {
            (target.section, &target.metric, target.threads, target.what.as_str())
                == (row.section, &row.metric, row.threads, what)
        };
        self.targets.iter().find(of).map_or_else(none, |target| {
            let met = if target.met { "met" } else { "missed" };
            let doubtful = if target.doubtful { ", doubtful" } else { "" };
            format!("{} {met}{doubtful}", significant(target.ratio))
        })
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let how = format!("{} rounds; matrices of {size} x {size}", self.rounds, size = self.size);
        let mut text = head(&self.host, &how, &self.limit);
        for section in Section::ALL {
            if self.rows.iter().any(|row| row.section == section) {
                text += &format!("\n{}\n{}", section.title(), self.table_of(section));
            }
        }
        let disturbed: usize = self.rows.iter().map(|row| row.disturbed).sum();
        if disturbed > 0 {
            let all: usize = self.rows.iter().map(|row| row.runs_us.len()).sum();
            text += &format!(
                "\ndisturbed: other programs used the processors in {disturbed} of {all} figures; measure again when it is quiet\n"
            );
        }
        for absent in &self.absent {
            text += &format!("\nSKIPPED {absent}");
        }
        if !self.absent.is_empty() {
            text += "\n";
        }
        text
    }

    fn failures(&self) -> Vec<String> {
        if self.complete { Vec::new() } else { self.absent.iter().map(ToString::to_string).collect() }
    }
}

fn rows(found: Vec<Found>) -> Vec<Row> {
    groups(found, Found::is_of).iter().filter_map(|runs| row(runs)).collect()
}

/// Medians over the runs.
fn row(runs: &[Found]) -> Option<Row> {
    let runs_us: Vec<f64> = runs.iter().map(|figure| figure.p50_us).collect();
    let first = runs.first()?;
    Some(Row {
        section: first.section,
        stack: first.stack.clone(),
        metric: first.metric.clone(),
        threads: first.threads,
        p50_us: median_of(runs_us.iter().copied())?,
        p99_us: median_of(runs.iter().map(|figure| figure.p99_us))?,
        runs_us,
        disturbed: runs.iter().filter(|figure| figure.disturbed).count(),
        limit_us: None,
    })
}

fn find<'a>(rows: &'a [Row], stack: &str, like: &Row) -> Option<&'a Row> {
    rows.iter().find(|row| {
        row.stack == stack
            && (row.section, &row.metric, row.threads) == (like.section, &like.metric, like.threads)
    })
}

/// A word from the master to the workers and one back, where each has a processor; rows computed at the speed
/// of one processor by as many as there are, or by unlike ones at theirs.
fn limit_of(row: &Row, rows: &[Row], processors: usize, limit: &Limit) -> Option<f64> {
    let there_and_back = 2.0 * limit.line_ns / 1e3;
    match row.section {
        Section::Constructs => {
            let meets = ["parallel", "parallel for", "barrier", "reduction"];
            meets.contains(&row.metric.as_str()).then_some(there_and_back)
        }
        Section::Regions if row.metric == WARM && row.threads <= processors => Some(there_and_back),
        Section::Matmul if row.metric != IDEAL => {
            let alone = |other: &&Row| {
                other.section == Section::Matmul
                    && other.stack == LIBGOMP
                    && other.threads == 1
                    && other.metric == "matmul, static"
            };
            Some(rows.iter().find(alone)?.p50_us / row.threads as f64)
        }
        Section::Nodes if row.metric != IDEAL => Some(ideal(row, rows)?.p50_us),
        _ => None,
    }
}

fn ideal<'a>(row: &Row, rows: &'a [Row]) -> Option<&'a Row> {
    find(rows, &row.stack, &Row { metric: IDEAL.to_owned(), ..row.clone() })
}

/// What is promised, of what was measured.
fn targets(rows: &[Row], processors: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut compare = |row: &Row, what: &str, other: &Row, at_most: f64| {
        let ratios = row.runs_us.iter().zip(&other.runs_us).map(|(own, other)| {
            let least = least_us(row.section);
            own.max(least) / other.max(least)
        });
        let Some(ratio) = median_of(ratios) else { return };
        let doubtful = |row: &Row| 2 * row.disturbed > row.runs_us.len();
        targets.push(Target {
            section: row.section,
            metric: row.metric.clone(),
            threads: row.threads,
            what: what.to_owned(),
            ratio,
            at_most,
            met: ratio <= at_most,
            doubtful: doubtful(row) || doubtful(other),
        });
    };
    for row in rows {
        let libgomp = || find(rows, LIBGOMP, row);
        let measured_alone = row.metric == IDEAL;
        match row.section {
            _ if measured_alone => {}
            Section::Nodes => {
                if let Some(ideal) = ideal(row, rows) {
                    compare(row, "/ ideal", ideal, NODES_AT_MOST);
                }
            }
            _ if row.stack == SHARED => {
                if let Some(other) = libgomp() {
                    compare(row, "shared / libgomp", other, SHARED_AT_MOST);
                }
            }
            Section::Regions if row.stack == EXCLUSIVE && row.metric == WARM && row.threads <= processors => {
                if let Some(other) = libgomp() {
                    compare(row, "exclusive / libgomp", other, EXCLUSIVE_AT_MOST);
                }
            }
            _ => {}
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { line_ns: 50.0, copy_gb_s: 40.0 };

    fn found(section: Section, stack: &str, metric: &str, p50_us: f64) -> Found {
        Found {
            section,
            stack: stack.into(),
            metric: metric.into(),
            threads: 2,
            p50_us,
            p99_us: 2.0 * p50_us,
            disturbed: false,
        }
    }

    fn report(found: Vec<Found>, absent: Vec<Absent>) -> Report {
        let options = Options { threads: 2, ..Options::default() };
        let names: BTreeSet<String> = found.iter().map(|found| found.stack.clone()).collect();
        let report = Report::new(Host::describe(), &options, LIMIT, &[], found, (absent, true));
        let about = |stack| About { stack, about: String::new() };
        Report { stacks: names.into_iter().map(about).collect(), ..report }
    }

    #[test]
    fn rounds_become_medians_and_ratios() {
        let regions = |stack: &str, p50_us| found(Section::Regions, stack, WARM, p50_us);
        let report = report(
            vec![
                regions(SHARED, 0.5),
                regions(LIBGOMP, 0.5),
                regions(EXCLUSIVE, 0.7),
                regions(SHARED, 0.42),
                regions(LIBGOMP, 0.4),
                regions(SHARED, 0.41),
                // The processors were moved in between: of the medians, the ratio would be another one.
                regions(LIBGOMP, 0.2),
            ],
            Vec::new(),
        );
        let shared = report.rows.iter().find(|row| row.stack == SHARED).expect("a row");
        assert_eq!((shared.p50_us, &shared.runs_us), (0.42, &vec![0.5, 0.42, 0.41]));
        assert_eq!(shared.limit_us, Some(0.1));
        let verdicts: Vec<_> =
            report.targets.iter().map(|target| (target.what.as_str(), target.met)).collect();
        assert_eq!(verdicts, [("shared / libgomp", true), ("exclusive / libgomp", true)]);
        let table = report.table();
        assert!(table.contains("1.05 met"), "{table}");
    }

    #[test]
    fn what_is_too_short_to_be_measured_is_not_compared() {
        let task = |stack: &str, p50_us| found(Section::Tasks, stack, "task by all", p50_us);
        let met = |found| report(found, Vec::new()).targets[0].met;
        assert!(met(vec![task(LIBGOMP, -0.02), task(SHARED, 0.009)]));
        assert!(!met(vec![task(LIBGOMP, -0.02), task(SHARED, 0.02)]));
    }

    #[test]
    fn a_disturbed_figure_is_doubtful() {
        let task =
            |stack: &str, disturbed| Found { disturbed, ..found(Section::Tasks, stack, "nested task", 1.0) };
        let one = vec![task(LIBGOMP, false), task(SHARED, true), task(SHARED, false)];
        assert!(!report(one, Vec::new()).targets[0].doubtful);
        let most = report(vec![task(LIBGOMP, true), task(SHARED, false)], Vec::new());
        assert!(most.targets[0].doubtful);
        let table = most.table();
        assert!(table.contains("1.00 met, doubtful") && table.contains("in 1 of 2 figures"), "{table}");
    }

    #[test]
    fn unlike_processors_are_held_to_the_split_that_fits_them() {
        let nodes = |metric: &str, p50_us| found(Section::Nodes, "host and arm0", metric, p50_us);
        let report = report(
            vec![nodes(IDEAL, 1e6), nodes("matmul, static", 1.2e6), nodes("matmul, dynamic", 1.1e6)],
            Vec::new(),
        );
        let met: Vec<bool> = report.targets.iter().map(|target| target.met).collect();
        assert_eq!(met, [false, true]);
        let table = report.table();
        assert!(table.contains("1100   1000  1.10 met"), "{table}");
    }

    #[test]
    fn what_is_not_measured_is_said_once() {
        let mut absent = vec![Absent::whole("libomp", "it is not there".into())];
        for what in ["tasks", "start", "tasks"] {
            Absent::add(&mut absent, EXCLUSIVE, what, "no".into());
        }
        Absent::add(&mut absent, EXCLUSIVE, "regions", "killed".into());
        assert_eq!(absent.len(), 3);
        let table = report(vec![found(Section::Tasks, LIBGOMP, "nested task", 0.3)], absent).table();
        assert!(table.contains("SKIPPED libomp: it is not there\n"), "{table}");
        assert!(table.contains("SKIPPED exclusive, tasks, start: no\n"), "{table}");
        let json: serde_json::Value =
            serde_json::from_str(&report(Vec::new(), Vec::new()).to_json()).expect("JSON");
        assert_eq!(json["threads"], 2);
    }
}
