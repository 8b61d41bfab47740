//! Plots over the length of bulk data: bandwidth and time, between programs, by one program, and from node to node.

use super::plots::{Plot, TOP, WIDTH, time};
use super::svg::{Anchor, Axis, CHARACTER, COLOURS, FAINT, INK, Svg};
use crate::suite::{Metric, Results, Row, length};

const LEFT: f64 = 76.0;
const BOTTOM: f64 = 400.0;
/// Between names at the right.
const LINE: f64 = 15.0;
/// A linear axis shows what differs by less than this.
const LINEAR_RATIO: f64 = 30.0;

/// Every plot over the length for which there are figures.
pub(super) fn all(results: &Results) -> Vec<Plot> {
    let mut plots = Vec::new();
    let mut add = |chart: Chart<'_>, series: Vec<Series>| plots.extend(draw(results, &chart, series));
    let here = || results.rows.iter().filter(|row| row.route.is_none());
    add(
        Chart::bandwidth(
            "bandwidth",
            "Bulk data, filled by one program and read by another",
            WRITTEN_AND_READ,
        ),
        series(here().filter(|row| matches!(row.metric, Metric::Bandwidth { .. })), results, bandwidth),
    );
    let rights = "nothing of the buffer is touched · median";
    add(
        Chart::time("rights", "The right to a buffer there and back, between two programs", rights),
        series(here().filter(|row| matches!(row.metric, Metric::Transfer { .. })), results, took),
    );
    let copies = || here().filter(|row| matches!(row.metric, Metric::Copy { .. }));
    let about = "from asking to knowing that it is done · median";
    add(Chart::bandwidth("copies", "Copies by one program", about), series(copies(), results, bandwidth));
    add(
        Chart::time("copies-time", "What copies by one program take", about),
        series(copies(), results, took),
    );
    for (from, to) in routes(results) {
        let (file, title) = (format!("{from}-to-{to}"), format!("From {from} to {to}"));
        let about = "of pools and TCP every byte is written and read; dashed: memcpy within a node";
        let mut found = of_route(results, (from, to), bandwidth);
        found.extend([from, to].iter().filter_map(|node| own_memcpy(results, node, bandwidth)));
        add(Chart::bandwidth(&file, &format!("{title}: bandwidth"), about), found);
        let about =
            "median; a buffer one at a time is filled, read and given back; dashed: memcpy within a node";
        let mut found = of_route(results, (from, to), took);
        found.extend([from, to].iter().filter_map(|node| own_memcpy(results, node, took)));
        add(Chart::time(&format!("{file}-time"), &format!("{title}: time of one"), about), found);
    }
    plots
}

const WRITTEN_AND_READ: &str = "every byte written and read";

/// What a plot is of.
struct Chart<'a> {
    name: &'a str,
    title: &'a str,
    about: &'a str,
    is_time: bool,
}

impl<'a> Chart<'a> {
    fn bandwidth(name: &'a str, title: &'a str, about: &'a str) -> Self {
        Chart { name, title, about, is_time: false }
    }

    fn time(name: &'a str, title: &'a str, about: &'a str) -> Self {
        Chart { name, title, about, is_time: true }
    }
}

/// A line: its name, and its value for each length in bytes.
struct Series {
    name: String,
    /// Something to compare with.
    dashed: bool,
    points: Vec<(usize, f64)>,
}

/// Gigabytes a second.
fn bandwidth(row: &Row) -> Option<(usize, f64)> {
    let value = row.typical().filter(|value| *value > 0.0)?;
    match row.metric {
        Metric::Bandwidth { bytes } => Some((bytes, value / 1e9)),
        // Bytes in a nanosecond are gigabytes in a second.
        Metric::Copy { bytes } => Some((bytes, bytes as f64 / value)),
        _ => None,
    }
}

/// Nanoseconds of one.
fn took(row: &Row) -> Option<(usize, f64)> {
    let value = row.typical().filter(|value| *value > 0.0)?;
    match row.metric {
        Metric::Copy { bytes } | Metric::Transfer { bytes } | Metric::Delivery { bytes } => {
            Some((bytes, value))
        }
        _ => None,
    }
}

type Point = fn(&Row) -> Option<(usize, f64)>;

/// A line for each peer of rows that have no route; the near figure where there are two.
fn series<'a>(rows: impl Iterator<Item = &'a Row>, results: &Results, point: Point) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let shown = results.row(&row.peer, row.metric).is_some_and(|best| best == row);
        let Some(found) = point(row).filter(|_| shown) else { continue };
        add_point(&mut all, &row.peer, false, found);
    }
    all
}

