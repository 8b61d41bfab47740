//! Distribution of response times with and without a dedicated processor and real-time priority, idle and
//! under load: `tombolo bench latency`.
//!
//! In Popcorn, messages took 56 µs on average, with a standard deviation of 96 µs, when the threads that
//! handled them had no priority, and 29 µs with a deviation of 5 µs when they had one (Saya, "Efficient
//! inter-kernel communication in a heterogeneous multikernel operating system", table 2.4). This benchmark
//! measures the same between two processes on one host, each of which sleeps between messages.

mod report;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo::latency::{LatencyOptions, Scheduling};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, MemoryChannel, shm};

use crate::cpus;
use crate::host::Host;
use report::Histogram;
pub use report::{Distribution, Report, Row};

/// Timeout for the other side. Under load and without a priority, it may have to wait for long.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Between two round trips: messages that come now and then, as requests do.
const ROUND_TRIP_PAUSE: Duration = Duration::from_micros(100);

/// Real-time priority of prioritised threads, as in Popcorn.
pub const PRIORITY: u8 = 10;

/// Error that prevented a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than two processors are allowed, and each side needs one.
    #[error(
        "measuring takes two processors, and this program may use {allowed}: allow it more (taskset, cgroups)"
    )]
    TooFewCpus {
        /// Number of allowed processors.
        allowed: usize,
    },
    /// The kernel refused to report or set processor affinity.
    #[error("cannot choose processors: {0}")]
    Cpus(std::io::Error),
    /// The peer process was called with invalid arguments.
    #[error("the other process of the measurement was called with something else than it should be")]
    Arguments,
    /// A thread lacks the permission for its scheduling.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
    /// A channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Duration of each row.
    pub length: Duration,
    /// Arguments that make this program call [`serve_peer`], whose own argument is appended.
    pub peer_arguments: Vec<OsString>,
}

/// Pinning and priority of the threads on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ThreadSetup {
    pinned: bool,
    prioritised: bool,
}

impl ThreadSetup {
    const ALL: [ThreadSetup; 4] = [
        ThreadSetup { pinned: false, prioritised: false },
        ThreadSetup { pinned: true, prioritised: false },
        ThreadSetup { pinned: false, prioritised: true },
        ThreadSetup { pinned: true, prioritised: true },
    ];

    fn name(self) -> &'static str {
        match (self.pinned, self.prioritised) {
            (false, false) => "neither",
            (true, false) => "pinned",
            (false, true) => "priority",
            (true, true) => "pinned, priority",
        }
    }

    fn options(self, cpu: usize) -> LatencyOptions {
        let mut options = LatencyOptions::default();
        if self.pinned {
            options = options.cpus([cpu]);
        }
        if self.prioritised {
            options = options.scheduling(Scheduling::Fifo(PRIORITY));
        }
        options
    }
}

/// Peer process, killed when dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Threads that load all processors until dropped.
struct Load<'scope> {
    stop: &'scope AtomicBool,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Measures every thread setup, idle and under load. `progress` is called with a description of each
/// measurement.
///
/// # Errors
/// The error that ended the measurement. A setup for which this user lacks the permission is a row, not
/// an error.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let allowed = cpus::allowed().map_err(Error::Cpus)?;
    let pair = cpus::pair(&allowed).ok_or(Error::TooFewCpus { allowed: allowed.len() })?;
    let mut rows = Vec::new();
    for loaded in [false, true] {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _load = Load { stop: &stop };
            // Twice as many threads as processors, so that each processor is shared.
            for _ in 0..if loaded { 2 * allowed.len() } else { 0 } {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            for thread_setup in ThreadSetup::ALL {
                let name = if loaded { "under load" } else { "idle" };
                progress(&format!("{name}, {}", thread_setup.name()));
                rows.push(measure(options, thread_setup, loaded, pair)?);
            }
            Ok::<(), Error>(())
        })?;
    }
    Ok(Report { host: Host::describe(), priority: PRIORITY, rows })
}

