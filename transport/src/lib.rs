//! Channels over the different types of links.
//!
//! [`contract::Transport`] is the contract of every transport. [`memory::MemoryChannel`] implements it over
//! rings in memory that both sides map (`shm` within a kernel, `window` across a PCI aperture),
//! [`stream::StreamChannel`] over a byte stream. [`wait`] waits for one channel, a [`WaitSet`] for any number
//! of them.
#![forbid(unsafe_code)]

#[macro_use]
mod variants;

mod capabilities;
mod connection;
pub mod contract;
pub mod cost;
pub mod error;
mod forward;
mod frames;
pub mod memory;
pub mod message;
pub mod pending;
pub mod relay;
pub mod shm;
pub mod sim;
pub mod stream;
pub mod trace;
pub mod wait;
pub mod waitset;
pub mod window;
pub mod wrap;

pub use capabilities::Capabilities;
pub use contract::{Description, EndError, HasTransport, Room, Stats, Transport, TransportExt};
pub use error::ChannelError;
pub use memory::MemoryChannel;
pub use message::{Batch, Draft, Message, NotAdded};
pub use pending::PendingChannel;
pub use stream::StreamChannel;
pub use waitset::WaitSet;
