//! Links between nodes: their properties, the layout of channel memory, the handshake, channel ends with
//! sending, receiving, waiting and closing, and the division of a window.
//!
//! `no_std`, no I/O, no `unsafe`. The format is specified in `docs/specs/channel.md`.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
pub mod copy_cost;
pub mod cost;
pub mod disconnect_reason;
#[cfg(all(feature = "alloc", not(loom)))]
pub mod either;
pub mod end;
pub mod handshake;
pub mod hello;
pub mod layout;
pub mod link;
pub mod open;
#[cfg(feature = "alloc")]
pub mod relay;
pub mod rendezvous;
pub mod shared_doorbell;
#[cfg(feature = "alloc")]
pub mod streams;
pub mod verdict;
pub mod wait;
#[cfg(feature = "alloc")]
pub mod window;

pub use cost::{CostCurve, CostOrigin, LinkCost};
pub use disconnect_reason::DisconnectReason;
pub use end::{ChannelEnd, EndError};
pub use handshake::{Handshake, HandshakeError, Progress};
pub use hello::{Hello, Refusal};
pub use layout::{ChannelConfig, ChannelLayout, Ends, Side};
pub use link::{LinkTraits, TransportKind};
pub use open::{OpenError, Opening};
pub use shared_doorbell::{GroupCounter, RingCounter, RingWatch};
