//! `tombolo bench all` and related commands.

use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tombolo::Domain;
use tombolo::nodes::NodeKind;
use tombolo_bench::BenchReport as _;
use tombolo_bench::suite::peers_program::{absent, beside};
use tombolo_bench::suite::{self, Absent, Failed, Peer, Results, Schedule, peers};
use tombolo_bench::{bulk, latency, layers, omp, placement, ring, rpc};
use tombolo_machine::Kit;

use super::command::far_program;
use super::omp as openmp;
use super::placement::PlacementOptions;
use super::progress::with_progress;
use super::report::show;
use super::temporary_machine::with_machine;
use crate::context::{Context, print};
use crate::failure::{Failure, eprint_quietly};
use crate::text::one_line;

/// Duration of each of the eight rows of the distribution.
const DISTRIBUTION: Duration = Duration::from_secs(4);

/// Compares channels with other means of communication, and with the limits of this host
///
/// Round trips of 8 B, 64 B and 1 KiB, messages per second, bandwidth from 64 KiB to 16 MiB, wake-ups,
/// processor time while idle, the memory of a channel and the time to open one: for Tombolo, pipes, local
/// sockets and, if `make bench-peers` has built them, iceoryx2, ZeroMQ and Aeron; beside the ping-pong of two
/// bare cache lines, the bare futex, the bare memory and memcpy. Also typed calls as in `bench rpc`, every
/// pair of processors, the placement of slots and credit, the distribution of answer times as in `bench
/// latency`, OpenMP as in `bench omp`, and every link of the machine that is up.
///
/// Each measurement is taken between two of the bare ping-pong. It is repeated if a hypervisor moved the
/// processors in the meantime, or other programs held one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench all                                everything, as tables
  tombolo bench all --json here.json               and kept in a file
  tombolo bench all --up machines/zoo.toml         with the links of this machine
  tombolo bench all --peers Tombolo,pipe --quick   some of it, quickly")]
pub(crate) struct AllOptions {
    /// Write the results as JSON into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Removed: pages are written by another program
    #[arg(short, long, hide = true, value_parser = removed_output)]
    output: Option<PathBuf>,

    /// Name of this host in reports
    #[arg(long, value_name = "NAME", default_value = "this host")]
    label: String,

    /// Compare only these peers
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    peers: Vec<String>,

    /// Number of times that each figure is measured
    #[arg(long, value_name = "COUNT", default_value_t = default_slices())]
    slices: NonZeroU32,

    /// Time per measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = default_slice_ms(), value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Measure everything briefly, to check that it works
    #[arg(long, conflicts_with_all = ["slices", "slice_ms"])]
    quick: bool,

    /// Bring up the machine of this file for its links, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Measure every pair of the first COUNT processors; 0 for none
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pairs: usize,
}

/// Serves the far side of `tombolo bench all`, `rpc` and `bulk`, which start it
#[derive(Args, Debug)]
pub(crate) struct FarOptions {}

/// Removed: names the program that writes pages
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _ignored: Vec<String>,
}

/// Replacement for `tombolo bench report` and for `--output`.
const REPORT_ELSEWHERE: &str = "in the source tree, `make results` writes pages and plots from the files of \
    `bench all --json` and `bench bulk --json` in docs/results, and `cargo run -p tombolo-bench-report` from any";

/// Rejects the value of a removed option, naming the replacement.
pub(super) fn removed_output(_: &str) -> Result<PathBuf, &'static str> {
    Err(REPORT_ELSEWHERE)
}

/// Options of the commands that measure a part of the suite.
#[derive(Args, Debug)]
pub(super) struct Share {
    /// Compare only these peers
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    peers: Vec<String>,

    /// Number of times that each figure is measured
    #[arg(long, value_name = "COUNT", default_value_t = default_slices())]
    slices: NonZeroU32,

    /// Time per measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = default_slice_ms(), value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
}

impl Share {
    pub(super) fn names_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Returns the options of the suite, with the program `own` as the far side.
    pub(super) fn to_suite(&self, own: &Path) -> suite::Options {
        suite::Options {
            label: "this host".into(),
            schedule: Schedule {
                slices: self.slices.get(),
                slice: Duration::from_millis(self.slice_ms),
                ..Schedule::default()
            },
            only: self.peers.clone(),
            pairs: 0,
            placement: false,
            far: [&own.to_string_lossy(), "bench", "far"].map(str::to_owned).to_vec(),
        }
    }
}

