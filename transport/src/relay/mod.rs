//! Relays: a process between two channels that makes one of them.
//!
//! [`join()`] performs the handshake of a channel whose two ends share nothing but a relay: each side's hello
//! and verdict reach the other as on a direct channel. [`Forwarder`] then moves the messages of any number of
//! such routes by [`tombolo_link::relay`], on one thread.

mod forward;
mod half;
mod hop;
mod join;

pub use forward::Forwarder;
pub use hop::Hop;
pub use join::{Joined, NotJoined, join};
pub use tombolo_link::relay::Beyond;
