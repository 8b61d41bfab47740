//! `tombolo copies`: a copy service on each node, as a job of `tombolo run`.

use std::path::PathBuf;

use clap::Args;
use tombolo_machine::Kit;

use super::run::service;
use crate::context::Context;
use crate::failure::Failure;

/// Serves copies between memories of several programs
///
/// Starts a copy service on each of the nodes. Programs of any node connect to the service of a node, with
/// the crate tombolo-copies or by the interface tombolo.copies.Copies, register memory by capability and
/// enqueue copies; the service does these with the engines of its node and tells the end of each. Memory has
/// to be reachable from the node of the service, and need not be from that of the program. Runs until Ctrl-C;
/// then what has not ended is lost.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo copies                    on the host
  tombolo copies --on host,arm0     one on each of these nodes")]
pub(crate) struct Options {
    /// The nodes that copy
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', default_value = "host", value_parser = service::parse_node)]
    on: Vec<String>,

    /// The image of the program that serves [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if let Some(twice) = service::find_duplicate(&options.on) {
        let message = format!("a node has one copy service; '{twice}' is named twice");
        return Err(Failure::Usage { message, hint: None });
    }
    let image = match &options.image {
        Some(image) => image.clone(),
        None => Kit::locate()?.image("copies"),
    };
    service::run(context, &options.on, image, &[])
}
