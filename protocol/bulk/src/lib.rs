//! Bulk data between domains: pools of equal buffers, whose access rights travel over channels while the
//! bytes stay.
//!
//! A *pool* is memory divided into buffers ([`layout`]). It belongs to the domain that created it, its
//! *home*, and is assigned to channels; a domain that got it over one channel may assign it to others. So
//! the domains of a pool form a tree, and for each buffer every domain knows one thing: whether the right
//! to write is here, or over which channel it is. The [`table`] tracks that. [`wire`] defines the messages
//! about pools and buffers on a channel, [`session`] which message is valid when.
//!
//! This crate does not copy, map or wait, and never reads a buffer. `no_std`, no I/O, no clock.
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
