//! A queue of requests to a device, as a protocol on a channel for bulk data.
//!
//! VirtIO puts descriptors into rings that both sides map, and device registers behind addresses that the
//! device traps. Neither works between processors that share little memory. Here a descriptor is a message
//! ([`wire`]) and data is a buffer of a pool, which the message carries: after *Design and Implementation of
//! a Message Passing System on the Intel Xeon Phi*, sections 6.10 and 8.11, which proposes it. The registers
//! are one request, [`Operation::Configure`].
//!
//! * The [`Requester`] issues requests, each with one buffer: with content, for what the device is to take,
//!   or empty, to be filled. It has a bounded number of them under way.
//! * The [`Server`] answers each request once, in any order, and its buffer goes back with the answer. Its
//!   peer can have no more under way than was agreed.
//!
//! A device that both sides send to, such as a network, has one of each at both ends of one channel.
//!
//! `no_std`, no I/O, no clock; memory is allocated when a queue is made, and never later.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod requester;
mod server;
pub mod wire;

pub use requester::{Done, Full, Requester};
pub use server::{Server, Unanswerable};
pub use wire::{Brought, Completion, Configuration, Device, Features, Message, Operation, Request, Status};

/// The most requests that a queue can have under way.
pub const MAX_DEPTH: u16 = 1024;

/// How a peer broke the protocol. The channel is to be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Violation {
    /// The bytes are not a message.
    #[error("{0} bytes that are not a message of a device queue")]
    Malformed(usize),
    /// A message that this side does not accept.
    #[error("a message that this side of a device queue does not accept")]
    Direction,
    /// An answer to no request under way.
    #[error("an answer to request {0:#x}, which is not under way")]
    Tag(u32),
    /// A request with the tag of another that is under way.
    #[error("a second request {0:#x}")]
    Twice(u32),
    /// More requests than agreed.
    #[error("more than {0} requests at once")]
    Depth(u16),
    /// The buffer does not fit the message.
    #[error("{0:?} with a buffer that does not fit it")]
    Buffer(Operation),
    /// A request before the configuration was asked for.
    #[error("a request before the device's configuration was asked for, or that asks for it again")]
    OutOfTurn,
    /// The device is another one than expected.
    #[error("the peer's device is another one than expected")]
    Device,
}
