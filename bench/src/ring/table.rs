//! Formats a report as aligned text, with a row per link.

use super::report::{DISTURBED_SHARE, LinkReport, Report};
use crate::report::BenchReport as _;
use crate::sample::{Latency, Rate};
use crate::table::{align, cells, missing, none, significant};
use crate::target;

pub(super) fn render(report: &Report) -> String {
    let mut text = heading(report);
    let rows: Vec<&LinkReport> = report.links.iter().chain(&report.c_ring).collect();
    if !rows.is_empty() {
        text += "\nRound trip, ns\n";
        text += &align(&round_trips(&rows));
        text += "\nOne way, 48 bytes a message, million messages a second; and wake-ups, µs\n";
        text += &align(&rates_and_wakes(&rows));
    }
    let placed = placements(&report.links);
    if placed.len() > 1 {
        text += "\nWhere slots and credit lie: round trip of 56 bytes over bare rings, ns\n";
        text += &align(&placed);
    }
    for remarks in
        [missing(&report.absent, &report.failures()), target::table(&report.targets), disturbances(report)]
    {
        if !remarks.is_empty() {
            text += "\n";
            text += &remarks;
        }
    }
    if !report.links.is_empty() {
        text += "\n";
        text += &legend(report);
    }
    text
}

fn heading(report: &Report) -> String {
    format!("machine {}, on {}\n", report.machine, report.host)
}

fn round_trips(links: &[&LinkReport]) -> Vec<Vec<String>> {
    let mut rows = vec![
        cells(&["", "", "limit", "", "", "", "8 bytes", "", "", "", "48 bytes", "", "", "", "48 bytes"]),
        cells(&[
            "link", "over", "p50", "p99", "p99.9", "mean", "p50", "p99", "p99.9", "mean", "p50", "p99",
            "p99.9", "mean", "/ limit",
        ]),
    ];
    for link in links {
        let mut row = vec![link.link.clone(), link.transport.clone()];
        for latency in [&link.limit_rtt_ns, &link.rtt_8_ns, &link.rtt_ns] {
            row.extend(latency_cells(latency.as_ref(), 1.0));
        }
        row.push(link.rtt_ratio.map_or_else(none, |ratio| format!("{ratio:.2}")));
        rows.push(row);
    }
    rows
}

fn rates_and_wakes(links: &[&LinkReport]) -> Vec<Vec<String>> {
    let mut rows = vec![
        cells(&["", "", "", "out", "back", "wake-up", "", "", ""]),
        cells(&["link", "near", "far", "p50", "p50", "p50", "p99", "p99.9", "mean"]),
    ];
    for link in links {
        let [near, far] = link.isa.clone();
        let mut row = vec![link.link.clone(), near, far];
        for rate in [&link.rate_per_s, &link.rate_back_per_s] {
            row.push(rate.as_ref().map_or_else(none, |Rate { p50, .. }| significant(p50 / 1e6)));
        }
        row.extend(latency_cells(link.wake_rtt_ns.as_ref(), 1000.0));
        rows.push(row);
    }
    rows
}

fn placements(links: &[LinkReport]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&["link", "variant", "slots", "credit", "p50", "p99", "/ limit"])];
    for placed in links.iter().flat_map(|link| &link.placement) {
        let [p50, p99, ..] = latency_cells(placed.round_trip_ns.as_ref(), 1.0);
        let ratio = placed.ratio.map_or_else(none, |ratio| format!("{ratio:.2}"));
        let texts = [&placed.link, &placed.variant, &placed.slots, &placed.credit].map(Clone::clone);
        rows.push(texts.into_iter().chain([p50, p99, ratio]).collect());
    }
    rows
}

fn disturbances(report: &Report) -> String {
    let disturbed = report.links.iter().filter(|link| link.waited_share > DISTURBED_SHARE);
    let lines = disturbed.map(|link| {
        format!(
            "disturbed: {}: other programs held a processor {:.0} % of the time; measure again when it is quiet\n",
            link.link,
            link.waited_share * 100.0
        )
    });
    lines.collect()
}

fn legend(report: &Report) -> String {
    let settings = &report.settings;
    let places = match (settings.cpu, settings.peer_cpu) {
        (Some(near), Some(far)) => format!(
            "this side stays on processor {near}, peers on the same kernel on {far}; virtual machines are free"
        ),
        _ => "no side is kept on a processor".to_owned(),
    };
    format!(
        "limit     two bare cache lines in the same memory, stored and awaited by the two programs in turn\n\
         / limit   median over {} slices of {} ms of p50 / p50 of the limit in the slices before and after\n\
         p50, mean over batches of 16 round trips, p99 and p99.9 over single ones, less {} ns for the clock\n\
         one way   each message published by itself; every byte is written, and checked on arrival\n\
         wake-up   round trip of 48 bytes when both sides sleep at once, so that each message wakes its receiver\n\
         C ring    bench/ring/ring.c between two processes of this host, after the links, beside the same limit\n\
         rings     {} slots of {} bytes, {}\n\
         places    {places}\n",
        settings.slices,
        settings.slice_ms,
        settings.clock_cost_ns,
        settings.slots,
        settings.slot_bytes,
        settings.variant,
    )
}

fn latency_cells(latency: Option<&Latency>, divisor: f64) -> [String; 4] {
    match latency {
        None => [none(), none(), none(), none()],
        Some(Latency { p50, p99, p999, mean, .. }) => {
            [p50, p99, p999, mean].map(|value| significant(value / divisor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use crate::report::BenchReport as _;
    use crate::suite::Failed;

    #[test]
    fn no_legend_without_links() {
        let mut report = report();
        (report.links, report.targets) = (Vec::new(), Vec::new());
        report.failed.push(Failed::new("arm1", &"node arm1 is down"));
        let expected = "machine default, on Some CPU (2 processors), Linux 6.1\n\nnot measured: arm1: node arm1 is down\n";
        assert_eq!(report.table(), expected);
    }

    #[test]
    fn the_ring_in_c_is_a_row_beside_the_links_or_a_reason() {
        let mut report = report();
        let mut c_ring = report.links[0].clone();
        (c_ring.link, c_ring.rtt_ratio, c_ring.wake_rtt_ns) = ("C ring".into(), Some(1.19), None);
        report.c_ring = Some(c_ring);
        let rows = |text: &str| text.lines().filter(|line| line.starts_with("  C ring")).count();
        assert_eq!(rows(&report.table()), 2, "{}", report.table());
        assert!(report.table().contains("1.19"));
        report.c_ring = None;
        report.absent.push(crate::suite::Absent { peer: "C ring".into(), why: "no compiler".into() });
        let text = report.table();
        assert!(rows(&text) == 0 && text.contains("not there: C ring: no compiler"), "{text}");
    }

    #[test]
    fn a_report_shows_every_link_and_what_went_wrong() {
        let mut report = report();
        report.failed.push(Failed::new("arm1", &"node arm1 is down"));
        report.links[0].limit_rtt_ns = None;
        report.links[0].waited_share = 0.3;
        let text = report.table();
        for part in [
            "machine default, on Some CPU (2 processors), Linux 6.1",
            "host-arm0  window      -",
            "x86_64  aarch64",
            "not measured: arm1: node arm1 is down",
            "host-host / limit  1.20  at most 1.25  met",
            "disturbed: host-arm0: other programs held a processor 30 % of the time",
            "256 slots of 64 bytes, epoch+credit\nplaces    this side stays on processor 0",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  host-arm0")).collect();
        assert_eq!(rows.len(), 2);
        assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    }
}