fn add_point(all: &mut Vec<Series>, name: &str, dashed: bool, point: (usize, f64)) {
    match all.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => all.push(Series { name: name.to_owned(), dashed, points: vec![point] }),
    }
}

/// From where to where there are figures, each once; a node's own memory is no way.
fn routes(results: &Results) -> Vec<(&str, &str)> {
    let mut routes: Vec<(&str, &str)> = Vec::new();
    for route in results.rows.iter().filter_map(|row| row.route.as_ref()) {
        let ends = (route.from.as_str(), route.to.as_str());
        if ends.0 != ends.1 && !routes.contains(&ends) {
            routes.push(ends);
        }
    }
    routes
}

fn of_route(results: &Results, ends: (&str, &str), point: Point) -> Vec<Series> {
    let mut all = Vec::new();
    for row in &results.rows {
        let Some(route) = row.route.as_ref().filter(|route| (route.from.as_str(), route.to.as_str()) == ends)
        else {
            continue;
        };
        let name = match row.metric {
            Metric::Delivery { .. } => format!("{}, one at a time", route.by),
            _ => route.by.clone(),
        };
        if let Some(point) = point(row) {
            add_point(&mut all, &name, false, point);
        }
    }
    all
}

/// What a copy within the node's own memory is: of the host the C library's, by one program.
fn own_memcpy(results: &Results, node: &str, point: Point) -> Option<Series> {
    let is_own = |row: &&Row| {
        matches!(row.metric, Metric::Copy { .. })
            && row.route.as_ref().is_some_and(|route| route.from == node && route.to == node)
    };
    let points: Vec<_> = results.rows.iter().filter(is_own).filter_map(point).collect();
    (!points.is_empty()).then(|| Series { name: format!("memcpy in {node}"), dashed: true, points })
}

