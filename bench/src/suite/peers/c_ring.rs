//! A ring in C between two separate processes: the cost of an ordered message without a channel around it.
//!
//! The host's C compiler compiles `bench/ring/ring.c` at the first measurement, so that the build needs none.
//! Each side of the comparison starts it pinned to its own processor, sends it commands, and sleeps
//! meanwhile.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};
use tombolo_platform::memory::create_sealed;
use tombolo_platform::syscall_counter::SyscallCounter;

use crate::sample::{BATCH, Clock, Samples};
use crate::suite::work::{AnyEnd, Counted, Runner, Work};
use crate::suite::{Error, Meeting, Metric, Peer, Side};

/// Name in tables and plots.
pub const NAME: &str = "C ring";

const SOURCE: &str = include_str!("../../../ring/ring.c");

/// Memory for one ring per direction.
const MEMORY_BYTES: u64 = 16 << 10;

/// The ring in C.
#[derive(Debug, Default)]
pub struct CRing {
    /// Compiled program, or the reason why it cannot be compiled.
    program: OnceLock<Result<OwnedFd, String>>,
}

impl CRing {
    /// Creates the peer. The program is compiled on first use.
    #[must_use]
    pub const fn new() -> Self {
        CRing { program: OnceLock::new() }
    }

    fn program(&self) -> Result<&OwnedFd, String> {
        self.program.get_or_init(|| compile(&compiler())).as_ref().map_err(Clone::clone)
    }
}

fn compiler() -> OsString {
    std::env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Compiles the program into a memory file, so that nothing is left in the file system however this program
/// ends.
fn compile(compiler: &OsString) -> Result<OwnedFd, String> {
    let program = memfd_create("tombolo-bench-c-ring", MemfdFlags::CLOEXEC)
        .map_err(|errno| format!("cannot make memory for the program: {errno}"))?;
    let path = path_of(&program);
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O3", "-x", "c", "-", "-o", &path]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(|error| {
        let name = compiler.to_string_lossy();
        format!("it takes a C compiler, and `{name}` cannot be run ({error}): install gcc, or name one in CC")
    })?;
    // If the compiler exits before reading all of its input, its status and stderr give the reason.
    let _ = running.stdin.take().map(|mut stdin| stdin.write_all(SOURCE.as_bytes()));
    let output = running.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let why =
            text.lines().find(|line| line.contains("error")).or(text.lines().next()).unwrap_or_default();
        return Err(format!("`{}` does not compile it: {why}", compiler.to_string_lossy()));
    }
    // A file that is open for writing cannot be executed (ETXTBSY).
    let file = std::fs::File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(file.into())
}

/// Returns a path by which child processes can open `file`.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

impl Peer for CRing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "bench/ring/ring.c, two processes: a ring each way of 64 slots of 64 bytes, 48 of them payload, stored 16 bytes \
         at a time and published by the control word, in order. 64 bytes take two slots. No closing, sleeping, checks of \
         the peer, or channel around it"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        let rates = [1, 32].into_iter().flat_map(|batch| [48, 64].map(|bytes| Metric::Rate { bytes, batch }));
        [48, 64].map(|bytes| Metric::RoundTrip { bytes }).into_iter().chain(rates).collect()
    }

    fn absence(&self) -> Option<String> {
        self.program().err()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        match meeting.side {
            Side::Near => {
                let program = self.program().map_err(|why| Error::of_peer(NAME, format!("start: {why}")))?;
                let memory = create_sealed("tombolo-bench-c-ring", MEMORY_BYTES)?;
                meeting.line.give_fds(&[program.as_fd(), memory.as_fd()])?;
                RingProcess::start(program, &memory, meeting.side)
            }
            Side::Far => {
                let [program, memory] = meeting.line.take_fds()?;
                RingProcess::start(&program, &memory, meeting.side)
            }
        }
        .map(AnyEnd::of_runner)
    }
}

/// This side's process of the ring.
struct RingProcess {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Time that it was runnable but not running, in nanoseconds.
    waited_ns: u64,
}

