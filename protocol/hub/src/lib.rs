//! Hubs: objects through which any number of programs coordinate.
//!
//! A channel joins two domains. A *hub* is shared by any number of them: a queue that several fill and
//! several empty, a semaphore, a lock. OpenComRTOS (*Transparent Programming of Many/Multi Cores with
//! OpenComRTOS*) builds all its services from one generic hub, and the channels of Go are hubs of two kinds,
//! so there is one state machine here. A hub has a store and two queues of waiters. *Put* waits for room in
//! the store, *get* waits for an item:
//!
//! | kind | store | put | get |
//! |---|---|---|---|
//! | port (Go's unbuffered channel) | no room | send, when a receiver is there | receive |
//! | fifo (Go's buffered channel) | values | send | receive |
//! | event | one bit | raise | await and clear |
//! | semaphore | a count | signal | wait |
//! | resource | one block and who holds it | unlock | lock |
//! | pool | blocks and who holds them | free | allocate |
//!
//! * [`Hubs`] holds the hubs of one node. Its inputs are requests of clients, ends of clients and time; its
//!   outputs are answers. Waiters are served by priority, then in order of arrival. The holder of a resource
//!   inherits the highest priority that waits for it, and so do its own requests at other hubs.
//! * [`Select`] is the client's side of waiting for the first of several operations, on hubs of any nodes: a
//!   hub *offers*, the client *claims* one offer, the hub confirms.
//! * [`wire`] has the messages between the two.
//!
//! **Invariant:** a value is delivered once, or its sender still owns it.
//!
//! **Invariant:** everything that a client waited for or held is released when the client has ended.
//!
//! `no_std`, no I/O, no clock.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod batch;
pub mod bound;
mod count;
mod description;
mod fault;
mod hub;
mod hubs;
mod inherit;
mod select;
mod status;
mod store;
mod table;
#[cfg(test)]
mod tests;
pub mod wire;

pub use batch::{Batch, BatchBuf, BatchReader, MAX_BATCH};
pub use count::{COUNT_BYTES, CountWord};
pub use description::{
    BadDescription, Description, Kind, MAX_BLOCKS, MAX_CAPACITY, MAX_COUNT, MAX_HUB_BYTES, MAX_VALUE_BYTES,
    type_number,
};
pub use fault::{Fault, Violation};
pub use hub::{Outcome, Taken};
pub use hubs::{Client, Clock, Hubs, Limits, Nanos, Output, RequestKey};
pub use select::{HubKey, MAX_ARMS, Select, SelectCommand, SelectError};
pub use status::{Status, Waiting};
pub use wire::{Answer, Operation, Request};

/// Message of hubs, or a value in one.
pub type Bytes = alloc::boxed::Box<[u8]>;
