//! The plots of a page.

use plotters::style::RGBColor;
use tombolo_bench::latency::Distribution;
use tombolo_bench::ring::{Latency, LinkReport};
use tombolo_bench::suite::peers::{bare, in_process, kernel, lines, tombolo};
use tombolo_bench::suite::{Distance, Metric, Placed, Results, Route, Row, length};
use tombolo_bench::{rpc, significant};

use crate::chart::{Axis, COLOURS, Chart, ChartError, Mark, Panel, Scale, Series};
use crate::units::{count, distinct, exact_time, time};

/// Plot: name, which follows the host's in the file name, caption, and file content.
pub(crate) struct Plot {
    pub(crate) name: String,
    pub(crate) caption: String,
    pub(crate) svg: String,
}

const TIME: Axis<'_> = Axis { name: "time, logarithmic", scale: Scale::Log10, label: &time };

/// Draws every plot for which there are figures.
pub(crate) fn all(results: &Results) -> Result<Vec<Plot>, ChartError> {
    let mut plots = Vec::new();
    let near = "processors near each other";
    for (name, metric, note) in [
        ("round-trip-64", Metric::RoundTrip { bytes: 64 }, near),
        ("round-trip-8", Metric::RoundTrip { bytes: 8 }, near),
        ("round-trip-1024", Metric::RoundTrip { bytes: 1024 }, near),
        ("call", Metric::Call { bytes: 0 }, near),
        ("wake-up", Metric::WakeUp, "each message wakes its receiver"),
    ] {
        let about = format!("{note} · dot: median, bar: 99 %, end: 99.9 %");
        plots.push(rows(
            results,
            name,
            &capitalised(&metric.title()),
            &about,
            TIME,
            percentiles(results, metric),
        ));
    }
    let axis = Axis { name: "messages per second, logarithmic", scale: Scale::Log10, label: &count };
    plots.push(rows(results, "rate", "Messages one way", "each written and checked", axis, rates(results)));
    plots.extend(by_length(results));
    let about = "round trip of one slot by placement; grey: the bare lines of the same memory";
    let axis = Axis { name: "round trip", scale: Scale::Linear, label: &time };
    plots.push(rows(results, "placement", "Where slots and credit lie", about, axis, placement(results)));
    let about = "48 B there and back; grey: two bare lines in the same memory, where one is shared";
    let axis = Axis { name: "round trip, logarithmic", ..TIME };
    plots.push(rows(results, "links", "Links of the machine", about, axis, links(results)));
    plots.push(distribution(results));
    plots.into_iter().filter_map(Result::transpose).collect()
}

/// Draws a chart; returns `None` if it has no series.
fn plot(results: &Results, name: &str, chart: Chart<'_>) -> Result<Option<Plot>, ChartError> {
    if chart.panels.iter().all(|panel| panel.series.is_empty()) {
        return Ok(None);
    }
    let caption = format!("{}, on {}", chart.title, results.label);
    let about = format!("{} · {}", results.label, chart.about);
    let svg = Chart { about: &about, ..chart }.svg()?;
    Ok(Some(Plot { name: name.to_owned(), caption, svg }))
}

fn rows(
    results: &Results,
    name: &str,
    title: &str,
    about: &str,
    x: Axis<'_>,
    series: Vec<Series>,
) -> Result<Option<Plot>, ChartError> {
    let panels = vec![Panel { series, ..Panel::default() }];
    plot(results, name, Chart { title, about, x, y: None, panels })
}

/// Returns the colour of a peer: one for Tombolo's own, one for the bare machine's, and one for all others.
fn colour(peer: &str) -> RGBColor {
    match peer {
        tombolo::NAME | tombolo::WIDE | tombolo::DEEP | in_process::NAME | rpc::CALLS | rpc::MESSAGES => {
            COLOURS[0]
        }
        rpc::RINGS | bare::LINES | bare::BUFFERS | lines::NAME | kernel::FUTEX | "eventfd" | "memcpy" => {
            COLOURS[6]
        }
        _ => COLOURS[1],
    }
}

