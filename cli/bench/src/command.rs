//! `tombolo bench`

use std::io;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tombolo::ChannelOptions;
use tombolo_bench::ring::{self, Report, Schedule, Shape};
use tombolo_bench::{coherence, latency, waitset};
use tombolo_cli_common::images::open_image;
use tombolo_machine::Kit;

use super::broadcast;
use super::bulk::{self, BulkOptions};
use super::devices;
use super::figures;
use super::hub;
use super::layers::{self, LayersOptions};
use super::mpi::{self, MpiOptions};
use super::mpi_network::{self, NetworkOptions};
use super::notification;
use super::objects;
use super::omp::{self, OmpOptions};
use super::placement::PlacementOptions;
use super::progress::with_progress;
use super::rcce;
use super::realtime;
use super::report::show;
use super::rpc::{self, RpcOptions};
use super::suite::{self, AllOptions, FarOptions, ReportOptions};
use super::tracing;
use super::xipx;
use crate::context::Context;
use crate::failure::Failure;

/// Measures what things cost
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench ring                     the links of the machine that is up
  tombolo bench link                     what each link costs, by the length of messages
  tombolo bench layers                   what each layer of a channel adds
  tombolo bench all --json here.json     this host, beside what else there is
  tombolo bench waitset                  waiting for many channels
  tombolo bench latency                  the distribution of answer times
  tombolo bench coherence                messages in memory that is not coherent
  tombolo bench rpc                      typed calls beside bare rings
  tombolo bench bulk                     bulk data and what copies it
  tombolo bench broadcast                groups beside sends and MPI_Bcast
  tombolo bench objects                  shared objects, per consistency controller
  tombolo bench mpi                      MPI, beside what else carries it
  tombolo bench omp                      OpenMP, beside libgomp and libomp
  tombolo bench rcce                     RCCE between two ranks, beside a channel
  tombolo bench xipx                     message devices, beside RCCE
  tombolo bench notification             telling a receiver which of many channels has something
  tombolo bench placement                where rings should lie between nodes
  tombolo bench memory                   latency and rate of every memory that a node reaches
  tombolo bench compute                  additions per second of every node
  tombolo bench map                      making and mapping regions, by domains at once
  tombolo bench boot                     boards coming up, by their number
  tombolo bench pages                    coherent pages between this host and each node
  tombolo bench messages                 messages as Popcorn's were measured
  tombolo bench tracing                  what counters and traces cost
  tombolo bench devices                  a network and a disk across nodes
  tombolo bench hub                      semaphores, ports and fifos that tasks share
  tombolo bench realtime                 a periodic task by scheduling policy")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    Ring(RingOptions),
    Link(figures::LinkOptions),
    Layers(LayersOptions),
    Waitset(WaitsetOptions),
    Latency(LatencyOptions),
    Coherence(CoherenceOptions),
    Rpc(RpcOptions),
    Bulk(BulkOptions),
    Broadcast(broadcast::Options),
    Mpi(MpiOptions),
    #[command(hide = true)]
    MpiNetwork(NetworkOptions),
    Objects(objects::Options),
    Omp(OmpOptions),
    Rcce(rcce::Options),
    Xipx(xipx::Options),
    Notification(notification::Options),
    Placement(PlacementOptions),
    Tracing(tracing::Options),
    Memory(figures::MemoryOptions),
    Compute(figures::ComputeOptions),
    Map(figures::MapOptions),
    Boot(figures::BootOptions),
    Pages(figures::PagesOptions),
    Messages(figures::MessagesOptions),
    Devices(devices::Options),
    Hub(hub::Options),
    Realtime(realtime::Options),
    All(AllOptions),
    #[command(hide = true)]
    Report(ReportOptions),
    #[command(hide = true)]
    Far(FarOptions),
}

/// Measures the distribution of answer times, with and without pinning and priority
///
/// Two processes of this host, without a machine, each of which sleeps until the other sends: plain, pinned
/// to a processor, at real-time priority 10, and both; on an idle host and while other threads want every
/// processor. Treatments that this user is not permitted are left out and listed.
///
/// The JSON has, for each of `rows`: treatment, loaded, and times with p50 to p9999, max, mean and deviation.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench latency               eight rows of five seconds
  tombolo bench latency --seconds 60  to see one in a hundred thousand
  tombolo bench latency --json | jq '.rows[] | {treatment, loaded, p99: .times.Ok.p99}'")]
struct LatencyOptions {
    /// Time per row, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Run as the other process
    #[arg(long, hide = true, value_name = "TREATMENT")]
    peer: Option<String>,
}

impl LatencyOptions {
    fn to_bench(&self) -> latency::Options {
        let peer_arguments = ["bench", "latency", "--peer"].map(Into::into).to_vec();
        latency::Options { length: Duration::from_secs(self.seconds), peer_arguments }
    }
}

