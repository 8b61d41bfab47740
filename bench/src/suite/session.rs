//! The near side's session with a far side.

use std::os::fd::AsFd;
use std::process::{Child, Command as Program, Stdio};
use std::time::{Duration, Instant};

use tombolo_base::SharedMemory;
use tombolo_platform::OsError;
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::syscall_counter::SyscallCounter;

use super::far::{elapsed_ns, start_counting, usage};
use super::line::{Answer, Command, ControlLine};
use super::peer::{MEMORY_BYTES, Meeting, Peer, Side};
use super::work::{AnyEnd, Counted, Work};
use super::{Error, Metric};
use crate::cpus;
use crate::sample::{Clock, Samples};
use tombolo_bench_far::lines::Lines;

/// Duration of a probe of the processors' distance.
const PROBE: Duration = Duration::from_millis(3);

/// Far side, with the resources that both sides share.
pub(super) struct Session<'a> {
    peer: &'a dyn Peer,
    child: Child,
    line: ControlLine,
    name: String,
    memory: SharedMemory,
    ends: Vec<AnyEnd>,
    opened: u32,
    clock: Clock,
    watched: Option<SyscallCounter>,
}

/// Resource usage of both programs so far, and the far side's counts for the last command.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Usage {
    pub(super) elapsed_ns: u64,
    pub(super) far_cpu_ns: u64,
    /// Waiting time for a processor of each side.
    pub(super) waited_ns: [u64; 2],
    pub(super) rings: u64,
    /// System calls of the far side during the last command, if counted.
    pub(super) calls: u64,
}

/// Creates the error of an unexpected answer.
fn unexpected(answer: Answer) -> Error {
    let what = match answer {
        Answer::Failed { why } => format!("failed: {why}"),
        answer => format!("answered something else: {answer:?}"),
    };
    Error::Far { what }
}

