//! Processes that are stopped for a moment and continue: their peers see them as slow, not as dead.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::monotonic_ns;

/// Time that a continued process may take to catch up.
const CATCHING_UP_NS: i64 = 200_000_000;

/// The role of a process in a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// The root, its keeper, or the monitor of a node on this kernel.
    Monitor,
    /// The emulator of a virtual machine.
    Emulator,
    /// A domain, or a command.
    Program,
}

impl Class {
    pub(crate) const ALL: [Class; 3] = [Class::Monitor, Class::Emulator, Class::Program];

    pub(crate) fn of(command_line: &str) -> Class {
        if command_line.contains("qemu-system-") {
            Class::Emulator
        } else if command_line.split(' ').any(|word| word.ends_with("/tombolod") || word == "tombolod") {
            Class::Monitor
        } else {
            Class::Program
        }
    }
}

/// Interval during which a process was stopped; no end while it still is.
#[derive(Clone, Copy, Debug)]
struct Stop {
    from_ns: i64,
    until_ns: Option<i64>,
}

/// Everything that was stopped.
#[derive(Default)]
pub(crate) struct Pauses {
    stops: Arc<Mutex<Vec<Stop>>>,
    /// Threads that each continue one stopped process when its time is up.
    wakers: Vec<JoinHandle<()>>,
}

impl Pauses {
    /// Stops a process for `time`. Does nothing if it has ended in the meantime.
    pub(crate) fn stop(&mut self, pid: i32, time: Duration) {
        let Some(process) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        self.wakers.retain(|waker| !waker.is_finished());
        let index = {
            let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
            stops.push(Stop { from_ns: monotonic_ns(), until_ns: None });
            stops.len() - 1
        };
        let stops = Arc::clone(&self.stops);
        let stopped = StoppedProcess::of(process);
        self.wakers.push(std::thread::spawn(move || {
            std::thread::sleep(time);
            drop(stopped);
            stops.lock().unwrap_or_else(PoisonError::into_inner)[index].until_ns = Some(monotonic_ns());
        }));
    }

    /// Returns whether any process was stopped, or catching up, between the two times.
    pub(crate) fn overlap(&self, from_ns: i64, until_ns: i64) -> bool {
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.iter().any(|stop| {
            let over_ns = stop.until_ns.map_or(i64::MAX, |over_ns| over_ns.saturating_add(CATCHING_UP_NS));
            stop.from_ns <= until_ns && over_ns >= from_ns
        })
    }

    /// Waits until all processes continue.
    pub(crate) fn finish(&mut self) {
        self.wakers.drain(..).for_each(|waker| {
            let _ = waker.join();
        });
    }
}

/// Guard of a stopped process: continues it when dropped.
struct StoppedProcess(OwnedFd);

impl StoppedProcess {
    fn of(process: OwnedFd) -> StoppedProcess {
        let _ = pidfd_send_signal(&process, Signal::STOP);
        StoppedProcess(process)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.0, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn state_of(pid: i32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn process_is_stopped_and_continued() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let pid = child.id() as i32;
        let mut pauses = Pauses::default();
        let before_ns = monotonic_ns();
        pauses.stop(pid, Duration::from_secs(1));
        // A stop signal takes effect when the process is scheduled.
        assert!(tombolo_e2e::eventually(|| state_of(pid) == Some('T') || pauses.wakers[0].is_finished()));
        assert!(pauses.overlap(before_ns, monotonic_ns()));
        assert!(!pauses.overlap(before_ns - 2, before_ns - 1));
        pauses.finish();
        assert!(tombolo_e2e::eventually(|| state_of(pid) != Some('T')));
        let late_ns = monotonic_ns() + 2 * CATCHING_UP_NS;
        assert!(!pauses.overlap(late_ns, late_ns + 1));
        child.kill().expect("our own");
        child.wait().expect("our own");
        pauses.stop(pid, Duration::from_secs(1));
        assert!(pauses.wakers.is_empty(), "another process may have its number");
    }

    #[test]
    fn processes_are_classified_by_command_line() {
        for (words, class) in [
            ("/t/release/tombolod root x.toml", Class::Monitor),
            ("qemu-s390x /kit/s390x/tombolod agent 9", Class::Monitor),
            ("qemu-system-aarch64 -initrd /c/tombolod-1.cpio", Class::Emulator),
            ("actor member member-1 2000", Class::Program),
            ("tombolo run --on host sleep 3", Class::Program),
        ] {
            assert_eq!(Class::of(words), class, "{words}");
        }
    }
}
