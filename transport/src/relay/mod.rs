//! Relays: processes that join two channels into one.
//!
//! [`join()`] performs the handshake of a channel whose two ends share nothing but a relay: each side's hello
//! and verdict reach the other as on a direct channel. [`Forwarder`] then moves the messages of any number of
//! such routes on one thread, by means of [`tombolo_link::relay`].

mod forward;
mod half;
mod hop;
mod join;

pub use forward::Forwarder;
pub use hop::Hop;
pub use join::{JoinError, OpenRoute, join};
pub use tombolo_link::relay::HopPeer;
