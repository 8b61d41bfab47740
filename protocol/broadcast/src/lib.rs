//! Broadcast from any member of a group to all others, over channels between each pair of members.
//!
//! After *Asynchronous Broadcast on the Intel SCC using Interrupts* (Petrović, Shahmirzadi, Ropars, Schiper),
//! algorithm 1. Each source has its own tree over all members, in which each member has up to *k* children. A
//! message is divided into chunks. A member that receives a chunk acknowledges it at once; it forwards the
//! chunk if one of its forwarding buffers is free and no other chunk waits for one, and otherwise queues it.
//! So no member waits for another before it receives: there is no deadlock, and no chunk overtakes another.
//!
//! The paper's queue is unbounded and its members do not die. Here a source has a bounded number of chunks
//! that not all members have taken, and every member keeps a chunk until all have taken it. Flags that
//! confirm that all members below a member have taken a chunk travel up the tree. When a member dies or
//! joins, the others exchange their progress ([`wire::Sync`]), and then send missing chunks along the new
//! trees. So every surviving member gets every message that any of them got, once and in the order of its
//! source.
//!
//! With [`Order::Total`] all members take all messages in the same order: one member, the sequencer,
//! broadcasts the chunks of all. When it dies the member with the lowest id takes over.
//!
//! `no_std`, no I/O and no clock: a [`Member`] consumes received bytes and returns the messages to send.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod member;
mod tree;
mod view;
pub mod wire;

use core::fmt;

pub use member::{BroadcastError, Event, Member, Usage};
pub use view::View;

/// Maximum number of members of a group.
pub const MAX_MEMBERS: usize = 256;

/// Id of a member, never reused in its group, and higher than those of all members that joined before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Order in which members take messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Messages of one source in the order in which it broadcast them. A source does not take its own
    /// messages.
    #[default]
    PerSource,
    /// All messages in the same order for all members. A source takes its own messages as well.
    Total,
}

/// Parameters that all members of a group agree on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// *k*: the maximum number of members that one forwards a chunk to, at least 1.
    pub fan_out: u16,
    /// Maximum size of a chunk, in bytes, at least 1.
    pub chunk_bytes: u32,
    /// Number of chunks that a member forwards at a time, at least 1: the paper's message buffers, of which
    /// it has one.
    pub buffers: u16,
    /// Maximum number of chunks of a source that not all members have taken, at least 1.
    pub window_chunks: u32,
    /// Maximum length of a message, in bytes.
    pub max_message_bytes: u32,
    /// Order in which messages are taken.
    pub order: Order,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            fan_out: 4,
            chunk_bytes: 4096,
            buffers: 4,
            window_chunks: 32,
            max_message_bytes: 1 << 20,
            order: Order::PerSource,
        }
    }
}

impl Config {
    /// Returns the name of the first field that is 0, if any.
    #[must_use]
    pub fn invalid(&self) -> Option<&'static str> {
        [
            ("fan_out", u32::from(self.fan_out)),
            ("chunk_bytes", self.chunk_bytes),
            ("buffers", u32::from(self.buffers)),
            ("window_chunks", self.window_chunks),
            ("max_message_bytes", self.max_message_bytes),
        ]
        .into_iter()
        .find_map(|(name, value)| (value == 0).then_some(name))
    }

    /// Returns a number that differs between configurations, with overwhelming probability.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let fields = [
            u64::from(self.fan_out),
            u64::from(self.chunk_bytes),
            u64::from(self.buffers),
            u64::from(self.window_chunks),
            u64::from(self.max_message_bytes),
            u64::from(self.order == Order::Total),
            u64::from(wire::VERSION),
        ];
        // FNV-1a over the words.
        fields
            .into_iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, field| (hash ^ field).wrapping_mul(0x0100_0000_01b3))
    }
}

/// Protocol violation by a member. Close its channel; the others treat that as its death.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    #[error("member {from} sent {length_bytes} bytes that are not a message of a group")]
    Malformed { from: MemberId, length_bytes: usize },
    #[error("member {from} sent chunk {seq} of member {root}, of which this member has {have}")]
    Gap { from: MemberId, root: MemberId, seq: u64, have: u64 },
    #[error("member {from} sent a chunk of member {root}, which is not a member")]
    UnknownSource { from: MemberId, root: MemberId },
    #[error("member {from} sent a chunk of {length_bytes} bytes, where {max_bytes} is the most")]
    TooLong { from: MemberId, length_bytes: usize, max_bytes: usize },
    #[error("member {from} acknowledges {received} chunks of {sent}")]
    Flags { from: MemberId, received: u64, sent: u64 },
    #[error("member {from} sent more chunks than agreed")]
    Flood { from: MemberId },
    #[error("member {from} sent a view of a group that it is not in")]
    View { from: MemberId },
    #[error("member {from} sent a chunk to be ordered, and the group has no total order")]
    NotOrdered { from: MemberId },
}
