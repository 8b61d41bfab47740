//! Resource usage of a process.

use std::os::fd::OwnedFd;

use rustix::time::ClockId;

use super::SystemPaths;
use super::read::{Reader, number, open, saturate_u32, words};
use crate::time::process_cpu_ns;

/// Fields of `/proc/PID/stat` that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    /// State letter of the process.
    state: u8,
    /// Processor time of all threads, including ended ones, in clock ticks.
    ticks: u64,
    threads: u64,
    /// Start time, in clock ticks since boot.
    start_ticks: u64,
    resident_pages: u64,
}

/// Resource usage of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Processor time of all its threads since the last reading, in thousandths of one processor; since its
    /// start at the first reading. The kernel's resolution is hundredths of a second.
    pub load_permille: u32,
    /// Resident memory, in bytes, with the kernel's precision.
    pub resident_bytes: u64,
    /// Number of threads of the process.
    pub threads: u32,
    /// Whether a signal has stopped it.
    pub is_stopped: bool,
}

/// Meter of one process. Holds an open file of the process, so it never measures a later one with the same
/// number.
#[derive(Debug)]
pub struct ProcessMeter {
    file: OwnedFd,
    /// Ticks and time of the last reading.
    before: Option<(u64, u64)>,
}

impl ProcessMeter {
    /// Opens the meter of process `pid`; `None` if it does not exist.
    #[must_use]
    pub fn open(paths: &SystemPaths, pid: i32) -> Option<ProcessMeter> {
        let file = open(&paths.proc.join(pid.to_string()).join("stat"))?;
        Some(ProcessMeter { file, before: None })
    }

    /// Returns the usage at `now_ns` of the monotonic clock; `None` once the process has ended.
    pub fn sample(&mut self, reader: &mut Reader, now_ns: u64) -> Option<Usage> {
        let stat = reader.record(&self.file).and_then(parse_stat)?;
        if matches!(stat.state, b'Z' | b'X') {
            return None;
        }
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
        let (ticks, elapsed_ns) = match self.before.replace((stat.ticks, now_ns)) {
            Some((ticks, at_ns)) => (stat.ticks.saturating_sub(ticks), now_ns.saturating_sub(at_ns)),
            None => (stat.ticks, since_boot_ns(stat.start_ticks, ticks_per_s)),
        };
        let spent_ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s);
        let load = (spent_ns * 1000).checked_div(u128::from(elapsed_ns)).unwrap_or(0);
        Some(Usage {
            load_permille: u32::try_from(load).unwrap_or(u32::MAX),
            resident_bytes: stat.resident_pages.saturating_mul(rustix::param::page_size() as u64),
            threads: saturate_u32(stat.threads),
            is_stopped: matches!(stat.state, b'T' | b't'),
        })
    }
}

/// Resource usage of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SelfUsage {
    /// Processor time of all its threads since the last reading, in thousandths of one processor; 0 at the
    /// first.
    pub load_permille: u32,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

/// Meter of this process. Under QEMU's user mode a process cannot use `/proc/PID/stat`, which the emulator
/// fakes.
#[derive(Debug)]
pub struct SelfMeter {
    memory: Option<OwnedFd>,
    /// Processor time and time of the last reading, in nanoseconds.
    before: Option<(u64, u64)>,
}

impl SelfMeter {
    /// Opens the files to read.
    #[must_use]
    pub fn open(paths: &SystemPaths) -> SelfMeter {
        SelfMeter { memory: open(&paths.proc.join("self/statm")), before: None }
    }

    /// Returns the usage at `now_ns` of the monotonic clock.
    pub fn sample(&mut self, reader: &mut Reader, now_ns: u64) -> SelfUsage {
        let spent_ns = process_cpu_ns();
        let (more_ns, elapsed_ns) = match self.before.replace((spent_ns, now_ns)) {
            Some((spent_before_ns, at_ns)) => {
                (spent_ns.saturating_sub(spent_before_ns), now_ns.saturating_sub(at_ns))
            }
            None => (0, 0),
        };
        let load = (u128::from(more_ns) * 1000).checked_div(u128::from(elapsed_ns)).unwrap_or(0);
        let resident = self.memory.as_ref().and_then(|file| reader.record(file)).map(words);
        let pages = resident.and_then(|mut fields| fields.nth(1).and_then(number)).unwrap_or(0);
        SelfUsage {
            load_permille: u32::try_from(load).unwrap_or(u32::MAX),
            resident_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
        }
    }
}

