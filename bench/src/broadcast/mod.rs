//! Broadcast in a group of processes of this host: how long a message takes to the last member, and how much
//! the sources bring to all of them, beside sends to each member and MPI's broadcast.
//!
//! Every trial is a job of new processes, which all run the same program. The clock is that of the host, so
//! that the time from the source's call to the last member's receipt is measured, as in *Asynchronous
//! Broadcast on the Intel SCC using Interrupts*, whose figures the report has beside its own.

mod member;
mod mpi;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use member::run_member;

use crate::report::BenchReport;
use crate::table::{align, cells, none, significant};

/// The bytes of a line, the paper's unit.
pub const LINE_BYTES: usize = 32;

/// The lengths of the paper's table, in lines, and its times in microseconds on 48 cores: synchronous,
/// asynchronous.
pub const PAPER: [(u32, f64, f64); 4] =
    [(1, 44.0, 40.2), (32, 76.1, 75.5), (64, 112.6, 118.0), (128, 189.8, 196.7)];

/// How messages get to all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A group: members sleep until a message wakes them, and sources do not wait for each other.
    Asynchronous,
    /// A group used as the synchronous OC-Bcast: members poll, and a broadcast begins when the one before it
    /// is complete everywhere.
    Synchronous,
    /// The source sends to each member over a channel.
    Sends,
    /// `MPI_Bcast` of the MPI that is installed.
    Mpi,
}

/// What one measurement is of: a job of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How messages get to all members.
    pub way: Way,
    /// Processes.
    pub members: u32,
    /// *k*.
    pub fan_out: u16,
    /// How many of them broadcast.
    pub sources: u32,
    /// The length of a message in lines of 32 bytes.
    pub lines: u32,
    /// Messages of each source.
    pub messages: u32,
    /// Each message is sent when all have the one before.
    pub paced: bool,
}

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes, from 2.
    pub members: u32,
    /// Messages of each source and trial.
    pub messages: u32,
    /// The values of *k* for the throughput.
    pub fan_outs: Vec<u16>,
    /// The numbers of sources for the throughput.
    pub sources: Vec<u32>,
    /// The arguments with which this program runs [`run_member`]; the trial follows.
    pub member_arguments: Vec<OsString>,
    /// How long a trial may take.
    pub patience: Duration,
}

/// The result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub trial: Trial,
    /// From the source's call to the last member's receipt.
    pub latency_us: Option<Latency>,
    /// The bytes that sources broadcast, in a second.
    pub throughput_mb_s: Option<f64>,
    /// Why there is no figure.
    pub failed: Option<String>,
}

/// Times to the last member, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// All but one in a hundred.
    pub p99: f64,
}

/// The results of all trials.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors that the processes share.
    pub processors: usize,
    /// The trials.
    pub rows: Vec<Row>,
}

/// What a member says of a trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "metric", rename_all = "kebab-case")]
pub(crate) enum Figure {
    /// The times of receipt minus those of sending, message by message.
    Times {
        /// In nanoseconds.
        times_ns: Vec<u64>,
    },
    /// The time in which the member got all messages of all sources, and sent its own.
    Span {
        /// In nanoseconds.
        span_ns: u64,
    },
}

/// Measures one trial after another.
///
/// `progress` hears of each trial before it begins.
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
        Way::Mpi => mpi::run(&trial, options.patience),
        _ => run_processes(options, &trial),
    };
    let (latency_us, throughput_mb_s, failed) = match figures {
        Ok(figures) => (latency(&figures), throughput(&trial, &figures), None),
        Err(why) => (None, None, Some(why)),
    };
    Row { trial, latency_us, throughput_mb_s, failed }
}

/// The time to the last member, message by message.
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

/// Starts the members, and reads what each found.
fn run_processes(options: &Options, trial: &Trial) -> Result<Vec<Figure>, String> {
    crate::members::run("broadcast", trial.members, &options.member_arguments, trial, options.patience)
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
    /// Why ways have no figure, each reason once however many trials have it.
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
