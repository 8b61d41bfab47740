//! Services of nodes as jobs: one program on each of several nodes, until Ctrl-C.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use tombolo_cli_common::arguments::exit_with;

use super::super::Command;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::failure::Failure;

/// Parses the name of a node, without a number of programs.
pub(crate) fn parse_node(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && !text.contains(':');
    is_name.then(|| text.to_owned()).ok_or_else(|| "write the names of nodes, each once".to_owned())
}

/// Returns a node that is given twice, if any.
pub(crate) fn find_duplicate(nodes: &[String]) -> Option<&str> {
    let is_earlier = |(index, node): &(usize, &String)| nodes[..*index].contains(node);
    nodes.iter().enumerate().find(is_earlier).map(|(_, node)| node.as_str())
}

/// Returns the arguments of the job for `tombolo run`.
pub(crate) fn run_arguments(nodes: &[String], image: PathBuf, arguments: &[String]) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["tombolo", "run", "--label", "--no-input", "--keep-going", "--on"].map(OsString::from).into();
    words.push(nodes.join(",").into());
    words.push(image.into());
    words.extend(arguments.iter().map(OsString::from));
    words
}

/// Runs the job.
pub(crate) fn run(
    context: &Context,
    nodes: &[String],
    image: PathBuf,
    arguments: &[String],
) -> Result<(), Failure> {
    match Arguments::try_parse_from(run_arguments(nodes, image, arguments)) {
        Ok(Arguments { command: Command::Run(options), .. }) => super::run(context, &options),
        Ok(_) => unreachable!("its second word is `run`"),
        // The nodes are not a valid list for `run`.
        Err(error) => exit_with(&error),
    }
}
