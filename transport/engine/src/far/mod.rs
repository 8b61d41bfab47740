//! The engine that is the far side of a channel, and that far side.
//!
//! One side [offers](Offers::offer) memories under ids and serves; the other has a [`Far`] engine. Bytes between the two go in
//! messages of the channel: over a byte stream that is all there is between nodes that share no memory. Where the far side
//! reaches both ends of a copy it is only told of it, and copies with its own processor: pulls what one would have to push.
//!
//! The messages are in `docs/specs/far-copy.md`.

mod client;
mod server;
mod wire;

pub use client::Far;
pub use server::{Access, MAX_OFFERS, Offers, Server, serve};
pub use wire::{FarRefusal, MemoryId};