/// Returns the time since a number of clock ticks after boot, in nanoseconds.
fn since_boot_ns(ticks: u64, ticks_per_s: u64) -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let then_ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s);
    now_ns.saturating_sub(u64::try_from(then_ns).unwrap_or(u64::MAX))
}

/// Parses `/proc/PID/stat`. The name in it, between parentheses, may contain any bytes.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let mut fields = words(bytes.get(end + 1..)?);
    let state = *fields.next()?.first()?;
    // Fields of the rest: 10 user, 11 system, 16 threads, 18 start, 20 resident; numbered as in proc(5),
    // minus 4.
    let mut rest = [0_u64; 21];
    for value in &mut rest {
        let field = fields.next()?;
        // Some fields are negative, but none that is used here.
        *value = number(field).unwrap_or(0);
    }
    Some(Stat {
        state,
        ticks: rest[10].saturating_add(rest[11]),
        threads: rest[16],
        start_ticks: rest[18],
        resident_pages: rest[20],
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::time::now_ns;

    #[test]
    fn own_memory_and_load_are_measured() {
        let mut meter = SelfMeter::open(&SystemPaths::default());
        let mut reader = Reader::default();
        let began = Instant::now();
        let first = meter.sample(&mut reader, now_ns());
        assert_eq!(first.load_permille, 0);
        assert!(first.resident_bytes > 0);
        let busy_ns = crate::time::process_cpu_ns() + 20_000_000;
        while crate::time::process_cpu_ns() < busy_ns && began.elapsed() < Duration::from_secs(60) {}
        assert!(meter.sample(&mut reader, now_ns()).load_permille > 0);
    }

    #[test]
    fn parentheses_in_a_program_name_are_parsed() {
        let line = b"17 (a) R 1 (b) T 5 17 17 0 -1 4194304 99 0 0 0 40 2 0 0 20 0 3 0 5463113 3133440 360 1844 1 2 3\n";
        let expected =
            Stat { state: b'T', ticks: 42, threads: 3, start_ticks: 5_463_113, resident_pages: 360 };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat(b"17 (a) R 1 2 3"), None);
        assert_eq!(parse_stat(b"17 (a)"), None);
    }

    #[test]
    fn the_load_of_this_process_is_measured() {
        let mut reader = Reader::default();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut meter = ProcessMeter::open(&SystemPaths::default(), own).expect("it runs");
        let first = meter.sample(&mut reader, now_ns()).expect("it runs");
        assert!(first.threads >= 1 && first.resident_bytes > 4096 && !first.is_stopped);
        let (start, until) = (now_ns(), Instant::now() + Duration::from_secs(60));
        let mut seen = 0;
        while seen == 0 && Instant::now() < until {
            (0..1_000_000_u64).for_each(|round| {
                std::hint::black_box(round);
            });
            seen = meter.sample(&mut reader, now_ns()).map_or(0, |usage| usage.load_permille);
        }
        assert!(seen > 0, "{start}");
    }

    #[test]
    fn stopped_and_ended_processes_are_reported() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep starts");
        let pid = rustix::process::Pid::from_child(&child);
        let mut meter =
            ProcessMeter::open(&SystemPaths::default(), pid.as_raw_nonzero().get()).expect("it runs");
        let mut reader = Reader::default();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let mut is_stopped = || meter.sample(&mut reader, now_ns()).is_some_and(|usage| usage.is_stopped);
        while !is_stopped() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(is_stopped());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(meter.sample(&mut reader, now_ns()), None);
        assert!(ProcessMeter::open(&SystemPaths::default(), -5).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(&noise);
        }

        #[test]
        fn numbers_out_of_range_never_panic(noise in "1 \\(x\\) [RSDTZ]( -?[0-9]{1,25}){18,30}") {
            if let Some(stat) = parse_stat(noise.as_bytes()) {
                prop_assert!(stat.state.is_ascii_uppercase());
            }
        }
    }
}
