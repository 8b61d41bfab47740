//! Regions of memory and capabilities to them: which regions exist, who may do what with them, who has them
//! mapped, and how a right is revoked.
//!
//! [`Table`] is the complete state machine of a machine's regions. Requests, ends of domains and nodes,
//! reports of agents and the time go in; results and [`Consequence`]s come out. It accesses no memory and
//! no clock and is `no_std`, so the root monitor, simulators and tests run the same code. Specified in
//! `docs/specs/capability.md`.
//!
//! **Invariant:** a capability gives no more than the one it was derived from: a part of its bytes, and a
//! subset of its rights.
//!
//! **Invariant:** a region is freed when no domain holds a capability to it and none has it mapped. That
//! none has it mapped is known only by evidence: each domain unmapped it or is dead, or its node is.
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

/// The alignment of parts of regions, in bytes, where pages are not longer.
pub const PAGE_BYTES: u64 = 4096;
