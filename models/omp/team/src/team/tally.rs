//! What threads did in regions, for [`crate::job::report`]. Nothing is counted unless `OMP_TOMBOLO_REPORT`
//! asks for it.
//!
//! A thread counts for itself, in its part of the team; the master adds up once all have finished. Times are
//! of the clock of the thread's own node, and only lengths of time leave it, as clocks of nodes differ. What
//! a thread did not do from the region's beginning to its end it waited, be it for its first instruction, at
//! barriers, or for the others at the end.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::task::Function;
use crate::primitives::lock::Spinlock;
use crate::primitives::nodes::NODES;
use crate::primitives::store::Store;
use crate::primitives::sys;

/// Regions that are kept apart; others are counted together.
const KEPT: usize = 256;

/// What a thread did in the region that it is in. All zero is nothing.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Tally {
    began: AtomicU64,
    waited: AtomicU64,
    busy: AtomicU64,
    iterations: AtomicU64,
    tasks: AtomicU64,
    moved: AtomicU64,
}

/// Adds to a word that only one thread writes.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Tally {
    /// A thread begins its part of a region.
    pub fn begin(&self) {
        for word in [&self.waited, &self.busy, &self.iterations, &self.tasks, &self.moved] {
            word.store(0, Ordering::Relaxed);
        }
        self.began.store(sys::now_ns(), Ordering::Relaxed);
    }

    /// A thread has come to the end of its part.
    pub fn end(&self) {
        let passed = sys::now_ns().saturating_sub(self.began.load(Ordering::Relaxed));
        self.busy.store(passed.saturating_sub(self.waited.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// A thread that has come to the end helps the others.
    pub fn help(&self, work: impl FnOnce()) {
        let (began, waited) = (sys::now_ns(), self.waited.load(Ordering::Relaxed));
        work();
        let waited = self.waited.load(Ordering::Relaxed).wrapping_sub(waited);
        add(&self.busy, sys::now_ns().saturating_sub(began).saturating_sub(waited));
    }

    /// A thread got iterations.
    #[cold]
    pub fn iterate(&self, iterations: u64) {
        add(&self.iterations, iterations);
    }

    /// A thread runs a task.
    #[cold]
    pub fn run_task(&self) {
        add(&self.tasks, 1);
    }

    /// Bytes were moved between nodes for the thread.
    pub fn move_bytes(&self, bytes: u64) {
        add(&self.moved, bytes);
    }

    /// Runs something during which the thread waits.
    #[cold]
    pub fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = sys::now_ns();
        let result = wait();
        add(&self.waited, sys::now_ns().saturating_sub(began));
        result
    }

    /// What the master of a region waited in it, it did not do in the region around either.
    pub fn include(&self, inner: &Self) {
        add(&self.waited, inner.waited.load(Ordering::Relaxed));
    }
}

/// What was done by a thread, or by all threads of a node, in all runs of a region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The node, of a thread; of several, that of the last run.
    pub node: u32,
    /// Threads, of a node: the most in one run.
    pub threads: u32,
    /// Iterations of loops that call the library.
    pub iterations: u64,
    /// Tasks.
    pub tasks: u64,
    /// Nanoseconds in which they did something.
    pub busy: u64,
    /// Nanoseconds in which they did not, while the region went on.
    pub waited: u64,
    /// Bytes that were moved between nodes' memories for them.
    pub moved: u64,
}

/// Adds what a thread did in a run that took so long. Its time.
fn add_run(sum: &mut Sum, tally: &Tally, nanoseconds: u64) -> u64 {
    let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let busy = of(&tally.busy).min(nanoseconds);
    sum.iterations = sum.iterations.wrapping_add(of(&tally.iterations));
    sum.tasks += of(&tally.tasks);
    sum.busy += busy;
    sum.waited += nanoseconds - busy;
    sum.moved += of(&tally.moved);
    busy
}

/// What is known of a region, all of its runs together.
#[repr(C)]
pub struct RegionTally {
    /// The address of what GCC outlined; 0: of regions beyond those that are kept apart.
    pub function: usize,
    /// How often it ran.
    pub runs: u64,
    /// For how long in all, in nanoseconds.
    pub nanoseconds: u64,
    /// For how long at most, in nanoseconds.
    pub longest: u64,
    /// With how many threads at most.
    pub threads: u32,
    /// For how many threads there is room in `by_thread`.
    room: u32,
    /// In each run, the time of the thread that was busy longest, and the mean of all threads'; all runs
    /// together.
    pub busiest: u64,
    /// See `busiest`.
    pub mean: u64,
    by_thread: *mut Sum,
    by_node: *mut Sum,
}

impl RegionTally {
    /// What each thread did, by its number.
    pub fn by_thread(&self) -> &[Sum] {
        slice(self.by_thread, self.threads.min(self.room))
    }

