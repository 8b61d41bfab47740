//! Bulk data between domains: pools of equal buffers whose rights travel over channels, while the bytes stay.
//!
//! A *pool* is memory divided into buffers ([`layout`]). It belongs to the domain that made it, its *home*, and is
//! assigned to channels; whoever has it from one channel may assign it to others. So the domains of a pool form a tree,
//! and for each buffer everybody knows one thing: whether the right to write it is here, or over which channel it
//! is. That is the [`table`]. What is said about pools and buffers on a channel is [`wire`]; what may be said, and when,
//! is [`session`].
//!
//! Nothing here copies, maps or waits, and no byte of a buffer is looked at. `no_std`, no I/O, no clock.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod layout;
pub mod session;
pub mod table;
pub mod wire;

pub use layout::{Layout, LayoutError};
pub use session::{Session, SessionEvent, Violation};
pub use table::{Counts, PoolChannel, Table, TableError};
pub use wire::{Message, Segment, Terms, Trust, Verb};
