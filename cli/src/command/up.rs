//! `tombolo up`

mod foreground;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::fs::{MemfdFlags, memfd_create};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tombolo::Domain;
use tombolo::find::{find_tombolod, machines_up, start_monitor};
use tombolo::nodes::NodeInfo;
use tombolo_machine::file::{DEFAULT_MACHINE_FILE, FileError};
use tombolo_machine::{FoundMemory, Machine};

use crate::context::Context;
use crate::failure::Failure;
use crate::signals;
use crate::text;

/// Default machine file, if it exists.
const DEFAULT_FILE: &str = "machines/default.toml";

/// Timeout for a started monitor to respond.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for a machine to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Brings up a machine
///
/// Starts all nodes of the machine file with their monitors, and returns when they are ready. The machine
/// runs in the background until `tombolo down`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo up                      this host and a small Arm virtual machine
  tombolo up machines/zoo.toml    the machine of this file
  tombolo up lab.toml --force     also over links that `tombolo litmus` found unfit")]
pub(crate) struct Options {
    /// The machine file [default: machines/default.toml, or the same machine built in]
    file: Option<PathBuf>,

    /// Use links that a `[[found]]` of the machine file says are unfit for channels
    #[arg(long)]
    force: bool,

    /// Stay in the foreground until the machine has ended, and take it down on SIGTERM or SIGINT, as systemd
    /// expects
    #[arg(long)]
    foreground: bool,

    /// Also take it down when standard input ends: a program that keeps the other end of a pipe takes the
    /// machine along, however it ends
    #[arg(long, requires = "foreground")]
    until_eof: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let source = Source::choose(options)?;
    if source.path().to_str().is_none() {
        return Err(Failure::Usage {
            message: format!("the path of the machine file is not valid UTF-8: {}", source.path().display()),
            hint: Some("rename it, or link to it under another name"),
        });
    }
    // Mistakes in the file are shown here, in colour, rather than through the monitor.
    let machine = source.read()?;
    check_name(context, machine.name())?;
    check_links(context, &machine, options.force)?;
    if machines_up()?.iter().any(|name| name == machine.name()) {
        return Err(Failure::UpAlready(machine.name().to_owned()));
    }
    let start = Instant::now();
    let nodes = text::count(machine.nodes().len(), "node");
    context.info(format!("bringing up machine '{}': {nodes}, from {source}", machine.name()));
    let interruption = Interruption::watch(context, machine.name())?;
    if options.until_eof {
        foreground::watch_input();
    }
    let mut monitor = Command::new(find_tombolod()?);
    let started = start_monitor(monitor.arg("up").arg(source.path()), |line| {
        context.info(format!("{:>7}  {}", text::duration(start.elapsed()), text::one_line(line)));
    });
    let announce = || -> Result<(), Failure> {
        let nodes = Domain::attach_to_machine(machine.name())?.nodes()?;
        context.info(summary(machine.name(), &nodes, start));
        Ok(())
    };
    if options.foreground {
        return foreground::run(machine.name(), started, announce, &interruption);
    }
    interruption.finish()?;
    started?;
    announce()
}

/// Refuses a machine file with a link that is unfit for channels, unless `force` is set.
fn check_links(context: &Context, machine: &Machine, force: bool) -> Result<(), Failure> {
    let name = |id| machine.node(id).map_or("?", |node| node.name.as_str());
    for found in machine.found() {
        let Some(fault) = found.memory.as_ref().and_then(FoundMemory::fault) else { continue };
        let message = format!(
            "what `tombolo litmus` found of the link between {} and {} is unfit for channels: {fault}",
            name(found.a),
            name(found.b)
        );
        if !force {
            return Err(Failure::Usage {
                message,
                hint: Some(
                    "correct the node or its bus, and delete this [[found]] to test again; `tombolo up --force` \
                     uses the link all the same",
                ),
            });
        }
        context.info(format!("warning: {message}"));
    }
    Ok(())
}

/// Source of the machine's description.
enum Source {
    File(PathBuf),
    /// The default machine, in memory that the monitor can read, without a file.
    BuiltIn(OwnedFd),
}

impl Source {
    fn choose(options: &Options) -> Result<Source, Failure> {
        let default = || Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.is_file());
        if let Some(file) = options.file.clone().or_else(default) {
            return Ok(Source::File(file));
        }
        let failed = |error: io::Error| Failure::system("keep the built-in machine file")(error);
        let memory =
            memfd_create("default.toml", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(memory);
        file.write_all(DEFAULT_MACHINE_FILE.as_bytes()).map_err(failed)?;
        Ok(Source::BuiltIn(file.into()))
    }