pub(crate) fn default_slices() -> NonZeroU32 {
    NonZeroU32::new(Schedule::default().slices).unwrap_or(NonZeroU32::MIN)
}

pub(crate) fn default_slice_ms() -> u64 {
    Schedule::default().slice.as_millis() as u64
}

impl AllOptions {
    fn to_suite(&self) -> suite::Options {
        let schedule = if self.quick {
            Schedule { slices: 1, slice: Duration::from_millis(2), retries: 0 }
        } else {
            Schedule {
                slices: self.slices.get(),
                slice: Duration::from_millis(self.slice_ms),
                ..Schedule::default()
            }
        };
        suite::Options {
            label: self.label.clone(),
            schedule,
            only: self.peers.clone(),
            pairs: self.pairs,
            placement: self.peers.is_empty(),
            far: Vec::new(),
        }
    }
}

impl AllOptions {
    /// Returns options that measure OpenMP in half a minute, without the matrices of `bench omp`.
    fn to_openmp(&self) -> omp::Options {
        let sections =
            omp::Section::ALL.into_iter().filter(|section| *section < omp::Section::Matmul).collect();
        if self.quick {
            omp::Options { sections, ..omp::Options::quick() }
        } else {
            omp::Options { sections, rounds: 3, ..omp::Options::default() }
        }
    }
}

/// Runs the command. Returns status 1 if a measurement failed.
pub(crate) fn run_all(context: &Context, options: &AllOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.to_suite();
    let mut results = match beside(&own) {
        Some(program) => run_program(context, &program, Measure::Everything, suite)?,
        None => run_here(context, suite)?,
    };
    if options.peers.is_empty() {
        add_distribution(context, options, &mut results);
        add_openmp(context, options, &mut results);
        add_links(context, options, &mut results);
    }
    if let Some(path) = &options.json {
        std::fs::write(path, results.to_json())
            .map_err(Failure::system(format!("write {}", path.display())))?;
    }
    print(results.table())?;
    Ok(u8::from(!results.failed.is_empty()))
}

/// Adds the distribution of answer times.
fn add_distribution(context: &Context, options: &AllOptions, results: &mut Results) {
    let length = if options.quick { Duration::from_millis(50) } else { DISTRIBUTION };
    let peer_arguments = ["bench", "latency", "--peer"].map(Into::into).to_vec();
    let options = latency::Options { length, peer_arguments };
    match with_progress(context, |progress| latency::run(&options, progress)) {
        Ok(report) => results.distribution = Some(report),
        Err(error) => results.failed.push(Failed::new("the distribution of answer times", &error)),
    }
}

/// Adds the cost of OpenMP on this host.
fn add_openmp(context: &Context, options: &AllOptions, results: &mut Results) {
    match openmp::measure(context, None, &options.to_openmp()) {
        Ok(report) => results.openmp = Some(report),
        Err(error) => results.failed.push(Failed::new("what OpenMP costs", &error)),
    }
}

/// Converts a failed measurement of a report on links for a larger report.
pub(super) fn failed_link(failed: &Failed) -> Failed {
    Failed::new(format!("the link to {}", failed.what), &failed.why)
}

/// Adds the links of the machine of the given file, or of the one that is up, if any.
fn add_links(context: &Context, options: &AllOptions, results: &mut Results) {
    let mut links = None;
    let measured = with_machine(context, options.up.as_deref(), |domain| {
        links = Some(measure_links(context, options.quick, domain)?);
        Ok(())
    });
    match measured.map(|()| links) {
        Ok(None) => {}
        Ok(Some(report)) => {
            results.failed.extend(report.failed.iter().map(failed_link));
            results.add_links(report.links);
        }
        Err(error) => results.failed.push(Failed::new("the links of a machine", &error)),
    }
}

