//! The keeper: the parent of a root monitor, which waits for its end and clears away what is left of it then.
//!
//! When the root is killed, what it started dies with it, because each has asked the kernel for that. What *that*
//! started does not, and becomes the keeper's. When it is the keeper that is killed, the root ends in order. So
//! whichever process of a machine is killed, nothing is left.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::process::{self, Ended, Process};
use tombolo_platform::{Errno, OsError};

use crate::orphans;

/// A root monitor that runs as a child of this process.
pub struct Kept(Process);

/// Starts this program once more, with `arguments`, as the root monitor to be kept. It has this process's standard
/// output and error.
///
/// # Errors
/// What the kernel refused.
pub fn start<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Kept, OsError> {
    // Away from the terminal of whoever started it, and from its signals.
    let _ = rustix::process::setsid();
    process::adopt_orphans();
    // By its path, so that lists show its name; if the file is gone, by what is in memory.
    let program = std::env::current_exe().ok().filter(|path| path.is_file());
    let mut command = Command::new(program.as_deref().unwrap_or(Path::new("/proc/self/exe")));
    command.arg0("tombolod").args(arguments).stdin(Stdio::null());
    Process::start(&mut command, &[]).map(Kept)
}

impl Kept {
    /// Waits for its end, and ends whatever is left.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn wait(mut self) -> Result<Ended, OsError> {
        let ended = loop {
            poll(&[(self.0.ended_fd(), Interest::Read)], None)?;
            if let Some(ended) = self.0.try_reap()? {
                break ended;
            }
        };
        orphans::end_all();
        Ok(ended)
    }
}

/// In the root monitor: what becomes readable when its keeper is gone. From now on its death is no longer this
/// process's, which has to end in order first.
///
/// # Errors
/// `ESRCH` when it is gone already.
pub fn watch() -> Result<OwnedFd, OsError> {
    let gone = || OsError::new("watch the keeper of this monitor", Errno::SRCH);
    let keeper = rustix::process::getppid().ok_or_else(gone)?;
    let watched = process::watch(keeper.as_raw_nonzero().get())?;
    rustix::process::set_parent_process_death_signal(None).context("outlive the keeper of this monitor")?;
    // It may have died meanwhile; the number was somebody else's then.
    if rustix::process::getppid() == Some(keeper) { Ok(watched) } else { Err(gone()) }
}
