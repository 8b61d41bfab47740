//! Machines that are up for a measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_bench::suite;
use tombolo_cli_common::programs::front;
use tombolo_machine::Machine;

use crate::failure::Failure;

/// A machine that was brought up for a measurement; taken down when dropped.
pub(super) struct Brought {
    name: String,
    program: PathBuf,
}

impl Brought {
    pub(super) fn up(file: &Path) -> Result<Brought, Failure> {
        let program = front()?;
        let name = Machine::open(file)?.name().to_owned();
        let command = || format!("run {} up {}", program.display(), file.display());
        let mut up = Command::new(&program);
        up.args(["--quiet", "--machine", &name, "up"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
        let output = up.stderr(Stdio::piped()).output().map_err(Failure::system(command()))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(suite::Error::File { path: file.to_owned(), why }.into());
        }
        Ok(Brought { name, program })
    }

    /// The name of the machine.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        let mut down = Command::new(&self.program);
        down.args(["--quiet", "--machine", &self.name, "down"]).stdin(Stdio::null()).stdout(Stdio::null());
        // A failure is printed by the command itself; the figures are worth keeping.
        let _ = down.status();
    }
}
