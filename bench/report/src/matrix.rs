//! Tables with a column for each length, and the table of pairs of processors.

use std::fmt::Write;

use tombolo_bench::significant;
use tombolo_bench::suite::arrays::{Figures, NO_COPY};
use tombolo_bench::suite::{Metric, Results, Row, length};

use crate::units::exact_time;

/// Whether a row is in one of these tables.
pub(crate) fn has(row: &Row) -> bool {
    row.route.is_some() || matches!(row.metric, Metric::Copy { .. } | Metric::Delivery { .. })
}

/// All tables for which there are rows, in Markdown.
pub(crate) fn all(results: &Results) -> String {
    let is = |row: &Row, routed: bool| row.route.is_some() == routed && has(row);
    let rows = |routed, wanted: fn(Metric) -> bool| -> Vec<&Row> {
        results.rows.iter().filter(|row| is(row, routed) && wanted(row.metric)).collect()
    };
    [
        (
            "From node to node: filled and read, GB/s",
            rows(true, |metric| matches!(metric, Metric::Bandwidth { .. })),
        ),
        (
            "From node to node: filled, read and given back, one at a time",
            rows(true, |metric| matches!(metric, Metric::Delivery { .. })),
        ),
        (
            "From node to node: the right to a buffer there and back",
            rows(true, |metric| matches!(metric, Metric::Transfer { .. })),
        ),
        ("Copies by the processors of nodes", rows(true, |metric| matches!(metric, Metric::Copy { .. }))),
        ("Copies by one program", rows(false, |metric| matches!(metric, Metric::Copy { .. }))),
    ]
    .into_iter()
    .filter(|(_, rows)| !rows.is_empty())
    .map(|(title, rows)| table(title, &rows))
    .collect()
}

/// Arrays between programs in Python.
pub(crate) fn arrays(results: &Results) -> String {
    let Some(arrays) = &results.arrays else { return String::new() };
    let about: Vec<String> = arrays
        .about
        .other
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{name} {}", value.to_string().trim_matches('"')))
        .collect();
    let mut text = format!(
        "\n## An array of {} that another program in Python gets, and the answer back\n\nBy \
         `bench/python/array_transfer.py`, with {}. What is not copied was made where both have it.\n\n\
         | | copies | p50 | least | most | p99 | GB/s |\n|---|---|---:|---:|---:|---:|---:|\n",
        length(usize::try_from(arrays.about.bytes).unwrap_or(0)),
        about.join(", "),
    );
    for (peer, figures) in &arrays.latency_ns {
        match figures {
            Figures::Absent(why) => {
                let _ = writeln!(text, "| {peer} | {why} | | | | | |");
            }
            Figures::Found(found) => {
                for (copies, times) in found {
                    let rate = match copies.as_str() {
                        NO_COPY => String::new(),
                        _ => significant(arrays.about.bytes as f64 / times.p50),
                    };
                    let or_none = |time: Option<f64>| time.map(exact_time).unwrap_or_default();
                    let [p50, p99] = [times.p50, times.p99].map(exact_time);
                    let (least, most) = (or_none(times.least), or_none(times.most));
                    let _ =
                        writeln!(text, "| {peer} | {copies} | {p50} | {least} | {most} | {p99} | {rate} |");
                }
            }
        }
    }
    text
}

/// Every pair of processors: above the diagonal a message there and back, below it the bare lines.
pub(crate) fn pairs(results: &Results) -> String {
    let mut cpus: Vec<usize> = results.pairs.iter().flat_map(|pair| [pair.near, pair.far]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        return String::new();
    }
    let columns: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "\n## Every pair of processors, ns\n\nAbove the diagonal a message of one slot there and back, below it the bare \
         lines.\n\n| | {} |\n|---|{}\n",
        columns.join(" | "),
        "---:|".repeat(columns.len())
    );
    for row in &cpus {
        let cell = |column: &usize| {
            let ends = (*row.min(column), *row.max(column));
            let pair = results.pairs.iter().find(|pair| (pair.near, pair.far) == ends);
            let value = pair.map(|pair| if column > row { pair.round_trip_ns } else { pair.probe_ns });
            value.map(significant).unwrap_or_default()
        };
        let cells: Vec<String> = cpus.iter().map(cell).collect();
        let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
    }
    text
}

fn bytes(metric: Metric) -> usize {
    match metric {
        Metric::Bandwidth { bytes }
        | Metric::Delivery { bytes }
        | Metric::Transfer { bytes }
        | Metric::Copy { bytes } => bytes,
        _ => 0,
    }
}

fn table(title: &str, rows: &[&Row]) -> String {
    let mut lengths: Vec<usize> = rows.iter().map(|row| bytes(row.metric)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut peers: Vec<&str> = Vec::new();
    for row in rows {
        if !peers.contains(&row.peer.as_str()) {
            peers.push(&row.peer);
        }
    }
    let columns: Vec<String> = lengths.iter().map(|bytes| length(*bytes)).collect();
    let mut text = format!(
        "\n## {title}\n\n| median | {} |\n|---|{}\n",
        columns.join(" | "),
        "---:|".repeat(columns.len())
    );
    for peer in peers {
        let cell = |at: &usize| {
            let row = rows.iter().find(|row| row.peer == peer && bytes(row.metric) == *at);
            row.and_then(|row| row.typical().map(|value| shown(row.metric, value))).unwrap_or_default()
        };
        let cells: Vec<String> = lengths.iter().map(cell).collect();
        let _ = writeln!(text, "| {peer} | {} |", cells.join(" | "));
    }
    text
}

fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Bandwidth { .. } => significant(value / 1e9),
        _ => exact_time(value),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_bench::fixture::{arrays as fixture_arrays, flowing, results, timed};
    use tombolo_bench::suite::Route;

    use super::*;

    #[test]
    fn a_column_for_each_length_and_a_gap_where_nothing_was_measured() {
        let mut found = results("here");
        let route = Some(Route { from: "a".into(), to: "b".into(), by: "pool: move".into() });
        for (bytes, rate) in [(64, 1.5e9), (4096, 2e9)] {
            let row = flowing("a → b", Metric::Bandwidth { bytes }, rate);
            found.rows.push(Row { route: route.clone(), ..row });
            found.rows.push(timed("loop: best", Metric::Copy { bytes }, bytes as f64));
        }
        found.rows.push(timed("memcpy", Metric::Copy { bytes: 4096 }, 2500.0));
        let text = all(&found);
        for part in [
            "## From node to node: filled and read, GB/s\n\n| median | 64 B | 4 KiB |\n|---|---:|---:|\n| a → b | 1.50 | 2.00 |\n",
            "## Copies by one program\n",
            "| memcpy |  | 2.50 µs |\n",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("one at a time"), "{text}");
    }

    #[test]
    fn pairs_of_processors_have_both_figures() {
        let text = pairs(&results("here"));
        assert!(text.contains("| | 0 | 1 |\n|---|---:|---:|\n| 0 |  | 105 |\n| 1 | 100 |  |\n"), "{text}");
    }

    #[test]
    fn arrays_have_their_table_with_what_is_absent() {
        let mut found = results("here");
        assert_eq!(arrays(&found), "");
        found.arrays = Some(fixture_arrays());
        let text = arrays(&found);
        for part in [
            "## An array of 16 MiB that",
            "with python 3.11.2, rounds 300.",
            "| Tombolo pool | one copy | 600 µs | 5.00 ns | 9.00 ns | 700 µs | 28.0 |\n",
            "| Tombolo pool | no copy | 12.0 µs |  |  | 15.0 µs |  |\n",
            "| Ray | not installed | | | | | |\n",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
    }
}
