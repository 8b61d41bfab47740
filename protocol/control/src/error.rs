//! What a monitor answers when it cannot do what was asked.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use tombolo_base::{DomainId, Target};
use tombolo_naming::NameFault;

use crate::wire::wire_enum;

wire_enum! {
    /// Why a monitor refused a request. Each names what it was about and what the user can do.
    Fault {
        /// No node of that name in the machine.
        1 => NoSuchNode {
            /// What was asked for.
            name: String,
            /// What there is.
            available: Vec<String>,
        }
        /// The node is not running.
        2 => NodeDown {
            /// Its name.
            node: String,
            /// Why, if known.
            cause: String,
        }
        /// Nobody exports that name, and the deadline passed.
        3 => NoSuchName {
            /// What was asked for.
            name: String,
        }
        /// Somebody exports that name already.
        4 => NameTaken {
            /// The name.
            name: String,
            /// Who has it.
            owner: DomainId,
        }
        /// It is no name: empty, too long, or with characters that names cannot have.
        5 => BadName {
            /// What was given.
            name: String,
        }
        /// No live domain with that id.
        6 => NoSuchDomain {
            /// What was asked for.
            domain: DomainId,
        }
        /// The image has no build that the node can run.
        7 => NoBuildForIsa {
            /// The image.
            image: String,
            /// The node.
            node: String,
            /// What the node runs.
            isa: Target,
            /// What the image has.
            available: Vec<Target>,
        }
        /// The image cannot be read.
        8 => BadImage {
            /// Why.
            why: String,
        }
        /// The program did not start.
        9 => StartFailed {
            /// The node.
            node: String,
            /// Why.
            why: String,
        }
        /// Two nodes that cannot reach each other.
        10 => NoLink {
            /// One.
            from: String,
            /// The other.
            to: String,
        }
        /// A limit of the machine was met.
        11 => Limit {
            /// Which, its value, and where to raise it.
            what: String,
        }
        /// The request makes no sense where it was made.
        12 => Refused {
            /// Why.
            why: String,
        }
        /// The operating system refused something on the way.
        13 => System {
            /// What, and its answer.
            what: String,
        }
        /// A request about names.
        30 => Name {
            /// Why.
            fault: NameFault,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoSuchNode { name, available } => {
                write!(f, "this machine has no node '{name}'; it has {}", Listed(available))
            }
            Fault::NodeDown { node, cause } if cause.is_empty() => write!(f, "node {node} is down"),
            Fault::NodeDown { node, cause } => write!(f, "node {node} is down: {cause}"),
            Fault::NoSuchName { name } => {
                write!(f, "nobody exports '{name}' (`tombolo names` lists what there is)")
            }
            Fault::NameTaken { name, owner } => {
                write!(f, "the name '{name}' is taken by domain {owner}: choose another or stop that domain")
            }
            Fault::BadName { name } => write!(
                f,
                "'{name}' is no name: 1 to {} letters, digits, '.', '_', '-', '/' or ':'",
                crate::MAX_NAME_BYTES
            ),
            Fault::NoSuchDomain { domain } => {
                write!(f, "no domain {domain} is running (`tombolo ps` lists those that are)")
            }
            Fault::NoBuildForIsa { image, node, isa, available } => write!(
                f,
                "{image} has no build for {isa}, which node {node} runs; it has {} \
                 (`tombolo build` makes one for every node)",
                Listed(available)
            ),
            Fault::BadImage { why } => write!(f, "not a usable image: {why}"),
            Fault::StartFailed { node, why } => write!(f, "cannot start on node {node}: {why}"),
            Fault::NoLink { from, to } if from == to => {
                write!(f, "programs on node {from} share no link: a board runs one program at a time")
            }
            Fault::NoLink { from, to } => write!(
                f,
                "nodes {from} and {to} share no link: what is behind a window, a virtual machine or a board, reaches \
                 the nodes of the host's kernel only"
            ),
            Fault::Name { fault } => write!(f, "{fault}"),
            Fault::Limit { what } | Fault::Refused { why: what } | Fault::System { what } => {
                f.write_str(what)
            }
        }
    }
}

impl core::error::Error for Fault {}

/// Prints a list as people write one.
struct Listed<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, item) in self.0.iter().enumerate() {
            let separator = match index {
                0 => "",
                _ if index + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}
