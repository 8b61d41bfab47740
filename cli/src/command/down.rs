//! `tombolo down`

use std::time::{Duration, Instant};

use clap::Args;
use tombolo::find::machines_up;
use tombolo::{Domain, Error};
use tombolo_admin::Machine;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Timeout for the processes of a machine to end after its monitor was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes a machine down
///
/// Ends all domains, stops all nodes and then the monitor, and returns when they are gone.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo down                   the machine that is up
  tombolo down --machine duo     one of several
  tombolo down --all             all machines of this user")]
pub(crate) struct Options {
    /// Take down all machines of this user, whatever --machine says
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if !options.all {
        return take_down(context, || context.attach_running());
    }
    let names = machines_up()?;
    if names.is_empty() {
        context.info("no machine is up");
    }
    let mut result = Ok(());
    for name in names {
        // Continue with the others if one cannot be stopped.
        let stopped = take_down(context, || Ok(Domain::attach_to_machine(&name)?));
        result = result.and(stopped);
    }
    result
}

fn take_down(context: &Context, attach: impl FnOnce() -> Result<Domain, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    let name = match attach() {
        Ok(domain) => {
            Machine::of(&domain).stop()?;
            domain.machine_name().to_owned()
        }
        // It ended by itself during the request: success, once it is really gone.
        Err(failure) => match failure.cause() {
            Some(Error::MonitorLost { machine }) if wait_until_gone(machine)? => machine.clone(),
            _ => return Err(failure),
        },
    };
    context.info(format!("machine '{name}' is down after {}", text::duration(start.elapsed())));
    Ok(())
}

/// Waits until a machine whose monitor hung up is gone. Returns false if it is still up.
fn wait_until_gone(machine: &str) -> Result<bool, Error> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    while machines_up()?.iter().any(|name| name == machine) {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}