fn measure(
    options: &Options,
    thread_setup: ThreadSetup,
    loaded: bool,
    (cpu, peer_cpu): (usize, usize),
) -> Result<Row, Error> {
    let row = |times| Row { treatment: thread_setup.name().to_owned(), loaded, times };
    let (ours, theirs) = socket::pair(SocketKind::Stream)?;
    let peer = start(&options.peer_arguments, thread_setup, peer_cpu, theirs)?;
    let placed = match thread_setup.options(cpu).apply() {
        Err(error @ tombolo::Error::Scheduling { .. }) => return Ok(row(Err(error.to_string()))),
        placed => placed?,
    };
    let mut channel = shm::connect(ours, hello(), Deadline::after(STALL_TIMEOUT))?;
    let mut times = Histogram::new();
    let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
    // Warm-up rounds for caches and processors.
    for _ in 0..50 {
        round_trip(&mut channel, &mut spin, &mut buffer)?;
    }
    let deadline = Deadline::after(options.length);
    while !deadline.passed() {
        std::thread::sleep(ROUND_TRIP_PAUSE);
        let start_ns = now_ns();
        round_trip(&mut channel, &mut spin, &mut buffer)?;
        times.add(now_ns() - start_ns);
    }
    drop((placed, peer));
    Ok(row(Ok(times.distribution())))
}

fn round_trip(channel: &mut MemoryChannel, spin: &mut Spin, buffer: &mut Vec<u8>) -> Result<(), Error> {
    wait::send(channel, spin, &[0; 48], STALL_TIMEOUT)?;
    wait::recv_into(channel, spin, buffer, STALL_TIMEOUT)?;
    Ok(())
}

fn hello() -> Hello {
    Hello::new(ChannelConfig::default(), 0, None)
}

fn start(
    arguments: &[OsString],
    thread_setup: ThreadSetup,
    cpu: usize,
    socket: OwnedFd,
) -> Result<Peer, Error> {
    let failed = |error: std::io::Error| OsError::from_io("start the other process", &error);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    let pinned = if thread_setup.pinned { cpu.to_string() } else { "any".to_owned() };
    let prioritised = if thread_setup.prioritised { "first" } else { "fair" };
    command.args(arguments).arg(format!("{pinned},{prioritised}"));
    command.stdin(Stdio::from(socket)).stdout(Stdio::null());
    Ok(Peer(command.spawn().map_err(failed)?))
}

/// Runs the peer process: echoes the messages of the channel that `socket` carries, until it closes.
///
/// # Errors
/// The error that ended the measurement.
pub fn serve_peer(thread_setup: &str, socket: impl AsFd) -> Result<(), Error> {
    let (pinned, prioritised) = thread_setup.split_once(',').ok_or(Error::Arguments)?;
    let thread_setup = ThreadSetup { pinned: pinned != "any", prioritised: prioritised == "first" };
    let cpu = if thread_setup.pinned { pinned.parse().map_err(|_| Error::Arguments)? } else { 0 };
    let socket = socket.as_fd().try_clone_to_owned();
    let socket = socket.map_err(|error| OsError::from_io("use the socket of a channel", &error))?;
    let _placed = match thread_setup.options(cpu).apply() {
        // The other side fails in the same way and reports the error.
        Err(tombolo::Error::Scheduling { .. }) => return Ok(()),
        placed => placed?,
    };
    let mut channel = shm::accept(socket, hello(), Deadline::after(STALL_TIMEOUT))?;
    let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
    loop {
        match wait::recv_into(&mut channel, &mut spin, &mut buffer, STALL_TIMEOUT) {
            Ok(_) => wait::send(&mut channel, &mut spin, &buffer, STALL_TIMEOUT)?,
            Err(ChannelError::Closed | ChannelError::PeerDied) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
