//! `tombolo down`

use std::time::Instant;

use clap::Args;
use tombolo::Domain;
use tombolo::find::machines_up;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Takes a machine down
///
/// Ends every domain, stops every node and then the monitor, and returns when all are gone.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo down                   the machine that is up
  tombolo down --machine duo     that one, when several are
  tombolo down --all             every machine of this user")]
pub(crate) struct Options {
    /// Every machine of this user, whatever --machine says
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if !options.all {
        return take_down(context, &context.attach_running()?);
    }
    let names = machines_up()?;
    if names.is_empty() {
        context.say("no machine is up");
    }
    let mut result = Ok(());
    for name in names {
        // One that cannot be stopped is no reason to leave the others up.
        let stopped = Domain::attach_to_machine(&name)
            .map_err(Failure::from)
            .and_then(|domain| take_down(context, &domain));
        result = result.and(stopped);
    }
    result
}

fn take_down(context: &Context, domain: &Domain) -> Result<(), Failure> {
    let start = Instant::now();
    domain.stop_machine()?;
    context.say(format!(
        "machine '{}' is down after {}",
        domain.machine_name(),
        text::duration(start.elapsed())
    ));
    Ok(())
}
