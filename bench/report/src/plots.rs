//! The plots of a page.

use plotters::style::RGBColor;
use tombolo_bench::rpc;
use tombolo_bench::significant;
use tombolo_bench::suite::peers::{bare, in_process, kernel, lines, tombolo};
use tombolo_bench::suite::{Distance, Metric, Results, Row};

use crate::chart::{self, Axis, COLOURS, ChartError, Scale, Shape};
use crate::curves;
use crate::units::{count, exact_time, time};

/// A plot: its name, which its file has after that of the host, its caption, and the file.
pub(crate) struct Plot {
    pub(crate) name: String,
    pub(crate) caption: String,
    pub(crate) svg: String,
}

/// The captions and axis of a chart of rows.
struct Chart<'a> {
    name: &'a str,
    title: &'a str,
    about: &'a str,
    axis: Axis<'a>,
}

impl Chart<'_> {
    fn draw(&self, results: &Results, rows: &[chart::Row]) -> Result<Option<Plot>, ChartError> {
        if rows.is_empty() {
            return Ok(None);
        }
        let about = format!("{} · {}", results.label, self.about);
        let svg = chart::rows(self.title, &about, self.axis, rows)?;
        let caption = format!("{}, on {}", self.title, results.label);
        Ok(Some(Plot { name: self.name.to_owned(), caption, svg }))
    }
}

/// Every plot for which there are figures.
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
        plots.extend(percentiles(results, name, metric, note)?);
    }
    plots.extend(rates(results)?);
    plots.extend(curves::by_length(results)?);
    plots.extend(placement(results)?);
    plots.extend(links(results)?);
    plots.extend(curves::distribution(results)?);
    Ok(plots)
}

/// Tombolo's own peers, the bare machine's and all others have a colour each.
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

/// Percentiles of a time, by peer, the fastest first. Of several distances the nearest is shown.
fn percentiles(
    results: &Results,
    name: &str,
    metric: Metric,
    note: &str,
) -> Result<Option<Plot>, ChartError> {
    let shown = |row: &&Row| row.metric == metric && results.row(&row.peer, metric) == Some(*row);
    let mut found: Vec<_> =
        results.rows.iter().filter(shown).filter_map(|row| Some((row, row.latency_ns?))).collect();
    found.sort_by(|a, b| a.1.p50.total_cmp(&b.1.p50));
    let rows: Vec<chart::Row> = found
        .into_iter()
        .map(|(row, latency)| chart::Row {
            name: label(row),
            shape: Shape::Percentiles([latency.p50, latency.p99, latency.p999]),
            value: exact_time(latency.p50),
            colour: colour(&row.peer),
        })
        .collect();
    let chart = Chart {
        name,
        title: &capitalised(&metric.title()),
        about: &format!("{note} · dot: median, bar: 99 %, end: 99.9 %"),
        axis: Axis { name: "time, logarithmic", scale: Scale::Log10, label: &time },
    };
    chart.draw(results, &rows)
}

/// Messages per second, for all ways of sending 56 or 64 bytes, the fastest first.
fn rates(results: &Results) -> Result<Option<Plot>, ChartError> {
    let mut found: Vec<(String, &Row, f64)> = Vec::new();
    for row in &results.rows {
        let (Metric::Rate { bytes, batch }, Some(rate)) = (row.metric, row.rate_per_s) else { continue };
        // Of several distances the nearest is shown.
        if row.distance == Distance::OneCache || results.row(&row.peer, row.metric) == Some(row) {
            let how = if batch == 1 { "one by one".to_owned() } else { format!("in {batch}s") };
            found.push((format!("{}, {bytes} B {how}", label(row)), row, rate.p50));
        }
    }
    found.sort_by(|a, b| b.2.total_cmp(&a.2));
    let rows: Vec<chart::Row> = found
        .into_iter()
        .map(|(name, row, rate)| chart::Row {
            name,
            shape: Shape::Bar(rate, 0.0),
            value: format!("{} M/s", significant(rate / 1e6)),
            colour: colour(&row.peer),
        })
        .collect();
    let chart = Chart {
        name: "rate",
        title: "Messages one way",
        about: "each written and checked",
        axis: Axis { name: "messages per second, logarithmic", scale: Scale::Log10, label: &count },
    };
    chart.draw(results, &rows)
}

/// A round trip by the placement of slots and credit, for each link and variant.
fn placement(results: &Results) -> Result<Option<Plot>, ChartError> {
    let rows: Vec<chart::Row> = results
        .placement
        .iter()
        .filter_map(|placed| {
            let round_trip = placed.round_trip_ns?;
            Some(chart::Row {
                name: placed.title(),
                shape: Shape::Bar(round_trip.p50, placed.limit_ns),
                value: exact_time(round_trip.p50),
                colour: COLOURS[0],
            })
        })
        .collect();
    let chart = Chart {
        name: "placement",
        title: "Where slots and credit lie",
        about: "round trip of one slot by placement; grey: the bare lines of the same memory",
        axis: Axis { name: "round trip", scale: Scale::Linear, label: &time },
    };
    chart.draw(results, &rows)
}

/// A round trip over each link of the machine, beside the bare lines of the same memory.
fn links(results: &Results) -> Result<Option<Plot>, ChartError> {
    let rows: Vec<chart::Row> = results
        .links
        .iter()
        .filter_map(|link| {
            let round_trip = link.rtt_ns?.p50;
            let ratio = link.rtt_ratio.map_or_else(String::new, |ratio| format!(" = {ratio:.2} × bare"));
            // The ratio is of slices that belong together. Where processors were moved during the run, the
            // median of all bare slices is of another mix of near and far than that of the messages.
            let bare = match (link.rtt_ratio, link.limit_rtt_ns) {
                (Some(ratio), _) if ratio > 0.0 => round_trip / ratio,
                (_, limit) => limit.map_or(0.0, |limit| limit.p50),
            };
            Some(chart::Row {
                name: format!("{} ({}, {})", link.link, link.transport, link.isa[1]),
                shape: Shape::Bar(round_trip, bare),
                value: format!("{}{ratio}", exact_time(round_trip)),
                colour: COLOURS[0],
            })
        })
        .collect();
    let chart = Chart {
        name: "links",
        title: "Links of the machine",
        about: "48 B there and back; grey: two bare lines in the same memory, where one is shared",
        axis: Axis { name: "round trip, logarithmic", scale: Scale::Log10, label: &time },
    };
    chart.draw(results, &rows)
}
