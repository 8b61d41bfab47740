//! Shared objects: the clustering of the TACO-MESH paper by the ranks of this host, per controller and
//! mapping mode, in coherent memory and in non-coherent windows; and its cost formula.
//!
//! Each trial is a job of new processes. The graph and the search are those of `examples/clustering`.

mod fit;
#[allow(dead_code, unreachable_pub, reason = "the example uses all of it")]
#[path = "../../../examples/clustering/src/graph.rs"]
mod graph;
#[allow(dead_code, unreachable_pub, reason = "the example uses all of it")]
#[path = "../../../examples/clustering/src/search.rs"]
mod search;

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo::Domain;
use tombolo_objects::{Consistency, Job, JoinOptions};

use crate::members;
use crate::report::BenchReport;
use crate::table::{align, cells, missing, none, significant};
pub use fit::Fit;
use search::Maps;

/// Controllers, by their names in the paper.
const CONTROLLERS: [(&str, Consistency); 3] =
    [("BC", Consistency::Broadcast), ("OV", Consistency::Overlapped), ("TS", Consistency::Timestamp)];

/// Figures of the paper, on the SCC with its trade graph.
const PAPER: &str = "\
The paper's figures (48 cores at 800 MHz, 66 vertices, 64 steps; controllers did not differ): speed-up 6 at 13 to 14
cores with write-through, 7 at 15 with mix, little with cached alone; beta negligible, alpha needed, Twb + Tinv none
with uncached, write-through and mix.\n";

/// Parameters of one trial, which runs as its own job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of processes.
    pub ranks: u32,
    /// Controller, by which ranks learn of writes: BC, OV or TS.
    pub controller: String,
    /// Mapping mode: cached, uncached, write-through or mix.
    pub maps: String,
    /// Graph of the trial.
    pub graph: String,
    /// Maximum number of steps.
    pub max_steps: u64,
    /// Window that holds the memory; `None` for memory of this host.
    pub window: Option<String>,
}

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of ranks, from 1.
    pub ranks: Vec<u32>,
    /// `dense:N`, `sparse:N` or a file with an edge list.
    pub graph: String,
    /// Maximum number of steps.
    pub max_steps: u64,
    /// Windows to measure in addition to memory of this host.
    pub windows: Vec<String>,
    /// Number of runs per trial; the shortest time counts.
    pub repeats: u32,
    /// Arguments that make this program call [`run_member`]; the trial is appended.
    pub member_arguments: Vec<OsString>,
    /// Timeout of one trial.
    pub timeout: Duration,
}

/// Result of a trial, as reported by rank 0; those of other ranks are not used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "metric")]
pub struct Figure {
    /// Number of moves.
    pub steps: u64,
    /// Total time of all steps.
    pub time_ns: u64,
    /// Part in which rank 0 wrote and released: `Twb`.
    pub writing_ns: u64,
    /// Part in which the slowest rank acquired and fetched: `Tinv`.
    pub acquiring_ns: u64,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Parameters of the trial.
    pub trial: Trial,
    /// Measured figure, if the trial succeeded.
    pub figure: Option<Figure>,
    /// Reason if it failed.
    pub failed: Option<String>,
}

/// Terms of the cost formula for one configuration, in microseconds per step.
#[derive(Clone, Debug, Serialize)]
pub struct Terms {
    /// Window that holds the memory.
    pub window: Option<String>,
    /// Controller of the objects.
    pub controller: String,
    /// Mapping mode of the objects.
    pub maps: String,
    /// `Twb`, the mean over all numbers of ranks.
    pub writing: f64,
    /// `Tinv`, the mean over all numbers of ranks.
    pub acquiring: f64,
    /// Fitted terms of the formula.
    pub fit: Fit,
}

/// Results of all trials.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processors that the ranks share.
    pub processors: usize,
    /// Rows of the trials.
    pub rows: Vec<Row>,
    /// Terms of the cost formula.
    pub terms: Vec<Terms>,
}

