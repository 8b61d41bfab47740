//! Measurements of threads in regions, for [`crate::job::report`]. Disabled unless `OMP_TOMBOLO_REPORT` asks
//! for a report.
//!
//! Each thread counts in its own member record; the master adds up once all have finished. Times are of the
//! clock of the thread's own node. Only durations leave it, as the nodes' clocks differ. All time of a region
//! in which a thread was not busy counts as waiting: for its start, at barriers, or for the others at the
//! end.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::task::Function;
use crate::primitives::lock::Spinlock;
use crate::primitives::nodes::NODES_MAX;
use crate::primitives::store::Store;
use crate::primitives::sys;

/// Regions with lines of their own; all others share the last line.
const REGIONS_MAX: usize = 256;

/// Measurements of a thread in its current region. All-zero memory is valid.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Tally {
    began: AtomicU64,
    waited: AtomicU64,
    busy: AtomicU64,
    iterations: AtomicU64,
    tasks: AtomicU64,
    bytes_moved: AtomicU64,
}

/// Adds to a word with a single writer.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Tally {
    /// Starts the measurement of a thread's part of a region.
    pub fn begin(&self) {
        for word in [&self.waited, &self.busy, &self.iterations, &self.tasks, &self.bytes_moved] {
            word.store(0, Ordering::Relaxed);
        }
        self.began.store(sys::now_ns(), Ordering::Relaxed);
    }

    /// Ends the measurement of a thread's part of a region.
    pub fn end(&self) {
        let passed = sys::now_ns().saturating_sub(self.began.load(Ordering::Relaxed));
        self.busy.store(passed.saturating_sub(self.waited.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Counts `work`, with which a thread that has reached the end helps the others, as busy.
    pub fn measure_help(&self, work: impl FnOnce()) {
        let (began, waited) = (sys::now_ns(), self.waited.load(Ordering::Relaxed));
        work();
        let waited = self.waited.load(Ordering::Relaxed).wrapping_sub(waited);
        add(&self.busy, sys::now_ns().saturating_sub(began).saturating_sub(waited));
    }

    /// Counts iterations assigned to the thread.
    #[cold]
    pub fn count_iterations(&self, iterations: u64) {
        add(&self.iterations, iterations);
    }

    /// Counts a task that the thread runs.
    #[cold]
    pub fn count_task(&self) {
        add(&self.tasks, 1);
    }

    /// Counts bytes moved between nodes for the thread.
    pub fn count_bytes_moved(&self, bytes: u64) {
        add(&self.bytes_moved, bytes);
    }

    /// Counts the time of `wait` as waiting.
    #[cold]
    pub fn measure_wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = sys::now_ns();
        let result = wait();
        add(&self.waited, sys::now_ns().saturating_sub(began));
        result
    }

    /// Counts what the master waited in a nested region as waiting in the outer region too.
    pub fn add_nested_wait(&self, inner: &Self) {
        add(&self.waited, inner.waited.load(Ordering::Relaxed));
    }
}

/// Totals of a thread, or of all threads of a node, over all runs of a region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Node of the thread in the last run.
    pub node: u32,
    /// Most threads of the node in one run; 1 for a thread.
    pub threads: u32,
    /// Iterations of loops that call the library.
    pub iterations: u64,
    /// Number of tasks run.
    pub tasks: u64,
    /// Busy time in nanoseconds.
    pub busy: u64,
    /// Waiting time during the region in nanoseconds.
    pub waited: u64,
    /// Bytes moved between nodes.
    pub bytes_moved: u64,
}

/// Adds a thread's measurements of a run that took `nanoseconds`. Returns its busy time.
fn add_run(sum: &mut Totals, tally: &Tally, nanoseconds: u64) -> u64 {
    let of = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let busy = of(&tally.busy).min(nanoseconds);
    sum.iterations = sum.iterations.wrapping_add(of(&tally.iterations));
    sum.tasks += of(&tally.tasks);
    sum.busy += busy;
    sum.waited += nanoseconds - busy;
    sum.bytes_moved += of(&tally.bytes_moved);
    busy
}

