//! Bulk data between domains: pools of equal-sized buffers. Rights to buffers travel over channels, and the
//! bytes stay in place.
//!
//! A *pool* is memory divided into buffers ([`layout`]). It belongs to the domain that created it, its
//! *home*, and is assigned to channels; a domain that was assigned a pool can assign it to others. So the
//! domains of a pool form a tree. For each buffer a domain records only whether it has the right to write, or
//! over which channel that right went; this is the [`table`]. [`wire`] defines the messages about pools and
//! buffers, and [`session`] the order in which they are allowed.
//!
//! Nothing here copies, maps or waits, or accesses the contents of a buffer. `no_std`, no I/O, no clock.
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
