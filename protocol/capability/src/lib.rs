//! Regions and capabilities: which memory exists, which domains have rights to it or have it mapped, and how
//! rights are revoked.
//!
//! [`Table`] is the state machine of all regions of a machine. Its inputs are requests, ends of domains and
//! nodes, reports of agents, and time; its outputs are answers and [`TableAction`]s. It touches no memory,
//! reads no clock and is `no_std`, so the root, the simulator and tests run the same code. The specification
//! is `docs/specs/capability.md`.
//!
//! **Invariant:** a capability gives no more than the one that it was derived from: a subset of its bytes,
//! and a subset of its rights.
//!
//! **Invariant:** no byte is mapped both as a byte of a part and as a byte of the memory that the part was
//! split from.
//!
//! **Invariant:** a region is freed only when no domain holds a capability to it and no domain has it mapped.
//! The evidence that a domain no longer maps it is that the domain has released it or is dead, or that its
//! node is dead.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod accept;
#[rustfmt::skip]
pub mod capabilities;
mod deaths;
pub use deaths::WindowRegion;
mod fault;
mod held;
mod id;
mod list;
mod parts;
mod record;
mod revoke;
mod services;
mod table;
#[cfg(test)]
mod tests;

pub use capabilities::{
    Backing, CapabilityFault, CapabilityInfo, Kind, MAX_NAMED_HOLDERS, MemoryOptions, RegionInfo, Seal,
};
pub use id::{CapabilityId, Extent, Rights};
pub use record::{Mappable, Memory, NewRegion, Recipient};
pub use revoke::{Operation, RevocationTimeouts, Revoked};
pub use table::{Nanos, Table, TableAction};
pub use tombolo_base::RegionId;

/// Minimum alignment of parts of regions, in bytes; the page size if that is larger.
pub const PAGE_BYTES: u64 = 4096;
