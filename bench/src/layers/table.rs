//! Formats a report as aligned text: a table per distance, with a column per layer.

use std::fmt::Write;

use super::report::{LayerRow, Report};
use super::{LINES, Layer, MESSAGES, NULL_CALL};
use crate::report::BenchReport as _;
use crate::suite::{Distance, Metric, ONE_CACHE_NS, TWIN_THREADS_NS};
use crate::table::{align, missing, none, significant};
use crate::target;

pub(super) fn render(report: &Report) -> String {
    let (host, settings) = (&report.host, &report.settings);
    let [near, far] = settings.run.cpus;
    let mut text = format!("{host}: medians of {} runs on processors {near} and {far}\n", settings.runs);
    for distance in Distance::MEASURED {
        if report.rows.iter().any(|row| row.distance == distance) {
            let _ = write!(text, "\n{}\n", distance.words());
            text += &align(&figures(report, distance));
        }
    }
    text += "\ntargets, where the processors share a cache\n";
    text += &target::table(&report.targets);
    text += &missing(&report.absent, &report.failures());
    let _ = write!(
        text,
        "\n/ lines      over the round trip of two bare cache lines right before and after; of streams, the time of a message\n\
         *            most slices were disturbed, or the processors were moved during them\n\
         twin threads at most {TWIN_THREADS_NS} ns for the bare lines, one cache at most {ONE_CACHE_NS} ns, apart more; on hardware the \
         topology says it\n\
         p50          of batches of 16 round trips, p99 and p99.9 of single ones, less {} ns for the clock; {} slices of {} ms a run\n",
        settings.run.clock_cost_ns, settings.run.slices, settings.run.slice_ms
    );
    text
}

fn figures(report: &Report, distance: Distance) -> Vec<Vec<String>> {
    let mut rows =
        vec![["", ""].into_iter().chain(Layer::ALL.map(Layer::title)).map(str::to_owned).collect()];
    for metric in MESSAGES.into_iter().chain([NULL_CALL]) {
        let is_rate = matches!(metric, Metric::Rate { .. });
        let found = |layer| {
            // The bare lines have a single round trip, independent of the message.
            let metric = if layer == Layer::BareLines && !is_rate { LINES } else { metric };
            report.row(layer, metric, distance)
        };
        if !Layer::ALL.into_iter().any(|layer| layer != Layer::BareLines && found(layer).is_some()) {
            continue;
        }
        let parts: &[Part] = if is_rate { &RATE } else { &ROUND_TRIP };
        for (index, (name, value)) in parts.iter().enumerate() {
            let title = if index == 0 { metric.title() } else { String::new() };
            let cell = |layer| found(layer).and_then(value).unwrap_or_else(none);
            rows.push([title, (*name).to_owned()].into_iter().chain(Layer::ALL.map(cell)).collect());
        }
    }
    rows
}

/// Line of a figure, with the function that extracts it from its row.
type Part = (&'static str, fn(&LayerRow) -> Option<String>);

const ROUND_TRIP: [Part; 4] = [
    ("p50, ns", |row| Some(significant(row.latency_ns?.p50))),
    ("p99", |row| Some(significant(row.latency_ns?.p99))),
    ("p99.9", |row| Some(significant(row.latency_ns?.p999))),
    ("/ lines", ratio),
];

const RATE: [Part; 3] = [
    ("M/s", |row| Some(significant(row.rate_per_s?.median / 1e6))),
    ("least to most", |row| {
        let rate = row.rate_per_s?;
        Some(format!("{}–{}", significant(rate.least / 1e6), significant(rate.most / 1e6)))
    }),
    ("/ lines", ratio),
];

fn ratio(row: &LayerRow) -> Option<String> {
    let mark = if row.doubtful { "*" } else { "" };
    Some(format!("{:.2}{mark}", row.ratio?.median))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::runs;
    use super::*;

    #[test]
    fn every_layer_has_a_column_and_every_distance_a_table() {
        let mut runs = runs();
        let text = Report::of(&runs).table();
        for part in [
            "medians of 3 runs on processors 0 and 1",
            "\none cache\n",
            "bare lines",
            "typed call",
            "  façade, round trip of 48 B / the bare lines ",
            " 1.18  at most 1.2 ",
            "not there: ZeroMQ",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        assert!(!text.contains("\napart\n"));
        let line = text.lines().find(|line| line.contains("call without parameters")).expect("a line");
        assert_eq!(line.split_whitespace().last(), Some("140"), "{line}");
        runs[0].rows.iter_mut().for_each(|row| row.distance = Distance::Apart);
        assert!(Report::of(&runs).table().contains("\napart\n"));
    }
}
