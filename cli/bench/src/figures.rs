//! `tombolo bench memory`, `compute`, `map` and `boot`: figures that nodes measure themselves, beside those
//! of the thesis; and `pages`, `messages` and `link`, which two nodes measure together.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tombolo::Domain;
use tombolo_bench::figures::{boot, compute, gather, link, map, memory, messages, pages};
use tombolo_cli_common::findings::{Finding, FindingsFile, HINT, Part};
use tombolo_cli_common::images::chosen_image;
use tombolo_machine::FoundCost;
use tombolo_platform::memory::create_sealed as memory_file;

use super::progress::with_progress;
use super::report::show;
use super::temporary_machine::TemporaryMachine;
use crate::context::Context;
use crate::failure::Failure;

/// Options that these commands share.
#[derive(Args, Debug)]
struct Common {
    /// Bring up the machine of this file for the measurement, and take it down afterwards
    #[arg(long, value_name = "FILE")]
    up: Option<PathBuf>,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// The image of the measuring program [default: the one of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

impl Common {
    fn image(&self) -> Result<PathBuf, Failure> {
        chosen_image(self.image.as_deref(), "bench")
    }

    /// Measures on the machine that is up, that of `--up`, or this host.
    fn measure<T>(
        &self,
        context: &Context,
        run: impl FnOnce(&Domain, &Path, &mut dyn FnMut(&str)) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let image = self.image()?;
        let (_machine, domain) = match &self.up {
            Some(file) => {
                let machine = TemporaryMachine::up(file)?;
                let domain = Domain::attach_to_machine(machine.name())?;
                (Some(machine), domain)
            }
            None => (None, context.attach()?),
        };
        with_progress(context, |progress| run(&domain, &image, progress))
    }
}

/// Measures latency and rate of every memory that each node reaches
///
/// Each node follows a chain of cache lines, in which each load needs the one before: a random chain of 8
/// KiB, which the first cache holds; a random one of three times the last cache of the host, or as much as
/// there is room for; and a sequential one of the same length. Then it reads and writes all of that memory.
/// It does so in its own memory and in every window that it reaches: the host and foreign programs in those
/// of all virtual machines, a virtual machine in its own and in those that it shares. Chains of an emulated
/// processor say what its emulator costs.
///
/// The rate of each window is stored as a record of the machine, link.costs/HOST/NODE, which `tombolo place`
/// uses. The JSON has, for each of `rows`: node, memory, bytes, small_ns, random_ns, sequential_ns,
/// read_bytes_per_s and write_bytes_per_s; and the `thesis`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench memory
  tombolo bench memory --up machines/default.toml --on host,arm0
  tombolo bench memory --json | jq '.rows[] | {node, memory, random_ns}'")]
pub(super) struct MemoryOptions {
    #[command(flatten)]
    common: Common,

    /// The nodes that measure [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Length of the long chains, in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    mib: Option<u64>,

    /// Time for each figure, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
}

pub(super) fn memory(context: &Context, options: &MemoryOptions) -> Result<u8, Failure> {
    let bench = memory::Options {
        nodes: options.on.clone(),
        bytes: options.mib.map(|mib| mib << 20),
        slice: Duration::from_millis(options.slice_ms),
    };
    let report = options
        .common
        .measure(context, |domain, image, progress| Ok(memory::run((domain, image), &bench, progress)?))?;
    show(&report, options.common.json)
}

/// Measures the links of the machine: round trips by length, and the rate of long messages
///
/// For every two nodes that have a link, a program on each measures round trips of 8 B to 64 KiB, medians and
/// 99th percentiles, and messages of 64 KiB one after another in both directions. Beside them is what the
/// memory under the channel takes: a ping-pong of two bare cache lines, and copies of 64 KiB. Boards are left
/// out: `tombolo bench rcce` measures them.
///
/// With --write, what was measured is written into the machine file as `[[found]]` tables, beside which
/// everything else stays as it is. From the next `tombolo up` on the figures are facts of the links, which
/// `near` and `message-round-trip` of `tombolo place` use.
///
/// The JSON has, for each of `links`: nodes, transport, limit with p50_ns and p99_ns, round_trips with bytes,
/// p50_ns and p99_ns, bytes_per_s, bytes_per_s_back and limit_bytes_per_s.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench link                   every link of the machine that is up
  tombolo bench link arm0              the links of one node
  tombolo bench link --write lab.toml  and keep the figures in the machine file
  tombolo bench link --json | jq '.links[] | {nodes, p50: .round_trips[0].p50_ns}'")]
pub(super) struct LinkOptions {
    #[command(flatten)]
    common: Common,

    /// Links of these nodes alone
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Write the findings into this machine file, which must describe the machine that is up
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Do not pin programs of the host's kernel to processors
    #[arg(long)]
    no_pin: bool,

