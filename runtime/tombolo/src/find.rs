//! Finds the monitor of a machine, or starts the one of a plain host.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tombolo_control::{parse_socket_name, socket_name};
use tombolo_platform::{Context, Deadline, Errno, OsError, process, socket};

use crate::error::Error;

/// Environment variable with the socket to attach to, set by the monitor for the domains that it starts.
pub const MONITOR_VARIABLE: &str = "TOMBOLO_MONITOR";
/// Environment variable with the name of the machine to attach to.
pub const MACHINE_VARIABLE: &str = "TOMBOLO_MACHINE";
/// Environment variable with the path of the monitor program, if it is neither beside the running program nor
/// on `PATH`.
pub const TOMBOLOD_VARIABLE: &str = "TOMBOLO_TOMBOLOD";

/// Name of the machine of a plain host, started on first use.
pub const LOCAL_MACHINE: &str = "local";

/// Timeout for starting the monitor of a plain host.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Monitor to attach to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    socket: String,
    machine: String,
    /// Whether to start the monitor if it is not running.
    start: bool,
}

impl Target {
    pub(crate) fn machine(name: &str) -> Result<Target, Error> {
        let socket = socket_name(process::user_id(), name, None);
        Ok(Target { socket, machine: name.to_owned(), start: name == LOCAL_MACHINE })
    }

    pub(crate) fn from_environment() -> Result<Target, Error> {
        if let Ok(socket) = std::env::var(MONITOR_VARIABLE) {
            let machine = socket.split('/').nth(2).unwrap_or_default().to_owned();
            return Ok(Target { socket, machine, start: false });
        }
        if let Ok(name) = std::env::var(MACHINE_VARIABLE)
            && !name.is_empty()
        {
            return Self::machine(&name);
        }
        // The monitor of a plain host lingers after its last program, so a machine that a user brought up
        // takes precedence.
        let mut up = machines_up()?;
        up.retain(|name| name != LOCAL_MACHINE);
        match up.as_slice() {
            [] => Self::machine(LOCAL_MACHINE),
            [only] => Self::machine(only),
            several => Err(Error::NoMachine(format!(
                "several machines are up ({}): choose one with --machine or {MACHINE_VARIABLE}",
                several.join(", ")
            ))),
        }
    }

    /// Whether its monitor is started by the first program that attaches, and ends after the last.
    pub(crate) fn is_started_here(&self) -> bool {
        self.start
    }

    pub(crate) fn machine_name(&self) -> &str {
        &self.machine
    }

    pub(crate) fn connect(&self) -> Result<OwnedFd, Error> {
        match self.try_connect() {
            Err(error) if is_refused(&error) => {}
            result => return result,
        }
        if !self.start {
            let others = machines_of_others().unwrap_or_default();
            return Err(Error::NoMachine(match others.iter().find(|other| other.name == self.machine) {
                None => format!(
                    "machine '{}' is not up: start it with `tombolo up`, see what is up with `tombolo status`",
                    self.machine
                ),
                Some(other) => format!(
                    "machine '{}' is up for user {} alone: run this as that user, or start your own with `tombolo up`",
                    self.machine, other.user_id
                ),
            }));
        }
        let mut started = start_monitor(Command::new(find_tombolod()?).arg("local"), |_| {}).map(drop);
        let deadline = Deadline::after(START_TIMEOUT);
        loop {
            match self.try_connect() {
                Err(error) if is_refused(&error) && !deadline.passed() => {
                    // Not even a monitor that another program started meanwhile answers.
                    std::mem::replace(&mut started, Ok(()))?;
                    std::thread::sleep(Duration::from_millis(5));
                }
                result => return result,
            }
        }
    }

    fn try_connect(&self) -> Result<OwnedFd, Error> {
        let connected = socket::connect(&self.socket)?;
        // Any process can listen on an abstract name; only a monitor of our own user is trusted.
        let them = socket::peer_credentials(&connected)?;
        if them.uid != process::user_id() {
            return Err(Error::NoMachine(format!(
                "@{} is held by a process of user {}, not ours",
                self.socket, them.uid
            )));
        }
        Ok(connected)
    }
}

