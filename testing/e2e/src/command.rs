//! Background commands of a test, with their output so far.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::PATIENCE;

/// Only the last bytes of each output stream are kept, because some commands write without end.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Exit status; 128 + N after signal N, as in shells.
    pub status: i32,
    /// The whole standard output.
    pub stdout: Vec<u8>,
    /// The whole standard error, as text.
    pub stderr: String,
    shown: String,
}

impl Finished {
    /// Returns the standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Asserts that the command succeeded and returns its standard output.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert_eq!(self.status, 0, "{self}");
        self.text()
    }

    /// Like [`ok`](Self::ok), but returns bytes and does not print the output on failure.
    #[track_caller]
    pub fn ok_bytes(&self) -> &[u8] {
        assert_eq!(self.status, 0, "`{}` failed: {}", self.shown, self.stderr);
        &self.stdout
    }

    /// Asserts that the command ended with `status` and that its standard error contains each of `words`.
    #[track_caller]
    pub fn fails_with(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self}");
        for word in words {
            assert!(self.stderr.contains(word), "not a word of {word:?}\n{self}");
        }
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.text();
        let end: String = text.chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect();
        write!(f, "`{}` ended with {}\n-- stdout: {end}\n-- stderr: {}", self.shown, self.status, self.stderr)
    }
}

#[derive(Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// A running command with its output so far.
pub struct Running {
    child: Child,
    said: Arc<(Mutex<Said>, Condvar)>,
    readers: Vec<JoinHandle<()>>,
    shown: String,
}

fn lock(mutex: &Mutex<Said>) -> MutexGuard<'_, Said> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Starts `command` with pipes for all its streams.
    ///
    /// # Panics
    /// When there is no such program.
    #[must_use]
    pub fn start(command: &mut Command) -> Running {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let shown = format!("tombolo {}", words.join(" "));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let said: Arc<(Mutex<Said>, Condvar)> = Arc::default();
        let output = child.stdout.take().expect("a pipe");
        let errors = child.stderr.take().expect("a pipe");
        let readers = vec![
            listen(output, &said, |said| &mut said.stdout),
            listen(errors, &said, |said| &mut said.stderr),
        ];
        Running { child, said, readers, shown }
    }

    /// Whether the command is still running. An ended process must not be signalled, because its id may be
    /// reused.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// Returns the process id of the command.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Takes the standard input; it can be taken once.
    #[must_use]
    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("the input was taken already")
    }

    /// Writes all of `bytes` to the standard input in a separate thread, then closes it.
    pub fn feed(&mut self, bytes: Vec<u8>) {
        let mut stdin = self.stdin();
        // Fails if the program ends before it has read everything.
        std::thread::spawn(move || stdin.write_all(&bytes));
    }

    /// Sends a signal to the command.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a process id is not 0");
        // Not reaped yet, so the id is still its own. It may have ended already.
        let _ = kill_process(pid, signal);
    }

    /// Waits until the standard output contains `text`, and returns all output so far.
    ///
    /// # Panics
    /// When the text does not appear in time.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let (said, changed) = &*self.said;
        let mut said = lock(said);
        loop {
            let shown = String::from_utf8_lossy(&said.stdout).into_owned();
            if shown.contains(text) {
                return shown;
            }
            let left = until.saturating_duration_since(Instant::now());
            let closed = self.readers.iter().all(JoinHandle::is_finished);
            assert!(
                !left.is_zero() && !closed,
                "`{}` never said {text:?}\n-- stdout: {shown}\n-- stderr: {}",
                self.shown,
                String::from_utf8_lossy(&said.stderr)
            );
            // Short, because the end of a reader thread does not notify the condition variable.
            let pause = left.min(Duration::from_millis(200));
            said = changed.wait_timeout(said, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the standard output so far.
    #[must_use]
    pub fn stdout_so_far(&self) -> String {
        String::from_utf8_lossy(&lock(&self.said.0).stdout).into_owned()
    }

    /// Waits for the command to end.
    ///
    /// # Panics
    /// When it does not end in time; it is killed first.
    #[track_caller]
    #[must_use]
    pub fn finish(self) -> Finished {
        self.finish_within(PATIENCE)
    }

    /// Like [`finish`](Self::finish), with another timeout.
    ///
    /// # Panics
    /// As [`finish`](Self::finish).
    #[track_caller]
    #[must_use]
    pub fn finish_within(mut self, patience: Duration) -> Finished {
        drop(self.child.stdin.take());
        let until = Instant::now() + patience;
        let mut late = false;
        let status = loop {
            match self.child.try_wait().expect("our own child") {
                Some(status) => break status,
                None if Instant::now() >= until && !late => {
                    late = true;
                    self.signal(Signal::KILL);
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let silent = eventually(|| self.readers.iter().all(JoinHandle::is_finished));
        use std::os::unix::process::ExitStatusExt;
        let said = std::mem::take(&mut *lock(&self.said.0));
        let finished = Finished {
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: said.stdout,
            stderr: String::from_utf8_lossy(&said.stderr).into_owned(),
            shown: std::mem::take(&mut self.shown),
        };
        assert!(!late, "did not end in {patience:?}: {finished}");
        assert!(silent, "something that it started still holds its output: {finished}");
        finished
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A no-op after `finish`; otherwise the test has failed.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn listen(
    mut pipe: impl Read + Send + 'static,
    said: &Arc<(Mutex<Said>, Condvar)>,
    stream: fn(&mut Said) -> &mut Vec<u8>,
) -> JoinHandle<()> {
    let said = Arc::clone(said);
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        while let Ok(length) = pipe.read(&mut piece) {
            if length == 0 {
                return;
            }
            {
                let mut said = lock(&said.0);
                let kept = stream(&mut said);
                kept.extend_from_slice(&piece[..length]);
                if kept.len() > MAX_KEPT_BYTES {
                    kept.drain(..MAX_KEPT_BYTES / 2);
                }
            }
            said.1.notify_all();
        }
    })
}

/// Polls `condition` every few milliseconds and returns whether it became true before the deadline.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
