//! Where the threads of a team that are on one node meet, before one of them meets the other nodes for all of
//! them.
//!
//! Where a team is on several nodes, what crosses between them is expensive: a line of memory behind a
//! window, a wake-up in another kernel. So each node has a counter and a bell of its own. The last thread of
//! a node to come goes on to the team's counter and bell, which only such threads touch, and lets the others
//! of its node go when all nodes have come.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::primitives::bell::Bell;
use crate::primitives::cache_line::CacheLine;
use crate::primitives::nodes::NODES;
use crate::primitives::store::Store;

/// Where the threads of one node meet. The second line is theirs alone while they wait.
#[repr(C, align(64))]
pub struct NodeBarrier {
    /// How many threads of the team are on the node, and how many of them are workers.
    size: Cell<u32>,
    workers: Cell<u32>,
    /// How many have come here, and how many to the end of the region.
    pub(crate) arrived: AtomicU32,
    finished: AtomicU32,
    /// How often it let them go.
    pub(crate) generation: CacheLine<AtomicU32>,
    /// Where the threads sleep that have come.
    pub(crate) bell: Bell,
}

/// The barriers of a team, one for each node.
pub struct NodeBarriers {
    /// How many nodes it is on.
    nodes: Cell<u32>,
    list: [NodeBarrier; NODES],
}

// SAFETY: cells are written by the master before it gives the team anything to do, and read after that was
// seen.
unsafe impl Sync for NodeBarriers {}

impl NodeBarrier {
    /// How many threads have to come.
    pub(crate) fn size(&self) -> u32 {
        self.size.get()
    }

    /// A worker has come to the end of the region. How many have, once all of the node have.
    pub(crate) fn finish(&self) -> Option<u32> {
        let workers = self.workers.get();
        (self.finished.fetch_add(1, Ordering::AcqRel) + 1 == workers).then_some(workers)
    }
}

impl NodeBarriers {
    /// The barriers of a team, in the store.
    pub(super) fn place(store: &Store) -> &'static Self {
        store.place(Self::new())
    }

    fn new() -> Self {
        let barrier = || NodeBarrier {
            size: Cell::new(0),
            workers: Cell::new(0),
            arrived: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            generation: CacheLine(AtomicU32::new(0)),
            bell: Bell::default(),
        };
        Self { nodes: Cell::new(0), list: std::array::from_fn(|_| barrier()) }
    }

    /// How many nodes have to come.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes.get()
    }

    /// That of a node.
    pub(crate) fn at(&self, node: u32) -> &NodeBarrier {
        &self.list[node as usize % NODES]
    }

    fn used(&self) -> impl Iterator<Item = &NodeBarrier> {
        self.list.iter().filter(|barrier| barrier.size() > 0)
    }

    /// Says on which node each of a team's `size` threads is.
    pub(super) fn assign(&self, size: u32, node: impl Fn(u32) -> u32) {
        self.list.iter().for_each(|barrier| {
            barrier.size.set(0);
            barrier.workers.set(0);
        });
        for id in 0..size {
            let barrier = self.at(node(id));
            barrier.size.set(barrier.size() + 1);
            barrier.workers.set(barrier.workers.get() + u32::from(id > 0));
        }
        self.nodes.set(u32::try_from(self.used().count()).unwrap_or(1));
    }

    /// Makes them ready for a region.
    pub(crate) fn open(&self) {
        for barrier in self.used() {
            barrier.arrived.store(0, Ordering::Relaxed);
            barrier.finished.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes the threads that sleep at any, or at the first where one does. What they wait for was made true
    /// before, with a full fence after it. Returns whether any thread slept.
    #[inline]
    pub(super) fn ring(&self, all: bool) -> bool {
        let mut any = false;
        for barrier in self.used().filter(|barrier| barrier.bell.any()) {
            barrier.bell.ring(if all { u32::MAX >> 1 } else { 1 });
            any = true;
            if !all {
                break;
            }
        }
        any
    }
}
