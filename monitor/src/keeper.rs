//! The keeper: the parent of a root monitor, which waits for its end and clears away what is left of it then.
//!
//! When the root is killed, what it started dies with it, because each has asked the kernel for that. What *that*
//! started does not, and becomes the keeper's. When it is the keeper that is killed, the root ends in order. So
//! whichever process of a machine is killed, nothing is left; and processors run as fast as before, if the root had changed that.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::meters::{self, Folders};
use tombolo_platform::process::{self, Ended, Process};
use tombolo_platform::{Errno, OsError};

use crate::orphans;

/// A root monitor that runs as a child of this process.
pub struct Kept {
    root: Process,
    /// Where the root notes down how fast processors ran before it changed that.
    ledger: OwnedFd,
}

/// What a root monitor has of its keeper.
#[derive(Debug)]
pub struct Keeper {
    /// Readable when it is gone.
    pub gone: OwnedFd,
    /// Memory that it keeps: how fast processors ran, which it gives back if the root cannot.
    pub ledger: OwnedFd,
}

/// Starts this program once more, as `serve NUMBER` and `arguments`, as the root monitor to be kept: the number is that of
/// its ledger's descriptor. It has this process's standard output and error.
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
    let ledger = rustix::fs::memfd_create("tombolo-ledger", MemfdFlags::CLOEXEC)
        .context("make memory for what is to be given back")?;
    command.arg0("tombolod").arg("serve").arg(ledger.as_raw_fd().to_string()).args(arguments);
    command.stdin(Stdio::null());
    let root = Process::start(&mut command, &[ledger.as_fd()])?;
    Ok(Kept { root, ledger })
}

impl Kept {
    /// Waits for its end, and ends whatever is left.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn wait(mut self) -> Result<Ended, OsError> {
        let ended = loop {
            poll(&[(self.root.ended_fd(), Interest::Read)], None)?;
            if let Some(ended) = self.root.try_reap()? {
                break ended;
            }
        };
        orphans::end_all();
        meters::give_back(&Folders::from_environment(), &self.ledger)?;
        Ok(ended)
    }
}

/// In the root monitor: its keeper, which gave it a ledger of this number. From now on the keeper's death is no longer this
/// process's, which has to end in order first.
///
/// # Errors
/// `ESRCH` when it is gone already; what is wrong with the descriptor.
pub fn watch(ledger: &str) -> Result<Keeper, OsError> {
    let number = ledger.parse().map_err(|_| OsError::new("use a ledger that has no number", Errno::BADF))?;
    let ledger = process::inherited(number)?;
    let gone = || OsError::new("watch the keeper of this monitor", Errno::SRCH);
    let keeper = rustix::process::getppid().ok_or_else(gone)?;
    let watched = process::watch(keeper.as_raw_nonzero().get())?;
    rustix::process::set_parent_process_death_signal(None).context("outlive the keeper of this monitor")?;
    // It may have died meanwhile; the number was somebody else's then.
    if rustix::process::getppid() == Some(keeper) {
        Ok(Keeper { gone: watched, ledger })
    } else {
        Err(gone())
    }
}
