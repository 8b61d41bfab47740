//! Gates: where the threads of a team that are on one node meet, before one of them meets the other nodes for all of them.
//!
//! Where a team is on several nodes what crosses between them is dear: a line of memory behind a window, a wake-up in another
//! kernel. So each node has a counter and a bell of its own. Who comes last of a node is its *gateway*: it goes on to the team's
//! counter and bell, which only gateways touch, and lets the others of its node go when all nodes have come.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Team;
use crate::dock::Bell;
use crate::nodes::NODES;
use crate::root::Root;
use crate::share::Line;

/// What the threads of one node have in common. The second line is theirs alone while they wait.
#[repr(C, align(64))]
pub struct Gate {
    /// How many they are, and how many of them are workers.
    size: Cell<u32>,
    workers: Cell<u32>,
    /// How many have come to the barrier, and how many to the end of the region.
    pub(crate) arrived: AtomicU32,
    finished: AtomicU32,
    /// How often it let them go.
    pub(crate) generation: Line<AtomicU32>,
    /// Where those sleep who have come.
    pub(crate) bell: Bell,
}

/// The gates of a team.
pub struct Gates {
    /// How many nodes it is on.
    nodes: Cell<u32>,
    list: [Gate; NODES],
}

// SAFETY: cells are written by the master before it gives the team anything to do, and read after that was seen.
unsafe impl Sync for Gates {}

impl Gate {
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

impl Gates {
    fn new() -> Self {
        let gate = || Gate {
            size: Cell::new(0),
            workers: Cell::new(0),
            arrived: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            generation: Line(AtomicU32::new(0)),
            bell: Bell::default(),
        };
        Self { nodes: Cell::new(0), list: std::array::from_fn(|_| gate()) }
    }

    /// How many nodes have to come.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes.get()
    }

    /// That of a node.
    pub(crate) fn at(&self, node: u32) -> &Gate {
        &self.list[node as usize % NODES]
    }

    fn used(&self) -> impl Iterator<Item = &Gate> {
        self.list.iter().filter(|gate| gate.size() > 0)
    }
}

impl Team {
    /// Where its threads meet by nodes; `None` where there is one node.
    #[inline]
    pub(crate) fn gates(&self) -> Option<&'static Gates> {
        // SAFETY: what is not null is one that lies in the store, where it stays.
        unsafe { self.gates.get().as_ref() }
    }

    /// Says on which node each of its threads is.
    pub(super) fn set_gates(&self, root: &Root, size: u32, node: impl Fn(u32) -> u32) {
        let gates = self.gates().unwrap_or_else(|| {
            let made = root.store.place(Gates::new());
            self.gates.set(ptr::from_ref(made));
            made
        });
        gates.list.iter().for_each(|gate| {
            gate.size.set(0);
            gate.workers.set(0);
        });
        for id in 0..size {
            let gate = gates.at(node(id));
            gate.size.set(gate.size() + 1);
            gate.workers.set(gate.workers.get() + u32::from(id > 0));
        }
        gates.nodes.set(u32::try_from(gates.used().count()).unwrap_or(1));
    }

    /// Makes the gates ready for a region.
    pub(super) fn open_gates(&self) {
        for gate in self.gates().into_iter().flat_map(Gates::used) {
            gate.arrived.store(0, Ordering::Relaxed);
            gate.finished.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes those who sleep at gates, all or the first. What they wait for was made true before, with a full fence after it. Whether
    /// there were any.
    #[inline]
    pub(super) fn ring_gates(&self, all: bool) -> bool {
        self.gates().is_some_and(|gates| gates.ring(all))
    }
}

impl Gates {
    fn ring(&self, all: bool) -> bool {
        let mut any = false;
        for gate in self.used().filter(|gate| gate.bell.any()) {
            gate.bell.ring(if all { u32::MAX >> 1 } else { 1 });
            any = true;
            if !all {
                break;
            }
        }
        any
    }
}
