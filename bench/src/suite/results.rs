//! Results of a run: the file format from which reports are made.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::peer::Absent;
use super::slices::{DISTURBED_SHARE, Slice, SliceResult, Slices};
use super::{Arrays, Classifier, Distance, Error, Metric};
use crate::cpus::Sharing;
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::LinkReport;
use crate::sample::{Flow, Latency, Rate, Samples, median, sorted};

/// Version of the file format.
pub const SCHEMA: u32 = 2;

/// Results of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// Label of the machine.
    pub label: String,
    /// Time of the run, in seconds since 1970.
    pub taken_at: u64,
    /// Version of Tombolo used.
    pub version: String,
    /// Host that was measured.
    pub host: Host,
    /// Settings of the run.
    pub settings: Settings,
    /// Peers that were compared.
    pub peers: Vec<PeerInfo>,
    /// Peers that are unavailable, with reasons.
    pub absent: Vec<Absent>,
    /// Rows with the figures.
    pub rows: Vec<Row>,
    /// Figures of every pair of processors.
    pub pairs: Vec<Pair>,
    /// Figures by placement of slots and credit.
    pub placement: Vec<super::placement::Placed>,
    /// Links of a running machine.
    pub links: Vec<LinkReport>,
    /// Distribution of response times, with and without dedicated processors and priority.
    pub distribution: Option<crate::latency::Report>,
    /// Arrays passed between Python programs, measured by a separate program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Arrays>,
    /// OpenMP overheads, which have tables of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openmp: Option<crate::stacks::Report>,
    /// Measurements that failed although the peer is available.
    pub failed: Vec<Failed>,
}

/// Measurement that failed, with its error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// Name of the measurement.
    pub what: String,
    /// Description of the error.
    pub why: String,
}

impl Failed {
    /// Creates the entry from an error.
    pub fn new(what: impl Into<String>, why: &dyn std::fmt::Display) -> Failed {
        Failed { what: what.into(), why: why.to_string() }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Settings of the measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Number of slices per figure.
    pub slices: u32,
    /// Length of a slice, in ms.
    pub slice_ms: f64,
    /// Cost of reading the clock, subtracted from every measured time.
    pub clock_cost_ns: f64,
    /// Processors of the near and the far side.
    pub cpus: [usize; 2],
    /// Resource that these two share, according to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
}

/// Peer with its version and options.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Name in tables and plots.
    pub name: String,
    /// Version, options and way of waiting.
    pub about: String,
}

/// Figure of a peer, at one distance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the peer.
    pub peer: String,
    /// Metric of the figure.
    pub metric: Metric,
    /// Source and destination node of bulk data between nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Distance between the processors.
    pub distance: Distance,
    /// Number of slices in the figure.
    pub slices: u32,
    /// Number of these slices that were moved or preempted in spite of all retries: the figure is doubtful.
    pub doubtful: u32,
    /// Slices discarded because the processors were moved between the two probes around them.
    pub moved: u32,
    /// Slices discarded because other programs held a processor.
    pub disturbed: u32,
    /// Median round trip of the bare lines around the slices, in nanoseconds; 0 if irrelevant.
    pub probe_ns: f64,
    /// Percentiles in nanoseconds, for metrics that are times.
    pub latency_ns: Option<Latency>,
    /// Median over slices of the slice's median divided by the bare lines around it, for metrics that are
    /// times.
    pub probe_ratio: Option<f64>,
    /// Messages or bytes per second, for metrics that are rates.
    pub rate_per_s: Option<Rate>,
    /// Median, for metrics that are single numbers.
    pub value: Option<f64>,
    /// Share of messages that rang the doorbell of a sleeping peer.
    pub ring_share: f64,
}

/// Route of bulk data, by names of nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Source node of the data.
    pub from: String,
    /// Destination node; the source itself for a copy within the node's own memory.
    pub to: String,
    /// Means of the transfer, as named in the legend of a plot.
    pub by: String,
}

/// Figures of a pair of processors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Processor of the near side.
    pub near: usize,
    /// Processor of the far side.
    pub far: usize,
    /// Round trip of the bare lines, in nanoseconds.
    pub probe_ns: f64,
    /// Round trip of a message of one slot, in nanoseconds.
    pub round_trip_ns: f64,
    /// Round trip divided by that of the bare lines around it.
    pub ratio: f64,
}

