//! Links between nodes and channels over them: what a link can do and costs, how a channel's memory is laid
//! out, how its two sides agree to open it, send, receive, wait and close, and how a window is divided.
//!
//! `no_std`, no I/O, no `unsafe`. `docs/specs/channel.md` specifies the bytes.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod cost;
pub mod end;
pub mod handshake;
pub mod hello;
pub mod layout;
pub mod link;
pub mod open;
pub mod verdict;
pub mod wait;
#[cfg(feature = "alloc")]
pub mod window;

pub use cost::{CostCurve, CostOrigin, LinkCost};
pub use end::{ChannelEnd, EndError};
pub use handshake::{Handshake, HandshakeError, Progress};
pub use hello::{Hello, Refusal};
pub use layout::{ChannelConfig, ChannelLayout, Ends, Side};
pub use link::{LinkTraits, TransportKind};
pub use open::{OpenError, Opening};