    /// Time for each figure, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
}

pub(super) fn link(context: &Context, options: &LinkOptions) -> Result<u8, Failure> {
    let bench = link::Options {
        nodes: options.nodes.clone(),
        slice: Duration::from_millis(options.slice_ms),
        pin: !options.no_pin,
    };
    let (report, file) = options.common.measure(context, |domain, image, progress| {
        let write = options.write.as_deref();
        let file = write.map(|path| FindingsFile::open(path, domain.machine_name())).transpose()?;
        Ok((link::run((domain, image), &bench, progress)?, file))
    })?;
    let status = show(&report, options.common.json)?;
    let found: Vec<Finding> = report.links.iter().filter_map(finding).collect();
    match &file {
        Some(file) => {
            file.write(&found)?;
            context.info(file.written_message(found.len()));
        }
        None if !options.common.json && !found.is_empty() => context.info(HINT),
        None => {}
    }
    Ok(status)
}

/// Converts a measured link to a finding for the machine file.
fn finding(link: &link::Link) -> Option<Finding> {
    let whole = |value: f64| (value.round() as u64).max(1);
    let one_way = |it: &link::RoundTrip| (it.bytes as u64, whole(it.times.p50_ns / 2.0));
    let cost = FoundCost {
        round_trip_ns: whole(link.round_trips.first()?.times.p50_ns),
        latency_ns: link.round_trips.iter().map(one_way).collect(),
        bytes_per_s: whole(link.bytes_per_s),
        bytes_per_s_back: whole(link.bytes_per_s_back),
    };
    Some(Finding { nodes: link.nodes.clone(), transport: link.transport_kind()?, part: Part::Cost(cost) })
}

/// Measures additions per second of one processor of each node
///
/// Eight independent chains of additions of 32 and 64 bits, in registers: of single numbers, and of vectors
/// where the processor has any (SSE2, AVX2 or AVX-512; Advanced SIMD), each lane counted.
///
/// The JSON has, for each of `rows`: node, isa, add32_per_s, add64_per_s, vector32_per_s and vector64_per_s;
/// and the `thesis`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench compute
  tombolo bench compute --on arm0 --json | jq '.rows[0].add64_per_s'")]
pub(super) struct ComputeOptions {
    #[command(flatten)]
    common: Common,

    /// The nodes that measure [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Time for each figure, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
}

pub(super) fn compute(context: &Context, options: &ComputeOptions) -> Result<u8, Failure> {
    let slice = Duration::from_millis(options.slice_ms);
    let report = options.common.measure(context, |domain, image, progress| {
        Ok(compute::run((domain, image), &options.on, slice, progress)?)
    })?;
    show(&report, options.common.json)
}

/// Measures making, mapping and touching regions on the host, with other domains that do the same
///
/// Each domain makes a region, maps it, touches every page and gives it back, again and again, while 0, 1 or
/// 39 others do the same. Regions have 4 KiB and 32 MiB.
///
/// The JSON has, for each of `rows`: bytes, domains, create_ns, map_ns, touch_ns and unmap_ns; and what the
/// `thesis` says.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench map
  tombolo bench map --domains 1,8 --rounds 100
  tombolo bench map --json | jq '.rows[] | {bytes, domains, map_ns}'")]
pub(super) struct MapOptions {
    #[command(flatten)]
    common: Common,

    /// Numbers of domains at once [default: 1,2,40]
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    domains: Vec<u32>,

    /// Regions that each domain maps, one after another
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
}

pub(super) fn map(context: &Context, options: &MapOptions) -> Result<u8, Failure> {
    let domains = if options.domains.is_empty() { map::DOMAINS.to_vec() } else { options.domains.clone() };
    let bench = map::Options { domains, lengths: map::LENGTHS.to_vec(), rounds: options.rounds };
    let report = options
        .common
        .measure(context, |domain, image, progress| Ok(map::run((domain, image), &bench, progress)?))?;
    show(&report, options.common.json)
}

/// Measures coherent pages between this host and each node
///
/// Two ranks, one on the host and one on the node, have a range of pages in common. Rank 0 measures faults:
/// of reading and of writing a page that rank 1 has written, of writing a page that both have read, with the
/// home of the page at either; turns of two that write to one page; and both at once, with sequential and
/// with release consistency. Beside them, what a fault cannot do
/// without: a bare fault that a thread of the program resolves, a round trip of a channel to a receiver that
/// sleeps, and the copy of a page. The target for read faults is 3 times the sum of these.
///
/// The JSON has, for each of `pairs`: node, figures by name in ns, read_ratio, read_ratio_awake
/// and met; and the `target`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench pages
  tombolo bench pages --up machines/default.toml --on host,arm0
  tombolo bench pages --json | jq '.pairs[] | {node, read_ratio}'")]
pub(super) struct PagesOptions {
    #[command(flatten)]
    common: Common,

