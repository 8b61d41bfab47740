//! Plots of lines: bandwidth and time over the length of bulk data, and the distribution of answer times.

use tombolo_bench::latency::Distribution;
use tombolo_bench::suite::{Metric, Results, Row, length};

use crate::chart::{self, Axis, ChartError, Line, Panel, Scale};
use crate::plots::Plot;
use crate::units::time;

/// Bandwidths are on a linear axis if the largest is less than this times the smallest.
const LINEAR_RATIO: f64 = 30.0;

/// What a line shows over the length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Gigabytes per second.
    Bandwidth,
    /// The nanoseconds that one buffer or copy takes.
    Time,
}

impl Shown {
    /// The length in bytes and the value of a row, if it has one.
    fn of(self, row: &Row) -> Option<(f64, f64)> {
        let value = row.typical().filter(|value| *value > 0.0)?;
        let (bytes, value) = match (self, row.metric) {
            (Shown::Bandwidth, Metric::Bandwidth { bytes }) => (bytes, value / 1e9),
            // Bytes per nanosecond are gigabytes per second.
            (Shown::Bandwidth, Metric::Copy { bytes }) => (bytes, bytes as f64 / value),
            (
                Shown::Time,
                Metric::Copy { bytes } | Metric::Transfer { bytes } | Metric::Delivery { bytes },
            ) => (bytes, value),
            _ => return None,
        };
        Some((bytes as f64, value))
    }
}

/// Every plot over the length for which there are figures.
pub(crate) fn by_length(results: &Results) -> Result<Vec<Plot>, ChartError> {
    let mut plots = Vec::new();
    let mut add = |name: &str, title: &str, about: &str, shown: Shown, lines: Vec<Line>| {
        draw(results, (name, title, about), shown, lines).map(|plot| plots.extend(plot))
    };
    let here = |wanted: fn(Metric) -> bool, shown: Shown| {
        lines_of_peers(
            results,
            results.rows.iter().filter(|row| row.route.is_none() && wanted(row.metric)),
            shown,
        )
    };
    let title = "Bulk data, filled by one program and read by another";
    let found = here(|metric| matches!(metric, Metric::Bandwidth { .. }), Shown::Bandwidth);
    add("bandwidth", title, "every byte written and read", Shown::Bandwidth, found)?;
    let title = "The right to a buffer there and back, between two programs";
    let found = here(|metric| matches!(metric, Metric::Transfer { .. }), Shown::Time);
    add("rights", title, "nothing of the buffer is touched · median", Shown::Time, found)?;
    let about = "from the request to the notification that it is complete · median";
    let is_copy = |metric| matches!(metric, Metric::Copy { .. });
    add("copies", "Copies by one program", about, Shown::Bandwidth, here(is_copy, Shown::Bandwidth))?;
    add("copies-time", "Time of copies by one program", about, Shown::Time, here(is_copy, Shown::Time))?;
    for (from, to) in routes(results) {
        let of_route = |shown| {
            let mut lines = lines_of_route(results, (from, to), shown);
            lines.extend([from, to].into_iter().filter_map(|node| own_memcpy(results, node, shown)));
            lines
        };
        let (name, title) = (format!("{from}-to-{to}"), format!("From {from} to {to}: bandwidth"));
        let about = "of pools and TCP every byte is written and read; dashed: memcpy within a node";
        add(&name, &title, about, Shown::Bandwidth, of_route(Shown::Bandwidth))?;
        let (name, title) = (format!("{name}-time"), format!("From {from} to {to}: time of one"));
        let about = "median; a single buffer is filled, read and given back; dashed: memcpy within a node";
        add(&name, &title, about, Shown::Time, of_route(Shown::Time))?;
    }
    Ok(plots)
}

/// A line for each peer; of several distances the nearest is shown.
fn lines_of_peers<'a>(results: &Results, rows: impl Iterator<Item = &'a Row>, shown: Shown) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows.filter(|row| results.row(&row.peer, row.metric) == Some(*row)) {
        add_point(&mut lines, &row.peer, shown.of(row));
    }
    lines
}

fn add_point(lines: &mut Vec<Line>, name: &str, point: Option<(f64, f64)>) {
    let Some(point) = point else { return };
    match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name: name.to_owned(), dashed: false, points: vec![point] }),
    }
}

