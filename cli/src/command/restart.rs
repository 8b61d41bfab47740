//! `tombolo restart`

use std::time::Instant;

use clap::Args;
use tombolo::Error;
use tombolo::error::Fault;
use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_admin::Machine;
use tombolo_cli_common::nodes::node_named;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Restarts a node that is down
///
/// The node gets a new generation: ids from before stay invalid, and its programs are not started again. With
/// --force a node that is up is stopped first, with all its domains.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo restart arm0
  tombolo restart arm0 --force
  tombolo restart --machine duo arm0")]
pub(crate) struct Options {
    /// The name of the node
    node: String,

    /// Also restart a node that is up or starting, and end all its domains
    #[arg(short, long)]
    force: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let machine = Machine::of(&domain);
    let nodes = domain.nodes()?;
    let node = node_named(&nodes, &options.node)?;
    let start = Instant::now();
    if options.force {
        machine.force_restart_node(&node.name)?;
    } else {
        machine.restart_node(&node.name).map_err(|error| restart_failure(error, node))?;
    }
    context.info(format!("node {} is up after {}", node.name, text::duration(start.elapsed())));
    Ok(())
}

/// Adds to an error how to restart a node that is up. The host is never restarted.
fn restart_failure(error: Error, node: &NodeInfo) -> Failure {
    let by_force = matches!(error, Error::Monitor(Fault::Refused { .. })) && node.kind != NodeKind::Host;
    let failure = Failure::from(error);
    if by_force {
        let command = format!("tombolo restart {} --force", node.name);
        return failure.advised(format!("`{command}` stops it first and ends all its domains"));
    }
    failure
}
