//! Coherent pages over separate memories: the directory protocol.
//!
//! The ranks of a job share an address range but no memory. Each page is *modified* at one rank, *shared* by
//! several that only read it, or *invalid*; each has a *home*, a rank that tracks its holders. A rank that
//! lacks the access that its program needs asks the home, which recalls the page from conflicting holders,
//! one request for a page at a time, and then grants it. Messages between two ranks arrive in order, so that
//! neither a grant nor a recall is acknowledged twice, and no lock is held across ranks. As there is never a
//! copy beside a page that is being written, memory is sequentially consistent, page by page. After Popcorn
//! (*Popcorn: a replicated-kernel OS*, and its successor's page server), with the same homes, states and
//! single writer; but everything passes through the home, where Popcorn asks the owner to send.
//!
//! The death of a rank is an input. The home of a page that only the dead rank held answers every later
//! request with [`Message::Lost`]. Pages whose home died get the next living rank as their home, which learns
//! from all others what they hold before it grants anything.
//!
//! With [`Consistency::Release`] several ranks write to copies of one page, and send the
//! [differences](difference) home when the program releases its writes.
//!
//! * [`Node`] is the state of one rank. Its inputs are faults of its program, messages, deaths and the time.
//! * A [`Store`] is the part of the rank's memory that the protocol controls: which pages the program may
//!   access.
//! * [`wire`] defines the encoding of messages.
//!
//! `no_std`, no I/O, no clock. Memory is allocated for the pages when a node is created, and later for
//! messages that wait to be sent: for each page and pair of ranks at most one request, one recall, one answer
//! and one grant.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod difference;
mod home;
mod message;
mod node;
mod ranks;
mod recovery;
mod release;
#[doc(hidden)]
pub mod release_world;
#[cfg(test)]
mod tests;
pub mod wire;
#[doc(hidden)]
pub mod world;

pub use message::{Access, Message};
pub use node::{Consistency, Counts, Fault, Geometry, GeometryError, Node, Store, Violation};
pub use ranks::{MAX_RANKS, Rank, Ranks};

/// Maximum number of pages of a range: 16 TiB of 4 KiB each.
pub const MAX_PAGES: u32 = u32::MAX - 1;
