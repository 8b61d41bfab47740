//! Broadcast in a group of processes of this host: the latency to the last member, and the throughput of the
//! sources, compared with sends to each member and with MPI's broadcast.
//!
//! Each trial is a job of new processes, which all run the same program. All share the host's clock, so that
//! the time from the source's call to the last member's receipt is measured, as in *Asynchronous Broadcast on
//! the Intel SCC using Interrupts*, whose figures the report shows beside its own.

mod member;
mod mpi;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use member::run_member;

use crate::report::BenchReport;
use crate::table::{align, cells, none, significant};

/// Length of a line, the paper's unit, in bytes.
pub const LINE_BYTES: usize = 32;

/// Rows of the paper's table: length in lines, and times in microseconds on 48 cores, synchronous and
/// asynchronous.
pub const PAPER: [(u32, f64, f64); 4] =
    [(1, 44.0, 40.2), (32, 76.1, 75.5), (64, 112.6, 118.0), (128, 189.8, 196.7)];

/// Method of the broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A group: members sleep until a message wakes them, and sources do not wait for one another.
    Asynchronous,
    /// A group used like the synchronous OC-Bcast: members poll, and a broadcast begins when the previous one
    /// is complete everywhere.
    Synchronous,
    /// The source sends to each member over a channel.
    Sends,
    /// `MPI_Bcast` of the installed MPI.
    Mpi,
}

/// Parameters of one trial, which runs as its own job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Method of the broadcast.
    pub way: Way,
    /// Number of processes.
    pub members: u32,
    /// Fan-out of the tree, *k*.
    pub fan_out: u16,
    /// Number of processes that broadcast.
    pub sources: u32,
    /// Length of a message, in lines of 32 bytes.
    pub lines: u32,
    /// Number of messages per source.
    pub messages: u32,
    /// Whether each message is sent only after all have received the previous one.
    pub paced: bool,
}

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of processes, at least 2.
    pub members: u32,
    /// Number of messages per source and trial.
    pub messages: u32,
    /// Values of *k* for the throughput.
    pub fan_outs: Vec<u16>,
    /// Numbers of sources for the throughput.
    pub sources: Vec<u32>,
    /// Arguments that make this program call [`run_member`]; the trial is appended.
    pub member_arguments: Vec<OsString>,
    /// Timeout of one trial.
    pub timeout: Duration,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Parameters of the trial.
    pub trial: Trial,
    /// Latency from the source's call to the last member's receipt.
    pub latency_us: Option<Latency>,
    /// Throughput of all sources, in MB/s.
    pub throughput_mb_s: Option<f64>,
    /// Reason if it failed.
    pub failed: Option<String>,
}

/// Latency to the last member, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Median of the messages.
    pub p50: f64,
    /// 99th percentile of the messages.
    pub p99: f64,
}

/// Results of all trials.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processors that the processes share.
    pub processors: usize,
    /// Rows of the trials.
    pub rows: Vec<Row>,
}

/// Result of a trial, as reported by a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "metric", rename_all = "kebab-case")]
pub(crate) enum Figure {
    /// Latencies from sending to receipt, per message.
    Times {
        /// Latencies, in nanoseconds.
        times_ns: Vec<u64>,
    },
    /// Time in which the member received all messages of all sources and sent its own.
    Span {
        /// Duration, in nanoseconds.
        span_ns: u64,
    },
}

