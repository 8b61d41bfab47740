//! Nodes as devices: regions and data of `target` constructs on nodes other than the master's.
//!
//! Device `k` is node `k + 1`, and the host is the device behind the last. A construct for a device becomes
//! an [order](order::Order) that a thread of that node carries out: it maps the data ([`mapping`]) and runs
//! the region, in which teams get threads of that node only. Memory that all workers share need not be
//! copied; a device has copies of what it cannot reach, or of everything if the program is to be run as if
//! devices had memory of their own (`OMP_TOMBOLO_TARGET=copy`).

pub mod alone;
pub mod calls;
pub mod exceptions;
pub mod mapping;
pub mod memory;
mod migrant;
pub mod migrate;
pub mod order;
pub mod threads;
