//! The plots of a page.

use super::svg::{Anchor, Axis, CHARACTER, COLOURS, FAINT, INK, Svg};
use super::text::{divisor, unit};
use super::{lengths, spread};
use crate::rpc;
use crate::suite::peers::{bare, in_process, kernel, lines, tombolo};
use crate::suite::{Distance, Metric, Pair, Results, Row, Unit};
use crate::table::significant;

pub(super) const WIDTH: f64 = 860.0;
/// Room that names of rows have at least.
const LABELS: f64 = 190.0;
pub(super) const TOP: f64 = 64.0;
const ROW: f64 = 26.0;

/// A drawing: what its file is called after the name of the host, what it shows, and itself.
pub(super) struct Plot {
    pub(super) name: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

/// Every plot for which there are figures.
pub(super) fn all(results: &Results) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut add = |name, metric: Metric, note: &str| plots.extend(whiskers(results, name, metric, note));
    add("round-trip-64", Metric::RoundTrip { bytes: 64 }, "processors near each other");
    add("round-trip-8", Metric::RoundTrip { bytes: 8 }, "processors near each other");
    add("round-trip-1024", Metric::RoundTrip { bytes: 1024 }, "processors near each other");
    add("call", Metric::Call { bytes: 0 }, "processors near each other");
    add("wake-up", Metric::WakeUp, "each message wakes its receiver");
    plots.extend(rates(results));
    plots.extend(lengths::all(results));
    plots.extend(pairs(results));
    plots.extend(placement(results));
    plots.extend(spread::links(results));
    plots.extend(spread::distribution(results));
    plots
}

/// The colour of a peer: Tombolo's own, the bare machine's, and one for everybody else.
fn colour(peer: &str) -> &'static str {
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

/// The figures of a metric, the near ones where there are two, the best first.
fn rows(results: &Results, metric: Metric) -> Vec<&Row> {
    let mut rows: Vec<&Row> = Vec::new();
    for row in results.rows.iter().filter(|row| row.metric == metric) {
        match rows.iter_mut().find(|found| found.peer == row.peer) {
            Some(found) if row.distance < found.distance => *found = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows.sort_by(|a, b| a.typical().unwrap_or(0.0).total_cmp(&b.typical().unwrap_or(0.0)));
    rows
}

fn label(row: &Row) -> String {
    match row.distance {
        Distance::Apart | Distance::TwinThreads => format!("{} ({})", row.peer, row.distance.words()),
        Distance::OneCache | Distance::Any => row.peer.clone(),
    }
}

/// Room for the longest of these names before an axis.
pub(super) fn room_for<'a>(names: impl Iterator<Item = &'a str>, least: f64) -> f64 {
    names.map(|name| name.chars().count() as f64 * CHARACTER + 22.0).fold(least, f64::max).min(WIDTH / 2.0)
}

/// The labels, lines and numbers of a horizontal axis.
pub(super) fn horizontal_axis(
    svg: &mut Svg,
    axis: &Axis,
    bottom: f64,
    name: &str,
    label: impl Fn(f64) -> String,
) {
    for tick in axis.minor_ticks() {
        svg.line((axis.place(tick), TOP), (axis.place(tick), bottom), "#f0f0f0", 1.0);
    }
    for tick in axis.ticks() {
        let x = axis.place(tick);
        svg.line((x, TOP), (x, bottom), FAINT, 1.0);
        svg.text(x, bottom + 16.0, &label(tick), 11.0, Anchor::Middle, false);
    }
    svg.text(axis.place(f64::MAX), bottom + 34.0, name, 12.0, Anchor::End, false);
}

/// Times: a dot for the median, marks for the 99th and 99.9th percentile, on a logarithmic axis.
fn whiskers(results: &Results, name: &'static str, metric: Metric, note: &str) -> Option<Plot> {
    let rows: Vec<(&Row, [f64; 3])> = rows(results, metric)
        .into_iter()
        .filter_map(|row| row.latency_ns.map(|latency| (row, [latency.p50, latency.p99, latency.p999])))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let bottom = TOP + ROW * rows.len() as f64 + 8.0;
    let title = capitalised(&metric.title());
    let subtitle = format!("{} · {note} · dot: median, bar: 99 %, end: 99.9 %", results.label);
    let mut svg = Svg::new(WIDTH, bottom + 44.0, &title, &subtitle);
    let values = rows.iter().flat_map(|(_, values)| *values);
    let names: Vec<String> = rows.iter().map(|(row, _)| label(row)).collect();
    let labels = room_for(names.iter().map(String::as_str), LABELS);
    let axis = Axis::logarithmic(values, labels, WIDTH - 90.0);
    horizontal_axis(&mut svg, &axis, bottom, "time, logarithmic", time);
    for (index, (row, [p50, p99, p999])) in rows.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5) + 4.0;
        let colour = colour(&row.peer);
        svg.text(labels - 10.0, y + 4.0, &names[index], 12.0, Anchor::End, false);
        let (from, end) = (axis.place(*p50), axis.place(p999.max(*p50)));
        svg.line((from, y), (end, y), colour, 2.0);
        svg.line((end, y - 5.0), (end, y + 5.0), colour, 2.0);
        let bar = axis.place(p99.max(*p50));
        svg.line((bar, y - 7.0), (bar, y + 7.0), colour, 3.0);
        svg.dot((from, y), 5.0, colour);
        svg.text(WIDTH - 12.0, y + 4.0, &exact_time(*p50), 12.0, Anchor::End, true);
    }
    let caption = format!("{title}, by peer, on {}", results.label);
    Some(Plot { name: name.to_owned(), caption, svg: svg.finish() })
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + characters.as_str())
}

