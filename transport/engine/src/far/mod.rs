//! Engine at the far side of a channel, and the server there.
//!
//! One side [offers](Offers::offer) memories under ids and serves; the other has a [`Far`] engine. Bytes
//! between the two travel in messages of the channel, the only way over a byte stream between nodes that
//! share no memory. If the far side reaches both ends of a copy, it only receives a command and copies with
//! its own processor, so that a push from this side becomes a pull by the far side.
//!
//! The messages are specified in `docs/specs/far-copy.md`.

mod client;
mod server;
mod wire;

pub use client::Far;
pub use server::{Access, MAX_OFFERS, Offers, Server, serve};
pub use wire::{FarRefusal, MemoryId};
