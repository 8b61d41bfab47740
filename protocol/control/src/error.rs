//! The messages of faults that a monitor returns.

use core::fmt;

use crate::machine::Fault;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoSuchNode { name, available } => {
                write!(f, "this machine has no node '{name}'; it has {}", Listed(available))
            }
            Fault::NodeDown { node, cause } if cause.is_empty() => write!(f, "node {node} is down"),
            Fault::NodeDown { node, cause } => write!(f, "node {node} is down: {cause}"),
            Fault::NoSuchName { name } => {
                write!(f, "no domain exports '{name}' (`tombolo names` lists what exists)")
            }
            Fault::NameTaken { name, owner } => {
                write!(f, "the name '{name}' is taken by domain {owner}; choose another or stop that domain")
            }
            Fault::BadName { name } => write!(
                f,
                "invalid name '{name}'; use 1 to {} letters, digits, '.', '_', '-', '/' or ':'",
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
                write!(f, "programs on node {from} share no link, because a board runs one program at a time")
            }
            Fault::NoLink { from, to } => write!(
                f,
                "no route leads from node {from} to node {to}: they share no link, and no node between them that is up \
                 can relay (the host and virtual machines can)"
            ),
            Fault::Name { fault } => write!(f, "{fault}"),
            Fault::Capability { fault } => write!(f, "{fault}"),
            Fault::NotGiven { name, given } => write!(
                f,
                "this program was not started with a capability named '{name}'; it was given {given} (a program gives them \
                 when it starts another)"
            ),
            Fault::Limit { what } | Fault::Refused { why: what } | Fault::System { what } => {
                f.write_str(what)
            }
        }
    }
}

impl core::error::Error for Fault {}

/// Prints a list with commas and "and".
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
