//! Cost of waiting for one busy channel among many idle ones: `tombolo bench waitset`.
//!
//! Two processes of this host: one sends on one of many channels, the other waits for all of them. The
//! benchmark measures the [`WaitSet`](tombolo_transport::WaitSet) with real channels and, with channels that
//! are only a word each, the designs among which it was chosen.

mod channels;
mod control;
mod mailbox;
mod report;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::{ChannelError, EndError};

use crate::cpus::{self, Pinned};
use crate::host::Host;
use control::Order;
pub use report::{Percentiles, Report, Row};

/// Timeout for the other side: no running process stalls for this long.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause before the waiting side is woken.
const WAKE_PAUSE: Duration = Duration::from_micros(150);

/// Number of descriptors that a process needs besides those of the channels.
const OTHER_FILES: u64 = 64;

/// Mechanism by which the waiting side learns which channel has activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// The waitset with real channels: armed unless hot.
    Channels,
    /// A doorbell per channel in one `epoll`; only channels that rang are checked.
    Armed,
    /// A two-level bitmap in shared memory, set with atomic read-modify-writes; one doorbell.
    Bitmap,
    /// A ring with the numbers of channels that became non-empty, in shared memory; one doorbell.
    Ids,
    /// All channels are checked; one doorbell.
    Scan,
}

impl Design {
    /// All designs, the real waitset first.
    pub const ALL: [Design; 5] = [Design::Channels, Design::Armed, Design::Bitmap, Design::Ids, Design::Scan];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Design::Channels => "waitset",
            Design::Armed => "armed words",
            Design::Bitmap => "bitmap",
            Design::Ids => "ring of ids",
            Design::Scan => "scan",
        }
    }

    fn number(self) -> u64 {
        Design::ALL.iter().position(|design| *design == self).unwrap_or(0) as u64
    }

    fn from_number(number: u64) -> Option<Design> {
        Design::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Error that prevented a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The limit of open files is too low: a channel takes a descriptor on each side.
    #[error(
        "{channels} channels take {needed} open files and this program may have {allowed}: raise the limit \
         (`ulimit -n`), or measure fewer with --idle"
    )]
    TooFewFiles {
        /// Number of channels requested.
        channels: usize,
        /// Number of descriptors that they need.
        needed: u64,
        /// Number of descriptors allowed.
        allowed: u64,
    },
    /// The number of channels exceeds the bitmap.
    #[error("{channels} idle channels are more than the {most} that can be measured")]
    TooMany {
        /// Number of idle channels requested.
        channels: usize,
        /// Maximum number of idle channels.
        most: usize,
    },
    /// Fewer than two processors are allowed, and each polling side needs one.
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
    /// The peer process exited during the measurement.
    #[error("the other process of the measurement has ended")]
    PeerLost,
    /// The other side did not answer in time.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// Time waited without an answer.
        waited: Duration,
    },
    /// A channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A channel is full or closed.
    #[error(transparent)]
    End(#[from] EndError),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl Error {
    /// Creates the error of a standard input that is not a control socket.
    #[must_use]
    pub fn of_io(error: std::io::Error) -> Error {
        Error::Os(OsError::from_io("take orders on the standard input", &error))
    }
}

/// Options of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Numbers of idle channels to measure.
    pub idle: Vec<usize>,
    /// Duration of each part.
    pub slice: Duration,
    /// Arguments that make this program call [`serve_peer`].
    pub peer_arguments: Vec<OsString>,
}

impl Options {
    /// Returns options for 1 to 10,000 idle channels, half a second each.
    #[must_use]
    pub fn new(peer_arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Options {
        Options {
            idle: vec![1, 10, 100, 1_000, 10_000],
            slice: Duration::from_millis(500),
            peer_arguments: peer_arguments.into_iter().map(Into::into).collect(),
        }
    }
}

/// Peer process, killed when dropped.
struct Peer {
    child: Child,
    control: OwnedFd,
}

impl Peer {
    fn start(arguments: &[OsString]) -> Result<Peer, Error> {
        let (ours, theirs) = socket::pair(SocketKind::Packet)?;
        let io = |error: &std::io::Error| OsError::from_io("start the other process", error);
        let program = std::env::current_exe().map_err(|error| io(&error))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        Ok(Peer { child: command.spawn().map_err(|error| io(&error))?, control: ours })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises this process's limit of open files to the maximum.
fn raise_files(channels: usize) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let needed = channels as u64 + OTHER_FILES;
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    if needed > allowed {
        return Err(Error::TooFewFiles { channels, needed, allowed });
    }
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)
            .map_err(|errno| OsError::new("raise the limit of open files", errno))?;
    }
    Ok(())
}

/// Measures every design with each number of idle channels. `progress` is called with a description of each
/// measurement.
///
/// # Errors
/// The error that ended the measurement.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    if let Some(channels) = options.idle.iter().copied().find(|idle| *idle >= mailbox::MAX_CHANNELS) {
        return Err(Error::TooMany { channels, most: mailbox::MAX_CHANNELS - 1 });
    }
    raise_files(options.idle.iter().max().copied().unwrap_or(0) + 1)?;
    let (cpu, _) = pair()?;
    let mut rows = Vec::new();
    for idle in &options.idle {
        for design in Design::ALL {
            progress(&format!("{} beside {idle} idle channels", design.name()));
            // A new process for each row, so that no row is affected by the previous one.
            let peer = Peer::start(&options.peer_arguments)?;
            // Pins only now, because the peer inherits the affinity of this process.
            let _pinned = Pinned::to(cpu).map_err(Error::Cpus)?;
            rows.push(measure(&peer, design, *idle, options.slice)?);
        }
    }
    Ok(Report::new(Host::describe(), rows))
}