/// Returns the sorted names of this user's machines that are up.
///
/// # Errors
/// An error if the kernel does not list its sockets.
pub fn machines_up() -> Result<Vec<String>, Error> {
    let own = process::user_id();
    Ok(all_machines()?
        .into_iter()
        .filter(|machine| machine.user_id == own)
        .map(|machine| machine.name)
        .collect())
}

/// Machine that is up, as identified by the name of its socket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UserMachine {
    /// User who brought the machine up.
    pub user_id: u32,
    /// Name of the machine.
    pub name: String,
}

/// Returns the machines of other users that are up, sorted. Only programs of their users can use them.
///
/// # Errors
/// An error if the kernel does not list its sockets.
pub fn machines_of_others() -> Result<Vec<UserMachine>, Error> {
    let own = process::user_id();
    let mut all = all_machines()?;
    all.retain(|machine| machine.user_id != own && machine.name != LOCAL_MACHINE);
    Ok(all)
}

fn all_machines() -> Result<Vec<UserMachine>, Error> {
    let table = std::fs::read_to_string("/proc/net/unix").context("list local sockets")?;
    Ok(machines_in(&table))
}

/// Parses the machines whose root monitors listen from a table in the format of `/proc/net/unix`.
fn machines_in(table: &str) -> Vec<UserMachine> {
    // Only listening sockets have the flag 00010000; those of connections repeat the name.
    let machine = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, "00010000", .., path] = fields.as_slice() else { return None };
        let (user_id, name) = parse_socket_name(path.strip_prefix('@')?)?;
        Some(UserMachine { user_id, name: name.to_owned() })
    };
    let mut machines: Vec<UserMachine> = table.lines().filter_map(machine).collect();
    machines.sort();
    machines.dedup();
    machines
}

/// Finds the monitor program: the path in `TOMBOLO_TOMBOLOD`, beside this program, or on `PATH`.
///
/// # Errors
/// [`Error::NoMachine`] with the places that were searched.
pub fn find_tombolod() -> Result<PathBuf, Error> {
    if let Some(named) = tombolod_from_variable(std::env::var_os(TOMBOLOD_VARIABLE)) {
        return named;
    }
    let beside = std::env::current_exe().ok().and_then(|exe| {
        // Examples and tests are in subfolders of the programs' folder.
        exe.ancestors().skip(1).take(2).map(|folder| folder.join("tombolod")).find(|path| path.is_file())
    });
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("tombolod")).find(|path| path.is_file())
    };
    beside.or_else(on_path).ok_or_else(|| {
        Error::NoMachine(format!(
            "no machine is up, and the monitor program `tombolod`, which would start one for this host, is \
             neither beside this program nor on PATH (set {TOMBOLOD_VARIABLE} to its path)"
        ))
    })
}

/// Returns the path in the variable, unless it is empty.
fn tombolod_from_variable(variable: Option<OsString>) -> Option<Result<PathBuf, Error>> {
    let path = PathBuf::from(variable.filter(|value| !value.is_empty())?);
    if path.is_file() {
        return Some(Ok(path));
    }
    Some(Err(Error::NoMachine(format!(
        "{TOMBOLOD_VARIABLE} is {}, which is not a program: set it to the path of `tombolod`, or unset it",
        path.display()
    ))))
}

/// Starts a monitor in the background and waits until it is ready, passing its progress lines to
/// `on_progress`.
///
/// The monitor prints lines on its standard output: `ready` on success, and a line that begins with `error: `
/// with the reason if it cannot start. Returns its process, which ends once the machine has ended and
/// everything is cleaned up.
///
/// # Errors
/// [`Error::NoMachine`] with the reason that it printed.
pub fn start_monitor(command: &mut Command, mut on_progress: impl FnMut(&str)) -> Result<Child, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().context(&format!("start {program}"))?;
    let output = child.stdout.take().ok_or(OsError::new("read what the monitor says", Errno::BADF))?;
    for line in BufReader::new(output).lines() {
        let line = line.context("read what the monitor says")?;
        if line == "ready" {
            return Ok(child);
        }
        if let Some(why) = line.strip_prefix("error: ") {
            let _ = child.wait();
            return Err(Error::NoMachine(why.replace('\u{1}', "\n")));
        }
        on_progress(&line);
    }
    let status = child.wait().context("reap the monitor")?;
    Err(Error::NoMachine(format!("the monitor ended before it was ready ({status})")))
}