impl Row {
    /// Returns the single number that a chart shows.
    #[must_use]
    pub fn typical(&self) -> Option<f64> {
        self.latency_ns.map(|latency| latency.p50).or(self.rate_per_s.map(|rate| rate.p50)).or(self.value)
    }

    /// Returns whether it was disturbed too often to be conclusive.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        2 * self.doubtful > self.slices
    }
}

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be read, is malformed, or has another version.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let file = |why: String| Error::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file(format!("cannot be read: {error}")))?;
        Self::parse(&text).map_err(file)
    }

    /// Parses the text of a results file.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn parse(text: &str) -> Result<Results, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("is not whole JSON: {error}"))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(schema) => {
                return Err(format!("has results of version {schema}; this program reads version {SCHEMA}"));
            }
            None => return Err("has no results of `tombolo bench all`".into()),
        }
        serde_json::from_value(value)
            .map_err(|error| format!("has no results of `tombolo bench all`: {error}"))
    }

    /// Returns the measured metrics in display order.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self.rows.iter().map(|row| row.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Adds the links of a machine, with the placements on those links that have no figures yet.
    pub fn add_links(&mut self, links: Vec<LinkReport>) {
        for link in &links {
            if !self.placement.iter().any(|placed| placed.link == link.link) {
                self.placement.extend(link.placement.iter().cloned());
            }
        }
        self.links.extend(links);
    }

    /// Returns the row of a peer; of several distances, that of cores that share a cache.
    #[must_use]
    pub fn row(&self, peer: &str, metric: Metric) -> Option<&Row> {
        self.rows.iter().filter(|row| row.peer == peer && row.metric == metric).min_by_key(|row| row.distance)
    }
}

impl BenchReport for Results {
    fn table(&self) -> String {
        super::text::table_of(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failed.iter().map(ToString::to_string).collect()
    }
}

/// Converts the slices of a peer's metric into rows, one per distance.
pub(super) fn rows(peer: &str, metric: Metric, slices: &Slices, classifier: Classifier) -> Vec<Row> {
    if !metric.depends_on_distance() {
        return row_of_all(peer, metric, slices).into_iter().collect();
    }
    let of = |distance| {
        let is_there = |slice: &&Slice| classifier.distance(slice.probe_ns()) == distance;
        row(peer, metric, distance, slices.kept.iter().filter(is_there).collect(), slices)
    };
    Distance::MEASURED.into_iter().filter_map(of).collect()
}

/// Summarizes all slices in one row, regardless of distance.
pub(super) fn row_of_all(peer: &str, metric: Metric, slices: &Slices) -> Option<Row> {
    row(peer, metric, Distance::Any, slices.kept.iter().collect(), slices)
}

fn row(peer: &str, metric: Metric, distance: Distance, group: Vec<&Slice>, slices: &Slices) -> Option<Row> {
    if group.is_empty() {
        return None;
    }
    let middle = |values: Vec<f64>| median(&sorted(values)).unwrap_or(0.0);
    let mut times = Samples::new();
    let (mut flow, mut numbers, mut ratios) = (Flow::default(), Vec::new(), Vec::new());
    for slice in &group {
        match &slice.result {
            SliceResult::Times(samples) => {
                times.add(samples);
                if slice.probe_ns() > 0.0 {
                    ratios.push(samples.p50_ns() / slice.probe_ns());
                }
            }
            SliceResult::Flow { amount, elapsed_ns } => {
                flow.add(*amount, std::time::Duration::from_nanos(*elapsed_ns));
            }
            SliceResult::Number(number) => numbers.push(*number),
        }
    }
    let doubtful = group.iter().filter(|slice| !slice.steady() || slice.disturbed()).count();
    let doubtful = if numbers.is_empty() { doubtful as u32 } else { 0 };
    Some(Row {
        peer: peer.to_owned(),
        metric,
        route: None,
        distance,
        slices: group.len() as u32,
        doubtful,
        moved: slices.moved,
        disturbed: slices.disturbed,
        probe_ns: tenths(middle(group.iter().map(|slice| slice.probe_ns()).collect())),
        latency_ns: times.summary(),
        probe_ratio: (!ratios.is_empty()).then(|| thousandths(middle(ratios))),
        rate_per_s: flow.summary(),
        value: (!numbers.is_empty()).then(|| thousandths(middle(numbers))),
        ring_share: thousandths(middle(group.iter().map(|slice| slice.ring_share).collect())),
    })
}

/// Returns the share of time above which a slice counts as disturbed, for legends.
#[must_use]
pub fn disturbed_share() -> f64 {
    DISTURBED_SHARE
}

pub(crate) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

pub(crate) fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{results, timed};

