//! Targets for the layers, between processors that share a cache.

use super::report::{LayerRow, Report};
use super::{BATCH, Layer, NULL_CALL};
use crate::rpc;
use crate::suite::{Distance, Metric};
use crate::target::Bound::{AtLeast, AtMost};
use crate::target::{Bound, Target};

/// Maximum round trip of the façade by message length, divided by that of the bare lines.
const ROUND_TRIPS: [(usize, f64); 2] = [(48, 1.2), (64, 1.4)];

/// Maximum 99.9th percentile of a round trip, divided by the round trip of the bare lines.
const TAIL_RATIO: f64 = 3.0;

/// Minimum rates through the façade by length and batch, in million messages per second.
const RATES: [(usize, u64, f64); 3] = [(48, 1, 60.0), (64, 1, 40.0), (48, BATCH, 150.0)];

/// Maximum 48-byte round trip through a window, divided by that of the bare lines in it.
const WINDOW_RATIO: f64 = 1.5;

fn judge(what: String, bound: Bound, found: Option<f64>, rows: &[Option<&LayerRow>]) -> Target {
    Target::new(what, bound, found, rows.iter().flatten().any(|row| row.doubtful))
}

pub(super) fn all(report: &Report) -> Vec<Target> {
    let row = |layer, metric| report.row(layer, metric, Distance::OneCache);
    let ratio = |row: Option<&LayerRow>| row.and_then(|row| row.ratio).map(|ratio| ratio.median);
    let rare = |row: Option<&LayerRow>| row.and_then(|row| row.latency_ns).map(|latency| latency.p999);
    let mut targets = Vec::new();
    let lines = row(Layer::BareLines, super::LINES);
    for (bytes, limit) in ROUND_TRIPS {
        let own = row(Layer::Facade, Metric::RoundTrip { bytes });
        let what = format!("façade, round trip of {bytes} B / the bare lines");
        targets.push(judge(what, AtMost(limit), ratio(own), &[own]));
        let tail = rare(own).zip(rare(lines)).map(|(own, lines)| own / lines);
        let what = format!("façade, 99.9 % of round trips of {bytes} B / 99.9 % of the bare lines");
        targets.push(judge(what, AtMost(TAIL_RATIO), tail, &[own, lines]));
    }
    let (call, ring) = (row(Layer::TypedCall, NULL_CALL), row(Layer::Ring, NULL_CALL));
    let share = ratio(call).zip(ratio(ring)).map(|(call, ring)| call / ring);
    let what = "call without parameters / a round trip of the ring".to_owned();
    targets.push(judge(what, AtMost(rpc::TARGET_RATIO), share, &[call, ring]));
    for (bytes, batch, limit) in RATES {
        let own = row(Layer::Facade, Metric::Rate { bytes, batch });
        let millions = own.and_then(|row| row.rate_per_s).map(|rate| rate.median / 1e6);
        let how = if batch == 1 { "one by one".to_owned() } else { format!("in batches of {batch}") };
        let what = format!("façade, {bytes} B {how}, million a second");
        targets.push(judge(what, AtLeast(limit), millions, &[own]));
    }
    let window = |link: &str, found| {
        let what = format!("round trip of 48 B through {link} / the bare lines in it");
        judge(what, AtMost(WINDOW_RATIO), found, &[])
    };
    if report.windows.is_empty() {
        targets.push(window("a window", None));
    }
    let windows = report.windows.iter();
    targets.extend(windows.map(|link| window(&format!("the window {}", link.link), link.rtt_ratio)));
    targets
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::runs;
    use super::*;
    use crate::target::Verdict;

    fn verdicts(report: &Report) -> Vec<Verdict> {
        report.targets.iter().map(|target| target.verdict).collect()
    }

    #[test]
    fn figures_are_judged_between_processors_that_share_a_cache() {
        let mut runs = runs();
        let report = Report::of(&runs);
        let mut expected = vec![Verdict::Met; 8];
        expected.push(Verdict::NotMeasured);
        assert_eq!(verdicts(&report), expected, "{:#?}", report.targets);
        // The null call: 1.4 over 1.12.
        assert!(report.targets[4].found.is_some_and(|found| (found - 1.25).abs() < 1e-9));

        runs.iter_mut().flat_map(|run| &mut run.rows).for_each(|row| row.distance = Distance::TwinThreads);
        assert_eq!(verdicts(&Report::of(&runs)), [Verdict::NotMeasured; 9]);
    }

    #[test]
    fn slower_than_target_is_missed() {
        let mut runs = runs();
        for row in
            runs.iter_mut().flat_map(|run| &mut run.rows).filter(|row| row.peer == Layer::Facade.peer())
        {
            row.probe_ratio = row.probe_ratio.map(|ratio| 2.0 * ratio);
            if let Some(latency) = &mut row.latency_ns {
                latency.p999 *= 4.0;
            }
            if let Some(rate) = &mut row.rate_per_s {
                rate.p50 /= 2.0;
            }
        }
        let missed = verdicts(&Report::of(&runs)).into_iter().filter(|verdict| *verdict == Verdict::Missed);
        assert_eq!(missed.count(), 7);
    }
}
