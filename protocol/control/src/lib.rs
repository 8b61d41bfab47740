//! What monitors say: to the domains of their node, and to each other.
//!
//! `no_std`, no I/O, no `unsafe`. Descriptors travel beside a message, never inside it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod agent;
pub mod client;
pub mod error;
mod names;
mod shape;
pub mod wire;

pub use agent::{Attachment, Order, Report, StartOrder};
pub use client::{
    ClientMessage, DomainInfo, Exit, Grant, MonitorMessage, NODE_LISTENERS, NodeInfo, Reply, Request, Seat,
    SpawnRequest, TracedInfo, WindowPlace,
};
pub use error::Fault;
pub use tombolo_naming::{MAX_NAME_BYTES, is_name};
pub use wire::{Bytes, DecodeError, MAX_MESSAGE_BYTES, Wire};

/// Stands for all of the messages and their encodings, and for the protocol of channels. Both sides say theirs in their
/// first message ([`Request::Attach`], [`Report::Ready`]), and a monitor refuses whoever has another.
///
/// **Invariant:** the encodings of these two, of [`Order::Welcome`] and of [`Fault::Refused`] as an answer never change, so
/// that every build can tell every other that they differ.
pub const FINGERPRINT: u32 = shape::fold(&[
    ClientMessage::SHAPE,
    MonitorMessage::SHAPE,
    Order::SHAPE,
    Report::SHAPE,
    tombolo_link::hello::PROTOCOL_VERSION as u64,
]);

/// The most that one request reads of a trace page, in bytes: with what is around it, a message.
pub const MAX_TRACE_READ_BYTES: u32 = 48 * 1024;

/// The abstract socket name of a monitor: of the machine's root, or of the agent of one of its nodes.
///
/// All names of one user start with [`socket_prefix`], which is how machines that are up are found.
#[must_use]
pub fn socket_name(user_id: u32, machine: &str, node: Option<&str>) -> alloc::string::String {
    let prefix = socket_prefix(user_id);
    match node {
        None => alloc::format!("{prefix}{machine}"),
        Some(node) => alloc::format!("{prefix}{machine}/{node}"),
    }
}

/// What the socket names of a user's machines start with.
#[must_use]
pub fn socket_prefix(user_id: u32) -> alloc::string::String {
    alloc::format!("tombolo/{user_id}/")
}

#[cfg(test)]
mod tests;
