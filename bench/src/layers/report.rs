//! Reports, for people and for programs.

use serde::Serialize;

use super::{Layer, table, targets};
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::LinkReport;
use crate::sample::{Latency, median, sorted};
use crate::suite::results::{tenths, thousandths};
use crate::suite::{self, Absent, Distance, Failed, Metric, Results, Row};
use crate::target::Target;

/// Report of all layers over several runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Host that was measured.
    pub host: Host,
    /// Number of runs, and the settings of each.
    pub settings: Settings,
    /// Figures: one row per layer, metric and distance.
    pub rows: Vec<LayerRow>,
    /// Links through a window of a running machine.
    pub windows: Vec<LinkReport>,
    /// Targets with their measured figures.
    pub targets: Vec<Target>,
    /// Measurements for which this host lacks the tools.
    pub absent: Vec<Absent>,
    /// Measurements that failed in a run.
    pub failed: Vec<Failed>,
}

/// Settings of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Settings {
    /// Number of runs.
    pub runs: usize,
    /// Settings of each run.
    #[serde(flatten)]
    pub run: suite::Settings,
}

/// Figure of a layer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayerRow {
    /// Layer that was measured.
    pub layer: Layer,
    /// Metric that was measured.
    pub metric: Metric,
    /// Distance between the processors.
    pub distance: Distance,
    /// Number of runs in the figure.
    pub runs: usize,
    /// Whether most slices of these runs were disturbed.
    pub doubtful: bool,
    /// Round trip of the bare lines around it, in nanoseconds.
    pub probe_ns: f64,
    /// Medians over the runs, with the total number of round trips, for metrics that are times.
    pub latency_ns: Option<Latency>,
    /// Messages per second, for metrics that are rates.
    pub rate_per_s: Option<Spread>,
    /// Time of a round trip, or of a message in a stream, divided by the bare lines around it.
    pub ratio: Option<Spread>,
}

/// Median and range of a figure over several runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Median of the runs.
    pub median: f64,
    /// Minimum of the runs.
    pub least: f64,
    /// Maximum of the runs.
    pub most: f64,
}

impl Spread {
    /// Summarizes the values; `None` if there are none.
    fn of(values: impl Iterator<Item = f64>, round: fn(f64) -> f64) -> Option<Spread> {
        let values = sorted(values.collect());
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Spread { median: round(median(&values)?), least: round(least), most: round(most) })
    }
}

impl Report {
    /// Creates the report from at least one run of the same measurements.
    pub(super) fn of(runs: &[Results]) -> Report {
        let last = &runs[runs.len() - 1];
        let mut rows = Vec::new();
        for distance in Distance::MEASURED {
            for layer in Layer::ALL {
                rows.extend(
                    layer.metrics().into_iter().filter_map(|metric| row(runs, layer, metric, distance)),
                );
            }
        }
        let mut failed: Vec<Failed> = Vec::new();
        for new in runs.iter().flat_map(|run| &run.failed) {
            if !failed.contains(new) {
                failed.push(new.clone());
            }
        }
        let settings = Settings { runs: runs.len(), run: last.settings.clone() };
        let (host, absent) = (last.host.clone(), last.absent.clone());
        let mut report =
            Report { host, settings, rows, windows: Vec::new(), targets: Vec::new(), absent, failed };
        report.targets = targets::all(&report);
        report
    }

    /// Adds the links through windows.
    pub fn add_links(&mut self, links: Vec<LinkReport>) {
        self.windows.extend(links.into_iter().filter(|link| link.transport == "window"));
        self.targets = targets::all(self);
    }

