//! Runs one program on several stacks, round by round, for `mpi` and `omp`: its figures and their report.

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::limit::Limit;
use crate::report::BenchReport;
use crate::sample::{median, sorted};
use crate::suite::{Absent, PeerInfo};
use crate::table::{align, cells, none, significant};
use crate::target::{self, Bound, Target};

/// Identity of a figure, the same on every stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Table to which the figure belongs.
    pub group: String,
    /// Metric, under the program's name for it.
    pub metric: String,
    /// Size, in the unit that [`Report::sizes`] names.
    pub size: u64,
}

/// Unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Ns,
    /// 10^9 bytes per second.
    #[serde(rename = "GB/s")]
    GbPerS,
    /// Rate, in events per second.
    #[serde(rename = "1/s")]
    PerS,
}

impl Unit {
    /// Returns the display unit for values of this magnitude, and how many of the base unit it has.
    fn shown(self, value: f64) -> (&'static str, f64) {
        match self {
            Unit::Ns if value >= 1e7 => ("ms", 1e6),
            Unit::Ns => ("us", 1e3),
            Unit::GbPerS => ("GB/s", 1.0),
            Unit::PerS => ("M/s", 1e6),
        }
    }
}

/// Result of one run of the program on a stack.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Measurement {
    pub(crate) figure: Figure,
    pub(crate) stack: String,
    pub(crate) unit: Unit,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Whether other programs used the processors during the run.
    pub(crate) disturbed: bool,
}

/// Figure of one stack, as medians over its runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Identity of the figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// Name of the stack.
    pub stack: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Median of the runs' medians.
    pub p50: f64,
    /// Median of the runs' 99th percentiles.
    pub p99: f64,
    /// Medians of the runs in order: one or more per round.
    pub runs: Vec<f64>,
    /// Number of runs during which other programs used the processors.
    pub disturbed: usize,
    /// Lower bound of the figure on this host, if known.
    pub limit: Option<f64>,
}

impl Row {
    /// Summarizes at least one run of the same figure on the same stack.
    fn of(runs: &[Measurement]) -> Row {
        let Measurement { figure, stack, unit, .. } = runs[0].clone();
        let middle = |of: fn(&Measurement) -> f64| median_of(runs.iter().map(of)).unwrap_or(f64::NAN);
        Row {
            figure,
            stack,
            unit,
            p50: middle(|run| run.p50),
            p99: middle(|run| run.p99),
            runs: runs.iter().map(|run| run.p50).collect(),
            disturbed: runs.iter().filter(|run| run.disturbed).count(),
            limit: None,
        }
    }

    fn is_doubtful(&self) -> bool {
        2 * self.disturbed > self.runs.len()
    }

    /// Compares this row with another one; values below `minimum` count as `minimum`. The result is the
    /// median of the ratios of consecutive runs: a hypervisor that moves processors makes runs of different
    /// minutes incomparable.
    pub(crate) fn compare_with(&self, other: &Row, what: &str, bound: Bound, minimum: f64) -> Target {
        let runs = self.runs.iter().zip(&other.runs);
        let ratio = median_of(runs.map(|(own, other)| own.max(minimum) / other.max(minimum)));
        Target::new(what.to_owned(), bound, ratio, self.is_doubtful() || other.is_doubtful())
    }
}

/// Returns whether two runs measured the same figure on the same stack.
pub(crate) fn is_same(a: &Measurement, b: &Measurement) -> bool {
    a.stack == b.stack && a.figure == b.figure
}

/// Groups runs into rows, in the order in which they were first found. `is_same` returns whether two runs
/// belong to one row.
pub(crate) fn rows(
    found: Vec<Measurement>,
    is_same: impl Fn(&Measurement, &Measurement) -> bool,
) -> Vec<Row> {
    let mut groups: Vec<Vec<Measurement>> = Vec::new();
    for run in found {
        match groups.iter_mut().find(|group| is_same(&group[0], &run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.iter().map(|runs| Row::of(runs)).collect()
}

/// Returns the row of a figure on a stack.
pub(crate) fn find<'a>(rows: &'a [Row], stack: &str, figure: &Figure) -> Option<&'a Row> {
    rows.iter().find(|row| row.stack == stack && row.figure == *figure)
}

fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    median(&sorted(values.into_iter().collect()))
}

