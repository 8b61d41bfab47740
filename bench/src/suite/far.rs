//! The far side: executes the commands of the near side.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tombolo_bench_far::lines::Lines;
use tombolo_bench_far::placement::Rings;
use tombolo_platform::memory::{check_sealed, map};
use tombolo_platform::syscall_counter::SyscallCounter;

use super::line::{Answer, Command, ControlLine};
use super::peer::{MEMORY_BYTES, Meeting, Peer, Side};
use super::work::AnyEnd;
use super::{Error, find};
use crate::cpus;

/// Serves the near side, which started this program with the control line as its standard input, until told
/// to end.
///
/// # Errors
/// The line breaks, or a command is malformed.
pub fn serve(peers: &[&dyn Peer]) -> Result<(), Error> {
    let line = ControlLine::inherited()?;
    let (command, fds) = line.recv_message_with()?;
    let Command::Meet { peer, meeting } = command else { return Err(unexpected_command()) };
    let placements = Rings::all();
    let placement = placements.iter().find(|rings| rings.name() == peer);
    let peer = match placement {
        Some(rings) => rings,
        None => find(peers, &peer)?,
    };
    let [file] = <[_; 1]>::try_from(fds).map_err(|_| unexpected_command())?;
    check_sealed(&file, MEMORY_BYTES as u64)?;
    let memory = map(&file, 0, MEMORY_BYTES)?;
    let mut ends: Vec<AnyEnd> = Vec::new();
    let mut watched: Option<SyscallCounter> = None;
    line.send_message(&usage(0, 0, &ends))?;
    loop {
        let command: Command = line.recv_message()?;
        if command == Command::Bye {
            return Ok(());
        }
        let name = &meeting;
        let start = Instant::now();
        let mut calls = 0;
        let done = match command {
            Command::Open { index, metric } => {
                let name = format!("{name}-{index}");
                let meeting = Meeting { side: Side::Far, name: &name, line: &line, memory: &memory };
                peer.open(&meeting, metric).map(|end| {
                    ends.push(end);
                    elapsed_ns(start)
                })
            }
            Command::Pin { cpu } => cpus::pin(cpu)
                .map_err(|error| Error::Far { what: format!("cannot stay on processor {cpu}: {error}") })
                .map(|()| 0),
            Command::Close => {
                ends.clear();
                Ok(0)
            }
            Command::Probe => {
                Lines::new(memory.words()).and_then(Lines::serve).map_err(Error::from).map(|()| 0)
            }
            Command::Work { index, work } => match ends.get_mut(index as usize) {
                Some(end) => end.follow(work),
                None => Err(unexpected_command()),
            },
            Command::Count { index, rounds } => match ends.get_mut(index as usize) {
                Some(end) => start_counting(&mut watched).and_then(|watched| {
                    calls = end.count_calls(Side::Far, rounds, watched)?;
                    Ok(0)
                }),
                None => Err(unexpected_command()),
            },
            Command::Usage => Ok(0),
            Command::Weigh => {
                line.send_message(&Answer::Weighed { resident_bytes: resident_bytes() })?;
                continue;
            }
            Command::Meet { .. } | Command::Bye => Err(unexpected_command()),
        };
        match done {
            Ok(elapsed_ns) => line.send_message(&usage(elapsed_ns, calls, &ends))?,
            Err(error) => line.send_message(&Answer::Failed { why: error.to_string() })?,
        }
    }
}

fn unexpected_command() -> Error {
    Error::Far { what: "was told something out of order: both sides must be of one build".into() }
}

/// Starts counting this thread's system calls, at the first request for a count.
pub(super) fn start_counting(watched: &mut Option<SyscallCounter>) -> Result<&SyscallCounter, Error> {
    Ok(match watched {
        Some(calls) => calls,
        None => watched.insert(SyscallCounter::start()?),
    })
}

pub(super) fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the resources that this program has used so far.
pub(super) fn usage(elapsed_ns: u64, calls: u64, ends: &[AnyEnd]) -> Answer {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    Answer::Done {
        elapsed_ns,
        cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        waited_ns: cpus::waited_ns().unwrap_or(0) + ends.iter().map(AnyEnd::waited_ns).sum::<u64>(),
        rings: ends.iter().map(|end| end.rings()).sum(),
        calls,
    }
}

/// Returns the memory of this program with its proportional part of shared memory (PSS), in bytes; 0 if the
/// kernel does not report it. The kernel walks every page for this: 20 ms per gigabyte.
pub(super) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}
