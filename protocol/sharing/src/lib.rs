//! Shared objects in memory that several ranks map, coherent or not: readers-writer locks, and the
//! consistency of the ranks' copies. After TACO-MESH, with its three controllers (Rotta, Prescher, Traue,
//! Nolte, *Data Sharing Mechanisms for Parallel Graph Algorithms on the Intel SCC*, MARC 2012).
//!
//! An [`Object`] is one rank's end of a shared object: a private copy of its bytes, and the steps by which
//! the rank acquires it, updates the copy, publishes its writes, and releases it. Either many ranks read at
//! the same time, or one writes. TACO-MESH leaves that rule to programs; here a lock enforces it.
//!
//! - **Only loads and stores.** The lock is Lamport's bakery with readers (*A new solution of Dijkstra's
//!   concurrent programming problem*, 1974): each rank has a line that only it writes, and takes a ticket
//!   higher than all that it sees. So it works across windows without atomic operations.
//! - **A [`Controller`]** selects the lines through which a rank learns that its copy is stale:
//!   [`Broadcast`], [`Overlapped`] or [`Timestamp`].
//! - **Deaths are inputs.** The lock word of a rank that is known to have ended no longer blocks others. If
//!   that rank was writing, the object may be half written: every later acquisition reports that
//!   ([`Step::Abandoned`]) until a rank repairs it ([`Access::Repair`]).
//! - **[`Members`]** are the ranks that take part in collectives, with their tree, and the agreement of the
//!   survivors to continue without a rank that has ended.
//!
//! [`Object::step`] performs at most one operation on the memory, except that a fetch or a publication of
//! data, which the lock protects, is one step. A [`Memory`] is an argument, and so is the set of ranks that
//! have ended; nothing here waits.
//!
//! A peer's words are untrusted: a wrong one makes an acquisition fail, or wait until the caller's deadline.
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