fn label(row: &Row) -> String {
    match row.distance {
        Distance::Apart | Distance::TwinThreads => format!("{} ({})", row.peer, row.distance.words()),
        Distance::OneCache | Distance::Any => row.peer.clone(),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + characters.as_str()
}

/// Returns the percentiles of a time by peer, the fastest first. Of several distances the nearest is shown.
fn percentiles(results: &Results, metric: Metric) -> Vec<Series> {
    let shown = |row: &&Row| row.metric == metric && results.row(&row.peer, metric) == Some(*row);
    let mut found: Vec<_> =
        results.rows.iter().filter(shown).filter_map(|row| Some((row, row.latency_ns?))).collect();
    found.sort_by(|a, b| a.1.p50.total_cmp(&b.1.p50));
    let series = |(row, latency): (&Row, Latency)| Series {
        name: label(row),
        value: exact_time(latency.p50),
        colour: colour(&row.peer),
        mark: Mark::Percentiles([latency.p50, latency.p99, latency.p999]),
    };
    found.into_iter().map(series).collect()
}

/// Returns the message rates for all ways of sending 56 or 64 bytes, the fastest first.
fn rates(results: &Results) -> Vec<Series> {
    let mut found: Vec<(&Row, String, f64)> = Vec::new();
    for row in &results.rows {
        let (Metric::Rate { bytes, batch }, Some(rate)) = (row.metric, row.rate_per_s) else { continue };
        // Of several distances the nearest is shown.
        if row.distance == Distance::OneCache || results.row(&row.peer, row.metric) == Some(row) {
            let how = if batch == 1 { "one by one".to_owned() } else { format!("in {batch}s") };
            found.push((row, format!("{}, {bytes} B {how}", label(row)), rate.p50));
        }
    }
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
    let series = |(row, name, rate): (&Row, String, f64)| {
        let value = format!("{} M/s", significant(rate / 1e6));
        Series { name, value, colour: colour(&row.peer), mark: Mark::Bar(rate, 0.0) }
    };
    found.into_iter().map(series).collect()
}

/// Returns the round trips by placement of slots and credit, for each link and variant.
fn placement(results: &Results) -> Vec<Series> {
    let found = results.placement.iter().filter_map(|placed| Some((placed, placed.round_trip_ns?.p50)));
    let series = |(placed, p50): (&Placed, f64)| Series {
        name: placed.title(),
        value: exact_time(p50),
        colour: COLOURS[0],
        mark: Mark::Bar(p50, placed.limit_ns),
    };
    found.map(series).collect()
}

/// Returns the round trips over each link of the machine, with the bare lines of the same memory.
fn links(results: &Results) -> Vec<Series> {
    let found = results.links.iter().filter_map(|link| Some((link, link.rtt_ns?.p50)));
    let series = |(link, p50): (&LinkReport, f64)| {
        let ratio = link.rtt_ratio.map_or_else(String::new, |ratio| format!(" = {ratio:.2} × bare"));
        // The ratio is that of adjacent slices. If processors were moved during the run, the median of all
        // bare slices has a different mix of near and far than that of the messages.
        let bare = match (link.rtt_ratio, link.limit_rtt_ns) {
            (Some(ratio), _) if ratio > 0.0 => p50 / ratio,
            (_, limit) => limit.map_or(0.0, |limit| limit.p50),
        };
        Series {
            name: format!("{} ({}, {})", link.link, link.transport, link.isa[1]),
            value: format!("{}{ratio}", exact_time(p50)),
            colour: COLOURS[0],
            mark: Mark::Bar(p50, bare),
        }
    };
    found.map(series).collect()
}

/// Maximum ratio of the largest to the smallest bandwidth for which the axis is linear.
const LINEAR_RATIO: f64 = 30.0;

/// Quantity that a line shows over the length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Gigabytes per second.
    Bandwidth,
    /// Time of one buffer or copy, in nanoseconds.
    Time,
}