impl<'a> Session<'a> {
    /// Starts `program` as the far side.
    pub(super) fn start(peer: &'a dyn Peer, program: &[String], clock: Clock) -> Result<Self, Error> {
        let [path, arguments @ ..] = program else {
            return Err(Error::Far { what: "has no program".into() });
        };
        let (line, far) = ControlLine::pair()?;
        let file = create_sealed("tombolo-bench", MEMORY_BYTES as u64)?;
        let memory = map(&file, 0, MEMORY_BYTES)?;
        let child = Program::new(path).args(arguments).stdin(Stdio::from(far)).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| OsError::from_io(format!("start {path}"), &error))?;
        let name = format!("tombolo-bench-{}-{}", std::process::id(), child.id());
        let session =
            Session { peer, child, line, name, memory, ends: Vec::new(), opened: 0, clock, watched: None };
        let meet = Command::Meet { peer: peer.name().to_owned(), meeting: session.name.clone() };
        session.line.send_message_with(&meet, &[file.as_fd()])?;
        session.answer()?;
        Ok(session)
    }

    fn answer(&self) -> Result<Usage, Error> {
        let Answer::Done { waited_ns: near_ns, rings: near_rings, .. } = usage(0, 0, &self.ends) else {
            return Err(Error::Unsupported);
        };
        match self.line.recv_message()? {
            Answer::Done { elapsed_ns, cpu_ns, waited_ns, rings, calls } => Ok(Usage {
                elapsed_ns,
                far_cpu_ns: cpu_ns,
                waited_ns: [near_ns, waited_ns],
                rings: near_rings + rings,
                calls,
            }),
            answer => Err(unexpected(answer)),
        }
    }

    /// Returns the resource usage of both programs so far, except memory.
    pub(super) fn usage(&self) -> Result<Usage, Error> {
        self.line.send_message(&Command::Usage)?;
        self.answer()
    }

    /// Returns the memory usage of both programs, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64, Error> {
        self.line.send_message(&Command::Weigh)?;
        match self.line.recv_message()? {
            Answer::Weighed { resident_bytes } => Ok(resident_bytes + super::far::resident_bytes()),
            answer => Err(unexpected(answer)),
        }
    }

    /// Pins each side to a processor.
    pub(super) fn pin(&self, near: usize, far: usize) -> Result<(), Error> {
        cpus::pin(near).map_err(|error| OsError::from_io(format!("stay on processor {near}"), &error))?;
        self.line.send_message(&Command::Pin { cpu: far })?;
        self.answer()?;
        Ok(())
    }

    /// Opens another pair of ends and returns the nanoseconds until both are open.
    pub(super) fn open(&mut self, metric: Metric) -> Result<u64, Error> {
        // Counts all ends ever opened, so that names are unique.
        let index = self.opened;
        self.opened += 1;
        self.line.send_message(&Command::Open { index, metric })?;
        let name = format!("{}-{index}", self.name);
        let meeting = Meeting { side: Side::Near, name: &name, line: &self.line, memory: &self.memory };
        let start = Instant::now();
        let end = self.peer.open(&meeting, metric)?;
        let near_ns = elapsed_ns(start);
        let far = self.answer()?;
        self.ends.push(end);
        Ok(near_ns.max(far.elapsed_ns))
    }

    /// Drops all ends.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.ends.clear();
        self.line.send_message(&Command::Close)?;
        self.answer()?;
        Ok(())
    }

    /// Samples round trips of two bare cache lines.
    pub(super) fn probe(&self) -> Result<Samples, Error> {
        self.line.send_message(&Command::Probe)?;
        let lines = Lines::new(self.memory.words())?;
        // Numbers must differ from the last one of the previous probe.
        let mut number = elapsed_ns_since_start();
        let samples = Samples::take(self.clock, PROBE, || {
            number += 1;
            lines.round_trip(number)
        })?;
        lines.stop()?;
        self.answer()?;
        Ok(samples)
    }

    /// Does some work on the last pair of ends and returns the samples and the far side's usage.
    pub(super) fn work(&mut self, work: Work) -> Result<(Samples, Usage), Error> {
        let last = self.ends.len().checked_sub(1).ok_or(Error::Unsupported)?;
        self.line.send_message(&Command::Work { index: last as u32, work })?;
        let samples = self.ends[last].lead(work, self.clock)?;
        Ok((samples, self.answer()?))
    }

    /// Does round trips of 8 bytes on the last pair of ends and returns the number of system calls per
    /// message on both sides. From the first count on, the calling thread's system calls stay counted, and
    /// thus slower, until it ends.
    pub(super) fn count_calls(&mut self, rounds: Counted) -> Result<f64, Error> {
        let last = self.ends.len().checked_sub(1).ok_or(Error::Unsupported)?;
        let watched = start_counting(&mut self.watched)?;
        self.line.send_message(&Command::Count { index: last as u32, rounds })?;
        let near = self.ends[last].count_calls(Side::Near, rounds, watched)?;
        let far = self.answer()?.calls;
        Ok((near + far) as f64 / (2 * rounds.rounds).max(1) as f64)
    }

    /// Lets the far side wait for `length`, then sends it a message.
    pub(super) fn wake_after(&mut self, length: Duration) -> Result<Usage, Error> {
        let last = self.ends.len().checked_sub(1).ok_or(Error::Unsupported)?;
        let work = Work::Singles { bytes: 8, rounds: 1 };
        self.line.send_message(&Command::Work { index: last as u32, work })?;
        std::thread::sleep(length);
        self.ends[last].lead(work, self.clock)?;
        self.answer()
    }
}

/// Returns a number that increases from probe to probe.
fn elapsed_ns_since_start() -> u64 {
    tombolo_platform::time::now_ns() >> 1
}

impl Drop for Session<'_> {
    /// Terminates the far side, even in the middle of a command.
    fn drop(&mut self) {
        self.ends.clear();
        let _ = self.line.send_message(&Command::Bye);
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if started.elapsed() > Duration::from_secs(2) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