/// A time for an axis.
pub(super) fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{} µs", ns / 1e3),
        ns => format!("{ns} ns"),
    }
}

/// A time as it was measured.
pub(super) fn exact_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{} ms", significant(ns / 1e6)),
        ns if ns >= 1e3 => format!("{} µs", significant(ns / 1e3)),
        ns => format!("{} ns", significant(ns)),
    }
}

/// Messages a second, all ways of sending 56 or 64 bytes, on a logarithmic axis.
fn rates(results: &Results) -> Option<Plot> {
    let mut all: Vec<(String, &Row, f64)> = Vec::new();
    for row in &results.rows {
        let (Metric::Rate { bytes, batch }, Some(rate)) = (row.metric, row.rate_per_s) else { continue };
        let how = if batch == 1 { "one by one".to_owned() } else { format!("in {batch}s") };
        all.push((format!("{}, {bytes} B {how}", label(row)), row, rate.p50));
    }
    // Of several distances that of one cache.
    all.retain(|(_, row, _)| {
        row.distance == Distance::OneCache
            || results.row(&row.peer, row.metric).is_some_and(|best| best == *row)
    });
    if all.is_empty() {
        return None;
    }
    all.sort_by(|a, b| b.2.total_cmp(&a.2));
    let labels = room_for(all.iter().map(|(name, ..)| name.as_str()), 290.0);
    let bottom = TOP + ROW * all.len() as f64 + 8.0;
    let title = "Messages one way";
    let mut svg =
        Svg::new(WIDTH, bottom + 44.0, title, &format!("{} · each written and checked", results.label));
    let axis = Axis::logarithmic(all.iter().map(|(_, _, rate)| *rate), labels, WIDTH - 90.0);
    horizontal_axis(&mut svg, &axis, bottom, "messages a second, logarithmic", count);
    for (index, (name, row, rate)) in all.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5) + 4.0;
        svg.text(labels - 10.0, y + 4.0, name, 12.0, Anchor::End, false);
        svg.rectangle(labels, y - 8.0, axis.place(*rate) - labels, 16.0, colour(&row.peer));
        svg.text(WIDTH - 12.0, y + 4.0, &format!("{} M/s", significant(rate / 1e6)), 12.0, Anchor::End, true);
    }
    Some(Plot { name: "rate".into(), caption: format!("{title}, on {}", results.label), svg: svg.finish() })
}

fn count(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{} G", value / 1e9),
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e3 => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}