/// Counts the cache lines that move for messages in memory that is not coherent
///
/// Both ends of a channel work through emulated caches, on one thread. The counts are exact; from them and a
/// cost per line follows an estimate for the SCC, a processor without coherent caches.
///
/// The JSON has, for each of `rows`: slot_bytes, message_bytes, and for sender and receiver
/// written_back, invalidated, stale and scc_cycles.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench coherence                  eight shapes and lengths, as a table
  tombolo bench coherence --json | jq '.rows[] | {message_bytes, sender}'")]
struct CoherenceOptions {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Measures waiting for one busy channel beside many idle ones
///
/// Two processes of this host, without a machine: one sends on one of many channels, the other waits for all
/// of them, asleep and awake. Beside the waitset, the measurement includes the designs that it was chosen
/// from, over channels that consist of a single word. The figure of interest is how a row grows with the
/// number of idle channels.
///
/// The JSON has, for each of `rows`: design, idle, wake_ns and echo_ns with p50 and p99, and cpu_per_wake_ns.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench waitset                    1 to 10,000 idle channels, as a table
  tombolo bench waitset --idle 1,1000 --slice-ms 100
  tombolo bench waitset --json | jq '.rows[] | select(.design == \"waitset\")'")]
struct WaitsetOptions {
    /// Numbers of idle channels [default: 1,10,100,1000,10000]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    idle: Vec<u32>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Time per part, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Run as the other process
    #[arg(long, hide = true)]
    peer: bool,
}

impl WaitsetOptions {
    fn to_bench(&self) -> waitset::Options {
        let mut options = waitset::Options::new(["bench", "waitset", "--peer"]);
        options.slice = Duration::from_millis(self.slice_ms);
        if !self.idle.is_empty() {
            options.idle = self.idle.iter().map(|idle| *idle as usize).collect();
        }
        options
    }
}

/// Measures channels across every link of the machine
///
/// For each node that is up: round trips of 8 and 48 bytes, messages per second, and the wake-up of a
/// sleeping receiver. Each is measured in turn with its limit, a ping-pong of two bare cache lines in the
/// same memory. Absolute times differ between machines; the ratio to the limit is the figure of interest.
/// Without a machine it measures this host alone.
///
/// The host's own link also has a ring in C, built by the host's C compiler: the cost of ordered messages
/// without a channel.
///
/// The JSON has, for each of `links` and for `c_ring`: limit_rtt_ns, rtt_ns, rtt_8_ns, wake_rtt_ns,
/// rate_per_s and rate_back_per_s, each with p50 and p99.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench ring                       every link, as a table
  tombolo bench ring --on arm0 --slices 4  one link, quickly
  tombolo bench ring --json | jq '.links[] | {link, rtt_ratio}'")]
struct RingOptions {
    /// The nodes at the far side [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Number of times that each part is measured
    #[arg(long, value_name = "COUNT", default_value_t = default_slices())]
    slices: NonZeroU32,

    /// Time per measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = default_slice_ms(), value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,

    /// Bytes of a slot: 32, 64 or 128
    #[arg(long, value_name = "BYTES", default_value_t = Shape::default().slot_bytes, value_parser = slot_bytes)]
    slot_bytes: usize,

    /// Slots of each ring: a power of two from 2 to 65536
    #[arg(long, value_name = "COUNT", default_value_t = Shape::default().slots, value_parser = slots)]
    slots: u32,

    /// Return slots by a flag in them rather than by credit
    #[arg(long)]
    used_flag: bool,

    /// Do not pin the two sides to processors
    #[arg(long)]
    no_pin: bool,

    /// The image of the far side [default: the one of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

fn default_slices() -> NonZeroU32 {
    NonZeroU32::new(Schedule::default().slices).unwrap_or(NonZeroU32::MIN)
}

fn default_slice_ms() -> u64 {
    Schedule::default().slice.as_millis() as u64
}

fn slot_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| ChannelOptions::default().slot_bytes(*bytes).is_ok());
    bytes.ok_or_else(|| "use 32, 64 or 128 bytes".to_owned())
}

fn slots(text: &str) -> Result<u32, String> {
    let slots = text.parse().ok().filter(|slots| ChannelOptions::default().slots(*slots).is_ok());
    slots.ok_or_else(|| "use a power of two from 2 to 65536".to_owned())
}

impl RingOptions {
    fn to_bench(&self) -> Result<ring::Options, Failure> {
        let image = match &self.image {
            Some(image) => image.clone(),
            None => Kit::locate()?.image("bench"),
        };
        Ok(ring::Options {
            nodes: self.on.clone(),
            schedule: Schedule { slices: self.slices.get(), slice: Duration::from_millis(self.slice_ms) },
            shape: Shape { slot_bytes: self.slot_bytes, slots: self.slots, used_flag: self.used_flag },
            pin: !self.no_pin,
            c_ring_far: far_program()?,
            ..ring::Options::new(image)
        })
    }
}

