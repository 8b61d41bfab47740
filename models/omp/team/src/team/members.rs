//! Teams and their members, with the state that they share. The course of a region is in
//! [`crate::constructs::region`].
//!
//! A master keeps its last team, with the workers waiting at their docks. To begin a region it writes the
//! work into the first cache line of each worker and rings the bell. At the end workers signal that they have
//! finished and return to their docks without waiting for each other. Tasks may be left until all have
//! finished; workers that wait for the next region help to run them.
//!
//! Such a helper may see a team that already runs another region. This is harmless: a team's memory is never
//! reused for anything else, and a helper is admitted only by the region's number.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::group::Group;
use super::node_barrier::NodeBarriers;
use super::queue::{PriorityQueue, Queue};
use super::root::Root;
use super::share::{Progress, WorkShare};
use super::tally::Tally;
use super::task::{Function, Task};
use super::thread::{TeamState, Thread};
use crate::primitives::bell::{Bell, Sleepers};
use crate::primitives::cache_line::CacheLine;
use crate::primitives::icv::Icv;
use crate::primitives::nodes::NODES_MAX;
use crate::primitives::skew::{self, Weight};
use crate::primitives::sys;

/// Bit of [`Team::helpers`] that is set once the region has ended.
const CLOSED: u64 = 1 << 15;

/// Per-thread part of a team.
#[repr(C, align(64))]
pub struct Member {
    /// Thread that is this member.
    pub thread: AtomicPtr<Thread>,
    /// Tasks that the member created and that are ready to run.
    pub queue: Queue,
    /// Counts of tasks that the member created and finished. Only the member writes them.
    pub created: AtomicU64,
    /// Tasks finished by the member, see `created`.
    pub finished: AtomicU64,
    /// Ordered iteration that the member waits for, plus one; 0 if none.
    pub awaited_iteration: AtomicU64,
    /// Sum of the weights of lower-numbered threads, and the own weight, if speeds differ.
    preceding_weight: Cell<u64>,
    weight: Cell<u64>,
    /// Work-sharing constructs that the member has reached.
    pub progress: Progress,
    /// Measurements for the report.
    pub tally: Tally,
    /// The member's implicit task.
    pub task: Task,
}

/// A team and the region that it runs.
#[repr(C, align(64))]
pub struct Team {
    /// Number of threads in the region.
    pub(crate) size: Cell<u32>,
    /// Number of threads that stay with this master between regions, the master included.
    pub(crate) retained_threads: Cell<u32>,
    pub(crate) order: u32,
    /// Number of enclosing regions, this one included, and how many of them are active.
    pub(crate) level: Cell<u32>,
    pub(crate) active: Cell<u32>,
    /// Enclosing league: its number of teams less one, and the index of the team that this one is in.
    pub(crate) league: Cell<(u32, u32)>,
    /// Node that the team and all nested teams are confined to, plus one; 0 if not confined.
    pub(crate) confined_node: Cell<u32>,
    /// Whether the region has created any task.
    pub has_tasks: AtomicBool,
    /// Whether the region was cancelled.
    pub cancelled: AtomicBool,
    /// Group of all tasks of the region, for `reduction(task, …)`.
    pub group: Cell<Option<&'static Group>>,
    /// ICVs of the implicit tasks. Fields up to here are read by workers in every region and seldom written.
    pub(crate) icv: Cell<Icv>,
    /// The master's team state in the enclosing region.
    pub(crate) enclosing: CacheLine<Cell<Option<TeamState>>>,
    pub(crate) function: Cell<Option<Function>>,
    pub(crate) data: Cell<*mut libc::c_void>,
    pub(crate) began_ns: Cell<u64>,
    /// Sum and minimum of the threads' weights; 0 if all are equally fast.
    weights: Cell<(u64, u64)>,
    /// Whether weights differ or a report is written.
    weighted_or_measured: Cell<bool>,
    /// Team size that the weights were computed for; 0 if not computed.
    pub(crate) weights_size: Cell<u32>,
    /// Number of threads on the processors of each node, if there are several nodes.
    node_threads: [Cell<u32>; NODES_MAX],
    /// Barriers per node; null if there is one node.
    node_barriers: Cell<*const NodeBarriers>,
    /// Number of threads counted against `OMP_THREAD_LIMIT`.
    pub(crate) counted_threads: Cell<u32>,
    /// First place and number of places of the master outside the region, if its partition is narrower
    /// within.
    pub(crate) saved_partition: Cell<Option<(u32, u32)>>,
    /// Next team in the free list.
    pub next_cached: Cell<Option<&'static Team>>,
    /// Source of `copyprivate`.
    pub copyprivate_data: Cell<*mut libc::c_void>,