impl Shown {
    /// Returns the length in bytes and the value of a row, if it has one.
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

/// Draws every plot over the length for which there are figures.
fn by_length(results: &Results) -> Vec<Result<Option<Plot>, ChartError>> {
    // A line per peer; of several distances the nearest is shown.
    let here = |wanted: fn(Metric) -> bool, shown: Shown| {
        let is_in = |row: &&Row| {
            row.route.is_none() && wanted(row.metric) && results.row(&row.peer, row.metric) == Some(*row)
        };
        lines_of(shown, results.rows.iter().filter(is_in).map(|row| (row.peer.clone(), false, row)))
    };
    let is_copy: fn(Metric) -> bool = |metric| matches!(metric, Metric::Copy { .. });
    let is_right: fn(Metric) -> bool = |metric| matches!(metric, Metric::Transfer { .. });
    let is_stream: fn(Metric) -> bool = |metric| matches!(metric, Metric::Bandwidth { .. });
    let untouched = "nothing of the buffer is touched · median";
    let whole = "from the request to the notification that it is complete · median";
    let stream = "Bulk data, filled by one program and read by another";
    let right = "The right to a buffer there and back, between two programs";
    let mut plots: Vec<_> = [
        ("bandwidth", stream, "every byte written and read", Shown::Bandwidth, is_stream),
        ("rights", right, untouched, Shown::Time, is_right),
        ("copies", "Copies by one program", whole, Shown::Bandwidth, is_copy),
        ("copies-time", "Time of copies by one program", whole, Shown::Time, is_copy),
    ]
    .map(|(name, title, about, shown, wanted)| lines(results, name, title, about, shown, here(wanted, shown)))
    .into();
    let routes = results.rows.iter().filter_map(|row| row.route.as_ref());
    let routes = routes.map(|route| (route.from.as_str(), route.to.as_str())).filter(|(from, to)| from != to);
    for (from, to) in distinct(routes) {
        for (suffix, title, about, shown) in [
            ("", "bandwidth", "of pools and TCP every byte is written and read", Shown::Bandwidth),
            ("-time", "time of one", "median; a single buffer is filled, read and given back", Shown::Time),
        ] {
            let (name, title) = (format!("{from}-to-{to}{suffix}"), format!("From {from} to {to}: {title}"));
            let about = format!("{about}; dashed: memcpy within a node");
            plots.push(lines(
                results,
                &name,
                &title,
                &about,
                shown,
                lines_of_route(results, (from, to), shown),
            ));
        }
    }
    plots
}

/// Converts rows into lines: rows of the same name form one line, dashed if the flag is set.
fn lines_of<'a>(shown: Shown, rows: impl Iterator<Item = (String, bool, &'a Row)>) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    for (name, dashed, row) in rows {
        let Some(point) = shown.of(row) else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(Series { mark: Mark::Line(points, _), .. }) => points.push(point),
            _ => lines.push(line(lines.len(), name, vec![point], dashed)),
        }
    }
    lines
}

fn line(index: usize, name: String, points: Vec<(f64, f64)>, dashed: bool) -> Series {
    let colour = COLOURS[index % COLOURS.len()];
    Series { name, value: String::new(), colour, mark: Mark::Line(points, dashed) }
}

/// Returns the rows of one route.
fn between<'a>(
    results: &'a Results,
    nodes: (&'a str, &'a str),
) -> impl Iterator<Item = (&'a Row, &'a Route)> {
    let rows = results.rows.iter().filter_map(|row| Some((row, row.route.as_ref()?)));
    rows.filter(move |(_, route)| (route.from.as_str(), route.to.as_str()) == nodes)
}

/// Returns the lines of a route: transfers from one node to the other, then copies within each node's own
/// memory (on the host by the C library, in one program).
fn lines_of_route(results: &Results, (from, to): (&str, &str), shown: Shown) -> Vec<Series> {
    let passing = between(results, (from, to)).map(|(row, route)| match row.metric {
        Metric::Delivery { .. } => (format!("{}, one at a time", route.by), false, row),
        _ => (route.by.clone(), false, row),
    });
    let own = [from, to].into_iter().flat_map(|node| {
        let copies =
            between(results, (node, node)).filter(|(row, _)| matches!(row.metric, Metric::Copy { .. }));
        copies.map(move |(row, _)| (format!("memcpy in {node}"), true, row))
    });
    lines_of(shown, passing.chain(own))
}

