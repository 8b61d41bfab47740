//! `tombolo restart`

use std::time::Instant;

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Starts a node again that is down
///
/// The node comes back in a new generation: ids of domains from before stay dead. What ran there is not started
/// again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo restart arm0
  tombolo restart --machine duo arm0")]
pub(crate) struct Options {
    /// The node
    node: String,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let start = Instant::now();
    domain.restart_node(&options.node)?;
    context.say(format!("node {} is up after {}", options.node, text::duration(start.elapsed())));
    Ok(())
}
