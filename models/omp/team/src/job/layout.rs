//! Whether two builds of the run-time see the same records.
//!
//! Records lie in memory that builds for different instruction sets share. They have the same fields in the
//! same order, of types whose sizes and alignments are the same on all instruction sets that there are builds
//! for; this makes sure that compilers agreed.

use std::mem::{align_of, size_of};

use crate::device::mapping::Item;
use crate::device::order::Order;
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
use crate::team::thread::{Seat, Thread};

macro_rules! shapes {
    ($($record:ty),* $(,)?) => { [$(size_of::<$record>() as u64, align_of::<$record>() as u64),*] };
}

const SHAPES: [u64; 38] = shapes!(
    Root, Store, Cache, Settings, Icv, Node, Nodes, Tallies, Thread, Seat, Team, Member, Task, Queue,
    WorkShare, Device, Order, Item, Local,
);

const OFFSETS: [u64; 15] = [
    std::mem::offset_of!(Root, critical) as u64,
    std::mem::offset_of!(Root, settings) as u64,
    std::mem::offset_of!(Root, busy) as u64,
    std::mem::offset_of!(Root, lot) as u64,
    std::mem::offset_of!(Thread, parker) as u64,
    std::mem::offset_of!(Thread, given_team) as u64,
    std::mem::offset_of!(Thread, local) as u64,
    std::mem::offset_of!(Thread, node) as u64,
    std::mem::offset_of!(Team, tasked) as u64,
    std::mem::offset_of!(Team, sleepers) as u64,
    std::mem::offset_of!(Team, first) as u64,
    std::mem::offset_of!(Member, queue) as u64,
    std::mem::offset_of!(Member, task) as u64,
    std::mem::offset_of!(Seat, task) as u64,
    size_of::<Group>() as u64,
];

/// A number that is equal in builds whose records look alike (FNV-1a of their sizes, alignments and of where
/// some fields are).
#[must_use]
pub fn fingerprint() -> u64 {
    SHAPES
        .iter()
        .chain(&OFFSETS)
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}
