//! Results as aligned text, for terminals.

use std::fmt::Write;

use super::{Distance, Results, Row, Unit};
use crate::report::BenchReport as _;
use crate::table::{align, cells, missing, none, significant};

pub(super) fn table_of(results: &Results) -> String {
    let mut text = format!("{}: {}\n", results.label, results.host);
    for metric in results.metrics() {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.metric == metric).collect();
        let _ = write!(text, "\n{}, {}\n", metric.title(), metric.unit().name());
        text += &table(&rows, metric.unit());
    }
    if !results.pairs.is_empty() {
        text += "\nevery pair of processors, ns\n";
        let mut cells = vec![cells(&["near", "far", "bare lines", "one slot", "ratio"])];
        for pair in &results.pairs {
            cells.push(vec![
                pair.near.to_string(),
                pair.far.to_string(),
                significant(pair.probe_ns),
                significant(pair.round_trip_ns),
                significant(pair.ratio),
            ]);
        }
        text += &align(&cells);
    }
    if let Some(openmp) = &results.openmp {
        let _ = write!(text, "\nOpenMP, {}", openmp.table());
    }
    let missing = missing(&results.absent, &results.failures());
    if !missing.is_empty() {
        text += "\n";
    }
    text += &missing;
    text
}

fn table(rows: &[&Row], unit: Unit) -> String {
    let mut cells = vec![
        ["", "where", "p50", "p99", "p99.9", "mean", "bare lines", "/ bare", "slices", "doubtful"]
            .map(str::to_owned)
            .to_vec(),
    ];
    cells.extend(rows.iter().map(|row| line(row, unit)));
    align(&cells)
}

fn line(row: &Row, unit: Unit) -> Vec<String> {
    let shown = |value: f64| significant(value / unit.divisor());
    let figures = match (&row.latency_ns, &row.rate_per_s) {
        (Some(latency), _) => [latency.p50, latency.p99, latency.p999, latency.mean].map(shown),
        (_, Some(rate)) => [shown(rate.p50), shown(rate.p99), none(), shown(rate.mean)],
        _ => [row.value.map_or_else(none, shown), none(), none(), none()],
    };
    let mut cells = vec![row.peer.clone(), row.distance.words().to_owned()];
    cells.extend(figures);
    cells.push(if row.probe_ns > 0.0 { significant(row.probe_ns) } else { none() });
    cells.push(
        row.probe_ratio
            .filter(|_| row.distance != Distance::Any)
            .map_or_else(none, |ratio| format!("{ratio:.2}")),
    );
    cells.push(row.slices.to_string());
    cells.push(row.doubtful.to_string());
    cells
}
