//! Regions and capabilities: which memory there is, who may do what with it, who has it mapped, and how a right is taken
//! back.
//!
//! [`Table`] is the whole state machine of a machine's regions. Requests, ends of domains and nodes, what agents report
//! and time go in; answers and [`Consequence`]s come out. It touches no memory, reads no clock and is `no_std`, so the root
//! monitor, simulators and tests drive the same code. What is said about it is `docs/specs/capability.md`.
//!
//! **Invariant:** a capability gives no more than what it was derived from: a part of its bytes, and a subset of its
//! rights.
//!
//! **Invariant:** a region is freed when nobody holds a capability to it and nobody has it mapped, and that nobody has it
//! mapped is known by evidence alone: its domain let go or is dead, or its node is.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod accept;
#[rustfmt::skip]
pub mod capabilities;
mod ends;
mod fault;
mod held;
mod id;
mod list;
mod record;
mod revoke;
mod table;
#[cfg(test)]
mod tests;

pub use capabilities::{
    Backing, CapabilityFault, CapabilityInfo, MAX_NAMED_HOLDERS, MemoryOptions, RegionInfo, Seal,
};
pub use id::{CapabilityId, Extent, Rights};
pub use record::{Mappable, Memory, NewRegion, Way};
pub use revoke::{Operation, Patience, Revoked};
pub use table::{Consequence, Nanos, Table};
pub use tombolo_base::RegionId;

/// What parts of regions begin and end at a multiple of, where their pages are not longer, in bytes.
pub const PAGE_BYTES: u64 = 4096;
