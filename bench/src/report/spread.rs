//! Plots of answer times that are asleep: their distribution by treatment, and the links of a machine.

use super::plots::{Plot, TOP, WIDTH, exact_time, horizontal_axis, room_for, time};
use super::svg::{Anchor, Axis, COLOURS, FAINT, INK, Svg};
use crate::latency::{Distribution, Row};
use crate::ring::LinkReport;
use crate::suite::Results;

/// A percentile: what it is called, and its value.
type Percentile = (&'static str, fn(&Distribution) -> u64);

/// The percentiles that are drawn.
const SHARES: [Percentile; 6] = [
    ("50 %", |times| times.p50),
    ("90 %", |times| times.p90),
    ("99 %", |times| times.p99),
    ("99.9 %", |times| times.p999),
    ("99.99 %", |times| times.p9999),
    ("longest", |times| times.max),
];

const PANEL: f64 = 330.0;
const HEIGHT: f64 = 250.0;

/// How answer times are distributed: a panel idle and one under load, a line for each treatment.
pub(super) fn distribution(results: &Results) -> Option<Plot> {
    let rows = &results.distribution.as_ref()?.rows;
    let found: Vec<(&Row, &Distribution)> =
        rows.iter().filter_map(|row| Some((row, row.times.as_ref().ok()?))).collect();
    if found.is_empty() {
        return None;
    }
    let title = "Answer times, with and without a processor and a priority of their own";
    let subtitle =
        format!("{} · 48 B there and back between two processes that sleep · by percentile", results.label);
    let bottom = TOP + 24.0 + HEIGHT;
    let mut svg = Svg::new(WIDTH, bottom + 72.0, title, &subtitle);
    let values = found.iter().flat_map(|(_, times)| SHARES.map(|(_, of)| of(times) as f64));
    let axis = Axis::logarithmic(values, bottom, TOP + 24.0);
    for (panel, (loaded, name)) in
        [(false, "idle"), (true, "under load: twice as many threads that want all")].into_iter().enumerate()
    {
        let left = 70.0 + panel as f64 * (PANEL + 60.0);
        svg.text(left, TOP + 12.0, name, 12.0, Anchor::Start, true);
        for tick in axis.ticks() {
            svg.line((left, axis.place(tick)), (left + PANEL, axis.place(tick)), FAINT, 1.0);
            svg.text(left - 8.0, axis.place(tick) + 4.0, &time(tick), 11.0, Anchor::End, false);
        }
        let x = |index: usize| left + 20.0 + (PANEL - 40.0) * index as f64 / (SHARES.len() - 1) as f64;
        for (index, (share, _)) in SHARES.iter().enumerate() {
            svg.text(x(index), bottom + 18.0, share, 11.0, Anchor::Middle, false);
        }
        for (index, (_, times)) in found.iter().filter(|(row, _)| row.loaded == loaded).enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<(f64, f64)> = SHARES
                .iter()
                .enumerate()
                .map(|(index, (_, of))| (x(index), axis.place((of(times) as f64).max(1.0))))
                .collect();
            svg.path(&places, colour);
            places.iter().for_each(|place| svg.dot(*place, 3.0, colour));
        }
    }
    let treatments = found.iter().filter(|(row, _)| !row.loaded).map(|(row, _)| row.treatment.as_str());
    for (index, treatment) in treatments.enumerate() {
        let x = 70.0 + 190.0 * index as f64;
        svg.dot((x, bottom + 46.0), 5.0, COLOURS[index % COLOURS.len()]);
        svg.text(x + 12.0, bottom + 50.0, treatment, 12.0, Anchor::Start, false);
    }
    Some(Plot {
        name: "distribution".into(),
        caption: format!("{title}, on {}", results.label),
        svg: svg.finish(),
    })
}

/// What the bare lines took while the round trips beside them were measured. Where processors were moved during a run, the
/// median of all bare slices is of another mix of near and far than that of the messages; the ratio is of slices that
/// belong together. 0 where no memory is shared.
fn bare_ns(link: &LinkReport) -> f64 {
    match (link.rtt_ns, link.rtt_ratio, link.limit_rtt_ns) {
        (Some(rtt), Some(ratio), _) if ratio > 0.0 => rtt.p50 / ratio,
        (_, _, Some(limit)) => limit.p50,
        _ => 0.0,
    }
}

/// The links of a machine: a message there and back beside the bare lines of the same memory.
pub(super) fn links(results: &Results) -> Option<Plot> {
    let found: Vec<(&LinkReport, [f64; 2])> =
        results.links.iter().filter_map(|link| Some((link, [link.rtt_ns?.p50, bare_ns(link)]))).collect();
    if found.is_empty() {
        return None;
    }
    const ROW: f64 = 34.0;
    let names: Vec<String> = found
        .iter()
        .map(|(link, _)| format!("{} ({}, {})", link.link, link.transport, link.isa[1]))
        .collect();
    let labels = room_for(names.iter().map(String::as_str), 270.0);
    let bottom = TOP + ROW * found.len() as f64 + 8.0;
    let title = "Links of the machine";
    let subtitle = format!(
        "{} · 48 B there and back; grey: two bare lines in the same memory, where one is shared",
        results.label
    );
    let mut svg = Svg::new(WIDTH, bottom + 44.0, title, &subtitle);
    let axis = Axis::logarithmic(found.iter().flat_map(|(_, times)| *times), labels, WIDTH - 170.0);
    horizontal_axis(&mut svg, &axis, bottom, "round trip, logarithmic", time);
    for (index, (link, [rtt, limit])) in found.iter().enumerate() {
        let y = TOP + ROW * (index as f64 + 0.5) + 4.0;
        svg.text(labels - 10.0, y + 4.0, &names[index], 12.0, Anchor::End, false);
        svg.rectangle(labels, y - 10.0, axis.place(*rtt) - labels, 13.0, COLOURS[0]);
        if *limit > 0.0 {
            svg.rectangle(labels, y + 4.0, axis.place(*limit) - labels, 5.0, COLOURS[6]);
        }
        let ratio = link.rtt_ratio.map_or_else(String::new, |ratio| format!(" = {ratio:.2} × bare"));
        let text = format!("{}{ratio}", exact_time(*rtt));
        svg.coloured_text((WIDTH - 12.0, y + 4.0), &text, 12.0, Anchor::End, true, INK);
    }
    Some(Plot { name: "links".into(), caption: format!("{title}, on {}", results.label), svg: svg.finish() })
}