    /// The nodes of rank 1 [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Faults of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
}

pub(super) fn pages(context: &Context, options: &PagesOptions) -> Result<u8, Failure> {
    let report = options.common.measure(context, |domain, image, progress| {
        Ok(pages::run((domain, image), (&options.on, options.rounds), progress)?)
    })?;
    show(&report, options.common.json)
}

/// Measures messages between this host and each node, as Popcorn's message layer was measured
///
/// Two ranks, one on the host and one on the node. Round trips of 4 KiB, by direct stores into the rings of a
/// channel and by an engine into a pool of buffers; from 4 threads that send 25 messages each at once; and of
/// many messages of 64 B to 16 KiB over 1 to 4 channels. All from the host to each node, and from each other
/// node to the host. The paper's figures are in the table.
///
/// The JSON has, for each of `pairs`: from, to, figures by name in ns or s, no_priority,
/// lengths_faster_with_channels and runs_faster_direct; and the `paper`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench messages
  tombolo bench messages --up machines/default.toml --on host,arm0
  tombolo bench messages --real-time        also with threads that go before all others
  tombolo bench messages --json | jq '.pairs[] | {from, to, mean_ns: .figures.direct_mean_ns}'")]
pub(super) struct MessagesOptions {
    #[command(flatten)]
    common: Common,

    /// The nodes at the other side [default: all that are up]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    on: Vec<String>,

    /// Messages of each run over several channels
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    messages: u32,

    /// Round trips of 4 KiB
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,

    /// Also measure round trips with both threads at real-time priority 10 (SCHED_FIFO), where permitted
    #[arg(long)]
    real_time: bool,
}

pub(super) fn messages(context: &Context, options: &MessagesOptions) -> Result<u8, Failure> {
    let MessagesOptions { messages, rounds, real_time, .. } = *options;
    let plan = messages::Plan { messages, rounds, real_time };
    let report = options.common.measure(context, |domain, image, progress| {
        Ok(messages::run((domain, image), (&options.on, plan), progress)?)
    })?;
    show(&report, options.common.json)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum BoardIsa {
    Aarch64,
    Riscv64,
}

/// Measures how long boards take to come up, by their number
///
/// Brings up machines of 1 to 64 emulated boards, one machine after another: the time until all monitors have
/// answered, and that of single boards. The slope is that of a line through all points. Boards boot at the
/// same time and compete for the processors of this host, and each takes some 50 MiB of its memory.
///
/// The JSON has, for each of `rows`: boards, all_s, median_s and last_s; slope_s and exponent; and what the
/// `thesis` says.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo bench boot
  tombolo bench boot --boards 1,2,4,8 --isa riscv64
  tombolo bench boot --json | jq .slope_s")]
pub(super) struct BootOptions {
    /// Numbers of boards
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_parser = clap::value_parser!(u32).range(1..=64))]
    boards: Vec<u32>,

    /// Their instruction set
    #[arg(long, value_name = "ISA", value_enum, default_value_t = BoardIsa::Aarch64)]
    isa: BoardIsa,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn boot(context: &Context, options: &BootOptions) -> Result<u8, Failure> {
    let isa = match options.isa {
        BoardIsa::Aarch64 => "aarch64",
        BoardIsa::Riscv64 => "riscv64",
    };
    let (rows, failed) = with_progress(context, |progress| {
        gather(
            &options.boards,
            |boards| format!("{boards} boards"),
            progress,
            |boards| boards_up(*boards, isa),
        )
    });
    let report = boot::Report::new(isa, rows, failed);
    show(&report, options.json)
}

/// Brings up a machine of `boards` boards, and takes it down.
fn boards_up(boards: u32, isa: &str) -> Result<boot::Row, Failure> {
    let name = format!("bench-boot-{}", std::process::id());
    let mut text = format!("name = \"{name}\"\n\n[[node]]\nname = \"host\"\nkind = \"host\"\n");
    for board in 0..boards {
        text += &format!("\n[[node]]\nname = \"board{board}\"\nkind = \"bare\"\nisa = \"{isa}\"\n");
    }
    // In memory, so that no file is left behind after a kill.
    let mut file = File::from(memory_file("tombolo-bench-boot", text.len() as u64)?);
    file.write_all(text.as_bytes()).map_err(Failure::system("write a machine file"))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let began = Instant::now();
    let machine = TemporaryMachine::up(Path::new(&path))?;
    let all_s = began.elapsed().as_secs_f64();
    let domain = Domain::attach_to_machine(machine.name())?;
    let nodes = domain.nodes()?;
    let mut times: Vec<f64> = nodes.iter().skip(1).map(|node| node.boot.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let of = |index: usize| times.get(index).copied().unwrap_or(0.0);
    Ok(boot::Row { boards, all_s, median_s: of(times.len() / 2), last_s: of(times.len().saturating_sub(1)) })
}
