//! Queue of requests to a device, as a protocol on a channel for bulk data.
//!
//! VirtIO puts descriptors into rings that both sides map, and device registers behind addresses that the
//! device traps. Neither works between processors that share little memory. Here a descriptor is a message
//! ([`wire`]) and data is a buffer of a pool, which the message carries, as proposed in *Design and
//! Implementation of a Message Passing System on the Intel Xeon Phi*, sections 6.10 and 8.11. The registers
//! are replaced by one request, [`Operation::Configure`].
//!
//! * The [`Requester`] issues requests, each with one buffer: with content for the device to take, or empty,
//!   to be filled. It has a bounded number of requests in flight.
//! * The [`Server`] answers each request once, in any order, and returns its buffer with the answer. Its peer
//!   can have no more requests in flight than was agreed.
//!
//! A device to which both sides send, such as a network, has one of each at both ends of one channel.
//!
//! `no_std`, no I/O, no clock. Memory is allocated when a queue is created, and never later.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod requester;
mod server;
pub mod wire;

pub use requester::{Done, Full, Requester};
pub use server::{NotInFlight, Server};
pub use wire::{
    BufferArrival, Completion, Configuration, Device, Features, Message, Operation, Request, Status,
};

/// Maximum number of requests in flight of a queue.
pub const MAX_DEPTH: u16 = 1024;

/// Protocol violation by a peer. The channel must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    /// The bytes are not a message.
    #[error("{0} bytes that are not a message of a device queue")]
    Malformed(usize),
    /// This side does not accept the message.
    #[error("a message that this side of a device queue does not accept")]
    Direction,
    /// The answer belongs to no request in flight.
    #[error("an answer to request {0:#x}, which is not under way")]
    Tag(u32),
    /// The request has the tag of another one in flight.
    #[error("a second request {0:#x}")]
    DuplicateTag(u32),
    /// There are more requests than agreed.
    #[error("more than {0} requests at once")]
    Depth(u16),
    /// The buffer does not fit the message.
    #[error("{0:?} with a buffer that does not fit it")]
    Buffer(Operation),
    /// A request came before the configuration was requested.
    #[error("a request before the device's configuration was asked for, or that asks for it again")]
    OutOfTurn,
    /// The device is not the expected one.
    #[error("the peer's device is another one than expected")]
    Device,
}