    fn slice(probes_ns: [f64; 2], waited_share: f64, elapsed_ns: u64) -> Slice {
        Slice {
            result: SliceResult::Flow { amount: 1000, elapsed_ns },
            probes_ns,
            waited_share,
            ring_share: 0.0,
        }
    }

    /// Returns the classifier of a virtual machine.
    fn classifier() -> Classifier {
        Classifier::new(&results("here").host, None)
    }

    #[test]
    fn results_round_trip_through_a_file() {
        let results = results("here");
        assert_eq!(Results::parse(&results.to_json()), Ok(results));
    }

    #[test]
    fn files_that_are_no_results_are_refused_with_the_reason() {
        let whole = results("here").to_json();
        let cut = &whole[..whole.len() / 2];
        let older = whole.replace("\"schema\": 2", "\"schema\": 1");
        let less = whole.replace("\"label\"", "\"lable\"");
        for (text, why) in [
            (cut, "is not whole JSON"),
            ("", "is not whole JSON"),
            ("[1, 2]", "has no results"),
            ("{\"links\": []}", "has no results"),
            (&older, "version 1; this program reads version 2"),
            (&less, "missing field `label`"),
        ] {
            let error = Results::parse(text).expect_err(why);
            assert!(error.contains(why), "'{error}' does not say '{why}'");
        }
        let error = Results::read(Path::new("/nonexistent/results.json")).expect_err("it is not there");
        assert!(error.to_string().starts_with("/nonexistent/results.json: cannot be read: "), "{error}");
    }

    #[test]
    fn distances_are_never_mixed() {
        let metric = Metric::Rate { bytes: 64, batch: 1 };
        let kept = vec![
            slice([100.0, 104.0], 0.0, 1000),
            slice([480.0, 500.0], 0.0, 10_000),
            slice([110.0, 490.0], 0.0, 5000),
            slice([110.0, 112.0], 0.5, 2000),
        ];
        let slices = Slices { kept, moved: 3, disturbed: 1 };
        let rows = rows("peer", metric, &slices, classifier());
        let brief: Vec<_> =
            rows.iter().map(|row| (row.distance, row.slices, row.doubtful, row.typical())).collect();
        assert_eq!(brief, [(Distance::OneCache, 2, 1, Some(0.75e9)), (Distance::Apart, 2, 1, Some(0.15e9))]);
        assert!(rows.iter().all(|row| (row.moved, row.disturbed) == (3, 1) && !row.is_doubtful()));
        // Metrics of operations through the kernel have no distance.
        let rows = self::rows("peer", Metric::WakeUp, &slices, classifier());
        assert_eq!(
            rows.iter().map(|row| (row.distance, row.slices)).collect::<Vec<_>>(),
            [(Distance::Any, 4)]
        );
    }

    /// Regression test: a hypervisor provided twin threads for some slices; the others were classified as
    /// far, and targets for near processors went unmeasured.
    #[test]
    fn slices_between_twin_threads_make_the_others_no_further_apart() {
        let kept = [68.0, 68.0, 120.0, 68.0, 121.0, 490.0].map(|probe_ns| slice([probe_ns; 2], 0.0, 1000));
        let slices = Slices { kept: kept.to_vec(), moved: 0, disturbed: 0 };
        let rows = rows("peer", Metric::Rate { bytes: 64, batch: 1 }, &slices, classifier());
        assert_eq!(
            rows.iter().map(|row| (row.distance, row.slices)).collect::<Vec<_>>(),
            [(Distance::OneCache, 2), (Distance::Apart, 1), (Distance::TwinThreads, 3)]
        );
    }

    #[test]
    fn the_figure_of_one_cache_is_the_one_that_is_shown() {
        let mut results = results("here");
        let metric = Metric::RoundTrip { bytes: 64 };
        results.rows.insert(0, Row { distance: Distance::Apart, ..timed("iceoryx2", metric, 1500.0) });
        assert_eq!(results.row("iceoryx2", metric).and_then(Row::typical), Some(460.0));
        assert_eq!(results.row("absent", metric), None);
    }
}
