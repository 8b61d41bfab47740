//! `tombolo up --foreground`: a machine that a supervisor keeps.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Child;

use super::Interruption;
use crate::failure::Failure;

/// Set by systemd: the socket on which it is told.
const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// Announces that the machine is up, and waits until it has ended. An end that a signal or `tombolo down`
/// asked for is as it should be.
pub(super) fn stay(
    name: &str,
    started: Result<Child, tombolo::Error>,
    announce: impl FnOnce() -> Result<(), Failure>,
    interruption: &Interruption,
) -> Result<(), Failure> {
    let ended = wait(name, started, announce);
    match interruption.signal() {
        Some(_) => Ok(()),
        None => ended,
    }
}

fn wait(
    name: &str,
    started: Result<Child, tombolo::Error>,
    announce: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut monitor = started?;
    announce()?;
    notify("READY=1").map_err(Failure::system("tell the supervisor that the machine is up"))?;
    let status = monitor.wait().map_err(Failure::system("wait for the end of the machine"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Job { message: format!("machine '{name}' ended: its monitor failed ({status})"), status: 1 })
}

/// Ends this program as SIGTERM does when standard input ends; what is read is dropped.
pub(super) fn watch_input() {
    std::thread::spawn(|| {
        // An input that cannot be read has ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // It is this process, which a signal can always be sent to.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    });
}

/// Tells systemd, if it asked to be told.
fn notify(state: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os(NOTIFY_VARIABLE) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
