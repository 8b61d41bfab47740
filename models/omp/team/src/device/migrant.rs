//! A thread that migrates: the thread that asked for it, and those of other nodes that execute calls for it.
//!
//! One of them runs at a time. The others wait for the end of a call, or for a call to execute.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::primitives::balance::Choice;
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
    /// Whether the program has said so.
    is_said: Cell<bool>,
    /// Where the function is executed that it is in, where that is decided by measured times.
    choice: Cell<Option<Choice>>,
    /// An order for one of its threads that waits; an address that [`crate::device`] gives a meaning to.
    order: AtomicPtr<libc::c_void>,
    /// The thread that runs, of these; read also by others.
    runs_as: AtomicPtr<Thread>,
    /// The function that it called last on another node and that has not returned.
    function: AtomicUsize,
    /// How often it has changed its node.
    moves: AtomicU64,
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

    /// What a thread of the program migrates as, of whatever thread it is asked.
    pub(super) fn of_origin(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: what is stored there lies in the store, and lives for ever.
        unsafe { thread.shown.migrant.load(Ordering::Acquire).cast::<Self>().as_ref() }
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
            is_said: Cell::new(false),
            choice: Cell::new(None),
            order: AtomicPtr::new(ptr::null_mut()),
            runs_as: AtomicPtr::new(ptr::from_ref(thread).cast_mut()),
            function: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
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

    /// The program says so.
    pub(super) fn obeys(&self, node: u32) {
        self.want(node);
        self.is_said.set(true);
    }

    /// Whether the program has said where calls are to be executed.
    pub(super) fn is_said(&self) -> bool {
        self.is_said.get()
    }

    /// Where the function is executed that it is in, from now on; what that was before.
    pub(super) fn chooses(&self, choice: Option<Choice>) -> Option<Choice> {
        self.choice.replace(choice)
    }

    /// Its thread on a node.
    pub(super) fn on(&self, node: u32) -> Option<&'static Thread> {
        self.threads[node as usize % NODES].get()
    }

    /// Says which is its thread on a node.
    pub(super) fn enter(&self, node: u32, thread: Option<&'static Thread>) {
        self.threads[node as usize % NODES].set(thread);
    }

    /// It goes on as this thread, in a function that the program calls on this node, 0 for none. Where it was
    /// before.
    pub(super) fn go_on(&self, thread: &'static Thread, function: usize) -> usize {
        self.runs_as.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.function.swap(function, Ordering::Relaxed)
    }

    /// Its thread that runs, the function that was called on that node, and how often it has moved.
    pub(super) fn seen(&self) -> (&'static Thread, usize, u64) {
        // SAFETY: what is stored there is a thread, which lives for ever.
        let thread = unsafe { &*self.runs_as.load(Ordering::Relaxed) };
        (thread, self.function.load(Ordering::Relaxed), self.moves.load(Ordering::Relaxed))
    }

    /// Another thread gets the record of that which asked: it has not moved.
    pub(super) fn begin_anew(&self) {
        self.want(self.origin.node);
        self.is_said.set(false);
        self.go_on(self.origin, 0);
        self.moves.store(0, Ordering::Relaxed);
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
