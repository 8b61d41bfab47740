//! Commands on a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{Machine, eventually};

/// A command that runs on its own pseudo-terminal.
pub struct Terminal {
    /// The user's side: reads the output and types. `None` after a hang-up.
    master: Option<File>,
    /// The command's side.
    slave: File,
    child: Child,
    said: Vec<u8>,
}

impl Terminal {
    /// Starts `tombolo` with these arguments on a terminal of 100 columns and 24 rows. With `controlling` it
    /// is the command's controlling terminal, so that a hang-up sends a signal as well.
    ///
    /// # Panics
    /// When there are no pseudo-terminals.
    #[must_use]
    pub fn start(machine: &Machine, words: &[&str], controlling: bool) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("ours");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
        let no_control = OFlags::NOCTTY.bits() as i32;
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_control)
            .open(name)
            .expect("its other side");
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK).expect("a mode");
        let tombolo = machine.command();
        let mut command = Command::new(if controlling { "setsid".as_ref() } else { tombolo.get_program() });
        if controlling {
            command.arg("--ctty").arg(tombolo.get_program());
        }
        command.args(words).current_dir(machine.folder()).env("TERM", "xterm");
        for (name, value) in tombolo.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let side = || OwnedFd::from(slave.try_clone().expect("a descriptor"));
        command.stdin(side()).stdout(side()).stderr(side());
        let child = command.spawn().expect("the command");
        Terminal { master: Some(File::from(master)), slave, child, said: Vec::new() }
    }

    /// Returns all output to the terminal so far.
    pub fn output(&mut self) -> String {
        let mut piece = vec![0; 64 << 10];
        while let Some(Ok(length @ 1..)) = self.master.as_mut().map(|master| master.read(&mut piece)) {
            self.said.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Returns the settings of the terminal.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn settings(&self) -> Termios {
        tcgetattr(&self.slave).expect("a terminal")
    }

    /// Fills the terminal's buffer, so that the next write of the command blocks.
    ///
    /// # Panics
    /// When it fails otherwise.
    pub fn fill(&mut self) {
        let mode = rustix::fs::fcntl_getfl(&self.slave).expect("a mode");
        // The command shares this open file description, so blocking mode is restored afterwards.
        fcntl_setfl(&self.slave, mode | OFlags::NONBLOCK).expect("a mode");
        while self.slave.write(&[b' '; 4096]).is_ok() {}
        fcntl_setfl(&self.slave, mode).expect("a mode");
    }

    /// Closes the user's side, which hangs up the terminal.
    pub fn hang_up(&mut self) {
        self.master = None;
    }

    /// Sends the command a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("not 0");
        kill_process(pid, signal).expect("not reaped yet");
    }

    /// Waits until the command ends.
    ///
    /// # Panics
    /// When it does not in time.
    #[track_caller]
    pub fn finish(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = eventually(|| {
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        });
        assert!(ended, "it did not end; it said: {}", self.output());
        status.expect("it ended")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