    /// Barrier generation, incremented at each release.
    pub(crate) generation: CacheLine<AtomicU32>,
    /// Bell of threads that wait at the barrier or for the next region.
    pub bell: Bell,
    /// Other threads that sleep, or are about to, to be woken for tasks and similar events.
    pub sleepers: Sleepers,
    /// Member that came last to a barrier and waits for all tasks to finish, plus one; 0 if none.
    pub(crate) leader: AtomicU32,
    pub(crate) arrived: CacheLine<AtomicU32>,
    pub(crate) finished: CacheLine<AtomicU32>,
    /// Region number (upper 48 bits) and number of helpers (low bits).
    helpers: CacheLine<AtomicU64>,
    /// Number of `single` constructs already taken by a thread.
    pub singles: CacheLine<AtomicU32>,
    /// Tasks finished by threads outside the team.
    pub finished_outside: AtomicU64,
    /// Tasks with a priority, the most urgent first.
    pub priority_tasks: PriorityQueue,
    /// First work-sharing record of the region: empty, or the loop of a combined construct.
    pub first: WorkShare,
}

// SAFETY: the master writes the cells while it is alone in the team. Workers read them after they have seen
// what the master published later.
unsafe impl Sync for Team {}
// SAFETY: as for `Team`.
unsafe impl Sync for Member {}

impl Team {
    /// Obtains a team for `size` threads, owned by the caller.
    pub(crate) fn obtain(root: &'static Root, size: u32) -> &'static Self {
        let order = size.max(1).next_power_of_two().ilog2() as usize;
        if let Some(team) = root.take_team(order) {
            team.set_weights(root, None);
            team.weights_size.set(0);
            return team;
        }
        let header = size_of::<Self>().next_multiple_of(64);
        let bytes = header + (size_of::<Member>() << order);
        let Some(memory) = root.store.allocate(bytes, 64) else { root.store.exhausted() };
        // SAFETY: fresh memory of this size and alignment that is a team from now on; an all-zero member is
        // valid.
        unsafe {
            ptr::write_bytes(memory, 0, bytes);
            let team: *mut Self = memory.cast();
            team.write(Self::empty(u32::try_from(order).unwrap_or(0), root.settings.icv));
            (*team).set_weights(root, None);
            &*team
        }
    }

    fn empty(order: u32, icv: Icv) -> Self {
        Self {
            size: Cell::new(0),
            retained_threads: Cell::new(0),
            order,
            level: Cell::new(0),
            active: Cell::new(0),
            league: Cell::new((0, 0)),
            confined_node: Cell::new(0),
            enclosing: CacheLine(Cell::new(None)),
            icv: Cell::new(icv),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            began_ns: Cell::new(0),
            weights: Cell::new((0, 0)),
            weighted_or_measured: Cell::new(false),
            weights_size: Cell::new(0),
            node_threads: [const { Cell::new(0) }; NODES_MAX],
            node_barriers: Cell::new(ptr::null()),
            counted_threads: Cell::new(0),
            saved_partition: Cell::new(None),
            has_tasks: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            next_cached: Cell::new(None),
            copyprivate_data: Cell::new(ptr::null_mut()),
            group: Cell::new(None),
            generation: CacheLine(AtomicU32::new(0)),
            bell: Bell::default(),
            sleepers: Sleepers::default(),
            leader: AtomicU32::new(0),
            arrived: CacheLine(AtomicU32::new(0)),
            finished: CacheLine(AtomicU32::new(0)),
            helpers: CacheLine(AtomicU64::new(CLOSED)),
            singles: CacheLine(AtomicU32::new(0)),
            finished_outside: AtomicU64::new(0),
            priority_tasks: PriorityQueue::default(),
            first: WorkShare::default(),
        }
    }

    /// Returns the base-2 logarithm of the team's capacity.
    pub fn order(&self) -> usize {
        self.order as usize
    }

    /// Returns the number of threads.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.get()
    }