/// Totals of all runs of a region.
#[repr(C)]
pub struct RegionTally {
    /// Address of the function that GCC outlined; 0 for the line shared by the remaining regions.
    pub function: usize,
    /// Number of runs.
    pub runs: u64,
    /// Total duration in nanoseconds.
    pub nanoseconds: u64,
    /// Longest duration in nanoseconds.
    pub longest: u64,
    /// Most threads in one run.
    pub threads: u32,
    /// Capacity of `by_thread`.
    capacity: u32,
    /// Sum over all runs of the busiest thread's busy time.
    pub busiest: u64,
    /// Sum over all runs of the threads' mean busy time.
    pub mean: u64,
    by_thread: *mut Totals,
    by_node: *mut Totals,
}

impl RegionTally {
    /// Returns the totals of each thread, by number.
    pub fn by_thread(&self) -> &[Totals] {
        slice(self.by_thread, self.threads.min(self.capacity))
    }

    /// Returns the totals of each node, by number.
    pub fn by_node(&self, nodes: u32) -> &[Totals] {
        slice(self.by_node, nodes)
    }

    /// Grows the lists for `threads` threads and all nodes.
    fn grow(&mut self, store: &Store, threads: u32) {
        if self.by_node.is_null() {
            self.by_node = sums(store, NODES_MAX);
        }
        if threads > self.capacity {
            let capacity = threads.next_power_of_two();
            let longer = sums(store, capacity as usize);
            if !self.by_thread.is_null() {
                // SAFETY: both came from the store, the new one is longer, and the old one has no other
                // references.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.by_thread, longer, self.capacity as usize);
                    store.release(self.by_thread.cast());
                }
            }
            (self.by_thread, self.capacity) = (longer, capacity);
        }
    }

    /// Adds the measurements of a run.
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
        let mut there = [0_u32; NODES_MAX];
        for (id, (node, tally)) in (0..).zip(members) {
            let node = node as usize % NODES_MAX;
            there[node] += 1;
            // SAFETY: `grow` has made capacity for all threads and nodes, and the lock of the tallies is
            // held.
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

fn sums(store: &Store, count: usize) -> *mut Totals {
    let bytes = count * size_of::<Totals>();
    let Some(memory) = store.allocate(bytes, 64) else { store.exhausted() };
    // SAFETY: the memory is freshly allocated with this size; an all-zero sum is valid.
    unsafe { memory.write_bytes(0, bytes) };
    memory.cast()
}

fn slice(sums: *const Totals, count: u32) -> &'static [Totals] {
    if sums.is_null() {
        return &[];
    }
    // SAFETY: a line has as many sums as it says, and the caller holds the lock of the tallies.
    unsafe { std::slice::from_raw_parts(sums, count as usize) }
}

/// Totals of all regions. All-zero memory is valid.
#[repr(C)]
pub struct Tallies {
    lock: Spinlock,
    /// Bytes moved outside of regions.
    bytes_moved_outside: AtomicU64,
    lines: UnsafeCell<[RegionTally; REGIONS_MAX]>,
}

// SAFETY: the lines are touched only while the lock is held.
unsafe impl Sync for Tallies {}

impl Tallies {
    /// Calls `look` with the lines of all regions that ran, the longest first.
    pub fn read<T>(&self, look: impl FnOnce(&[&RegionTally]) -> T) -> T {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let lines = unsafe { &*self.lines.get() };
        let mut sorted: Vec<&RegionTally> = lines.iter().filter(|line| line.runs > 0).collect();
        sorted.sort_by_key(|line| std::cmp::Reverse(line.nanoseconds));
        look(&sorted)
    }

    /// Adds a run of a region. `members` are the node and the measurements of each thread.
    pub fn add<'a>(
        &self,
        store: &Store,
        function: Option<Function>,
        size: u32,
        members: impl Iterator<Item = (u32, &'a Tally)>,
        nanoseconds: u64,
    ) {
        let function = function.map_or(0, |function| function as usize);
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let lines = unsafe { &mut *self.lines.get() };
        let known = |line: &RegionTally| line.function == function || line.runs == 0;
        let index = lines.iter().position(known).unwrap_or(REGIONS_MAX - 1);
        if index < REGIONS_MAX - 1 {
            lines[index].function = function;
        }
        lines[index].add(store, size, members, nanoseconds);
    }

    /// Counts bytes moved outside of regions.
    pub fn count_bytes_moved_outside(&self, bytes: u64) {
        self.bytes_moved_outside.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes moved outside of regions.
    pub fn bytes_moved_outside(&self) -> u64 {
        self.bytes_moved_outside.load(Ordering::Relaxed)
    }
}