/// Whether no monitor listens on the socket.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Os { errno, .. } if *errno == Errno::CONNREFUSED.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tombolo_control::{Reply, Request};
    use tombolo_platform::event::{Interest, poll};

    use super::*;
    use crate::domain::Domain;
    use crate::testing::{LONG, Monitor, domain_id};

    /// Accepts the next connection.
    fn accept(listener: &OwnedFd) -> OwnedFd {
        let soon = Some(Deadline::after(LONG));
        assert!(poll(&[(listener.as_fd(), Interest::Read)], soon).unwrap()[0].readable);
        socket::accept(listener).unwrap().unwrap()
    }

    fn target(what: &str, start: bool) -> Target {
        let socket = format!("tombolo-test/{}/{what}", std::process::id());
        Target { socket, machine: "test".into(), start }
    }

    #[test]
    fn attach_during_monitor_end_finds_the_next() {
        let target = target("next", true);
        let listener = socket::listen(&target.socket).unwrap();
        std::thread::scope(|scope| {
            let attaching = scope.spawn(|| Domain::attach_to(&target));
            // A monitor that ends closes the connections that it has accepted.
            drop(accept(&listener));
            let next = Monitor::of_connection(accept(&listener));
            let (request, body) = next.next_message();
            assert!(matches!(body, Request::Attach { .. }), "{body:?}");
            let (node, machine) = ("host".into(), "test".into());
            next.send_reply(
                request,
                Reply::Attach { domain: domain_id(), node, machine, spawned: false },
                &[],
            );
            assert_eq!(attaching.join().unwrap().unwrap().id(), domain_id());
        });
    }

    #[test]
    fn a_variable_that_names_no_program_is_refused_and_an_empty_one_is_ignored() {
        assert_eq!(tombolod_from_variable(None).map(|named| named.is_ok()), None);
        assert_eq!(tombolod_from_variable(Some(OsString::new())).map(|named| named.is_ok()), None);
        let this = std::env::current_exe().unwrap();
        assert_eq!(tombolod_from_variable(Some(this.clone().into())).unwrap().unwrap(), this);
        let error =
            tombolod_from_variable(Some("/nowhere/tombolod".into())).unwrap().unwrap_err().to_string();
        assert!(error.contains("TOMBOLO_TOMBOLOD is /nowhere/tombolod, which is not a program"), "{error}");
        assert!(tombolod_from_variable(Some("/".into())).unwrap().is_err(), "a folder");
    }

    #[test]
    fn machines_are_found_by_listening_sockets() {
        let table = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0005 01 44 @tombolo/1000/duo
0000000000000000: 00000003 00000000 00000000 0005 03 45 @tombolo/1000/duo
0000000000000000: 00000002 00000000 00010000 0005 01 46 @tombolo/1000/duo/riscv-user
0000000000000000: 00000002 00000000 00010000 0001 01 47 @tombolo/x/duo
0000000000000000: 00000002 00000000 00010000 0001 01 48 /run/tombolo/0/duo
0000000000000000: 00000002 00000000 00010000 0005 01 49 @tombolo/0/default
0000000000000000: 00000003 00000000 00000000 0001 03 50
";
        let machine = |user_id, name: &str| UserMachine { user_id, name: name.into() };
        assert_eq!(machines_in(table), [machine(0, "default"), machine(1000, "duo")]);
    }

    #[test]
    fn a_machine_that_ends_is_lost() {
        let target = target("lost", false);
        let listener = socket::listen(&target.socket).unwrap();
        std::thread::scope(|scope| {
            let attaching = scope.spawn(|| Domain::attach_to(&target));
            drop(accept(&listener));
            let error = attaching.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::MonitorLost { .. }), "{error}");
        });
    }
}
