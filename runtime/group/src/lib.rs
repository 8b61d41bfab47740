//! Groups of domains: each member broadcasts to all others, along trees of ordinary channels.
//!
//! ```no_run
//! use tombolo::Domain;
//! use tombolo_group::{Event, Group, GroupError, GroupOptions};
//!
//! fn main() -> Result<(), GroupError> {
//!     let domain = Domain::attach()?;
//!     let mut group = Group::join(&domain, "sensors", &GroupOptions::default())?;
//!     group.broadcast(b"ready")?;
//!     loop {
//!         match group.recv()? {
//!             Event::Message { from, data } => println!("{from}: {}", String::from_utf8_lossy(&data)),
//!             Event::Joined(member) => println!("{member} has joined"),
//!             Event::Left { member, died } => {
//!                 println!("{member} has {}", if died { "died" } else { "left" });
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! Members can be on any nodes with any instruction sets: there is a channel between each pair of members,
//! over the link of their nodes. [`tombolo_broadcast`] implements the protocol and its guarantees: every
//! surviving member receives every message that any of them received, once and in the order of its source;
//! with [`GroupOptions::total_order`] all receive them in the same order.
//!
//! **A member participates only during calls.** It receives and forwards in [`recv`](Group::recv),
//! [`broadcast`](Group::broadcast) and every other call that may wait. A program that computes for long
//! should call [`try_recv`](Group::try_recv) meanwhile, or dedicate a thread to its group; otherwise it
//! delays the members below it in the trees, and eventually all sources.
//!
//! Members of a group trust each other about the membership: a member that reports another one as dead causes
//! its expulsion.
#![forbid(unsafe_code)]

mod group;
mod open;
mod options;

use std::time::Duration;

use tombolo::DomainId;
pub use tombolo_broadcast::{Config, MemberId, Order, Usage};

pub use group::Group;
pub use options::GroupOptions;

/// Event in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A member has joined. Reported before its first message, and initially for each existing member,
    /// including this one.
    Joined(MemberId),
    /// A message from a member.
    Message {
        /// Member that broadcast the message.
        from: MemberId,
        /// Bytes of the message.
        data: Vec<u8>,
    },
    /// A member is gone. Reported after the last of its messages that any living member has.
    Left {
        /// Member that is gone.
        member: MemberId,
        /// Whether it did not leave in order: it died, its node was lost, or its channel to a member failed.
        died: bool,
    },
}

/// Another member, with its domain and node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Number of the member.
    pub member: MemberId,
    /// Domain of the member.
    pub domain: DomainId,
    /// Name of its node.
    pub node: String,
}

/// Error of an operation of a group that was not performed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The deadline passed.
    #[error("group '{group}': {what} within {timeout:?}")]
    TimedOut {
        /// Name of the group.
        group: String,
        /// Event that did not happen.
        what: String,
        /// Timeout of the operation.
        timeout: Duration,
    },
    /// The message exceeds the maximum length of the group.
    #[error(
        "group '{group}': a message of {length_bytes} bytes is longer than {max_bytes}; send it in parts, or set a higher \
         max_message_bytes for all members"
    )]
    TooLong {
        /// Name of the group.
        group: String,
        /// Length of the message, in bytes.
        length_bytes: usize,
        /// Maximum that the members agreed on, in bytes.
        max_bytes: usize,
    },
    /// The other members considered this one dead.
    #[error(
        "group '{group}': the other members expelled this one, whose channel to one of them broke; join again to go on"
    )]
    Expelled {
        /// Name of the group.
        group: String,
    },
    /// An option was given a value that is not allowed.
    #[error("{option} of a group cannot be {given}: choose {allowed}")]
    BadOption {
        /// Name of the function that sets the option.
        option: &'static str,
        /// Value that was given.
        given: u64,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// A channel, a name or the monitor failed.
    #[error(transparent)]
    Domain(#[from] tombolo::Error),
}