/// The pairs of different nodes between which something was measured, each once.
fn routes(results: &Results) -> Vec<(&str, &str)> {
    let mut routes: Vec<(&str, &str)> = Vec::new();
    for route in results.rows.iter().filter_map(|row| row.route.as_ref()) {
        let nodes = (route.from.as_str(), route.to.as_str());
        if nodes.0 != nodes.1 && !routes.contains(&nodes) {
            routes.push(nodes);
        }
    }
    routes
}

fn lines_of_route(results: &Results, nodes: (&str, &str), shown: Shown) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in &results.rows {
        let Some(route) = &row.route else { continue };
        if (route.from.as_str(), route.to.as_str()) != nodes {
            continue;
        }
        let name = match row.metric {
            Metric::Delivery { .. } => format!("{}, one at a time", route.by),
            _ => route.by.clone(),
        };
        add_point(&mut lines, &name, shown.of(row));
    }
    lines
}

/// Copies within a node's own memory: on the host by the C library, in one program.
fn own_memcpy(results: &Results, node: &str, shown: Shown) -> Option<Line> {
    let is_own = |row: &&Row| {
        matches!(row.metric, Metric::Copy { .. })
            && row.route.as_ref().is_some_and(|route| route.from == node && route.to == node)
    };
    let mut lines = Vec::new();
    for row in results.rows.iter().filter(is_own) {
        add_point(&mut lines, &format!("memcpy in {node}"), shown.of(row));
    }
    lines.pop().map(|line| Line { dashed: true, ..line })
}

/// Draws lines over the length, unless they have one length only.
fn draw(
    results: &Results,
    (name, title, about): (&str, &str, &str),
    shown: Shown,
    mut lines: Vec<Line>,
) -> Result<Option<Plot>, ChartError> {
    let all = || lines.iter().flat_map(|line| &line.points).copied();
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let lengths = bounds(&mut all().map(|(bytes, _)| bytes));
    let (least, most) = bounds(&mut all().map(|(_, value)| value));
    if lengths.0 >= lengths.1 {
        return Ok(None);
    }
    let marks = caches(results, lengths);
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let is_time = shown == Shown::Time;
    let scale = if is_time || most > LINEAR_RATIO * least { Scale::Log10 } else { Scale::Linear };
    let y = match (is_time, scale) {
        (true, _) => Axis { name: "time, logarithmic", scale, label: &time },
        (_, Scale::Linear) => Axis { name: "GB/s", scale, label: &|rate| format!("{rate}") },
        _ => Axis { name: "GB/s, logarithmic", scale, label: &|rate| format!("{rate}") },
    };
    let x = Axis { name: "length, logarithmic", scale: Scale::Log2, label: &|bytes| length(bytes as usize) };
    let panel = Panel { heading: String::new(), lines, marks };
    let svg = chart::lines(title, &format!("{} · {about}", results.label), (x, y), &[panel])?;
    let caption = format!("{title}, on {}", results.label);
    Ok(Some(Plot { name: name.to_owned(), caption, svg }))
}

/// The data caches of the first processor whose sizes lie between two lengths.
fn caches(results: &Results, (shortest, longest): (f64, f64)) -> Vec<(f64, String)> {
    let caches = results.host.caches.iter().filter(|cache| !cache.name.ends_with('i'));
    caches
        .filter_map(|cache| Some((cache_bytes(&cache.size)?, cache.name.clone())))
        .filter(|(bytes, _)| (shortest..longest).contains(bytes))
        .collect()
}

/// The kernel's `32K` or `1M` in bytes.
fn cache_bytes(size: &str) -> Option<f64> {
    let units = [('K', 1024.0), ('M', 1024.0 * 1024.0)];
    let (digits, unit) = units.iter().find_map(|(name, unit)| Some((size.strip_suffix(*name)?, unit)))?;
    digits.parse::<u32>().ok().map(|number| f64::from(number) * unit)
}

