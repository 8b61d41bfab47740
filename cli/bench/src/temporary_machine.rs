//! Machines brought up for a measurement.

use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tombolo::Domain;
use tombolo_bench::suite;
use tombolo_cli_common::programs::main_program_path;
use tombolo_machine::Machine;

use crate::context::Context;
use crate::failure::{Failure, eprint_quietly};

/// Time to wait for the machine before checking whether bringing it up has failed.
const SLICE: Duration = Duration::from_millis(50);

/// Calls `run` with the machine of `file`, which is brought up for it, or with the one that is up, if any.
pub(super) fn with_machine(
    context: &Context,
    file: Option<&Path>,
    run: impl FnOnce(&Domain) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match file {
        Some(file) => {
            let machine = TemporaryMachine::up(file)?;
            run(&Domain::attach_to_machine(machine.name())?)
        }
        None => match context.attach_running() {
            Err(Failure::NothingUp) => Ok(()),
            attached => run(&attached?),
        },
    }
}

/// A machine brought up for a measurement. It is taken down when this is dropped, and when this program is
/// killed: `tombolo up` detects the end of its standard input.
pub(super) struct TemporaryMachine {
    name: String,
    up: Child,
}

impl TemporaryMachine {
    pub(super) fn up(file: &Path) -> Result<TemporaryMachine, Failure> {
        let program = main_program_path()?;
        let name = Machine::open(file)?.name().to_owned();
        let of_socket = || Failure::system("wait for a machine");
        // Uses systemd's notification protocol, on an abstract name, which leaves no file behind.
        let notify = format!("tombolo-bench/{}/{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&notify).map_err(of_socket())?;
        let ready = UnixDatagram::bind_addr(&address).map_err(of_socket())?;
        ready.set_read_timeout(Some(SLICE)).map_err(of_socket())?;
        let command = || format!("run {} up {}", program.display(), file.display());
        let mut up = Command::new(&program);
        up.args(["--quiet", "--machine", &name, "up", "--foreground", "--until-eof"]).arg(file);
        up.env("NOTIFY_SOCKET", format!("@{notify}"));
        up.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut machine = TemporaryMachine { name, up: up.spawn().map_err(Failure::system(command()))? };
        loop {
            match ready.recv(&mut [0; 64]) {
                Ok(_) => return Ok(machine),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
                Err(error) => return Err(of_socket()(error)),
            }
            if machine.up.try_wait().map_err(Failure::system(command()))?.is_some() {
                let mut why = String::new();
                // Its own output is the better error message.
                let _ = machine.up.stderr.take().map(|mut errors| errors.read_to_string(&mut why));
                return Err(suite::Error::File { path: file.to_owned(), why: why.trim().to_owned() }.into());
            }
        }
    }

    /// Returns the name of the machine.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TemporaryMachine {
    fn drop(&mut self) {
        drop(self.up.stdin.take());
        let mut output = String::new();
        let _ = self.up.stderr.take().map(|mut errors| errors.read_to_string(&mut output));
        // The figures are valid even if the machine failed to stop.
        let _ = self.up.wait();
        eprint_quietly(&output);
    }
}
