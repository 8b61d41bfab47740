//! Shared objects in memory that several ranks map, coherent or not: the locks of readers and writers, and
//! the consistency of the copies that ranks have. After TACO-MESH, whose three controllers it has (Rotta,
//! Prescher, Traue, Nolte, *Data Sharing Mechanisms for Parallel Graph Algorithms on the Intel SCC*, MARC
//! 2012).
//!
//! An [`Object`] is one rank's end of a shared object: a private copy of its bytes, and the steps by which
//! the rank acquires it, brings the copy up to date, publishes what it wrote, and releases it. Many ranks
//! read at the same time, or one writes. TACO-MESH leaves that rule to programs; here it is a lock.
//!
//! - **Only loads and stores.** The lock is Lamport's bakery with readers (*A new solution of Dijkstra's
//!   concurrent programming problem*, 1974): each rank has a line that it alone writes, and takes a ticket
//!   higher than all that it sees. So it works across windows without atomic operations.
//! - **A [`Controller`]** says by which lines a rank learns that its copy is old: [`Broadcast`],
//!   [`Overlapped`] or [`Timestamp`].
//! - **Deaths are inputs.** The word of a rank that is known to have ended no longer stands in the way. If it
//!   was writing, the object may be half written: every later acquisition says so
//!   ([`Step::Abandoned`]) until a rank repairs it ([`Access::Repair`]).
//! - **[`Members`]** are the ranks that collectives take, with their tree, and how those that are left
//!   agree to go on without one that has ended.
//!
//! [`Object::step`] does at most one operation on the memory, except that a fetch or a publication of data,
//! which the lock protects, is one step. A [`Memory`] is an argument, and so is the set of ranks that have
//! ended; nothing here waits.
//!
//! A peer's words are data: a false one makes an acquisition fail, or wait until the caller's deadline.
#![cfg_attr(not(any(test, loom)), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod controller;
mod layout;
mod members;
mod memory;
mod object;

pub use controller::{Broadcast, Consistency, Controller, Overlapped, Timestamp};
pub use layout::{CHUNK_BYTES, Caching, Header, Layout};
pub use members::Members;
pub use memory::Memory;
pub use object::{Access, Fault, Object, Step};
pub use tombolo_directory::{MAX_RANKS, Rank, Ranks};
