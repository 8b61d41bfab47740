//! The supervisor: the parent of a root monitor, which waits for its end and cleans up after it.
//!
//! When the root is killed, its children die with it, because each has a parent-death signal. Grandchildren
//! do not, and become the supervisor's children. When the supervisor is killed, the root shuts down in order.
//! So whichever process of a machine is killed, nothing is left behind, and processor frequencies are
//! restored if the root had changed them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::meters::{self, SystemPaths};
use tombolo_platform::process::{self, ExitOutcome, Process};
use tombolo_platform::{Errno, OsError};

use crate::orphans;

/// The supervisor's handle of the root monitor, a child of this process.
pub struct SupervisedRoot {
    root: Process,
    /// Memory file in which the root records processor frequencies before it changes them.
    ledger: OwnedFd,
}

/// The root monitor's handle of its supervisor.
#[derive(Debug)]
pub struct Supervisor {
    /// Readable when the supervisor is gone.
    pub exited: OwnedFd,
    /// Memory file for the former processor frequencies, which the supervisor restores if the root cannot.
    pub ledger: OwnedFd,
}

/// Starts this program again with `serve NUMBER` and `arguments`, as the root monitor to be supervised: the
/// number is that of its ledger's descriptor. It inherits this process's standard output and error.
///
/// # Errors
/// An error of the kernel.
pub fn start<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<SupervisedRoot, OsError> {
    // Detach from the terminal of the starting process, and its signals.
    let _ = rustix::process::setsid();
    process::become_subreaper();
    // Runs the file, so that process lists show its name; if it was removed, the image in memory.
    let program = std::env::current_exe().ok().filter(|path| path.is_file());
    let mut command = Command::new(program.as_deref().unwrap_or(Path::new("/proc/self/exe")));
    let ledger = rustix::fs::memfd_create("tombolo-ledger", MemfdFlags::CLOEXEC)
        .context("make memory for what is to be given back")?;
    command.arg0("tombolod").arg("serve").arg(ledger.as_raw_fd().to_string()).args(arguments);
    command.stdin(Stdio::null());
    let root = Process::start(&mut command, &[ledger.as_fd()])?;
    Ok(SupervisedRoot { root, ledger })
}

impl SupervisedRoot {
    /// Waits for the root's end, and kills all remaining processes.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wait(mut self) -> Result<ExitOutcome, OsError> {
        let ended = loop {
            poll(&[(self.root.ended_fd(), Interest::Read)], None)?;
            if let Some(ended) = self.root.try_reap()? {
                break ended;
            }
        };
        orphans::kill_all();
        meters::restore_recorded(&SystemPaths::from_environment(), &self.ledger)?;
        Ok(ended)
    }
}

/// Connects the root monitor to its supervisor, which passed a ledger with this number. From now on the
/// supervisor's death does not kill this process, which must shut down in order first.
///
/// # Errors
/// `ESRCH` if it is gone already; an invalid descriptor.
pub fn watch(ledger: &str) -> Result<Supervisor, OsError> {
    let number = ledger.parse().map_err(|_| OsError::new("use a ledger that has no number", Errno::BADF))?;
    let ledger = process::take_inherited_fd(number)?;
    let gone = || OsError::new("watch the supervisor of this monitor", Errno::SRCH);
    let supervisor = rustix::process::getppid().ok_or_else(gone)?;
    let watched = process::open_pidfd(supervisor.as_raw_nonzero().get())?;
    rustix::process::set_parent_process_death_signal(None)
        .context("outlive the supervisor of this monitor")?;
    // It may have died meanwhile, and its number may have been reused.
    if rustix::process::getppid() == Some(supervisor) {
        Ok(Supervisor { exited: watched, ledger })
    } else {
        Err(gone())
    }
}
