//! What was found: the file that a run writes and reports are made of.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::peer::Absent;
use super::slices::{DISTURBED_SHARE, Found, Slice, Slices};
use super::{Arrays, Classifier, Distance, Error, Metric};
use crate::cpus::Sharing;
use crate::host::Host;
use crate::report::BenchReport;
use crate::ring::LinkReport;
use crate::sample::{Flow, Latency, Rate, Samples, median, sorted};

/// The version of the file.
pub const SCHEMA: u32 = 2;

/// All that one run found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What to call the machine.
    pub label: String,
    /// When, in seconds since 1970.
    pub taken_at: u64,
    /// Which version of Tombolo.
    pub version: String,
    /// The host that was measured.
    pub host: Host,
    /// How much was measured.
    pub settings: Settings,
    /// What was compared.
    pub peers: Vec<PeerInfo>,
    /// What could not be, and why.
    pub absent: Vec<Absent>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Every pair of processors.
    pub pairs: Vec<Pair>,
    /// Where slots and credit lie.
    pub placement: Vec<super::placement::Placed>,
    /// The links of a machine that was up.
    pub links: Vec<LinkReport>,
    /// How answer times are distributed, with and without processors and a priority of their own.
    pub distribution: Option<crate::latency::Report>,
    /// Arrays between programs in Python, of which another program has the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Arrays>,
    /// What OpenMP costs, which has tables of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openmp: Option<crate::stacks::Report>,
    /// What could not be measured although it is there.
    pub failed: Vec<Failed>,
}

/// Something that could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failed {
    /// The measurement.
    pub what: String,
    /// The error, in words.
    pub why: String,
}

impl Failed {
    /// Of an error.
    pub fn new(what: impl Into<String>, why: &dyn std::fmt::Display) -> Failed {
        Failed { what: what.into(), why: why.to_string() }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// How it was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Slices of each figure.
    pub slices: u32,
    /// Length of a slice.
    pub slice_ms: f64,
    /// Taken off every time that is measured.
    pub clock_cost_ns: f64,
    /// Where the near side and the far side ran.
    pub cpus: [usize; 2],
    /// What these two share, as the kernel shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
}

/// A peer, and what exactly it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its name in tables.
    pub name: String,
    /// Version, options, way of waiting.
    pub about: String,
}

/// A figure of a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Of which peer.
    pub peer: String,
    /// The kind of the figure.
    pub metric: Metric,
    /// Of bulk data that nodes have: from which to which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// How far apart the processors were.
    pub distance: Distance,
    /// Slices that it is made of.
    pub slices: u32,
    /// Of these, how many were moved or kept from a processor, all retries included: the figure is doubtful.
    pub doubtful: u32,
    /// Slices thrown away because the processors were moved between the two looks around them.
    pub moved: u32,
    /// Slices thrown away because other programs held a processor.
    pub disturbed: u32,
    /// The bare lines around the slices: median, in nanoseconds; 0 where it does not matter.
    pub probe_ns: f64,
    /// Of times: their percentiles, in nanoseconds.
    pub latency_ns: Option<Latency>,
    /// Of times: the median over slices of the slice's median over the bare lines around it.
    pub probe_ratio: Option<f64>,
    /// Of flows: messages or bytes a second.
    pub rate_per_s: Option<Rate>,
    /// Of single numbers: the median.
    pub value: Option<f64>,
    /// Share of messages that rang a sleeping peer.
    pub ring_share: f64,
}

/// Which way bulk data goes, by the names of nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Where it comes from.
    pub from: String,
    /// Where it goes; the same for a copy within the node's own memory.
    pub to: String,
    /// What moves it, as the legend of a plot says it.
    pub by: String,
}

/// The figures of two processors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Where the near side ran.
    pub near: usize,
    /// Where the far side ran.
    pub far: usize,
    /// The bare lines, in nanoseconds.
    pub probe_ns: f64,
    /// A message of one slot there and back, in nanoseconds.
    pub round_trip_ns: f64,
    /// The round trip over the bare lines around it.
    pub ratio: f64,
}

impl Row {
    /// The one number that a chart shows.
    #[must_use]
    pub fn typical(&self) -> Option<f64> {
        self.latency_ns.map(|latency| latency.p50).or(self.rate_per_s.map(|rate| rate.p50)).or(self.value)
    }

    /// Whether it was disturbed so often that the figure says little.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        2 * self.doubtful > self.slices
    }
}

impl Results {
    /// Reads a file of results.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, is malformed, or is of another version.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let file = |why: String| Error::File { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|error| file(format!("cannot be read: {error}")))?;
        Self::parse(&text).map_err(file)
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The metrics that were measured, in the order in which they are shown.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self.rows.iter().map(|row| row.metric).collect();
        metrics.sort_unstable();
        metrics.dedup();
        metrics
    }

    /// Adds the links of a machine, and where slots and credit may lie on those that were not looked at
    /// before.
    pub fn add_links(&mut self, links: Vec<LinkReport>) {
        for link in &links {
            if !self.placement.iter().any(|placed| placed.link == link.link) {
                self.placement.extend(link.placement.iter().cloned());
            }
        }
        self.links.extend(links);
    }

    /// The figure of a peer, that of cores that share a cache where there are several.
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

/// Turns what was found of a peer's metric into rows, one for each distance.
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

/// All slices as one row, wherever the processors were.
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
        match &slice.found {
            Found::Times(samples) => {
                times.add(samples);
                if slice.probe_ns() > 0.0 {
                    ratios.push(samples.p50_ns() / slice.probe_ns());
                }
            }
            Found::Flow { amount, elapsed_ns } => {
                flow.add(*amount, std::time::Duration::from_nanos(*elapsed_ns));
            }
            Found::Number(number) => numbers.push(*number),
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

/// Whether a share of time is called disturbed, for legends.
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
        Slice { found: Found::Flow { amount: 1000, elapsed_ns }, probes_ns, waited_share, ring_share: 0.0 }
    }

    /// Of a virtual machine.
    fn classifier() -> Classifier {
        Classifier::new(&results("here").host, None)
    }

    #[test]
    fn results_come_back_from_their_file() {
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
        // What passes through the kernel has no distance.
        let rows = self::rows("peer", Metric::WakeUp, &slices, classifier());
        assert_eq!(
            rows.iter().map(|row| (row.distance, row.slices)).collect::<Vec<_>>(),
            [(Distance::Any, 4)]
        );
    }

    /// A hypervisor gave twin threads for some slices: the others were called far, and targets about near
    /// processors went unmeasured.
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
