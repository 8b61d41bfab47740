//! Migrating threads: the thread of the program, and threads of other nodes that execute calls for it.
//!
//! Only one of them runs at a time. The others wait for the end of a call, or for a call to execute.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::primitives::balance::Choice;
use crate::primitives::nodes::NODES;
use crate::team::thread::Thread;

/// State of a migrating thread, in the store. Only the thread that currently runs accesses the cells.
#[repr(C, align(64))]
pub(super) struct Migrant {
    origin: &'static Thread,
    /// `pthread_t` of the origin: a number or an address.
    name: Cell<usize>,
    /// Node that will execute the next call.
    wanted: Cell<u32>,
    /// Whether the program chose that node.
    is_said: Cell<bool>,
    /// Placement of the function that it is in, if chosen by measured times.
    choice: Cell<Option<Choice>>,
    /// Order for one of its waiting threads; [`crate::device`] knows the type.
    order: AtomicPtr<libc::c_void>,
    /// The one of its threads that runs; also read by others.
    runs_as: AtomicPtr<Thread>,
    /// Innermost function called on another node that has not returned; 0 if none.
    function: AtomicUsize,
    /// Number of migrations.
    moves: AtomicU64,
    /// Its thread on each node: the origin, and those that execute calls.
    threads: [Cell<Option<&'static Thread>>; NODES],
}

// SAFETY: only one of its threads runs at a time. It passes control to the next by a release store, of an
// order or of its completion.
unsafe impl Sync for Migrant {}

impl Migrant {
    /// Returns the migration state of a thread, if it has asked to migrate.
    pub(super) fn of(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: the pointer was stored by `take_over`; the state is never freed.
        unsafe { thread.migrant.get().cast::<Self>().as_ref() }
    }

    /// Returns the migration state of a thread of the program. Can be called from any thread.
    pub(super) fn of_origin(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: the pointer refers to state in the store, which is never freed.
        unsafe { thread.shown.migrant.load(Ordering::Acquire).cast::<Self>().as_ref() }
    }

    /// Makes a thread act as this migrating thread, or as none. Returns the previous state.
    pub(super) fn take_over(this: Option<&'static Self>, thread: &Thread) -> Option<&'static Self> {
        let before = Self::of(thread);
        thread.migrant.set(this.map_or(ptr::null(), |this| ptr::from_ref(this).cast()));
        before
    }

    /// Creates the state of a thread that has not moved.
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

    /// Returns the thread of the program.
    pub(super) fn origin(&self) -> &'static Thread {
        self.origin
    }

    /// Returns the `pthread_t` of the origin.
    pub(super) fn name(&self) -> usize {
        self.name.get()
    }

    /// Sets the `pthread_t` of the origin.
    pub(super) fn set_name(&self, name: usize) {
        self.name.set(name);
    }

    /// Returns the node that will execute the next call.
    pub(super) fn wanted(&self) -> u32 {
        self.wanted.get()
    }

    /// Sets the node that will execute the next call.
    pub(super) fn want(&self, node: u32) {
        self.wanted.set(node);
    }

    /// Sets the node as chosen by the program.
    pub(super) fn obeys(&self, node: u32) {
        self.want(node);
        self.is_said.set(true);
    }

    /// Whether the program chose the node of calls.
    pub(super) fn is_said(&self) -> bool {
        self.is_said.get()
    }

    /// Sets the placement of the function that it is in. Returns the previous one.
    pub(super) fn chooses(&self, choice: Option<Choice>) -> Option<Choice> {
        self.choice.replace(choice)
    }

    /// Returns its thread on a node.
    pub(super) fn on(&self, node: u32) -> Option<&'static Thread> {
        self.threads[node as usize % NODES].get()
    }

    /// Sets its thread on a node.
    pub(super) fn enter(&self, node: u32, thread: Option<&'static Thread>) {
        self.threads[node as usize % NODES].set(thread);
    }

    /// Moves to this thread, in a function called on its node (0 for none). Returns the function before the
    /// move.
    pub(super) fn go_on(&self, thread: &'static Thread, function: usize) -> usize {
        self.runs_as.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.function.swap(function, Ordering::Relaxed)
    }

    /// Returns the thread that runs, the function that was called on its node, and the number of migrations.
    pub(super) fn seen(&self) -> (&'static Thread, usize, u64) {
        // SAFETY: the pointer refers to a thread record, which is never freed.
        let thread = unsafe { &*self.runs_as.load(Ordering::Relaxed) };
        (thread, self.function.load(Ordering::Relaxed), self.moves.load(Ordering::Relaxed))
    }

    /// Resets the state for another thread that gets the origin's record.
    pub(super) fn begin_anew(&self) {
        self.want(self.origin.node);
        self.is_said.set(false);
        self.go_on(self.origin, 0);
        self.moves.store(0, Ordering::Relaxed);
    }

    /// Gives one of its waiting threads an order to execute.
    pub(super) fn give(&self, thread: &Thread, order: *mut libc::c_void) {
        self.order.store(order, Ordering::Release);
        thread.parker.tell();
    }

    /// Returns the order for one of its waiting threads; null if there is none.
    pub(super) fn order(&self) -> *mut libc::c_void {
        self.order.load(Ordering::Acquire)
    }

    /// Marks the order as taken.
    pub(super) fn take(&self) {
        self.order.store(ptr::null_mut(), Ordering::Relaxed);
    }
}