    /// What the threads of each node did, by its number.
    pub fn by_node(&self, nodes: u32) -> &[Sum] {
        slice(self.by_node, nodes)
    }

    /// Makes room for `threads` threads, and for all nodes.
    fn grow(&mut self, store: &Store, threads: u32) {
        if self.by_node.is_null() {
            self.by_node = sums(store, NODES);
        }
        if threads > self.room {
            let room = threads.next_power_of_two();
            let longer = sums(store, room as usize);
            if !self.by_thread.is_null() {
                // SAFETY: both came from the store, the new one is longer, and nothing else refers to the old
                // one.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.by_thread, longer, self.room as usize);
                    store.release(self.by_thread.cast());
                }
            }
            (self.by_thread, self.room) = (longer, room);
        }
    }

    /// Adds a run.
    fn add<'a>(
        &mut self,
        store: &Store,
        size: u32,
        members: impl Iterator<Item = (u32, &'a Tally)>,
        nanoseconds: u64,
    ) {
        self.grow(store, size);
        self.runs += 1;
        self.nanoseconds += nanoseconds;
        self.longest = self.longest.max(nanoseconds);
        self.threads = self.threads.max(size);
        let (mut busiest, mut all) = (0, 0);
        let mut there = [0_u32; NODES];
        for (id, (node, tally)) in (0..).zip(members) {
            let node = node as usize % NODES;
            there[node] += 1;
            // SAFETY: `grow` has made room for all threads and nodes, and the report's lock is held.
            let (by_thread, by_node) =
                unsafe { (&mut *self.by_thread.add(id), &mut *self.by_node.add(node)) };
            let busy = add_run(by_thread, tally, nanoseconds);
            add_run(by_node, tally, nanoseconds);
            by_thread.node = u32::try_from(node).unwrap_or(0);
            by_thread.threads = 1;
            by_node.node = by_thread.node;
            by_node.threads = by_node.threads.max(there[node]);
            busiest = busy.max(busiest);
            all += busy;
        }
        self.busiest += busiest;
        self.mean += all / u64::from(size.max(1));
    }
}

fn sums(store: &Store, count: usize) -> *mut Sum {
    let bytes = count * size_of::<Sum>();
    let Some(memory) = store.allocate(bytes, 64) else { store.exhausted() };
    // SAFETY: the memory is that long, and ours; all zero is a sum.
    unsafe { memory.write_bytes(0, bytes) };
    memory.cast()
}

fn slice(sums: *const Sum, count: u32) -> &'static [Sum] {
    if sums.is_null() {
        return &[];
    }
    // SAFETY: a line's sums are as many as it says, and the report's lock is held by the caller.
    unsafe { std::slice::from_raw_parts(sums, count as usize) }
}

/// What is known of all regions. All zero is nothing.
#[repr(C)]
pub struct Tallies {
    lock: Spinlock,
    /// Bytes moved outside of all regions.
    outside: AtomicU64,
    lines: UnsafeCell<[RegionTally; KEPT]>,
}

// SAFETY: the lines are touched only while the lock is held.
unsafe impl Sync for Tallies {}

impl Tallies {
    /// Looks at all regions that ran, the longest first.
    pub fn read<T>(&self, look: impl FnOnce(&[&RegionTally]) -> T) -> T {
        let _held = self.lock.hold();
        // SAFETY: the lock is held.
        let lines = unsafe { &*self.lines.get() };
        let mut shown: Vec<&RegionTally> = lines.iter().filter(|line| line.runs > 0).collect();
        shown.sort_by_key(|line| std::cmp::Reverse(line.nanoseconds));
        look(&shown)
    }

    /// Adds a run of a region that took this long. The members are given by the nodes that they are on, with
    /// what they did.
    pub fn add<'a>(
        &self,
        store: &Store,
        function: Option<Function>,
        size: u32,
        members: impl Iterator<Item = (u32, &'a Tally)>,
        nanoseconds: u64,
    ) {
        let function = function.map_or(0, |function| function as usize);
        let _held = self.lock.hold();
        // SAFETY: the lock is held.
        let lines = unsafe { &mut *self.lines.get() };
        let known = |line: &RegionTally| line.function == function || line.runs == 0;
        let index = lines.iter().position(known).unwrap_or(KEPT - 1);
        if index < KEPT - 1 {
            lines[index].function = function;
        }
        lines[index].add(store, size, members, nanoseconds);
    }

    /// Bytes were moved outside of all regions.
    pub fn move_outside(&self, bytes: u64) {
        self.outside.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were moved outside of all regions.
    pub fn moved_outside(&self) -> u64 {
        self.outside.load(Ordering::Relaxed)
    }
}