/// Runs the trials one after another.
///
/// `progress` is called before each trial.
#[must_use]
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Report {
    let mut rows = Vec::new();
    for trial in trials(options) {
        let place = trial.window.as_deref().unwrap_or("this host");
        progress(&format!("{} ranks, {}, {}, memory of {place}", trial.ranks, trial.controller, trial.maps));
        rows.push(measure(options, trial));
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let terms = terms(&rows);
    Report { processors, rows, terms }
}

/// Returns all controllers with mix, and all mapping modes with BC, as in the paper.
fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    let controllers = CONTROLLERS.map(|(controller, _)| (controller, "mix"));
    let maps = Maps::ALL.map(|(maps, _)| ("BC", maps)).into_iter().filter(|(_, maps)| *maps != "mix");
    controllers.into_iter().chain(maps)
}

fn trials(options: &Options) -> Vec<Trial> {
    let mut trials = Vec::new();
    for window in std::iter::once(None).chain(options.windows.iter().cloned().map(Some)) {
        for (controller, maps) in ways() {
            for ranks in options.ranks.iter().copied() {
                trials.push(Trial {
                    ranks,
                    controller: controller.to_owned(),
                    maps: maps.to_owned(),
                    graph: options.graph.clone(),
                    max_steps: options.max_steps,
                    window: window.clone(),
                });
            }
        }
    }
    trials
}

fn measure(options: &Options, trial: Trial) -> Row {
    let (arguments, timeout) = (&options.member_arguments, options.timeout);
    let all = members::repeat::<Figure>(options.repeats, "objects", trial.ranks, arguments, &trial, timeout);
    match all.map(|figures| figures.into_iter().min_by_key(|figure| figure.time_ns)) {
        Ok(figure) => Row { trial, figure, failed: None },
        Err(why) => Row { trial, figure: None, failed: Some(why) },
    }
}

/// Runs as a rank of a trial, given as JSON, and prints the figure.
///
/// # Errors
/// A description of the failure.
pub fn run_member(domain: &Domain, trial: &str) -> Result<(), String> {
    members::run_member_trial(trial, |trial| run_trial(domain, trial))
}

fn run_trial(domain: &Domain, trial: &Trial) -> Result<Figure, Box<dyn std::error::Error>> {
    let consistency = CONTROLLERS.iter().find(|(name, _)| *name == trial.controller);
    let maps = Maps::ALL.iter().find(|(name, _)| *name == trial.maps);
    let ((_, consistency), (_, maps)) =
        consistency.zip(maps).ok_or("no such controller or way of mapping")?;
    let is_first = domain.job()?.rank() == 0;
    let graph = if is_first { graph::Graph::named(&trial.graph)? } else { graph::Graph::default() };
    let memory_bytes = if is_first { graph.arcs.len() * 8 + graph.vertices() * 24 + (1 << 20) } else { 0 };
    let timeout = Duration::from_secs(60);
    let mut job = Job::join(domain, JoinOptions { memory_bytes, timeout, window: trial.window.clone() })?;
    let outcome = search::together(&mut job, &graph, *maps, *consistency, trial.max_steps)?;
    if is_first && outcome.labels != search::alone(&graph, trial.max_steps).0 {
        return Err("one thread gets other labels".into());
    }
    let ns = |time: Duration| time.as_nanos() as u64;
    let (time_ns, writing_ns, acquiring_ns) = (ns(outcome.time), ns(outcome.writing), ns(outcome.acquiring));
    Ok(Figure { steps: outcome.steps, time_ns, writing_ns, acquiring_ns })
}

/// Returns the figures of a configuration by number of ranks, in microseconds per step.
fn of_way<'a>(
    rows: &'a [Row],
    window: Option<&'a str>,
    (controller, maps): (&'a str, &'a str),
) -> impl Iterator<Item = (u32, [f64; 3])> + 'a {
    let is_of = move |trial: &Trial| {
        trial.window.as_deref() == window && trial.controller == controller && trial.maps == maps
    };
    rows.iter().filter(move |row| is_of(&row.trial)).filter_map(|row| {
        let figure = row.figure?;
        let step = |ns: u64| ns as f64 / 1000.0 / figure.steps.max(1) as f64;
        Some((row.trial.ranks, [figure.time_ns, figure.writing_ns, figure.acquiring_ns].map(step)))
    })
}