fn pair() -> Result<(usize, usize), Error> {
    let allowed = cpus::allowed().map_err(Error::Cpus)?;
    cpus::pair(&allowed).ok_or(Error::TooFewCpus { allowed: allowed.len() })
}

/// Waiting side of any design.
enum Receiver {
    Mailbox(mailbox::Receiver),
    Channels(channels::Receiver),
}

impl Receiver {
    fn wait(&mut self, asleep: bool) -> Result<u64, Error> {
        match self {
            Receiver::Mailbox(receiver) => receiver.wait(asleep),
            Receiver::Channels(receiver) => receiver.wait(asleep),
        }
    }

    fn answer(&mut self) -> Result<(), Error> {
        match self {
            Receiver::Mailbox(receiver) => {
                receiver.answer();
                Ok(())
            }
            Receiver::Channels(receiver) => receiver.answer(),
        }
    }
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn measure(peer: &Peer, design: Design, idle: usize, slice: Duration) -> Result<Row, Error> {
    let count = idle + 1;
    let open = Order::Open { design, count };
    let mut open_ns = None;
    let mut receiver = if design == Design::Channels {
        control::order(&peer.control, open, &[])?;
        let receiver = channels::Receiver::new(count, &peer.control)?;
        open_ns = Some(receiver.open_ns);
        Receiver::Channels(receiver)
    } else {
        let (receiver, theirs) = mailbox::Receiver::new(design, count)?;
        control::order(&peer.control, open, &theirs.each_ref().map(AsFd::as_fd))?;
        Receiver::Mailbox(receiver)
    };
    let waited_before_ns = cpus::waited_ns();
    let mut wakes = Vec::new();
    let cpu_before_ns = cpu_ns();
    repeat(slice, |rounds| {
        control::order(&peer.control, Order::Wake { rounds }, &[])?;
        for _ in 0..rounds {
            let sent_ns = receiver.wait(true)?;
            wakes.push(now_ns().saturating_sub(sent_ns));
            receiver.answer()?;
        }
        Ok(())
    })?;
    let cpu_per_wake_ns = (cpu_ns() - cpu_before_ns) as f64 / wakes.len().max(1) as f64;
    let mut echoes = Vec::new();
    repeat(slice, |rounds| {
        control::order(&peer.control, Order::Echo { rounds }, &[])?;
        receiver.wait(false)?;
        for _ in 1..rounds {
            let start_ns = now_ns();
            receiver.answer()?;
            receiver.wait(false)?;
            echoes.push(now_ns() - start_ns);
        }
        receiver.answer()
    })?;
    let waited_ns = cpus::waited_ns().zip(waited_before_ns).map(|(now, before)| now - before);
    Ok(Row {
        design: design.name().to_owned(),
        idle,
        wake_ns: Percentiles::of(wakes),
        cpu_per_wake_ns,
        echo_ns: Percentiles::of(echoes),
        open_ns,
        waited_share: waited_ns.unwrap_or(0) as f64 / (2.0 * slice.as_nanos() as f64),
    })
}

/// Runs a growing number of rounds until they fill the slice.
fn repeat(slice: Duration, mut part: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
    let deadline = Deadline::after(slice);
    let mut rounds = 8;
    while !deadline.passed() {
        part(rounds)?;
        rounds = (rounds * 2).min(512);
    }
    Ok(())
}

/// Sending side of any design.
enum Sender {
    Mailbox(mailbox::Sender),
    Channels(channels::Sender),
}

impl Sender {
    fn send(&mut self) -> Result<(), Error> {
        match self {
            Sender::Mailbox(sender) => sender.send(now_ns()),
            Sender::Channels(sender) => sender.send(now_ns()),
        }
    }

    fn await_answer(&mut self) -> Result<(), Error> {
        match self {
            Sender::Mailbox(sender) => sender.await_answer(),
            Sender::Channels(sender) => sender.await_answer(),
        }
    }
}

/// Runs the peer process: executes the orders on `control` until it is closed.
///
/// # Errors
/// The error that ended the measurement.
pub fn serve_peer(control: &OwnedFd) -> Result<(), Error> {
    let (_, cpu) = pair()?;
    let _pinned = Pinned::to(cpu).map_err(Error::Cpus)?;
    let mut sender = None;
    while let Some((order, fds)) = control::next_order(control)? {
        match (order, &mut sender) {
            (Order::Open { design: Design::Channels, count }, _) => {
                raise_files(count)?;
                sender = Some(Sender::Channels(channels::Sender::new(count, control)?));
            }
            (Order::Open { design, count }, _) => {
                let [file, bell] = fds.try_into().map_err(|_| Error::PeerLost)?;
                sender = Some(Sender::Mailbox(mailbox::Sender::new(design, count, &file, bell)?));
            }
            (Order::Wake { rounds }, Some(sender)) => {
                for _ in 0..rounds {
                    std::thread::sleep(WAKE_PAUSE);
                    sender.send()?;
                    sender.await_answer()?;
                }
            }
            (Order::Echo { rounds }, Some(sender)) => {
                for _ in 0..rounds {
                    sender.send()?;
                    sender.await_answer()?;
                }
            }
            (_, None) => return Err(Error::PeerLost),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_named() {
        let error = raise_files(1 << 60).expect_err("above every limit");
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        raise_files(1).expect("everybody may have as many");
    }
}
