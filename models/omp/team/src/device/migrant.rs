//! A thread that migrates: the thread that asked for it, and those of other nodes that execute calls for it.
//!
//! One of them runs at a time. The others wait for the end of a call, or for a call to execute.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::primitives::nodes::NODES;
use crate::team::thread::Thread;

/// A thread that migrates. It lies in the store; the thread that runs is the only one that uses the cells.
#[repr(C, align(64))]
pub(super) struct Migrant {
    origin: &'static Thread,
    /// What the C library calls the thread that asked: a number or an address.
    name: Cell<usize>,
    /// The node on which the next call is to be executed.
    wanted: Cell<u32>,
    /// An order for one of its threads that waits; an address that [`crate::device`] gives a meaning to.
    order: AtomicPtr<libc::c_void>,
    /// Its thread on each node: that which asked, and those that execute calls.
    threads: [Cell<Option<&'static Thread>>; NODES],
}

// SAFETY: of its threads one runs at a time. It passes on to the next by a store with release semantics, of
// an order or of its end.
unsafe impl Sync for Migrant {}

impl Migrant {
    /// What a thread migrates as, once it has asked to.
    pub(super) fn of(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: what is stored there came from `take_over`, and lives for ever.
        unsafe { thread.migrant.get().cast::<Self>().as_ref() }
    }

    /// Has a thread be this one, or none. What it was before.
    pub(super) fn take_over(this: Option<&'static Self>, thread: &Thread) -> Option<&'static Self> {
        let before = Self::of(thread);
        thread.migrant.set(this.map_or(ptr::null(), |this| ptr::from_ref(this).cast()));
        before
    }

    /// What a thread migrates as. It has not moved.
    #[must_use]
    pub(super) fn new(thread: &'static Thread) -> Self {
        let this = Self {
            origin: thread,
            name: Cell::new(0),
            wanted: Cell::new(thread.node),
            order: AtomicPtr::new(ptr::null_mut()),
            threads: [const { Cell::new(None) }; NODES],
        };
        this.enter(thread.node, Some(thread));
        this
    }

    /// The thread that asked.
    pub(super) fn origin(&self) -> &'static Thread {
        self.origin
    }

    /// What the C library calls the thread that asked.
    pub(super) fn name(&self) -> usize {
        self.name.get()
    }

    /// Says what that is.
    pub(super) fn set_name(&self, name: usize) {
        self.name.set(name);
    }

    /// The node on which the next call is to be executed.
    pub(super) fn wanted(&self) -> u32 {
        self.wanted.get()
    }

    /// Has the next call executed on this node.
    pub(super) fn want(&self, node: u32) {
        self.wanted.set(node);
    }

    /// Its thread on a node.
    pub(super) fn on(&self, node: u32) -> Option<&'static Thread> {
        self.threads[node as usize % NODES].get()
    }

    /// Says which is its thread on a node.
    pub(super) fn enter(&self, node: u32, thread: Option<&'static Thread>) {
        self.threads[node as usize % NODES].set(thread);
    }

    /// Has one of its threads that wait execute an order.
    pub(super) fn give(&self, thread: &Thread, order: *mut libc::c_void) {
        self.order.store(order, Ordering::Release);
        thread.parker.tell();
    }

    /// The order that one of its waiting threads is to execute; null if there is none.
    pub(super) fn order(&self) -> *mut libc::c_void {
        self.order.load(Ordering::Acquire)
    }

    /// The order is taken.
    pub(super) fn take(&self) {
        self.order.store(ptr::null_mut(), Ordering::Relaxed);
    }
}
