//! `tombolo up --foreground`: a machine under a supervisor.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Child;

use super::Interruption;
use crate::failure::Failure;

/// Variable set by systemd with its notification socket.
const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// Announces that the machine is up, and waits until it has ended. An end requested by a signal or `tombolo
/// down` is a success.
pub(super) fn run(
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

/// Ends this program like SIGTERM when standard input ends; its data is discarded.
pub(super) fn watch_input() {
    std::thread::spawn(|| {
        // An input that cannot be read counts as ended.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Signalling the own process cannot fail.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    });
}

/// Notifies systemd, if it requested that.
fn notify(state: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os(NOTIFY_VARIABLE) else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
