//! Migrating threads: the thread of the program, and threads of other nodes that execute calls for it.
//!
//! Only one of them runs at a time. The others wait for the end of a call, or for a call to execute.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::primitives::balance::Placement;
use crate::primitives::nodes::NODES_MAX;
use crate::team::thread::Thread;

/// State of a migrating thread, in the store. Only the thread that currently runs accesses the cells.
#[repr(C, align(64))]
pub(super) struct MigrationState {
    origin: &'static Thread,
    /// `pthread_t` of the origin: a number or an address.
    pthread: Cell<usize>,
    /// Node that will execute the next call.
    target_node: Cell<u32>,
    /// Whether the program chose that node.
    has_explicit_target: Cell<bool>,
    /// Placement of the function that it is in, if chosen by measured times.
    placement: Cell<Option<Placement>>,
    /// Command for one of its waiting threads; [`crate::device`] knows the type.
    command: AtomicPtr<libc::c_void>,
    /// The one of its threads that runs; also read by others.
    runs_as: AtomicPtr<Thread>,
    /// Innermost function called on another node that has not returned; 0 if none.
    function: AtomicUsize,
    /// Number of migrations.
    moves: AtomicU64,
    /// Its thread on each node: the origin, and those that execute calls.
    threads: [Cell<Option<&'static Thread>>; NODES_MAX],
}

// SAFETY: only one of its threads runs at a time. It passes control to the next by a release store, of an
// command or of its completion.
unsafe impl Sync for MigrationState {}

impl MigrationState {
    /// Returns the migration state of a thread, if it has asked to migrate.
    pub(super) fn of(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: the pointer was stored by `replace_current`; the state is never freed.
        unsafe { thread.migration.get().cast::<Self>().as_ref() }
    }

    /// Returns the migration state of a thread of the program. Can be called from any thread.
    pub(super) fn of_origin(thread: &Thread) -> Option<&'static Self> {
        // SAFETY: the pointer refers to state in the store, which is never freed.
        unsafe { thread.status.migration.load(Ordering::Acquire).cast::<Self>().as_ref() }
    }

    /// Makes a thread act as this migrating thread, or as none. Returns the previous state.
    pub(super) fn replace_current(this: Option<&'static Self>, thread: &Thread) -> Option<&'static Self> {
        let before = Self::of(thread);
        thread.migration.set(this.map_or(ptr::null(), |this| ptr::from_ref(this).cast()));
        before
    }

    /// Creates the state of a thread that has not moved.
    #[must_use]
    pub(super) fn new(thread: &'static Thread) -> Self {
        let this = Self {
            origin: thread,
            pthread: Cell::new(0),
            target_node: Cell::new(thread.node),
            has_explicit_target: Cell::new(false),
            placement: Cell::new(None),
            command: AtomicPtr::new(ptr::null_mut()),
            runs_as: AtomicPtr::new(ptr::from_ref(thread).cast_mut()),
            function: AtomicUsize::new(0),
            moves: AtomicU64::new(0),
            threads: [const { Cell::new(None) }; NODES_MAX],
        };
        this.set_thread_on(thread.node, Some(thread));
        this
    }

    /// Returns the thread of the program.
    pub(super) fn origin(&self) -> &'static Thread {
        self.origin
    }

    /// Returns the `pthread_t` of the origin.
    pub(super) fn pthread(&self) -> usize {
        self.pthread.get()
    }

    /// Sets the `pthread_t` of the origin.
    pub(super) fn set_pthread(&self, pthread: usize) {
        self.pthread.set(pthread);
    }

    /// Returns the node that will execute the next call.
    pub(super) fn target_node(&self) -> u32 {
        self.target_node.get()
    }

    /// Sets the node that will execute the next call.
    pub(super) fn set_target_node(&self, node: u32) {
        self.target_node.set(node);
    }

    /// Sets the node as chosen by the program.
    pub(super) fn set_explicit_target(&self, node: u32) {
        self.set_target_node(node);
        self.has_explicit_target.set(true);
    }

    /// Whether the program chose the node of calls.
    pub(super) fn has_explicit_target(&self) -> bool {
        self.has_explicit_target.get()
    }

    /// Sets the placement of the function that it is in. Returns the previous one.
    pub(super) fn replace_placement(&self, placement: Option<Placement>) -> Option<Placement> {
        self.placement.replace(placement)
    }

    /// Returns its thread on a node.
    pub(super) fn thread_on(&self, node: u32) -> Option<&'static Thread> {
        self.threads[node as usize % NODES_MAX].get()
    }

    /// Sets its thread on a node.
    pub(super) fn set_thread_on(&self, node: u32, thread: Option<&'static Thread>) {
        self.threads[node as usize % NODES_MAX].set(thread);
    }

    /// Moves to this thread, in a function called on its node (0 for none). Returns the function before the
    /// move.
    pub(super) fn switch_to(&self, thread: &'static Thread, function: usize) -> usize {
        self.runs_as.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.function.swap(function, Ordering::Relaxed)
    }

    /// Returns the thread that runs, the function that was called on its node, and the number of migrations.
    pub(super) fn snapshot(&self) -> (&'static Thread, usize, u64) {
        // SAFETY: the pointer refers to a thread record, which is never freed.
        let thread = unsafe { &*self.runs_as.load(Ordering::Relaxed) };
        (thread, self.function.load(Ordering::Relaxed), self.moves.load(Ordering::Relaxed))
    }

    /// Resets the state for another thread that gets the origin's record.
    pub(super) fn reset(&self) {
        self.set_target_node(self.origin.node);
        self.has_explicit_target.set(false);
        self.switch_to(self.origin, 0);
        self.moves.store(0, Ordering::Relaxed);
    }

    /// Gives one of its waiting threads a command to execute.
    pub(super) fn send_command(&self, thread: &Thread, command: *mut libc::c_void) {
        self.command.store(command, Ordering::Release);
        thread.parker.fence_and_wake();
    }

    /// Returns the command for one of its waiting threads; null if there is none.
    pub(super) fn command(&self) -> *mut libc::c_void {
        self.command.load(Ordering::Acquire)
    }

    /// Marks the command as taken.
    pub(super) fn clear_command(&self) {
        self.command.store(ptr::null_mut(), Ordering::Relaxed);
    }
}
