//! Nodes that a command line names.

use tombolo::Error;
use tombolo::admin::NodeInfo;
use tombolo_placement::{PlacementError, position};

use crate::failure::Failure;

/// The node of that name. A name that the machine does not have is an error of the machine, with status 1,
/// and not of the command line, whichever command it is given to.
///
/// # Errors
/// [`Fault::NoSuchNode`](tombolo::error::Fault::NoSuchNode) with the names that there are.
pub fn named<'a>(nodes: &'a [NodeInfo], name: &str) -> Result<&'a NodeInfo, Error> {
    position(nodes, name).map(|index| &nodes[index])
}

/// What a command says of ranks that cannot be placed: numbers are an error of the command line, nodes one of
/// the machine.
#[must_use]
pub fn placement_failure(error: PlacementError) -> Failure {
    match error {
        PlacementError::Count(message) => Failure::Usage { message, hint: None },
        PlacementError::Machine(error) => error.into(),
    }
}
