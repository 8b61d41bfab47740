//! Barrier among the threads of a team on one node, before one of them meets the other nodes for all of them.
//!
//! Communication between nodes is expensive: a cache line behind a window, a wake-up in another kernel. So
//! each node has its own counter and bell. The last thread of a node to arrive proceeds to the team's counter
//! and bell, which only such threads touch, and releases the others on its node when all nodes have arrived.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::primitives::bell::Bell;
use crate::primitives::cache_line::CacheLine;
use crate::primitives::nodes::NODES_MAX;
use crate::primitives::store::Store;

/// Barrier of one node. Its second cache line is touched only by threads of this node while they wait.
#[repr(C, align(64))]
pub struct NodeBarrier {
    /// Number of the team's threads on the node, and of its workers among them.
    size: Cell<u32>,
    workers: Cell<u32>,
    /// Number of threads that have arrived here, and of those at the end of the region.
    pub(crate) arrived: AtomicU32,
    finished: AtomicU32,
    /// Barrier generation, incremented at each release.
    pub(crate) generation: CacheLine<AtomicU32>,
    /// Bell of the threads that have arrived.
    pub(crate) bell: Bell,
}

/// The barriers of a team, one for each node.
pub struct NodeBarriers {
    /// Number of nodes that the team is on.
    nodes: Cell<u32>,
    list: [NodeBarrier; NODES_MAX],
}

// SAFETY: the master writes the cells before it gives the team any work; threads read them after they have
// seen that work.
unsafe impl Sync for NodeBarriers {}

impl NodeBarrier {
    /// Returns the number of threads that have to arrive.
    pub(crate) fn size(&self) -> u32 {
        self.size.get()
    }

    /// Counts a worker at the end of the region. For the last worker of the node, returns their number.
    pub(crate) fn finish(&self) -> Option<u32> {
        let workers = self.workers.get();
        (self.finished.fetch_add(1, Ordering::AcqRel) + 1 == workers).then_some(workers)
    }
}

impl NodeBarriers {
    /// Allocates a team's barriers in the store.
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

    /// Returns the number of nodes that have to arrive.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes.get()
    }

    /// Returns the barrier of a node.
    pub(crate) fn at(&self, node: u32) -> &NodeBarrier {
        &self.list[node as usize % NODES_MAX]
    }

    fn used_barriers(&self) -> impl Iterator<Item = &NodeBarrier> {
        self.list.iter().filter(|barrier| barrier.size() > 0)
    }

    /// Sets the node of each of a team's `size` threads.
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
        self.nodes.set(u32::try_from(self.used_barriers().count()).unwrap_or(1));
    }

    /// Resets the barriers for a region.
    pub(crate) fn reset(&self) {
        for barrier in self.used_barriers() {
            barrier.arrived.store(0, Ordering::Relaxed);
            barrier.finished.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes the sleeping threads of all nodes, or one thread of the first node that has any. The caller has
    /// published the condition and then executed a full fence. Returns whether any thread slept.
    #[inline]
    pub(super) fn notify(&self, all: bool) -> bool {
        let mut any = false;
        for barrier in self.used_barriers().filter(|barrier| barrier.bell.has_sleepers()) {
            barrier.bell.ring(if all { u32::MAX >> 1 } else { 1 });
            any = true;
            if !all {
                break;
            }
        }
        any
    }
}
