//! Whether two builds of the run-time see the same records.
//!
//! Records lie in memory that builds for different instruction sets share. They have the same fields in the same order, of types
//! whose sizes and alignments are the same on all instruction sets that there are builds for; this makes sure that compilers agreed.

use std::mem::{align_of, size_of};

use crate::device::mapping::Item;
use crate::device::{Device, Order};
use crate::group::Group;
use crate::icv::{Icv, Settings};
use crate::nodes::{Node, Nodes};
use crate::queue::Queue;
use crate::root::Root;
use crate::share::WorkShare;
use crate::store::{Cache, Store};
use crate::tally::Tallies;
use crate::task::Task;
use crate::team::{Member, Team};
use crate::thread::{Seat, Thread};

macro_rules! shapes {
    ($($record:ty),* $(,)?) => { [$(size_of::<$record>() as u64, align_of::<$record>() as u64),*] };
}

const SHAPES: [u64; 36] = shapes!(
    Root, Store, Cache, Settings, Icv, Node, Nodes, Tallies, Thread, Seat, Team, Member, Task, Queue,
    WorkShare, Device, Order, Item,
);

const OFFSETS: [u64; 15] = [
    std::mem::offset_of!(Root, critical) as u64,
    std::mem::offset_of!(Root, settings) as u64,
    std::mem::offset_of!(Root, busy) as u64,
    std::mem::offset_of!(Root, lot) as u64,
    std::mem::offset_of!(Thread, dock) as u64,
    std::mem::offset_of!(Thread, given_team) as u64,
    std::mem::offset_of!(Thread, parked) as u64,
    std::mem::offset_of!(Thread, node) as u64,
    std::mem::offset_of!(Team, tasked) as u64,
    std::mem::offset_of!(Team, sleepers) as u64,
    std::mem::offset_of!(Team, first) as u64,
    std::mem::offset_of!(Member, queue) as u64,
    std::mem::offset_of!(Member, task) as u64,
    std::mem::offset_of!(Seat, task) as u64,
    size_of::<Group>() as u64,
];

/// A number that is equal in builds whose records look alike (FNV-1a of their sizes, alignments and of where some fields are).
#[must_use]
pub fn fingerprint() -> u64 {
    SHAPES
        .iter()
        .chain(&OFFSETS)
        .fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}