/// Runs the command. Returns status 1 if a pair of nodes could not be measured; the report names it and the
/// reason.
pub(super) fn run_placement(context: &Context, options: &PlacementOptions) -> Result<u8, Failure> {
    let mut report = placement::Report::default();
    with_machine(context, options.up.as_deref(), |domain| {
        let image = Kit::locate()?.image("bench");
        let (nodes, windows) = (domain.nodes()?, domain.windows()?);
        report = with_progress(context, |progress| {
            placement::run((domain, &image), (&nodes, &windows), options.rounds, progress)
        });
        Ok(())
    })?;
    if report.rows.is_empty() && report.failed.is_empty() {
        report.failed.push("no two nodes of a machine that is up share a window".to_owned());
    }
    show(&report, options.json)
}

/// Measures every link of a machine except those to boards.
pub(super) fn measure_links(
    context: &Context,
    quick: bool,
    domain: &Domain,
) -> Result<ring::Report, Failure> {
    let image = Kit::locate()?.image("bench");
    let mut ring = ring::Options::new(image);
    if quick {
        ring.schedule = ring::Schedule { slices: 1, slice: Duration::from_millis(2) };
    }
    // Boards run one program at a time, built for them, and this image has no build for boards.
    let nodes = domain.nodes()?.into_iter().filter(|node| node.kind != NodeKind::Bare);
    ring.nodes = nodes.map(|node| node.name).collect();
    Ok(with_progress(context, |progress| ring::run(domain, &ring, progress))?)
}

/// Part measured by the program with the other peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Measure {
    Everything,
    /// Typed calls.
    Calls,
    /// Bulk data.
    Bulk,
}

impl Measure {
    fn word(self) -> &'static str {
        match self {
            Measure::Everything => "run",
            Measure::Calls => "rpc",
            Measure::Bulk => "bulk",
        }
    }
}

/// Runs the program with the other peers, which also measures those of this one.
pub(super) fn run_program(
    context: &Context,
    program: &Path,
    measure: Measure,
    options: suite::Options,
) -> Result<Results, Failure> {
    let text = serde_json::to_string(&options).map_err(|error| Failure::Output(error.into()))?;
    let shown = if shows_progress(context) { Stdio::inherit() } else { Stdio::null() };
    let operation = || format!("run {}", program.display());
    let mut command = Command::new(program);
    let run = command.arg(measure.word()).arg(text).stdin(Stdio::null()).stderr(shown).output();
    let output = run.map_err(Failure::system(operation()))?;
    if !output.status.success() {
        // Its only output line is the reason.
        let why = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.code() == Some(2) {
            return Err(Failure::Usage { message: why, hint: None });
        }
        return Err(suite::Error::Far { what: format!("failed: {why}") }.into());
    }
    Ok(Results::parse(&String::from_utf8_lossy(&output.stdout))
        .map_err(|why| suite::Error::File { path: program.to_owned(), why })?)
}

fn run_here(context: &Context, options: suite::Options) -> Result<Results, Failure> {
    let options = suite::Options { far: far_program()?, ..options };
    let all = all_peers();
    let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
    let absent: Vec<Absent> = peers::FOREIGN.into_iter().chain(rpc::FOREIGN).map(absent).collect();
    let shown = shows_progress(context);
    let results = suite::run(&peers, &absent, &options, &mut |line| {
        if shown {
            eprint_quietly(&format!("\r\x1b[K{}", one_line(line)));
        }
    });
    if shown {
        eprint_quietly("\r\x1b[K");
    }
    Ok(results?)
}

fn shows_progress(context: &Context) -> bool {
    io::stderr().is_terminal() && !context.quiet
}

/// Returns the peers of `bench all`.
fn all_peers() -> Vec<Box<dyn Peer>> {
    let mut all = peers::all();
    all.extend(rpc::peers());
    all
}

pub(crate) fn run_far(_options: &FarOptions) -> Result<u8, Failure> {
    let mut all = all_peers();
    all.extend(bulk::peers());
    all.extend(layers::peers());
    let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
    suite::serve(&peers)?;
    Ok(0)
}

pub(crate) fn run_report(_options: &ReportOptions) -> Result<u8, Failure> {
    let message = "`tombolo bench report` is not part of this command any more".to_owned();
    Err(Failure::Usage { message, hint: Some(REPORT_ELSEWHERE) })
}