    /// Returns the number of nested regions, this one included.
    pub fn level(&self) -> u32 {
        self.level.get()
    }

    /// Returns the number of nested regions with more than one thread.
    pub fn active_level(&self) -> u32 {
        self.active.get()
    }

    /// Returns the node that the team is confined to, in a region for a device.
    #[inline]
    pub fn confined_node(&self) -> Option<u32> {
        self.confined_node.get().checked_sub(1)
    }

    /// Returns the master's team state in the enclosing region; `None` in the outermost team.
    pub fn enclosing(&self) -> Option<TeamState> {
        self.enclosing.0.get()
    }

    /// Whether its threads differ in speed or are measured for the report.
    #[inline]
    pub fn is_weighted_or_measured(&self) -> bool {
        self.weighted_or_measured.get()
    }

    /// Whether its threads differ in speed.
    #[inline]
    pub fn is_skewed(&self) -> bool {
        self.weights.get().0 > 0
    }

    /// Returns the barriers per node; `None` if there is one node.
    #[inline]
    pub(crate) fn node_barriers(&self) -> Option<&'static NodeBarriers> {
        // SAFETY: a non-null pointer refers to barriers in the store, which are never freed.
        unsafe { self.node_barriers.get().as_ref() }
    }

    /// Returns how many of its threads run on the processors of a node, if there are several nodes.
    pub(crate) fn threads_on(&self, node: u32) -> u32 {
        self.node_threads[node as usize % NODES_MAX].get()
    }

    /// Returns a thread's weight relative to the others, if their speeds differ.
    pub fn weight(&self, id: u32) -> Weight {
        let (all, least) = self.weights.get();
        let member = self.member(id);
        Weight { preceding_weight: member.preceding_weight.get(), own: member.weight.get(), least, all }
    }

    /// Returns how many tasks a loop is divided into by default: one per thread or, if speeds differ, one per
    /// share of the slowest thread.
    pub fn default_task_count(&self) -> u64 {
        let size = u64::from(self.size());
        match self.weights.get() {
            (0, _) => size,
            (all, least) => skew::task_count(size, all, least),
        }
    }

    /// Computes the threads' weights unless they are known for this size.
    pub(crate) fn compute_weights(&self, me: &Thread, size: u32) {
        if self.weights_size.replace(size) == size {
            return;
        }
        let node = |id: u32| self.member(id).thread().map_or(me.node, |thread| thread.node);
        self.node_barriers()
            .unwrap_or_else(|| {
                let made = NodeBarriers::place(me.store());
                self.node_barriers.set(ptr::from_ref(made));
                made
            })
            .assign(size, node);
        let nodes = me.root().nodes();
        self.node_threads.iter().for_each(|on| on.set(0));
        for id in 0..size {
            let on = &self.node_threads[nodes.at(node(id)).runs_on() as usize % NODES_MAX];
            on.set(on.get() + 1);
        }
        let mut preceding_weight = 0;
        let set_weight = |id: u32, weight: u64| {
            let member = self.member(id);
            member.preceding_weight.set(preceding_weight);
            member.weight.set(weight);
            preceding_weight += weight;
        };
        self.set_weights(me.root(), skew::compute_weights(nodes, size, node, set_weight));
    }

    fn set_weights(&self, root: &Root, weights: Option<(u64, u64)>) {
        self.weights.set(weights.unwrap_or((0, 0)));
        self.weighted_or_measured.set(weights.is_some() || root.settings.report);
    }

    /// Returns the member record of thread `id`.
    #[inline]
    pub fn member(&self, id: u32) -> &'static Member {
        let members =
            (ptr::from_ref(self) as usize + size_of::<Self>().next_multiple_of(64)) as *const Member;
        debug_assert!(id < 1 << self.order);
        // SAFETY: there are `1 << order` members behind the header, and ids are below that.
        unsafe { &*members.add(id as usize) }
    }

    /// Iterates over the members in order of their numbers.
    pub fn members(&self) -> impl Iterator<Item = &'static Member> + '_ {
        (0..self.size()).map(|id| self.member(id))
    }

    /// Creates the team state of a thread outside of regions: one that OpenMP did not start, or one that runs
    /// a region for a device, whose teams stay on the node `confined_node - 1`.
    pub fn create_outermost(root: &'static Root, thread: &Thread, confined_node: u32) -> TeamState {
        let team = Self::obtain(root, 1);
        let mut icv = root.settings.icv;
        icv.threads = root.settings.threads.at(0).unwrap_or(icv.threads);
        team.icv.set(icv);
        team.size.set(1);
        team.level.set(0);
        team.active.set(0);
        team.confined_node.set(confined_node);
        team.enclosing.0.set(None);
        team.begin_region();
        let team_state = team.join(0, thread, team.region_number());
        thread.set_team_state(team_state);
        team_state
    }

    /// Resets the team for a new region and increments the region number.
    pub(crate) fn begin_region(&self) {
        for flag in [&self.has_tasks, &self.cancelled] {
            if flag.load(Ordering::Relaxed) {
                flag.store(false, Ordering::Relaxed);
            }
        }
        self.arrived.0.store(0, Ordering::Relaxed);
        self.finished.0.store(0, Ordering::Relaxed);
        self.leader.store(0, Ordering::Relaxed);
        self.singles.0.store(0, Ordering::Relaxed);
        let number = (self.helpers.0.load(Ordering::Relaxed) >> 16) + 1;
        self.helpers.0.store(number << 16, Ordering::Relaxed);
        self.first.reset();
    }

    /// Returns the number of the current region.
    #[inline]
    pub(crate) fn region_number(&self) -> u64 {
        self.helpers.0.load(Ordering::Relaxed) >> 16
    }

    /// Creates the team state of thread `id` and starts its implicit task.
    #[inline]
    pub(crate) fn join(&self, id: u32, thread: &Thread, region: u64) -> TeamState {
        // SAFETY: teams are never freed.
        let team: &'static Self = unsafe { &*ptr::from_ref(self) };
        let member = team.member(id);
        member.set_thread(thread);
        member.task.begin_implicit(team.icv.get(), team.group.get(), &thread.parker);
        member.progress.begin(region);
        if thread.root().settings.report {
            member.tally.begin();
        }
        TeamState {
            team,
            id,
            task: &member.task,
            share: &team.first,
            singles: 0,
            chunk_index: 0,
            chunk: (0, 0),
        }
    }

    /// Releases the workers from number `first` on.
    pub fn release_workers_from(&self, first: u32, root: &Root) {
        for id in first..self.retained_threads.get() {
            // SAFETY: thread records are never freed.
            if let Some(thread) = unsafe { self.member(id).thread.load(Ordering::Relaxed).as_ref() } {
                root.release_worker(thread);
            }
        }
        self.retained_threads.set(self.retained_threads.get().min(first));
    }

    /// Wakes sleeping threads that may wait for what just became true.
    pub fn notify(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
        if self.sleepers.has_sleepers() {
            self.members().for_each(Member::wake);
        }
    }

    /// Wakes sleeping members that satisfy `may_wait`; does not ring the bell.
    pub(crate) fn notify_if(&self, may_wait: impl Fn(u32) -> bool) {
        sys::full_fence();
        if self.sleepers.has_sleepers() {
            (0..self.size()).filter(|&id| may_wait(id)).for_each(|id| self.member(id).wake());
        }
    }

    /// Wakes workers that wait for the next region, after they were given work.
    pub(crate) fn wake_workers(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
    }

    /// Wakes all sleeping threads, regardless of what they wait for.
    pub fn wake_all(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
        if let Some(barriers) = self.node_barriers() {
            barriers.notify(true);
        }
        self.members().for_each(Member::wake);
    }

    /// Wakes one sleeping thread other than member `but`.
    pub fn notify_one(&self, but: u32) {
        sys::full_fence();
        if self.bell.has_sleepers() {
            return self.bell.ring(1);
        }
        if self.node_barriers().is_some_and(|barriers| barriers.notify(false)) {
            return;
        }
        if !self.sleepers.has_sleepers() {
            return;
        }
        let size = self.size();
        for id in (1..size).map(|step| (but + step) % size) {
            if self.member(id).is_asleep() {
                return self.member(id).wake();
            }
        }
    }

    /// Whether tasks are ready to run.
    #[inline]
    pub fn has_queued(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed)
            && (self.priority_tasks.has_tasks() || self.members().any(|member| member.queue.has_tasks()))
    }

    /// Whether all created tasks are finished.
    pub(crate) fn all_finished(&self) -> bool {
        let mut finished = self.finished_outside.load(Ordering::Acquire);
        for member in self.members() {
            finished += member.finished.load(Ordering::Acquire);
        }
        let created: u64 = self.members().map(|member| member.created.load(Ordering::Acquire)).sum();
        created == finished
    }

    /// Wakes the thread that waits for all tasks to finish.
    pub fn wake_leader(&self) {
        sys::full_fence();
        let leader = self.leader.load(Ordering::Relaxed);
        if leader > 0 && leader <= self.size() {
            self.member(leader - 1).wake();
        }
    }

    /// Admits a waiting helper, unless the region it knows has ended.
    pub(crate) fn try_add_helper(&self, region: u64) -> bool {
        let mut seen = self.helpers.0.load(Ordering::Relaxed);
        while seen >> 16 == region && seen & CLOSED == 0 {
            match self.helpers.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Counts a helper as gone.
    pub(crate) fn remove_helper(&self) {
        self.helpers.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes the region to helpers and waits until all have gone.
    pub(crate) fn close_to_helpers(&self) {
        loop {
            let seen = self.helpers.0.load(Ordering::Acquire);
            let open = seen & (CLOSED - 1) == 0;
            let exchange =
                |to| self.helpers.0.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed);
            if open && exchange(seen | CLOSED).is_ok() {
                return;
            }
            sys::yield_now();
        }
    }
}

impl Member {
    /// Returns the thread, once assigned.
    #[inline]
    pub fn thread(&self) -> Option<&'static Thread> {
        // SAFETY: thread records are never freed.
        unsafe { self.thread.load(Ordering::Relaxed).as_ref() }
    }

    /// Assigns the member to a thread, unless it already is.
    #[inline]
    pub(crate) fn set_thread(&self, thread: &Thread) {
        let thread = ptr::from_ref(thread).cast_mut();
        // Avoids a needless write: other threads have this line cached.
        if self.thread.load(Ordering::Relaxed) != thread {
            self.thread.store(thread, Ordering::Relaxed);
        }
    }

    /// Wakes the thread if it sleeps. The caller has published the condition and then executed a full fence.
    #[inline]
    pub fn wake(&self) {
        if let Some(thread) = self.thread() {
            thread.parker.wake();
        }
    }

    /// Resets the task counters.
    pub(crate) fn reset_task_counters(&self) {
        self.created.store(0, Ordering::Relaxed);
        self.finished.store(0, Ordering::Relaxed);
    }

    fn is_asleep(&self) -> bool {
        self.thread().is_some_and(|thread| thread.parker.is_asleep())
    }
}