fn windows(rows: &[Row]) -> Vec<Option<String>> {
    let mut windows: Vec<Option<String>> = rows.iter().map(|row| row.trial.window.clone()).collect();
    windows.dedup();
    windows
}

fn terms(rows: &[Row]) -> Vec<Terms> {
    let mut all = Vec::new();
    for window in windows(rows) {
        for (controller, maps) in ways() {
            let figures: Vec<(u32, [f64; 3])> = of_way(rows, window.as_deref(), (controller, maps)).collect();
            let rest: Vec<(f64, f64)> = figures
                .iter()
                .map(|(ranks, [time, writing, acquiring])| (f64::from(*ranks), time - writing - acquiring))
                .collect();
            let Some(fit) = fit::fit(&rest) else { continue };
            let mean = |index: usize| {
                figures.iter().map(|(_, values)| values[index]).sum::<f64>() / figures.len() as f64
            };
            let (controller, maps) = (controller.to_owned(), maps.to_owned());
            let (writing, acquiring) = (mean(1), mean(2));
            all.push(Terms { window: window.clone(), controller, maps, writing, acquiring, fit });
        }
    }
    all
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut ranks: Vec<u32> = self.rows.iter().map(|row| row.trial.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let base = of_way(&self.rows, None, ("BC", "cached")).find(|(ranks, _)| *ranks == 1);
        let mut text = format!(
            "{} processors. Speed-up by number of ranks, of one rank with BC and cached in memory of this host:\n",
            self.processors
        );
        let numbers: Vec<String> = ranks.iter().map(u32::to_string).collect();
        let mut head = vec!["MEMORY", "CONTROLLER", "MAPS"];
        head.extend(numbers.iter().map(String::as_str));
        let mut table = vec![cells(&head)];
        for window in windows(&self.rows) {
            for (controller, maps) in ways() {
                let figures: Vec<_> = of_way(&self.rows, window.as_deref(), (controller, maps)).collect();
                let speed_up = |wanted: &u32| {
                    let time = figures.iter().find(|(ranks, _)| ranks == wanted)?.1[0];
                    Some(base?.1[0] / time)
                };
                let mut row = cells(&[window.as_deref().unwrap_or("host"), controller, maps]);
                row.extend(ranks.iter().map(|ranks| speed_up(ranks).map_or_else(none, significant)));
                table.push(row);
            }
        }
        text += &align(&table);
        text += "\nT(P) = Ts + Tp/P + Twb + Tinv + alpha P + beta log2 P, in us for each step; Twb and Tinv measured:\n";
        let head = ["MEMORY", "CONTROLLER", "MAPS", "TS", "TP", "TWB", "TINV", "ALPHA", "BETA", "ERROR"];
        let mut table = vec![cells(&head)];
        for terms in &self.terms {
            let Fit { sequential, parallel, per_rank, per_level, error } = terms.fit;
            let mut row = cells(&[terms.window.as_deref().unwrap_or("host"), &terms.controller, &terms.maps]);
            let numbers = [sequential, parallel, terms.writing, terms.acquiring, per_rank, per_level];
            row.extend(numbers.map(significant));
            row.push(format!("{:.0} %", error * 100.0));
            table.push(row);
        }
        text += &align(&table);
        text += "\n";
        text += PAPER;
        text += &missing(&[], &self.failures());
        text
    }

    fn failures(&self) -> Vec<String> {
        let line = |Row { trial, failed, .. }: &Row| {
            let why = failed.as_ref()?;
            Some(format!("{} ranks, {}, {}: {why}", trial.ranks, trial.controller, trial.maps))
        };
        self.rows.iter().filter_map(line).collect()
    }
}
