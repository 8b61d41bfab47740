//! `tombolo restart`

use std::time::Instant;

use clap::Args;
use tombolo::Error;
use tombolo::admin::NodeInfo;
use tombolo::error::Fault;
use tombolo_cli_common::nodes::named;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Starts a node again
///
/// The node comes back in a new generation: ids of domains from before stay dead, and what ran there is not started
/// again. One that is up is stopped first, with its domains, if --force says so.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo restart arm0
  tombolo restart arm0 --force
  tombolo restart --machine duo arm0")]
pub(crate) struct Options {
    /// The node
    node: String,

    /// Stop it first if it is up or starting, and end all domains on it
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let nodes = domain.nodes()?;
    let node = named(&nodes, &options.node)?;
    let start = Instant::now();
    if options.force {
        domain.force_restart_node(&node.name)?;
    } else {
        domain.restart_node(&node.name).map_err(|error| refused(error, node))?;
    }
    context.say(format!("node {} is up after {}", node.name, text::duration(start.elapsed())));
    Ok(())
}

/// A node that is up is refused; the host is never restarted, others by force.
fn refused(error: Error, node: &NodeInfo) -> Failure {
    let by_force = matches!(error, Error::Monitor(Fault::Refused { .. })) && node.kind != "host";
    let failure = Failure::from(error);
    if by_force {
        let command = format!("tombolo restart {} --force", node.name);
        return failure.advised(format!("`{command}` stops it first, and ends all domains on it"));
    }
    failure
}
