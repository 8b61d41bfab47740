//! Lower bounds of OpenMP on this host, and targets for it.

use super::Section;
use super::stack::{EXCLUSIVE, LIBGOMP, SHARED};
use crate::limit::Limit;
use crate::stacks::{Figure, Report, Row, find};
use crate::target::Bound::AtMost;
use crate::target::Target;

/// Unit of the figures' sizes.
pub(super) const SIZES: &str = "workers";

/// Maximum ratio of shared to libgomp, on each row.
const SHARED_AT_MOST: f64 = 1.1;
/// Maximum ratio of exclusive to libgomp, for the empty region while workers are awake.
const EXCLUSIVE_AT_MOST: f64 = 2.0;
/// Maximum ratio of different processors to the ideal split by their speeds.
const NODES_AT_MOST: f64 = 1.15;

/// Returns the resolution of overheads in a section, which are differences of loop times: ten nanoseconds,
/// and a fiftieth of a schedule's loop. Smaller values count as this much.
fn min_ns(section: Section) -> f64 {
    match section {
        Section::Schedules => 250.0,
        _ => 10.0,
    }
}

/// Metrics that are compared with the others of their section.
const WARM: &str = "empty region, warm";
const IDEAL: &str = "matmul, ideal";

/// Returns whether a row is the empty region while workers are awake, each on its own processor.
fn is_warm(row: &Row, processors: usize) -> bool {
    row.figure.metric == WARM && row.figure.size <= processors as u64
}

/// Sets the lower bounds of rows: one word from the master to the workers and one back, if each has a
/// processor; for matrices, the speed of one processor times their number; on nodes, the time of the ideal
/// split.
pub(super) fn set_limits(rows: &mut [Row], processors: usize, limit: &Limit) {
    let limits: Vec<_> = rows.iter().map(|row| limit_ns(row, rows, processors, limit)).collect();
    rows.iter_mut().zip(limits).for_each(|(row, limit)| row.limit = limit);
}

fn limit_ns(row: &Row, rows: &[Row], processors: usize, limit: &Limit) -> Option<f64> {
    let metric = row.figure.metric.as_str();
    let there_and_back = 2.0 * limit.line_ns;
    let meets = match Section::named(&row.figure.group)? {
        Section::Constructs => ["parallel", "parallel for", "barrier", "reduction"].contains(&metric),
        Section::Regions => is_warm(row, processors),
        Section::Matmul if metric != IDEAL => {
            let alone = Figure { metric: "matmul, static".into(), size: 1, ..row.figure.clone() };
            return Some(find(rows, LIBGOMP, &alone)?.p50 / row.figure.size as f64);
        }
        Section::Nodes if metric != IDEAL => return Some(ideal(row, rows)?.p50),
        _ => false,
    };
    meets.then_some(there_and_back)
}

fn ideal<'a>(row: &Row, rows: &'a [Row]) -> Option<&'a Row> {
    find(rows, &row.stack, &Figure { metric: IDEAL.into(), ..row.figure.clone() })
}

/// Returns the targets for the measured rows.
pub(super) fn all(rows: &[Row], processors: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    for row in rows.iter().filter(|row| row.figure.metric != IDEAL) {
        let Some(section) = Section::named(&row.figure.group) else { continue };
        let (what, other, at_most) = if section == Section::Nodes {
            ("nodes / ideal", ideal(row, rows), NODES_AT_MOST)
        } else if row.stack == SHARED {
            ("shared / libgomp", find(rows, LIBGOMP, &row.figure), SHARED_AT_MOST)
        } else if row.stack == EXCLUSIVE && is_warm(row, processors) {
            ("exclusive / libgomp", find(rows, LIBGOMP, &row.figure), EXCLUSIVE_AT_MOST)
        } else {
            continue;
        };
        if let Some(other) = other {
            let what = Report::promise(&row.figure, SIZES, what);
            targets.push(row.compare_with(other, &what, AtMost(at_most), min_ns(section)));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::tests::found;
    use crate::stacks::{Measurement, is_same, rows};
    use crate::target::Verdict::{self, Met, Missed};

    const LIMIT: Limit = Limit { line_ns: 50.0, copy_gb_s: 40.0 };

    fn judged(runs: Vec<Measurement>) -> (Vec<Row>, Vec<(String, Verdict)>) {
        let mut rows = rows(runs, is_same);
        set_limits(&mut rows, 2, &LIMIT);
        let targets = all(&rows, 2).into_iter().map(|target| (target.what, target.verdict)).collect();
        (rows, targets)
    }

    #[test]
    fn regions_are_held_to_libgomp_and_limited_by_lines() {
        let region = |stack: &str, p50| found("regions", stack, WARM, 2, p50);
        let (rows, targets) =
            judged(vec![region(SHARED, 420.0), region(LIBGOMP, 400.0), region(EXCLUSIVE, 900.0)]);
        let what = |how: &str| format!("regions: {WARM}, 2 workers: {how} / libgomp");
        assert_eq!(targets, [(what("shared"), Met), (what("exclusive"), Missed)]);
        assert_eq!(rows[0].limit, Some(100.0));
        // Workers that outnumber the processors can meet only as fast as the scheduler allows.
        let (rows, targets) = judged(vec![
            found("regions", LIBGOMP, WARM, 4, 400.0),
            found("regions", EXCLUSIVE, WARM, 4, 900.0),
        ]);
        assert_eq!((rows[0].limit, targets.len()), (None, 0));
    }

    #[test]
    fn too_short_times_are_not_compared() {
        let task = |stack: &str, p50| found("tasks", stack, "task by all", 2, p50);
        let verdict = |own| judged(vec![task(LIBGOMP, -20.0), task(SHARED, own)]).1[0].1;
        assert_eq!([verdict(9.0), verdict(20.0)], [Met, Missed]);
    }

    #[test]
    fn unlike_processors_are_held_to_the_split_that_fits_them() {
        let nodes = |metric: &str, p50| found("nodes", "host and arm0", metric, 2, p50);
        let (rows, targets) =
            judged(vec![nodes(IDEAL, 1e9), nodes("matmul, static", 1.2e9), nodes("matmul, dynamic", 1.1e9)]);
        let verdicts: Vec<Verdict> = targets.iter().map(|(_, verdict)| *verdict).collect();
        assert_eq!(verdicts, [Missed, Met]);
        assert_eq!((rows[0].limit, rows[1].limit), (None, Some(1e9)));
    }

    #[test]
    fn matrices_are_limited_by_as_many_processors_as_there_are_workers() {
        let matmul = |size, p50| found("matmul", LIBGOMP, "matmul, static", size, p50);
        let (rows, _) = judged(vec![matmul(1, 8e9), matmul(2, 5e9)]);
        assert_eq!((rows[0].limit, rows[1].limit), (Some(8e9), Some(4e9)));
    }
}