/// Records a part of a stack that is not measured; parts with the same reason share one entry.
pub(crate) fn add_absent(absent: &mut Vec<Absent>, stack: &str, part: &str, why: String) {
    let parts = |old: &Absent| old.peer.strip_prefix(stack)?.strip_prefix(": ").map(str::to_owned);
    let old = absent.iter_mut().filter(|old| old.why == why).find_map(|old| Some((parts(old)?, old)));
    match old {
        Some((parts, _)) if parts.split(", ").any(|old| old == part) => {}
        Some((_, old)) => old.peer += &format!(", {part}"),
        None => absent.push(Absent { peer: format!("{stack}: {part}"), why }),
    }
}

/// Table in a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Group name shared by its figures.
    pub name: String,
    /// Title of the table.
    pub title: String,
}

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub(crate) host: Host,
    pub(crate) version: String,
    /// Description of the measurement.
    pub(crate) how: String,
    /// Physical limit of the host: the median of measurements taken between runs.
    pub limit: Limit,
    /// Stacks that were compared.
    pub(crate) stacks: Vec<PeerInfo>,
    /// Tables in display order.
    pub(crate) groups: Vec<Group>,
    /// Unit of the figures' sizes: bytes, or workers.
    pub sizes: String,
    /// Rows with the figures.
    pub rows: Vec<Row>,
    /// Targets for the figures.
    pub targets: Vec<Target>,
    /// Stacks and parts that were not measured.
    pub absent: Vec<Absent>,
    /// Whether everything available was measured.
    pub complete: bool,
}

