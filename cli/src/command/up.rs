//! `tombolo up`

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;
use tombolo::find::{LOCAL_MACHINE, find_tombolod, machines_up, start_monitor};
use tombolo::{Domain, NodeInfo};
use tombolo_machine::Machine;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// The machine file that is used when none is named, where there is one.
const DEFAULT_FILE: &str = "machines/default.toml";

/// Brings up a machine
///
/// Starts every node that the machine file describes, and the monitors that join them, and returns when all are
/// ready. The machine runs in the background until `tombolo down`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo up                      machines/default.toml where there is one, else this host alone
  tombolo up machines/zoo.toml    the machine that this file describes")]
pub(crate) struct Options {
    /// The machine file
    file: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let file =
        options.file.as_deref().or_else(|| Some(Path::new(DEFAULT_FILE)).filter(|file| file.is_file()));
    // Mistakes in the file are shown here, in colour, rather than through the monitor.
    let machine = match file {
        Some(file) => Machine::open(file)?,
        None => Machine::local(),
    };
    check_name(context, machine.name())?;
    if machines_up()?.iter().any(|name| name == machine.name()) {
        return Err(Failure::UpAlready(machine.name().to_owned()));
    }
    let start = Instant::now();
    context.say(heading(&machine, file));
    let mut monitor = Command::new(find_tombolod()?);
    match file {
        Some(file) => monitor.arg("up").arg(file),
        None => monitor.arg(LOCAL_MACHINE),
    };
    start_monitor(&mut monitor, |line| {
        context.say(format!("{:>7}  {}", text::duration(start.elapsed()), text::one_line(line)));
    })?;
    let nodes = Domain::attach_to_machine(machine.name())?.nodes()?;
    context.say(summary(machine.name(), &nodes, start));
    Ok(())
}

/// `--machine` before `up` can only mean the one that the file describes.
fn check_name(context: &Context, name: &str) -> Result<(), Failure> {
    match &context.machine {
        Some(wanted) if wanted != name => Err(Failure::Usage {
            message: format!("--machine (or TOMBOLO_MACHINE) says '{wanted}', but this is machine '{name}'"),
            hint: Some("a machine has the name that its file gives it"),
        }),
        _ => Ok(()),
    }
}

fn heading(machine: &Machine, file: Option<&Path>) -> String {
    let nodes = text::count(machine.nodes().len(), "node");
    match file {
        Some(file) => format!("bringing up machine '{}': {nodes}, from {}", machine.name(), file.display()),
        None => format!(
            "bringing up machine '{}': this host alone, as there is no {DEFAULT_FILE}",
            machine.name()
        ),
    }
}

fn summary(name: &str, nodes: &[NodeInfo], start: Instant) -> String {
    let nodes: Vec<String> = nodes.iter().map(|node| format!("{} ({})", node.name, node.isa)).collect();
    format!("machine '{name}' is up after {}: {}", text::duration(start.elapsed()), nodes.join(", "))
}