    pub(super) fn row(&self, layer: Layer, metric: Metric, distance: Distance) -> Option<&LayerRow> {
        self.rows.iter().find(|row| row.layer == layer && row.metric == metric && row.distance == distance)
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

/// Summarizes the rows of the runs, only those that were not mostly disturbed if there are any.
fn row(runs: &[Results], layer: Layer, metric: Metric, distance: Distance) -> Option<LayerRow> {
    let all: Vec<&Row> = runs
        .iter()
        .flat_map(|run| &run.rows)
        .filter(|row| row.peer == layer.peer() && row.metric == metric && row.distance == distance)
        .collect();
    let quiet: Vec<&Row> = all.iter().copied().filter(|row| !row.is_doubtful()).collect();
    let doubtful = quiet.is_empty();
    let rows = if doubtful { all } else { quiet };
    let middle = |values: Vec<f64>| tenths(median(&sorted(values)).unwrap_or(0.0));
    let of_latency = |value: fn(&Latency) -> f64| {
        middle(rows.iter().filter_map(|row| row.latency_ns.as_ref()).map(value).collect())
    };
    let latency_ns = rows.iter().any(|row| row.latency_ns.is_some()).then(|| Latency {
        p50: of_latency(|latency| latency.p50),
        p99: of_latency(|latency| latency.p99),
        p999: of_latency(|latency| latency.p999),
        mean: of_latency(|latency| latency.mean),
        rounds: rows.iter().filter_map(|row| row.latency_ns.as_ref()).map(|latency| latency.rounds).sum(),
    });
    let rates = rows.iter().filter_map(|row| row.rate_per_s.as_ref()).map(|rate| rate.p50);
    Some(LayerRow {
        layer,
        metric,
        distance,
        runs: rows.len(),
        doubtful,
        probe_ns: middle(rows.iter().map(|row| row.probe_ns).collect()),
        latency_ns,
        rate_per_s: Spread::of(rates, f64::round),
        ratio: Spread::of(rows.iter().filter_map(|row| ratio(row)), thousandths),
    })
    .filter(|row| row.runs > 0)
}

/// Returns the time of a round trip, or of a message in a stream, divided by the bare lines.
fn ratio(row: &Row) -> Option<f64> {
    let of_rate = || {
        let message_ns = 1e9 / row.rate_per_s.as_ref()?.p50;
        (row.probe_ns > 0.0).then(|| message_ns / row.probe_ns)
    };
    row.probe_ratio.or_else(of_rate)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixture::{flowing, results, timed};

    /// Returns three runs between processors that share a cache.
    pub(in crate::layers) fn runs() -> Vec<Results> {
        let run = |factor: f64| {
            let mut run = results("run");
            run.rows.clear();
            for (layer, ratio) in Layer::ALL.into_iter().zip([1.0, 1.1, 1.12, 1.15, 1.18, 1.4]) {
                for metric in layer.metrics() {
                    run.rows.push(match metric {
                        Metric::Rate { batch: 1, .. } => flowing(layer.peer(), metric, 70e6 * factor),
                        Metric::Rate { .. } => flowing(layer.peer(), metric, 160e6 * factor),
                        _ => timed(layer.peer(), metric, 100.0 * ratio * factor),
                    });
                }
            }
            run
        };
        [1.0, 0.9, 1.01].map(run).to_vec()
    }

    #[test]
    fn median_run_is_shown() {
        let report = Report::of(&runs());
        let row = report.row(Layer::Facade, Metric::RoundTrip { bytes: 48 }, Distance::OneCache);
        let row = row.expect("it was measured");
        assert_eq!((row.runs, row.doubtful, row.probe_ns), (3, false, 100.0));
        assert_eq!(row.latency_ns.map(|latency| (latency.p50, latency.rounds)), Some((118.0, 3000)));
        assert_eq!(row.ratio, Some(Spread { median: 1.18, least: 1.062, most: 1.192 }));
        let rate = report.row(Layer::CRing, Metric::Rate { bytes: 48, batch: 1 }, Distance::OneCache);
        let rate = rate.expect("it was measured");
        assert_eq!(rate.rate_per_s, Some(Spread { median: 70e6, least: 63e6, most: 70.7e6 }));
        // 14.3 ns per message, divided by 100 ns.
        assert_eq!(rate.ratio.map(|ratio| ratio.median), Some(0.143));
    }

    #[test]
    fn disturbed_runs_are_a_last_resort() {
        let mut runs = runs();
        runs[0].rows.iter_mut().for_each(|row| row.doubtful = row.slices);
        let of = |runs: &[Results]| {
            let report = Report::of(runs);
            let row = report.row(Layer::Ring, Metric::RoundTrip { bytes: 48 }, Distance::OneCache);
            row.map(|row| (row.runs, row.doubtful))
        };
        assert_eq!(of(&runs), Some((2, false)));
        runs.iter_mut().flat_map(|run| &mut run.rows).for_each(|row| row.doubtful = row.slices);
        assert_eq!(of(&runs), Some((3, true)));
        assert_eq!(Report::of(&runs).row(Layer::Ring, Metric::WakeUp, Distance::OneCache), None);
    }

    #[test]
    fn the_json_has_the_keys_that_programs_rely_on() {
        let json: serde_json::Value =
            serde_json::from_str(&Report::of(&runs()).to_json()).expect("it is JSON");
        assert_eq!(
            (json["settings"]["runs"].as_u64(), json["settings"]["slices"].as_u64()),
            (Some(3), Some(7))
        );
        let row = &json["rows"][1];
        assert_eq!((row["layer"].as_str(), row["distance"].as_str()), (Some("c_ring"), Some("near")));
        assert!(row["latency_ns"]["p999"].is_number() && row["ratio"]["median"].is_number(), "{row}");
        assert_eq!(json["targets"][0]["verdict"], "met");
    }
}
