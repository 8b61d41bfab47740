//! Groups of domains: each member broadcasts to all others, along trees of ordinary channels.
//!
//! ```no_run
//! use tombolo::Domain;
//! use tombolo_group::{Event, Group, GroupError, GroupOptions};
//!
//! fn main() -> Result<(), GroupError> { let domain = Domain::attach()?; let mut group =
//! Group::join(&domain, "sensors", &GroupOptions::default())?; group.broadcast(b"ready")?; loop { match
//! group.recv()? { Event::Message { from, data } => println!("{from}: {}", String::from_utf8_lossy(&data)),
//! Event::Joined(member) => println!("{member} has joined"), Event::Left { member, died } =>
//! println!("{member} has {}", if died { "died" } else { "left" }), } } }
//! ```
//!
//! Members need not be on one node, nor of one instruction set: there is a channel between each two of them,
//! over whatever links their nodes. [`tombolo_broadcast`] has the protocol and what it promises: every member
//! that lives on gets every message that any of them got, once and in the order of its source; with
//! [`GroupOptions::total_order`] all of them in one order.
//!
//! **A member takes part while it calls.** It receives and forwards in [`recv`](Group::recv),
//! [`broadcast`](Group::broadcast) and every other call that may wait. A program that computes for long calls
//! [`try_recv`](Group::try_recv) meanwhile, or has a thread for its group; otherwise it delays the members
//! below it in the trees, and in the end all sources.
//!
//! Members of a group trust each other about the membership: one that says another is dead has it expelled.
#![forbid(unsafe_code)]

mod group;
mod open;
mod options;

use std::time::Duration;

use tombolo::DomainId;
pub use tombolo_broadcast::{Config, MemberId, Order, Usage};

pub use group::Group;
pub use options::GroupOptions;

/// What happens in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A member has joined. Comes before its first message, and at first for each member that there is, this
    /// one included.
    Joined(MemberId),
    /// A message.
    Message {
        /// The member that broadcast it.
        from: MemberId,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// A member is gone. Comes after the last of its messages that any living member has.
    Left {
        /// The member.
        member: MemberId,
        /// It did not leave in order: it died, its node was lost, or its channel to a member broke.
        died: bool,
    },
}

/// A member of a group as this one reaches it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The member.
    pub member: MemberId,
    /// Its domain.
    pub domain: DomainId,
    /// The name of its node.
    pub node: String,
}

/// Why an operation of a group did not happen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The deadline passed.
    #[error("group '{group}': {what} within {timeout:?}")]
    TimedOut {
        /// The group.
        group: String,
        /// What did not happen.
        what: String,
        /// The time that it had.
        timeout: Duration,
    },
    /// The message is longer than the group allows.
    #[error(
        "group '{group}': a message of {length_bytes} bytes is longer than {max_bytes}; send it in parts, or set a higher \
         max_message_bytes for all members"
    )]
    TooLong {
        /// The group.
        group: String,
        /// The length of the message.
        length_bytes: usize,
        /// The most that its members agreed on.
        max_bytes: usize,
    },
    /// The other members took this one for dead.
    #[error(
        "group '{group}': the other members expelled this one, whose channel to one of them broke; join again to go on"
    )]
    Expelled {
        /// The group.
        group: String,
    },
    /// An option has a value that it cannot have.
    #[error("{option} of a group cannot be {given}: choose {allowed}")]
    BadOption {
        /// The option, by the name of the function that sets it.
        option: &'static str,
        /// The value that was given.
        given: u64,
        /// The values that it can have.
        allowed: &'static str,
    },
    /// A channel, a name or the monitor failed.
    #[error(transparent)]
    Domain(#[from] tombolo::Error),
}
