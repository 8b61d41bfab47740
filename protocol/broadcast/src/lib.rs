//! Broadcast from many members of a group to all, over channels between each two of them.
//!
//! After *Asynchronous Broadcast on the Intel SCC using Interrupts* (Petrović, Shahmirzadi, Ropars, Schiper),
//! algorithm 1. Each source has a tree of its own over all members, in which each member has up to *k*
//! children. A message is divided into chunks. A member that receives a chunk says so at once; it forwards
//! the chunk if one of its forwarding buffers is free and no other chunk waits for one, and otherwise keeps
//! it in a queue. So no member waits for another before it receives: there is no deadlock, and no chunk
//! overtakes another.
//!
//! The paper's queue is without bounds and its members do not die. Here a source has a bounded number of
//! chunks that not all members have taken, every member keeps a chunk until all have, and flags that all
//! below a member have taken a chunk travel up the tree. When a member dies, or another joins, the others
//! exchange what each has ([`wire::Sync`]), and then send along the new trees what is missing. So every
//! member that lives on gets every message that any of them got, once and in the order of its source.
//!
//! With [`Order::Total`] all members take all messages in one order: one member, the sequencer, broadcasts
//! the chunks of all. When it dies the member with the lowest id takes over.
//!
//! `no_std`, no I/O and no clock: a [`Member`] is given the bytes that came and says what to send.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod member;
mod tree;
mod view;
pub mod wire;

use core::fmt;

pub use member::{Event, Member, Refusal, Usage};
pub use view::View;

/// The most members of a group.
pub const MAX_MEMBERS: usize = 256;

/// The number of a member, unique in its group for ever, and higher than those of all that joined before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// In which order members take messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// Those of one source in the order in which it broadcast them. A source does not take its own.
    #[default]
    PerSource,
    /// All in one order that is the same for all members. A source takes its own as well.
    Total,
}

/// What all members of a group agree on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// *k*: the most members that one forwards a chunk to, from 1.
    pub fan_out: u16,
    /// The longest part of a message that travels as one, in bytes, from 1.
    pub chunk_bytes: u32,
    /// Chunks that a member forwards at a time, from 1: the paper's message buffers, of which it has one.
    pub buffers: u16,
    /// Chunks of a source that not all members have taken, from 1.
    pub window_chunks: u32,
    /// The longest message in bytes.
    pub max_message_bytes: u32,
    /// The order in which messages are taken.
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
    /// The name of the first field that is 0, if one is.
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

    /// A number that differs between configurations, with overwhelming probability.
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

/// How a member broke the protocol. Its channel is to be closed, which the others take for its death.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    #[error("member {from} sent {length_bytes} bytes that are not a message of a group")]
    Malformed { from: MemberId, length_bytes: usize },
    #[error("member {from} sent chunk {seq} of member {root}, of which this member has {have}")]
    Gap { from: MemberId, root: MemberId, seq: u64, have: u64 },
    #[error("member {from} sent a chunk of member {root}, which is not a member")]
    Stranger { from: MemberId, root: MemberId },
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