/// Runs the command. Returns status 1 if a link could not be measured; the report names it and the reason.
pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    match &options.command {
        BenchCommand::All(options) => suite::run_all(context, options),
        BenchCommand::Layers(options) => layers::run(context, options),
        BenchCommand::Rpc(options) => rpc::run(context, options),
        BenchCommand::Bulk(options) => bulk::run(context, options),
        BenchCommand::Broadcast(options) => broadcast::run(context, options),
        BenchCommand::Mpi(options) => mpi::run(context, options),
        BenchCommand::MpiNetwork(options) => mpi_network::run(options),
        BenchCommand::Objects(options) => objects::run(context, options),
        BenchCommand::Omp(options) => omp::run(context, options),
        BenchCommand::Rcce(options) => rcce::run(context, options).map(|()| 0),
        BenchCommand::Xipx(options) => xipx::run(context, options),
        BenchCommand::Notification(options) => notification::run(context, options),
        BenchCommand::Placement(options) => suite::run_placement(context, options),
        BenchCommand::Tracing(options) => tracing::run(context, options).map(|()| 0),
        BenchCommand::Memory(options) => figures::memory(context, options),
        BenchCommand::Link(options) => figures::link(context, options),
        BenchCommand::Compute(options) => figures::compute(context, options),
        BenchCommand::Map(options) => figures::map(context, options),
        BenchCommand::Boot(options) => figures::boot(context, options),
        BenchCommand::Hub(options) => hub::run(context, options),
        BenchCommand::Realtime(options) => realtime::run(options),
        BenchCommand::Pages(options) => figures::pages(context, options),
        BenchCommand::Messages(options) => figures::messages(context, options),
        BenchCommand::Devices(options) => devices::run(context, options),
        BenchCommand::Report(options) => suite::run_report(options),
        BenchCommand::Far(options) => suite::run_far(options),
        BenchCommand::Ring(options) => {
            let report = measure(context, options)?;
            show(&report, options.json)
        }
        BenchCommand::Waitset(options) if options.peer => {
            let control = io::stdin().as_fd().try_clone_to_owned().map_err(waitset::Error::of_io)?;
            waitset::serve_peer(&control)?;
            Ok(0)
        }
        BenchCommand::Latency(LatencyOptions { peer: Some(treatment), .. }) => {
            latency::serve_peer(treatment, io::stdin())?;
            Ok(0)
        }
        BenchCommand::Latency(options) => {
            let report = with_progress(context, |progress| latency::run(&options.to_bench(), progress))?;
            show(&report, options.json)
        }
        BenchCommand::Coherence(options) => {
            let report = coherence::run()?;
            show(&report, options.json)
        }
        BenchCommand::Waitset(options) => {
            let report = with_progress(context, |progress| waitset::run(&options.to_bench(), progress))?;
            show(&report, options.json)
        }
    }
}

/// Returns the command line that serves the far side of measurements on this host: this program.
pub(super) fn far_program() -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    Ok([&own.to_string_lossy(), "bench", "far"].map(str::to_owned).to_vec())
}

fn measure(context: &Context, options: &RingOptions) -> Result<Report, Failure> {
    options.image.as_deref().map(open_image).transpose()?;
    let options = options.to_bench()?;
    let domain = context.attach()?;
    Ok(with_progress(context, |progress| ring::run(&domain, &options, progress))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Arguments, Command};

    fn parse(line: &str) -> Result<ring::Options, clap::Error> {
        let Command::Bench(options) = Arguments::try_parse_from(line.split(' '))?.command;
        let BenchCommand::Ring(options) = options.command else { unreachable!("and of `bench ring`") };
        Ok(options.to_bench().unwrap())
    }

    #[test]
    fn the_defaults_are_those_of_the_measurement() {
        let usual = ring::Options { c_ring_far: far_program().unwrap(), ..ring::Options::new("x.tbi") };
        assert_eq!(parse("tombolo bench ring --image x.tbi").unwrap(), usual);
    }

    #[test]
    fn moved_reports_name_their_program() {
        for line in ["tombolo bench all -o pages", "tombolo bench bulk --output pages"] {
            let error = Arguments::try_parse_from(line.split(' ')).unwrap_err().to_string();
            assert!(error.contains("`make results` writes pages"), "{line}: {error}");
        }
        let line = "tombolo bench report docs/results/a.json -o docs/results";
        let Command::Bench(options) = Arguments::try_parse_from(line.split(' ')).unwrap().command;
        let BenchCommand::Report(options) = options.command else { unreachable!("`bench report`") };
        let error = suite::run_report(&options).unwrap_err();
        assert_eq!(error.status(), 2);
        assert!(error.hint().is_some_and(|hint| hint.contains("`make results`")));
    }

    #[test]
    fn numbers_have_bounds() {
        let options =
            parse("tombolo bench ring --image x.tbi --on a,b --slices 3 --slice-ms 7 --no-pin").unwrap();
        assert_eq!((options.nodes.len(), options.schedule.slices, options.pin), (2, 3, false));
        assert_eq!(options.schedule.slice, Duration::from_millis(7));
        for wrong in
            ["--slices 0", "--slice-ms 0", "--slots x", "--slots 3", "--slots 131072", "--slot-bytes 50"]
        {
            assert!(parse(&format!("tombolo bench ring --image x.tbi {wrong}")).is_err(), "{wrong}");
        }
    }
}