/// A percentile: its name, and its value in nanoseconds.
type Percentile = (&'static str, fn(&Distribution) -> u64);

const PERCENTILES: [Percentile; 6] = [
    ("50 %", |times| times.p50),
    ("90 %", |times| times.p90),
    ("99 %", |times| times.p99),
    ("99.9 %", |times| times.p999),
    ("99.99 %", |times| times.p9999),
    ("longest", |times| times.max),
];

/// The distribution of answer times: a panel idle and one under load, with a line for each treatment.
pub(crate) fn distribution(results: &Results) -> Result<Option<Plot>, ChartError> {
    let Some(report) = &results.distribution else { return Ok(None) };
    let panel = |loaded: bool, heading: &str| {
        let rows = report.rows.iter().filter(|row| row.loaded == loaded);
        let lines = rows.filter_map(|row| {
            let times = row.times.as_ref().ok()?;
            let points = PERCENTILES.iter().enumerate();
            let points = points.map(|(index, (_, of))| (index as f64, (of(times) as f64).max(1.0)));
            Some(Line { name: row.treatment.clone(), dashed: false, points: points.collect() })
        });
        Panel { heading: heading.to_owned(), lines: lines.collect(), marks: Vec::new() }
    };
    let panels = [panel(false, "idle"), panel(true, "under load: two threads per processor")];
    if panels.iter().all(|panel| panel.lines.is_empty()) {
        return Ok(None);
    }
    let name = |index: f64| {
        let is_whole = (index - index.round()).abs() < 1e-9 && index > -0.5;
        let percentile = is_whole.then(|| PERCENTILES.get(index.round() as usize)).flatten();
        percentile.map_or_else(String::new, |(name, _)| (*name).to_owned())
    };
    let x = Axis { name: "percentile", scale: Scale::Linear, label: &name };
    let y = Axis { name: "time, logarithmic", scale: Scale::Log10, label: &time };
    let title = "Answer times, with and without a processor and a priority of their own";
    let about =
        format!("{} · 48 B there and back between two processes that sleep · by percentile", results.label);
    let svg = chart::lines(title, &about, (x, y), &panels)?;
    let caption = format!("{title}, on {}", results.label);
    Ok(Some(Plot { name: "distribution".into(), caption, svg }))
}

#[cfg(test)]
mod tests {
    use tombolo_bench::fixture::{flowing, results, timed};
    use tombolo_bench::suite::Route;

    use super::*;

    fn by(row: Row, from: &str, to: &str, by: &str) -> Row {
        Row { route: Some(Route { from: from.into(), to: to.into(), by: by.into() }), ..row }
    }

    fn nodes() -> Results {
        let mut found = results("here");
        found.rows.clear();
        for (bytes, rate) in [(64, 1e6), (1 << 20, 1e9)] {
            let (stream, copy) = (Metric::Bandwidth { bytes }, Metric::Copy { bytes });
            let one = Metric::Delivery { bytes };
            found.rows.extend([
                by(flowing("host → arm0", stream, rate), "host", "arm0", "pool: move"),
                by(flowing("host → arm0: TCP", stream, rate / 10.0), "host", "arm0", "TCP"),
                by(timed("host → arm0", one, 1e3), "host", "arm0", "pool: move"),
                by(timed("arm0: memcpy", copy, 100.0), "arm0", "arm0", "memcpy"),
                by(timed("arm0: into the window", copy, 150.0), "arm0", "host", "arm0 copies"),
            ]);
        }
        found
    }

    #[test]
    fn every_pair_and_direction_has_its_plots() {
        let plots = by_length(&nodes()).expect("plots");
        let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
        assert_eq!(names, ["host-to-arm0", "host-to-arm0-time", "arm0-to-host", "arm0-to-host-time"]);
        let has = |plot: &Plot, text: &str| plot.svg.lines().any(|line| line.trim() == text);
        for text in ["pool: move", "TCP", "memcpy in arm0"] {
            assert!(has(&plots[0], text), "no '{text}' in\n{}", plots[0].svg);
        }
        assert!(has(&plots[1], "pool: move, one at a time"));
        assert!(!has(&plots[1], "pool: move"), "a bandwidth is not a time");
        assert!(has(&plots[2], "arm0 copies"));
    }

    #[test]
    fn lines_of_a_single_length_are_not_drawn() {
        let mut found = nodes();
        found.rows.retain(|row| !matches!(row.metric, Metric::Bandwidth { bytes: 64 }));
        found.rows.retain(|row| !matches!(row.metric, Metric::Copy { .. } | Metric::Delivery { .. }));
        assert!(by_length(&found).expect("plots").is_empty());
    }

    #[test]
    fn sizes_of_caches() {
        for (text, bytes) in
            [("32K", Some(32_768.0)), ("1M", Some(1_048_576.0)), ("", None), ("K", None), ("3é", None)]
        {
            assert_eq!(cache_bytes(text), bytes, "{text}");
        }
    }
}