    fn read(&self) -> Result<Machine, Failure> {
        match self {
            Source::File(file) => Ok(Machine::open(file)?),
            Source::BuiltIn(_) => Ok(Machine::built_in().map_err(FileError::from)?),
        }
    }

    /// Returns the path that the monitor opens while this program waits for it.
    fn path(&self) -> PathBuf {
        match self {
            Source::File(file) => file.clone(),
            Source::BuiltIn(memory) => {
                format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd()).into()
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file) => write!(f, "{}", file.display()),
            Source::BuiltIn(_) => f.write_str("the built-in machine file"),
        }
    }
}

/// Placeholder for a signal once the machine is up: signals are ignored from then on.
const IGNORE_SIGNALS: u8 = u8::MAX;

/// Handler that takes down a machine during startup when the user interrupts the command.
struct Interruption {
    /// Signal that interrupted it; 0 for none.
    signal: Arc<AtomicU8>,
    /// Receives a message when the machine is down again.
    stopped: Receiver<()>,
}

impl Interruption {
    fn watch(context: &Context, name: &str) -> Result<Interruption, Failure> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::system("listen for signals"))?;
        let (sender, stopped) = mpsc::channel();
        let noted = Arc::new(AtomicU8::new(0));
        let (signal, context, name) = (Arc::clone(&noted), context.clone(), name.to_owned());
        std::thread::spawn(move || {
            for number in signals.forever() {
                match signal.compare_exchange(0, number as u8, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => {}
                    // The machine is up, and is about to be reported as such.
                    Err(IGNORE_SIGNALS) => continue,
                    // The second time: exit without waiting.
                    Err(_) => std::process::exit(128 + number),
                }
                context.info(format!("taking '{name}' down"));
                let (name, sender) = (name.clone(), sender.clone());
                std::thread::spawn(move || {
                    // The monitor may not have been started yet.
                    let _ = attach_with_retry(&name)
                        .and_then(|domain| tombolo_admin::Machine::of(&domain).stop());
                    let _ = sender.send(());
                });
            }
        });
        Ok(Interruption { signal: noted, stopped })
    }

    /// Returns the signal that interrupted it, once the machine is down.
    fn signal(&self) -> Option<u8> {
        let signal = self.signal.load(Ordering::SeqCst);
        (signal != 0).then(|| {
            let _ = self.stopped.recv_timeout(STOP_TIMEOUT);
            signal
        })
    }

    /// Returns an error if a signal came, once the machine is down. A later signal has no effect.
    fn finish(&self) -> Result<(), Failure> {
        match self.signal.compare_exchange(0, IGNORE_SIGNALS, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) | Err(IGNORE_SIGNALS) => Ok(()),
            Err(signal) => {
                let _ = self.stopped.recv_timeout(STOP_TIMEOUT);
                let message = format!("ended by {}", signals::name(signal));
                Err(Failure::Job { message, status: 128 + signal })
            }
        }
    }
}

/// Attaches to a machine whose monitor may still be starting.
fn attach_with_retry(name: &str) -> Result<Domain, tombolo::Error> {
    let start = Instant::now();
    loop {
        match Domain::attach_to_machine(name) {
            Err(tombolo::Error::NoMachine(_)) if start.elapsed() < ATTACH_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// Checks that `--machine` before `up`, if given, is the machine of the file.
fn check_name(context: &Context, name: &str) -> Result<(), Failure> {
    match &context.machine {
        Some(wanted) if wanted != name => Err(Failure::Usage {
            message: format!(
                "--machine (or TOMBOLO_MACHINE) names machine '{wanted}', but the file describes machine '{name}'"
            ),
            hint: Some("the machine file sets the name"),
        }),
        _ => Ok(()),
    }
}

fn summary(name: &str, nodes: &[NodeInfo], start: Instant) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| format!("{} ({})", node.name, node.isa)).collect();
    format!("machine '{name}' is up after {}: {}", text::duration(start.elapsed()), nodes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_machine_can_be_read_by_another_program() {
        // The tests run in the folder of this crate, which has no machine files.
        let source =
            Source::choose(&Options { file: None, foreground: false, force: false, until_eof: false })
                .unwrap();
        let read = Command::new("cat").arg(source.path()).output().unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), DEFAULT_MACHINE_FILE);
        assert_eq!(source.to_string(), "the built-in machine file");
        assert_eq!(source.read().unwrap().name(), "default");
    }
}
