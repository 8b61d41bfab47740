//! What waiting for one busy channel costs beside many idle ones: `tombolo bench waitset`.
//!
//! Two processes of this host: one sends on one channel of many, the other waits for all of them. Measured is
//! the [`WaitSet`](tombolo_transport::WaitSet) over real channels and, over channels that are no more than a
//! word, each design that it was chosen from.

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

/// How long the other side may say nothing: nothing that lives stalls for so long.
const STALL: Duration = Duration::from_secs(20);

/// How long the side that waits is left alone before it is woken.
const REST: Duration = Duration::from_micros(150);

/// Descriptors that a process has besides those of the channels.
const OTHER_FILES: u64 = 64;

/// How the side that waits learns on which channel something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// The waitset, over real channels: armed unless hot.
    Channels,
    /// A bell for each channel, in one `epoll`; looked at are those that rang.
    Armed,
    /// A two-level bitmap in shared memory, set with atomic read-modify-writes; one bell.
    Bitmap,
    /// A ring of the numbers of channels that are no longer empty, in shared memory; one bell.
    Ids,
    /// All are looked at; one bell.
    Scan,
}

impl Design {
    /// All of them, the real one first.
    pub const ALL: [Design; 5] = [Design::Channels, Design::Armed, Design::Bitmap, Design::Ids, Design::Scan];

    /// Its name in reports.
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

/// The reason why something was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A channel takes a descriptor on each side.
    #[error(
        "{channels} channels take {needed} open files and this program may have {allowed}: raise the limit \
         (`ulimit -n`), or measure fewer with --idle"
    )]
    TooFewFiles {
        /// How many channels.
        channels: usize,
        /// What they take.
        needed: u64,
        /// What there is.
        allowed: u64,
    },
    /// The bitmap ends.
    #[error("{channels} idle channels are more than the {most} that can be measured")]
    TooMany {
        /// How many were asked for.
        channels: usize,
        /// How many there may be.
        most: usize,
    },
    /// Two sides that poll need a processor each.
    #[error(
        "measuring takes two processors, and this program may use {allowed}: allow it more (taskset, cgroups)"
    )]
    TooFewCpus {
        /// The number of allowed processors.
        allowed: usize,
    },
    /// The kernel refused something about processors.
    #[error("cannot choose processors: {0}")]
    Cpus(std::io::Error),
    /// The other process has ended.
    #[error("the other process of the measurement has ended")]
    PeerLost,
    /// The other side does not answer.
    #[error("the other side has not answered for {waited:?}")]
    Stalled {
        /// The length of the time.
        waited: Duration,
    },
    /// A channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A channel has no room, or has ended.
    #[error(transparent)]
    End(#[from] EndError),
    /// The operating system refused something.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl Error {
    /// The other process has no socket to be told over.
    #[must_use]
    pub fn of_io(error: std::io::Error) -> Error {
        Error::Os(OsError::from_io("take orders on the standard input", &error))
    }
}

/// What to measure, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Numbers of idle channels.
    pub idle: Vec<usize>,
    /// How long each part may take.
    pub slice: Duration,
    /// The arguments with which this program calls [`serve_peer`].
    pub peer_arguments: Vec<OsString>,
}

impl Options {
    /// 1 to 10,000 idle channels, half a second each.
    #[must_use]
    pub fn new(peer_arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Options {
        Options {
            idle: vec![1, 10, 100, 1_000, 10_000],
            slice: Duration::from_millis(500),
            peer_arguments: peer_arguments.into_iter().map(Into::into).collect(),
        }
    }
}

/// The other process; ended when dropped.
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

/// Lets this process have as many open files as it may.
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

/// Measures every design with each number of idle channels. `progress` is called with what is being measured.
///
/// # Errors
/// The error that ended the measurement.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    if let Some(channels) = options.idle.iter().copied().find(|idle| *idle >= mailbox::MOST) {
        return Err(Error::TooMany { channels, most: mailbox::MOST - 1 });
    }
    raise_files(options.idle.iter().max().copied().unwrap_or(0) + 1)?;
    let (cpu, _) = pair()?;
    let mut rows = Vec::new();
    for idle in &options.idle {
        for design in Design::ALL {
            progress(&format!("{} beside {idle} idle channels", design.name()));
            // A process for each, so that none is measured in what another left.
            let peer = Peer::start(&options.peer_arguments)?;
            // Only now, for it inherits the processors that this one may use.
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

/// The side that waits.
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

/// Does more and more rounds until they take as long as they may.
fn repeat(slice: Duration, mut part: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
    let deadline = Deadline::after(slice);
    let mut rounds = 8;
    while !deadline.passed() {
        part(rounds)?;
        rounds = (rounds * 2).min(512);
    }
    Ok(())
}

/// The side that sends.
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

/// The other process: executes the orders on `control`, until that is closed.
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
                    std::thread::sleep(REST);
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
