//! Check that two builds of the run-time agree on the layout of shared records.
//!
//! Records are in memory shared by builds for different instruction sets. Their fields are of types with the
//! same size and alignment on all supported instruction sets, in the same order. This verifies that the
//! compilers agreed.

use std::mem::{align_of, size_of};

use crate::device::command::Command;
use crate::device::mapping::Item;
use crate::primitives::cache::Cache;
use crate::primitives::icv::{Icv, Settings};
use crate::primitives::local::Local;
use crate::primitives::nodes::{Node, Nodes};
use crate::primitives::store::Store;
use crate::team::devices::Device;
use crate::team::group::Group;
use crate::team::members::{Member, Team};
use crate::team::queue::Queue;
use crate::team::root::Root;
use crate::team::share::WorkShare;
use crate::team::tally::Tallies;
use crate::team::task::Task;
use crate::team::thread::{TeamState, Thread};

macro_rules! shapes {
    ($($record:ty),* $(,)?) => { [$(size_of::<$record>() as u64, align_of::<$record>() as u64),*] };
}

const SHAPES: [u64; 38] = shapes!(
    Root, Store, Cache, Settings, Icv, Node, Nodes, Tallies, Thread, TeamState, Team, Member, Task, Queue,
    WorkShare, Device, Command, Item, Local,
);

const OFFSETS: [u64; 15] = [
    std::mem::offset_of!(Root, critical) as u64,
    std::mem::offset_of!(Root, settings) as u64,
    std::mem::offset_of!(Root, threads_in_teams) as u64,
    std::mem::offset_of!(Root, parking_lot) as u64,
    std::mem::offset_of!(Thread, parker) as u64,
    std::mem::offset_of!(Thread, assigned_team) as u64,
    std::mem::offset_of!(Thread, local) as u64,
    std::mem::offset_of!(Thread, node) as u64,
    std::mem::offset_of!(Team, has_tasks) as u64,
    std::mem::offset_of!(Team, sleepers) as u64,
    std::mem::offset_of!(Team, first) as u64,
    std::mem::offset_of!(Member, queue) as u64,
    std::mem::offset_of!(Member, task) as u64,
    std::mem::offset_of!(TeamState, task) as u64,
    size_of::<Group>() as u64,
];

/// Returns a hash of the record layouts, equal in compatible builds: FNV-1a of sizes, alignments and the
/// offsets of some fields.
#[must_use]
pub fn fingerprint() -> u64 {
    SHAPES
        .iter()
        .chain(&OFFSETS)
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}
