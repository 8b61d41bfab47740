//! A report of what every process waits for, when a run hangs.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tombolo_e2e::Machine;

/// The time that one step may take before its state is printed: half of what ends the run.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of the status query to the machine.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// A machine, seen from outside.
#[derive(Clone)]
pub(crate) struct MachineInspector {
    name: String,
    program: PathBuf,
}

impl MachineInspector {
    pub(crate) fn of(machine: &Machine) -> MachineInspector {
        let program = machine.command().get_program().into();
        MachineInspector { name: machine.name().to_owned(), program }
    }

    /// Describes every thread of the machine and of this program, with the kernel function it blocks in, and
    /// the machine's own status.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("--- machine {}:\n", self.name);
        for words in [&["status"][..], &["ps"], &["names"], &["channels", "--all"]] {
            let _ = writeln!(text, "$ tombolo {}\n{}", words.join(" "), self.ask(words));
        }
        let own = std::process::id() as i32;
        let mut pids: Vec<i32> =
            tombolo_e2e::leftovers::processes(&self.name).into_iter().map(|process| process.pid).collect();
        pids.push(own);
        for pid in pids {
            text += &describe_process(pid);
        }
        text
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(words).env("TOMBOLO_MACHINE", &self.name);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else { return "cannot be started".into() };
        let until = Instant::now() + STATUS_TIMEOUT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                return format!("does not answer within {} s", STATUS_TIMEOUT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait_with_output().map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    }
}

/// Describes a process and its threads. Omits what cannot be read: the process may have ended.
fn describe_process(pid: i32) -> String {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let words = read(folder.join("cmdline")).replace('\0', " ");
    let mut text = format!("process {pid}: {}\n", words.trim_end());
    for entry in fs::read_dir(folder.join("task")).into_iter().flatten().flatten() {
        let task = entry.path();
        let status = read(task.join("status"));
        let field = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("?").trim().to_owned()
        };
        let (number, name, state) = (entry.file_name(), field("Name:"), field("State:"));
        let (place, call) = (read(task.join("wchan")), read(task.join("syscall")));
        let _ = writeln!(
            text,
            "  thread {} {name}: {state}, in {place}, system call {}",
            number.to_string_lossy(),
            call.trim_end()
        );
        // Readable by the superuser only.
        for line in read(task.join("stack")).lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    let mut descriptors: Vec<String> = fs::read_dir(folder.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            format!("{}={}", entry.file_name().to_string_lossy(), target.display())
        })
        .collect();
    descriptors.sort();
    let _ = writeln!(text, "  descriptors {}", descriptors.join(" "));
    text
}

/// Checks that a run makes progress, and prints the state of everything when it does not.
pub(crate) struct Watchdog {
    doing: Arc<Mutex<(Instant, String)>>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watchdog {
    /// Starts the watchdog thread.
    pub(crate) fn start(inspector: MachineInspector) -> Watchdog {
        let doing = Arc::new(Mutex::new((Instant::now(), "starting".to_owned())));
        let watched = Arc::clone(&doing);
        let (stop, stopped) = channel::<()>();
        let watch = move || {
            let mut reported = None;
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let (since, what) = watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if since.elapsed() > STALL_TIMEOUT && reported != Some(since) {
                    reported = Some(since);
                    let seconds = since.elapsed().as_secs();
                    eprintln!("chaos: {what} takes {seconds} s already\n{}", inspector.describe());
                }
            }
        };
        Watchdog { doing, thread: Some((stop, std::thread::spawn(watch))) }
    }

    /// Records the start of a new step, which resets the timer.
    pub(crate) fn begin_step(&self, what: String) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), what);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_described_with_all_its_threads() {
        let (release, released) = channel::<()>();
        let (started, runs) = channel();
        let body = move || {
            started.send(()).unwrap();
            released.recv()
        };
        let waits = std::thread::Builder::new().name("waits".into()).spawn(body).unwrap();
        runs.recv().unwrap();
        let text = describe_process(std::process::id() as i32);
        assert!(text.contains(" waits: ") && text.contains("\n  descriptors "), "{text}");
        drop(release);
        assert!(waits.join().unwrap().is_err());
        assert!(describe_process(i32::MAX).starts_with("process 2147483647"));
    }
}