/// Runs the trials one after another.
///
/// `progress` is called before each trial.
#[must_use]
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Report {
    let mut rows = Vec::new();
    for trial in trials(options) {
        progress(&format!(
            "{:?}, k {}, {} of {} broadcast {} lines",
            trial.way, trial.fan_out, trial.sources, trial.members, trial.lines
        ));
        rows.push(measure(options, trial));
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Report { processors, rows }
}

fn trials(options: &Options) -> Vec<Trial> {
    let all = u16::try_from(options.members - 1).unwrap_or(u16::MAX).min(255);
    let mut trials = Vec::new();
    let base = Trial {
        way: Way::Asynchronous,
        members: options.members,
        fan_out: all,
        sources: 1,
        lines: 1,
        messages: options.messages,
        paced: true,
    };
    for (lines, _, _) in PAPER {
        for way in [Way::Synchronous, Way::Asynchronous, Way::Sends, Way::Mpi] {
            trials.push(Trial { way, lines, ..base.clone() });
        }
    }
    for sources in options.sources.iter().copied().filter(|sources| *sources <= options.members) {
        let base = Trial { sources, lines: 128, paced: false, ..base.clone() };
        for fan_out in options.fan_outs.iter().copied().filter(|fan_out| *fan_out <= all) {
            for way in [Way::Synchronous, Way::Asynchronous] {
                trials.push(Trial { way, fan_out, ..base.clone() });
            }
        }
        for way in [Way::Sends, Way::Mpi] {
            trials.push(Trial { way, ..base.clone() });
        }
    }
    trials
}

fn measure(options: &Options, trial: Trial) -> Row {
    let figures = match trial.way {
        Way::Mpi => mpi::run(&trial, options.timeout),
        _ => run_processes(options, &trial),
    };
    let (latency_us, throughput_mb_s, failed) = match figures {
        Ok(figures) => (latency(&figures), throughput(&trial, &figures), None),
        Err(why) => (None, None, Some(why)),
    };
    Row { trial, latency_us, throughput_mb_s, failed }
}

/// Computes the latency to the last member from the latencies per message.
fn latency(figures: &[Figure]) -> Option<Latency> {
    let times: Vec<&Vec<u64>> = figures
        .iter()
        .filter_map(|figure| match figure {
            Figure::Times { times_ns } if !times_ns.is_empty() => Some(times_ns),
            _ => None,
        })
        .collect();
    let count = times.iter().map(|times| times.len()).min()?;
    let mut last: Vec<u64> = (0..count).filter_map(|at| times.iter().map(|times| times[at]).max()).collect();
    last.sort_unstable();
    let at = |permille: usize| last[(last.len() - 1) * permille / 1000] as f64 / 1000.0;
    Some(Latency { p50: at(500), p99: at(990) })
}

fn throughput(trial: &Trial, figures: &[Figure]) -> Option<f64> {
    let span = figures.iter().filter_map(|figure| match figure {
        Figure::Span { span_ns } => Some(*span_ns),
        Figure::Times { .. } => None,
    });
    let bytes =
        u64::from(trial.sources) * u64::from(trial.messages) * u64::from(trial.lines) * LINE_BYTES as u64;
    span.max().map(|span_ns| bytes as f64 * 1000.0 / span_ns as f64)
}

/// Starts the members and reads the figures of each.
fn run_processes(options: &Options, trial: &Trial) -> Result<Vec<Figure>, String> {
    crate::members::run("broadcast", trial.members, &options.member_arguments, trial, options.timeout)
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let mut text = format!(
            "{} members on {} processors. Latency to the last member, in us, median and p99, k = {}:\n",
            first.trial.members, self.processors, first.trial.fan_out
        );
        let mut rows = vec![cells(&["LINES", "WAY", "P50", "P99", "SCC"])];
        for row in self.rows.iter().filter(|row| row.trial.paced) {
            let paper = PAPER.iter().find(|(lines, ..)| *lines == row.trial.lines);
            let paper = match (row.trial.way, paper) {
                (Way::Synchronous, Some((_, synchronous, _))) => significant(*synchronous),
                (Way::Asynchronous, Some((_, _, asynchronous))) => significant(*asynchronous),
                _ => none(),
            };
            let time =
                |of: fn(&Latency) -> f64| row.latency_us.as_ref().map_or_else(none, |us| significant(of(us)));
            rows.push(vec![
                row.trial.lines.to_string(),
                name(row.trial.way),
                time(|us| us.p50),
                time(|us| us.p99),
                paper,
            ]);
        }
        text += &align(&rows);
        text += "\nMessages of 128 lines (4 KiB), all at once, in MB/s:\n";
        let mut rows = vec![cells(&["SOURCES", "WAY", "K", "MB/S"])];
        for row in self.rows.iter().filter(|row| !row.trial.paced) {
            let is_tree = matches!(row.trial.way, Way::Asynchronous | Way::Synchronous);
            rows.push(vec![
                row.trial.sources.to_string(),
                name(row.trial.way),
                if is_tree { row.trial.fan_out.to_string() } else { none() },
                row.throughput_mb_s.map_or_else(none, significant),
            ]);
        }
        text += &align(&rows);
        for (way, why) in self.reasons() {
            text += &format!("no figure for {way}: {why}\n");
        }
        text
    }

    fn failures(&self) -> Vec<String> {
        let is_required = |(way, _): &(String, &String)| *way != name(Way::Mpi);
        let reasons = self.reasons().into_iter().filter(is_required);
        reasons.map(|(way, why)| format!("{way}: {why}")).collect()
    }
}

impl Report {
    /// Returns the failures by method, each reason once even if several trials share it.
    fn reasons(&self) -> BTreeSet<(String, &String)> {
        self.rows.iter().filter_map(|row| Some((name(row.trial.way), row.failed.as_ref()?))).collect()
    }
}

fn name(way: Way) -> String {
    match way {
        Way::Asynchronous => "asynchronous",
        Way::Synchronous => "synchronous",
        Way::Sends => "sends",
        Way::Mpi => "MPI_Bcast",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_that_of_the_last_member() {
        let times = |times: &[u64]| Figure::Times { times_ns: times.to_vec() };
        let figures = [times(&[]), times(&[1000, 9000, 3000]), times(&[2000, 1000, 5000])];
        assert_eq!(latency(&figures).map(|us| (us.p50, us.p99)), Some((5.0, 5.0)));
        assert!(latency(&figures[..1]).is_none());
    }

    #[test]
    fn throughput_is_what_sources_broadcast_in_the_longest_span() {
        let trial = Trial {
            way: Way::Asynchronous,
            members: 3,
            fan_out: 2,
            sources: 2,
            lines: 128,
            messages: 10,
            paced: false,
        };
        let figures = [Figure::Span { span_ns: 40_960 }, Figure::Span { span_ns: 81_920 }];
        assert_eq!(throughput(&trial, &figures), Some(1000.0));
    }
}