/// Draws lines over the length, unless there is only one length.
fn lines(
    results: &Results,
    name: &str,
    title: &str,
    about: &str,
    shown: Shown,
    mut series: Vec<Series>,
) -> Result<Option<Plot>, ChartError> {
    let (mut lengths, mut values) = (Vec::new(), Vec::new());
    for line in &mut series {
        let Mark::Line(points, _) = &mut line.mark else { continue };
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lengths.extend(points.iter().map(|(bytes, _)| *bytes));
        values.extend(points.iter().map(|(_, value)| *value));
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    if least(&lengths) >= most(&lengths) {
        return Ok(None);
    }
    let rate = |rate: f64| rate.to_string();
    let y = match shown {
        Shown::Time => TIME,
        Shown::Bandwidth if most(&values) > LINEAR_RATIO * least(&values) => {
            Axis { name: "GB/s, logarithmic", scale: Scale::Log10, label: &rate }
        }
        Shown::Bandwidth => Axis { name: "GB/s", scale: Scale::Linear, label: &rate },
    };
    let x = Axis { name: "length, logarithmic", scale: Scale::Log2, label: &|bytes| length(bytes as usize) };
    let marks = caches(results, (least(&lengths), most(&lengths)));
    let panels = vec![Panel { heading: String::new(), series, marks }];
    plot(results, name, Chart { title, about, x, y: Some(y), panels })
}

/// Returns the data caches of the first processor whose sizes are between two lengths.
fn caches(results: &Results, (shortest, longest): (f64, f64)) -> Vec<(f64, String)> {
    let caches = results.host.caches.iter().filter(|cache| !cache.name.ends_with('i'));
    caches
        .filter_map(|cache| Some((cache_bytes(&cache.size)?, cache.name.clone())))
        .filter(|(bytes, _)| (shortest..longest).contains(bytes))
        .collect()
}

/// Converts a size in the kernel's format, such as `32K` or `1M`, to bytes.
fn cache_bytes(size: &str) -> Option<f64> {
    let units = [('K', 1024.0), ('M', 1024.0 * 1024.0)];
    let (digits, unit) = units.iter().find_map(|(name, unit)| Some((size.strip_suffix(*name)?, unit)))?;
    digits.parse::<u32>().ok().map(|number| f64::from(number) * unit)
}

/// Percentile: name, and the function that returns its value in nanoseconds.
type Percentile = (&'static str, fn(&Distribution) -> u64);

const PERCENTILES: [Percentile; 6] = [
    ("50 %", |times| times.p50),
    ("90 %", |times| times.p90),
    ("99 %", |times| times.p99),
    ("99.9 %", |times| times.p999),
    ("99.99 %", |times| times.p9999),
    ("longest", |times| times.max),
];

/// Draws the distribution of response times: a panel idle and one under load, with a line per treatment.
fn distribution(results: &Results) -> Result<Option<Plot>, ChartError> {
    let Some(report) = &results.distribution else { return Ok(None) };
    let panel = |loaded: bool, heading: &str| {
        let rows = report.rows.iter().filter(|row| row.loaded == loaded);
        let rows = rows.filter_map(|row| Some((row.treatment.clone(), row.times.as_ref().ok()?)));
        let series = rows.enumerate().map(|(index, (treatment, times))| {
            let points = PERCENTILES.iter().enumerate();
            let points = points.map(|(at, (_, of))| (at as f64, (of(times) as f64).max(1.0)));
            line(index, treatment, points.collect(), false)
        });
        Panel { heading: heading.to_owned(), series: series.collect(), marks: Vec::new() }
    };
    let name = |index: f64| {
        let is_whole = (index - index.round()).abs() < 1e-9 && index > -0.5;
        let percentile = is_whole.then(|| PERCENTILES.get(index.round() as usize)).flatten();
        percentile.map_or_else(String::new, |(name, _)| (*name).to_owned())
    };
    let chart = Chart {
        title: "Answer times, with and without a processor and a priority of their own",
        about: "48 B there and back between two processes that sleep · by percentile",
        x: Axis { name: "percentile", scale: Scale::Linear, label: &name },
        y: Some(TIME),
        panels: vec![panel(false, "idle"), panel(true, "under load: two threads per processor")],
    };
    plot(results, "distribution", chart)
}

#[cfg(test)]
mod tests {
    use tombolo_bench::fixture::{flowing, results, timed};

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

    fn drawn(results: &Results) -> Vec<Plot> {
        by_length(results).into_iter().filter_map(|plot| plot.expect("a plot")).collect()
    }

    #[test]
    fn every_pair_and_direction_has_its_plots() {
        let plots = drawn(&nodes());
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
        assert!(drawn(&found).is_empty());
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