/// Every pair of processors: a square for each, darker where the round trip is longer.
fn pairs(results: &Results) -> Option<Plot> {
    let mut cpus: Vec<usize> = results.pairs.iter().flat_map(|pair| [pair.near, pair.far]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < 2 {
        return None;
    }
    let cell = (640.0 / cpus.len() as f64).min(84.0);
    let left = 60.0;
    let side = cell * cpus.len() as f64;
    let title = "Every pair of processors";
    let subtitle = format!(
        "{} · above the diagonal a message there and back, below it the bare lines, ns",
        results.label
    );
    let mut svg = Svg::new((left + side + 30.0).max(560.0), TOP + side + 40.0, title, &subtitle);
    let of = |value: fn(&Pair) -> f64| results.pairs.iter().map(value);
    let shortest = of(|pair| pair.probe_ns).fold(f64::INFINITY, f64::min);
    let longest = of(|pair| pair.round_trip_ns).fold(0.0, f64::max).max(shortest * 1.01);
    for (row, near) in cpus.iter().enumerate() {
        let middle = TOP + cell * (row as f64 + 0.5);
        svg.text(left - 8.0, middle + 4.0, &near.to_string(), 11.0, Anchor::End, false);
        svg.text(
            left + cell * (row as f64 + 0.5),
            TOP + side + 16.0,
            &near.to_string(),
            11.0,
            Anchor::Middle,
            false,
        );
        for (column, far) in cpus.iter().enumerate() {
            let pair =
                results.pairs.iter().find(|pair| (pair.near, pair.far) == (*near.min(far), *near.max(far)));
            let Some(pair) = pair else { continue };
            let value = if column > row { pair.round_trip_ns } else { pair.probe_ns };
            let share = ((value / shortest).ln() / (longest / shortest).ln()).clamp(0.0, 1.0);
            let (x, y) = (left + cell * column as f64, TOP + cell * row as f64);
            svg.rectangle(x + 0.5, y + 0.5, cell - 1.0, cell - 1.0, &shade(share));
            let ink = if share > 0.55 { "#ffffff" } else { INK };
            let size = (cell * 0.3).clamp(8.0, 14.0);
            svg.coloured_text(
                (x + cell / 2.0, y + cell / 2.0 + size / 3.0),
                &significant(value),
                size,
                Anchor::Middle,
                false,
                ink,
            );
        }
    }
    svg.text(left + side, TOP + side + 32.0, "processor", 12.0, Anchor::End, false);
    Some(Plot { name: "pairs".into(), caption: format!("{title}, on {}", results.label), svg: svg.finish() })
}

/// From pale to dark blue.
fn shade(share: f64) -> String {
    let between = |from: f64, to: f64| (from + share * (to - from)) as u8;
    format!("#{:02x}{:02x}{:02x}", between(236.0, 8.0), between(244.0, 48.0), between(252.0, 107.0))
}

/// Where slots and credit lie: bars for each link, variant and placement.
fn placement(results: &Results) -> Option<Plot> {
    let placed: Vec<_> =
        results.placement.iter().filter_map(|placed| Some((placed, placed.round_trip_ns?))).collect();
    if placed.is_empty() {
        return None;
    }
    let names: Vec<String> = placed.iter().map(|(placed, _)| placed.title()).collect();
    // These are sentences: they get the room that they need, and the bars as much as in other plots.
    let labels =
        names.iter().map(|name| name.chars().count() as f64 * CHARACTER + 22.0).fold(LABELS, f64::max);
    let width = labels + WIDTH / 2.0;
    let bottom = TOP + ROW * placed.len() as f64 + 8.0;
    let title = "Where slots and credit lie";
    let subtitle = format!(
        "{} · round trip of one slot by placement; grey: the bare lines of the same memory",
        results.label
    );
    let mut svg = Svg::new(width, bottom + 44.0, title, &subtitle);
    let values = placed.iter().flat_map(|(placed, rtt)| [rtt.p50, placed.limit_ns]);
    let axis = Axis::linear(values, labels, width - 90.0);
    horizontal_axis(&mut svg, &axis, bottom, "round trip", time);
    for (index, (placed, rtt)) in placed.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5) + 4.0;
        svg.text(labels - 10.0, y + 4.0, &names[index], 12.0, Anchor::End, false);
        svg.rectangle(labels, y - 9.0, axis.place(rtt.p50) - labels, 12.0, COLOURS[0]);
        svg.rectangle(labels, y + 4.0, axis.place(placed.limit_ns) - labels, 4.0, COLOURS[6]);
        svg.text(width - 12.0, y + 4.0, &exact_time(rtt.p50), 12.0, Anchor::End, true);
    }
    Some(Plot {
        name: "placement".into(),
        caption: format!("{title}, on {}", results.label),
        svg: svg.finish(),
    })
}

/// A row of the table of single numbers.
pub(super) fn shown(row: &Row) -> String {
    let Some(value) = row.typical() else { return "–".into() };
    match row.metric.unit() {
        Unit::Nanoseconds => exact_time(value),
        of => format!("{} {}", significant(value / divisor(of)), unit(of)),
    }
}