fn draw(results: &Results, chart: &Chart<'_>, series: Vec<Series>) -> Option<Plot> {
    let mut lengths: Vec<usize> =
        series.iter().flat_map(|series| series.points.iter().map(|(bytes, _)| *bytes)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let (&shortest, &longest) = lengths.first().zip(lengths.last()).filter(|(first, last)| first != last)?;
    let names = series.iter().map(|series| series.name.chars().count() as f64 * CHARACTER + 28.0);
    let right = WIDTH - names.fold(150.0, f64::max).min(WIDTH / 2.0);
    let subtitle = format!("{} · {}", results.label, chart.about);
    let bottom = BOTTOM.max(TOP + LINE * series.len() as f64);
    let mut svg = Svg::new(WIDTH, bottom + 56.0, chart.title, &subtitle);
    let axis = vertical_axis(&mut svg, chart, &series, (right, bottom));
    let (low, high) = ((shortest as f64).log2(), (longest as f64).log2());
    let x = |bytes: f64| LEFT + 30.0 + (right - LEFT - 60.0) * (bytes.log2() - low) / (high - low);
    draw_caches(&mut svg, results, &x, (shortest as f64..longest as f64, bottom));
    let mut free_from = 0.0;
    for bytes in &lengths {
        let (place, text) = (x(*bytes as f64), length(*bytes));
        let half = text.chars().count() as f64 * CHARACTER / 2.0;
        if place - half >= free_from {
            svg.text(place, bottom + 18.0, &text, 11.0, Anchor::Middle, false);
            free_from = place + half;
        }
    }
    svg.text(right, bottom + 38.0, "length, logarithmic", 12.0, Anchor::End, false);
    let mut ends: Vec<(f64, &str, usize)> = Vec::new();
    for (index, series) in series.iter().enumerate() {
        let mut points = series.points.clone();
        points.sort_by_key(|(bytes, _)| *bytes);
        let places: Vec<(f64, f64)> =
            points.iter().map(|(bytes, value)| (x(*bytes as f64), axis.place(*value))).collect();
        let colour = COLOURS[index % COLOURS.len()];
        // Colours come again: what has one for the second time is dotted.
        match (series.dashed, index / COLOURS.len()) {
            (true, _) => svg.dashed_path(&places, colour, "7 5"),
            (false, 0) => svg.path(&places, colour),
            (false, again) => svg.dashed_path(&places, colour, if again == 1 { "2 3" } else { "9 3 2 3" }),
        }
        places.iter().for_each(|place| svg.dot(*place, 3.5, colour));
        ends.push((places.last().map_or(bottom, |(_, y)| *y), &series.name, index));
    }
    // Names beside the last point of each, moved apart where they would touch.
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut next = TOP;
    let lowest = |index: usize| bottom - LINE * (ends.len() - 1 - index) as f64;
    for (index, (y, name, colour)) in ends.iter().enumerate() {
        let y = y.max(next).min(lowest(index));
        let colour = COLOURS[colour % COLOURS.len()];
        svg.coloured_text((right - 12.0, y + 4.0), name, 12.0, Anchor::Start, true, colour);
        next = y + LINE;
    }
    let caption = format!("{}, on {}", chart.title, results.label);
    Some(Plot { name: chart.name.to_owned(), caption, svg: svg.finish() })
}

/// Times, and bandwidths that differ widely, on a logarithmic axis.
fn vertical_axis(svg: &mut Svg, chart: &Chart<'_>, series: &[Series], (right, bottom): (f64, f64)) -> Axis {
    let values = || series.iter().flat_map(|series| series.points.iter().map(|(_, value)| *value));
    let least = values().fold(f64::INFINITY, f64::min);
    let is_logarithmic = chart.is_time || values().fold(0.0, f64::max) > LINEAR_RATIO * least;
    let axis = match is_logarithmic {
        true => Axis::logarithmic(values(), bottom, TOP),
        false => Axis::linear(values(), bottom, TOP),
    };
    for tick in axis.minor_ticks() {
        svg.line((LEFT, axis.place(tick)), (right, axis.place(tick)), "#f0f0f0", 1.0);
    }
    for tick in axis.ticks() {
        svg.line((LEFT, axis.place(tick)), (right, axis.place(tick)), FAINT, 1.0);
        let text = if chart.is_time { time(tick) } else { format!("{tick}") };
        svg.text(LEFT - 8.0, axis.place(tick) + 4.0, &text, 11.0, Anchor::End, false);
    }
    if !chart.is_time {
        svg.text(LEFT + 6.0, TOP + 14.0, "GB/s", 12.0, Anchor::Start, true);
    }
    if is_logarithmic {
        svg.text(LEFT, bottom + 38.0, "both axes logarithmic", 11.0, Anchor::Start, false);
    }
    axis
}

/// A faint line where a cache of the first processor is full.
fn draw_caches(
    svg: &mut Svg,
    results: &Results,
    x: &impl Fn(f64) -> f64,
    (shown, bottom): (std::ops::Range<f64>, f64),
) {
    for cache in results.host.caches.iter().filter(|cache| !cache.name.ends_with('i')) {
        let Some(bytes) = cache_bytes(&cache.size).filter(|bytes| shown.contains(bytes)) else { continue };
        svg.line((x(bytes), TOP), (x(bytes), bottom), "#bbbbbb", 1.0);
        svg.coloured_text((x(bytes) + 3.0, TOP + 10.0), &cache.name, 10.0, Anchor::Start, false, INK);
    }
}

/// The kernel's `32K` or `1M` in bytes.
fn cache_bytes(size: &str) -> Option<f64> {
    let units = [('K', 1024.0), ('M', 1024.0 * 1024.0)];
    let (digits, unit) = units.iter().find_map(|(name, unit)| Some((size.strip_suffix(*name)?, unit)))?;
    digits.parse::<u32>().ok().map(|number| f64::from(number) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::tests::{flowing, results, timed};
    use crate::suite::{Results, Route};

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
        let plots = all(&nodes());
        let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
        assert_eq!(names, ["host-to-arm0", "host-to-arm0-time", "arm0-to-host", "arm0-to-host-time"]);
        for part in [
            ">pool: move</text>",
            ">TCP</text>",
            ">memcpy in arm0</text>",
            "stroke-dasharray",
            ">64 B</text>",
        ] {
            assert!(plots[0].svg.contains(part), "no '{part}' in\n{}", plots[0].svg);
        }
        assert!(plots[1].svg.contains(">pool: move, one at a time</text>"));
        assert!(!plots[1].svg.contains(">pool: move</text>"), "a bandwidth is no time of one");
        assert!(plots[2].svg.contains(">arm0 copies</text>"));
    }

    #[test]
    fn one_length_alone_is_no_line() {
        let mut found = nodes();
        found.rows.retain(|row| !matches!(row.metric, Metric::Bandwidth { bytes: 64 }));
        found.rows.retain(|row| !matches!(row.metric, Metric::Copy { .. } | Metric::Delivery { .. }));
        assert!(all(&found).is_empty());
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
