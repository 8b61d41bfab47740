//! `tombolo bench all` and what belongs to it.

use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use tombolo_bench::report;
use tombolo_bench::suite::{self, Absent, Peer, Results, Schedule, peers};

use crate::context::{Context, print};
use crate::failure::{Failure, eprint_quietly};
use crate::text::one_line;

/// The program that has the peers with dependencies of their own.
const PROGRAM: &str = "tombolo-bench-peers";

/// Compares channels with what else there is, and with what this host can do at best
///
/// Round trips of 8 B, 64 B and 1 KiB, messages per second, bandwidth from 64 KiB to 16 MiB, wake-ups, the processor
/// used while idle, the memory of a channel and the time to open one; of Tombolo, pipes, local sockets and, where
/// `make bench-peers` has built them, iceoryx2, ZeroMQ and Aeron; beside the ping-pong of two bare cache lines, the
/// bare futex, the bare memory and memcpy. Then every pair of processors, where slots and credit lie, and every link
/// of the machine that is up.
///
/// Each measurement stands between two looks at the bare ping-pong. One during which a hypervisor moved the
/// processors, or other programs held one, is taken again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench all                                everything, as tables
  tombolo bench all --json here.json               and kept for `tombolo bench report`
  tombolo bench all --peers Tombolo,pipe --quick   some of it, quickly")]
pub(crate) struct AllOptions {
    /// Keep the results in this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page and its plots of them into this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// What to call this host in reports
    #[arg(long, value_name = "NAME", default_value = "this host")]
    label: String,

    /// Compare only these
    #[arg(long, value_name = "PEER,…", value_delimiter = ',')]
    peers: Vec<String>,

    /// How often each figure is measured
    #[arg(long, value_name = "COUNT", default_value_t = default_slices())]
    slices: NonZeroU32,

    /// How long at a time, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = default_slice_ms(), value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Little of everything: to see that it works
    #[arg(long, conflicts_with_all = ["slices", "slice_ms"])]
    quick: bool,

    /// Measure every pair of the first so many processors; 0 for none
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pairs: usize,
}

/// Serves the far side of `tombolo bench all`, which starts it
#[derive(Args, Debug)]
pub(crate) struct FarOptions {}

/// Writes a page with plots from files of `tombolo bench all`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench report docs/results/*.json -o docs/results")]
pub(crate) struct ReportOptions {
    /// Results, one file for each host
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The folder for the page and its plots
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

fn default_slices() -> NonZeroU32 {
    NonZeroU32::new(Schedule::default().slices).unwrap_or(NonZeroU32::MIN)
}

fn default_slice_ms() -> u64 {
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

/// Status 1 when a peer that is there could not be measured.
pub(crate) fn run_all(context: &Context, options: &AllOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    let suite = options.to_suite();
    let results = match beside(&own) {
        Some(program) => run_program(context, &program, suite)?,
        None => run_here(context, &own, suite)?,
    };
    if let Some(path) = &options.json {
        std::fs::write(path, results.to_json())
            .map_err(Failure::system(format!("write {}", path.display())))?;
    }
    if let Some(folder) = &options.output {
        report::write(std::slice::from_ref(&results), folder)?;
    }
    print(report::text(&results))?;
    Ok(u8::from(
        results.peers.iter().any(|peer| results.absent.iter().any(|absent| absent.peer == peer.name)),
    ))
}

/// The program with the other peers, beside this one.
fn beside(own: &Path) -> Option<PathBuf> {
    Some(own.parent()?.join(PROGRAM)).filter(|path| path.is_file())
}

/// Lets the program with the other peers measure; it knows those of this one too.
fn run_program(context: &Context, program: &Path, options: suite::Options) -> Result<Results, Failure> {
    let text = serde_json::to_string(&options).map_err(|error| Failure::Output(error.into()))?;
    let shown = if shows_progress(context) { Stdio::inherit() } else { Stdio::null() };
    let operation = || format!("run {}", program.display());
    let mut command = Command::new(program);
    let run = command.arg("run").arg(text).stdin(Stdio::null()).stderr(shown).output();
    let output = run.map_err(Failure::system(operation()))?;
    if !output.status.success() {
        // It has written why as its only line.
        let why = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        return Err(suite::Error::Far { what: format!("failed: {why}") }.into());
    }
    Ok(Results::parse(&String::from_utf8_lossy(&output.stdout))
        .map_err(|why| suite::Error::File { path: program.to_owned(), why })?)
}

fn run_here(context: &Context, own: &Path, options: suite::Options) -> Result<Results, Failure> {
    let far = [&own.to_string_lossy(), "bench", "far"].map(str::to_owned).to_vec();
    let options = suite::Options { far, ..options };
    let all = peers::all();
    let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
    let absent = peers::FOREIGN.map(|peer| Absent {
        peer: peer.into(),
        why: format!("built without it: `make bench-peers` builds {PROGRAM}, which has it"),
    });
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

pub(crate) fn run_far(_options: &FarOptions) -> Result<u8, Failure> {
    let all = peers::all();
    let peers: Vec<&dyn Peer> = all.iter().map(AsRef::as_ref).collect();
    suite::serve(&peers)?;
    Ok(0)
}

pub(crate) fn run_report(options: &ReportOptions) -> Result<u8, Failure> {
    let results: Result<Vec<Results>, suite::Error> =
        options.files.iter().map(|path| Results::read(path)).collect();
    report::write(&results?, &options.output)?;
    Ok(0)
}