impl RingProcess {
    fn start(program: &OwnedFd, memory: &OwnedFd, side: Side) -> Result<Self, Error> {
        let role = if side == Side::Near { "near" } else { "far" };
        let mut command = Command::new(path_of(program));
        command.arg(role).arg(path_of(memory)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed("start", error))?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("start", "it has no pipes"));
        };
        let mut process = RingProcess { child, commands, answers: BufReader::new(answers), waited_ns: 0 };
        // The answer means that it has opened the memory, so the caller may close its descriptor.
        process.run("trips 48 0 0")?;
        Ok(process)
    }

    /// Runs a command and returns the time that it took, in nanoseconds.
    fn run(&mut self, command: &str) -> Result<u64, Error> {
        // A write error is ignored: the answer may have the reason why the process ended.
        let written = writeln!(self.commands, "{command}");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| failed("be heard", error))?;
        let mut words = answer.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("done"), Some(elapsed_ns), Some(waited_ns)) => {
                self.waited_ns = waited_ns.parse().map_err(|error| failed("be understood", error))?;
                elapsed_ns.parse().map_err(|error| failed("be understood", error))
            }
            (Some("failed:"), ..) => Err(failed("go on", answer.trim_start_matches("failed:").trim())),
            _ => Err(written
                .err()
                .map_or_else(|| failed("go on", "it ended"), |error| failed("be told", error))),
        }
    }

    fn read_samples(&mut self, clock: Clock, cycles: u64) -> Result<Samples, Error> {
        const TIMES: usize = BATCH as usize + 1;
        let mut samples = Samples::new();
        let mut bytes = [0; 4 * TIMES];
        for _ in 0..cycles {
            self.answers.read_exact(&mut bytes).map_err(|error| failed("be heard", error))?;
            let mut times = bytes.as_chunks::<4>().0.iter().map(|time| u64::from(u32::from_ne_bytes(*time)));
            samples.add_cycle(clock, times.next().unwrap_or(0), times);
        }
        Ok(samples)
    }
}

#[cold]
fn failed(what: &str, why: impl std::fmt::Display) -> Error {
    Error::of_peer(NAME, format!("{what}: {why}"))
}

/// Formats the command for a piece of work, the same on both sides.
fn command(work: Work) -> Result<String, Error> {
    match work {
        Work::RoundTrips { bytes, warm, cycles } => Ok(format!("trips {bytes} {warm} {cycles}")),
        Work::Stream { bytes, batch, warm, messages } => {
            Ok(format!("stream {bytes} {batch} {warm} {messages}"))
        }
        Work::Singles { .. } | Work::Transfers { .. } | Work::Bulk { .. } => Err(Error::Unsupported),
    }
}

impl Runner for RingProcess {
    fn lead(&mut self, work: Work, clock: Clock) -> Result<Samples, Error> {
        self.run(&command(work)?)?;
        match work {
            Work::RoundTrips { cycles, .. } => self.read_samples(clock, cycles),
            _ => Ok(Samples::new()),
        }
    }

    fn follow(&mut self, work: Work) -> Result<u64, Error> {
        self.run(&command(work)?)
    }

    fn rings(&self) -> u64 {
        0
    }

    fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    fn count_calls(&mut self, _: Side, _: Counted, _: &SyscallCounter) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }
}

impl Drop for RingProcess {
    fn drop(&mut self) {
        // It may be waiting for the other side.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_compiler_is_reported() {
        let why = compile(&"no-such-compiler".into()).expect_err("there is no such compiler");
        assert!(why.contains("`no-such-compiler` cannot be run") && why.contains("CC"), "{why}");
        let why = compile(&"false".into()).expect_err("it compiles nothing");
        assert!(why.contains("`false` does not compile it"), "{why}");
    }

    #[test]
    fn sides_exchange_and_check_messages_of_both_lengths() {
        let Ok(program) = compile(&compiler()) else { return };
        let memory = create_sealed("c-ring-test", MEMORY_BYTES).expect("memory");
        let start = |side| RingProcess::start(&program, &memory, side).expect("it starts");
        let (mut near, mut far) = (start(Side::Near), start(Side::Far));
        for bytes in [48, 64] {
            let works = [
                Work::RoundTrips { bytes, warm: 3, cycles: 5 },
                Work::Stream { bytes, batch: 1, warm: 7, messages: 1000 },
                Work::Stream { bytes, batch: 32, warm: 7, messages: 1000 },
            ];
            for work in works {
                std::thread::scope(|scope| {
                    let follower = scope.spawn(|| far.follow(work));
                    let samples = near.lead(work, Clock::calibrate()).expect("an answer");
                    let elapsed_ns = follower.join().expect("no panic").expect("an answer");
                    let rounds = samples.summary().map_or(0, |summary| summary.rounds);
                    let expected = if matches!(work, Work::Stream { .. }) { 0 } else { 160 };
                    assert!(elapsed_ns > 0 && rounds == expected, "{work:?}: {rounds}");
                });
            }
        }
        let error = near.run("trips 8 0 0").expect_err("the program has no such length");
        assert!(error.to_string().contains("not a command"), "{error}");
    }
}