impl Report {
    fn table_of(&self, group: &Group) -> Option<String> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.figure.group == group.name).collect();
        let (mut stacks, mut figures): (Vec<&str>, Vec<&Figure>) = (Vec::new(), Vec::new());
        for row in &rows {
            if !stacks.contains(&row.stack.as_str()) {
                stacks.push(&row.stack);
            }
            if !figures.contains(&&row.figure) {
                figures.push(&row.figure);
            }
        }
        let is_limited = rows.iter().any(|row| row.limit.is_some());
        let limit_head = is_limited.then_some("limit");
        let heads = ["", &self.sizes, "unit"].into_iter().chain(stacks.iter().copied()).chain(limit_head);
        let mut table = vec![cells(&heads.collect::<Vec<_>>())];
        for figure in figures {
            let of = |stack: &&str| rows.iter().find(|row| row.stack == *stack && row.figure == *figure);
            let found: Vec<_> = stacks.iter().map(of).collect();
            let first = found.iter().flatten().next()?;
            let (unit, divisor) = first.unit.shown(first.p50);
            let shown = |value: Option<f64>| value.map_or_else(none, |value| significant(value / divisor));
            let mut line = vec![figure.metric.clone(), figure.size.to_string(), unit.to_owned()];
            line.extend(found.iter().map(|row| shown(row.map(|row| row.p50))));
            if is_limited {
                line.push(shown(found.iter().flatten().find_map(|row| row.limit)));
            }
            table.push(line);
        }
        (table.len() > 1).then(|| format!("\n{}\n{}", group.title, align(&table)))
    }

    /// Describes a target for a figure.
    pub(crate) fn promise(figure: &Figure, sizes: &str, what: &str) -> String {
        format!("{}: {}, {} {sizes}: {what}", figure.group, figure.metric, figure.size)
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut text = format!(
            "{}; {}\nbare cache line one way: {} ns; memcpy of 4 MiB: {} GB/s\n",
            self.host.cpu_model,
            self.how,
            significant(self.limit.line_ns),
            significant(self.limit.copy_gb_s),
        );
        text.extend(self.groups.iter().filter_map(|group| self.table_of(group)));
        if !self.targets.is_empty() {
            text += &format!("\ntargets\n{}", target::table(&self.targets));
        }
        let disturbed: usize = self.rows.iter().map(|row| row.disturbed).sum();
        if disturbed > 0 {
            let all: usize = self.rows.iter().map(|row| row.runs.len()).sum();
            text += &format!(
                "\ndisturbed: other programs used the processors in {disturbed} of {all} figures; measure again when it is quiet\n"
            );
        }
        if !self.absent.is_empty() {
            text += "\nnot measured\n";
            text.extend(self.absent.iter().map(|absent| format!("  {absent}\n")));
        }
        text
    }

    fn failures(&self) -> Vec<String> {
        if self.complete { Vec::new() } else { self.absent.iter().map(ToString::to_string).collect() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn found(group: &str, stack: &str, metric: &str, size: u64, p50: f64) -> Measurement {
        let figure = Figure { group: group.into(), metric: metric.into(), size };
        Measurement { figure, stack: stack.into(), unit: Unit::Ns, p50, p99: 2.0 * p50, disturbed: false }
    }

    fn report(rows: Vec<Row>, targets: Vec<Target>, absent: Vec<Absent>) -> Report {
        Report {
            host: Host::describe(),
            version: String::new(),
            how: "3 rounds".into(),
            limit: Limit { line_ns: 50.0, copy_gb_s: 40.0 },
            stacks: Vec::new(),
            groups: ["far", "near"]
                .map(|name| Group { name: name.into(), title: format!("{name} it is") })
                .into(),
            sizes: "bytes".into(),
            rows,
            targets,
            absent,
            complete: true,
        }
    }

    #[test]
    fn runs_become_medians_and_ratios() {
        let own = |p50| found("near", "own", "latency", 8, p50);
        let other = |p50| found("near", "other", "latency", 8, p50);
        let runs = vec![own(500.0), other(500.0), own(420.0), other(400.0), own(410.0), other(200.0)];
        let rows = rows(runs, is_same);
        assert_eq!((rows.len(), rows[0].p50, rows[0].p99), (2, 420.0, 840.0));
        assert_eq!(rows[0].runs, [500.0, 420.0, 410.0]);
        // The processors were moved before the last run: the ratio of the medians would differ.
        let target = rows[0].compare_with(&rows[1], "own / other", Bound::AtMost(1.1), 0.0);
        assert_eq!((target.found, target.verdict), (Some(1.05), crate::target::Verdict::Met));
    }

    #[test]
    fn too_short_times_are_not_compared() {
        let verdict = |own| {
            let runs = vec![found("near", "other", "task", 2, -20.0), found("near", "own", "task", 2, own)];
            let rows = rows(runs, is_same);
            rows[1].compare_with(&rows[0], "", Bound::AtMost(1.1), 10.0).verdict
        };
        assert_eq!(verdict(9.0), crate::target::Verdict::Met);
        assert_eq!(verdict(20.0), crate::target::Verdict::Missed);
    }

    #[test]
    fn a_row_that_was_mostly_disturbed_is_doubtful() {
        let verdict = |disturbed: [bool; 2]| {
            let own =
                disturbed.map(|disturbed| Measurement { disturbed, ..found("near", "own", "task", 2, 1.0) });
            let rows = rows([vec![found("near", "other", "task", 2, 1.0)], own.into()].concat(), is_same);
            rows[1].compare_with(&rows[0], "", Bound::AtMost(1.1), 0.0).verdict
        };
        assert_eq!(verdict([true, false]), crate::target::Verdict::Met);
        assert_eq!(verdict([true, true]), crate::target::Verdict::Doubtful);
    }

    #[test]
    fn tables_have_a_column_for_each_stack() {
        let rate = Measurement { unit: Unit::PerS, ..found("near", "own", "rate", 8, 2.5e6) };
        let latency = found("near", "own", "latency", 8, 1200.0);
        let long = Measurement { disturbed: true, ..found("near", "other", "start", 8, 1.2e9) };
        let mut rows = rows(vec![latency, rate, long], is_same);
        rows[2].limit = Some(1e9);
        let target = rows[0].compare_with(&rows[0], "own / own", Bound::AtLeast(2.0), 0.0);
        let absent = vec![Absent { peer: "third".into(), why: "it is not there".into() }];
        let report = report(rows, vec![target], absent);
        let table = report.table();
        for part in [
            "\nnear it is\n           bytes  unit   own  other  limit\n",
            "latency      8  us    1.20      -      -\n",
            "rate         8  M/s   2.50      -      -\n",
            "start        8  ms       -   1200   1000\n",
            "\ntargets\n  own / own  1.00  at least 2  MISSED\n",
            "in 1 of 3 figures",
            "\nnot measured\n  third: it is not there\n",
        ] {
            assert!(table.contains(part), "no {part:?} in\n{table}");
        }
        assert!(!table.contains("far it is"), "{table}");
        let text = report.to_json();
        assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report);
    }

    #[test]
    fn absent_figures_are_listed_once() {
        let mut absent = vec![Absent { peer: "other".into(), why: "no".into() }];
        for (part, why) in [("tasks", "no"), ("start", "no"), ("tasks", "no"), ("start", "killed")] {
            add_absent(&mut absent, "own", part, why.into());
        }
        let lines: Vec<String> = absent.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["other: no", "own: tasks, start: no", "own: start: killed"]);
    }
}
