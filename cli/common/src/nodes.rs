//! Nodes that a command line names.

use tombolo::{Error, Fault, NodeInfo};

/// The node of that name. A name that the machine does not have is an error of the machine, with status 1, and not of the
/// command line, whichever command it is given to.
///
/// # Errors
/// [`Fault::NoSuchNode`] with the names that there are.
pub fn named<'a>(nodes: &'a [NodeInfo], name: &str) -> Result<&'a NodeInfo, Error> {
    nodes.iter().find(|node| node.name == name).ok_or_else(|| {
        let available = nodes.iter().map(|node| node.name.clone()).collect();
        Fault::NoSuchNode { name: name.to_owned(), available }.into()
    })
}
