//! Teams: who is in them, and what they keep for each other. How a region goes is in
//! [`crate::constructs::region`].
//!
//! A master keeps its last team with the workers in it, each at its dock. To begin a region it writes into
//! each worker's first cache line what to run, and rings. At the end workers say that they have finished and
//! go to their docks; they do not wait for each other. While others have not finished yet there may still be
//! tasks, and workers that wait for the next region help.
//!
//! Such a helper may look at a team that is of another region by now. A team's memory is never anything else,
//! and a helper is let in by the region's number only, so it can do no harm.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::group::Group;
use super::node_barrier::NodeBarriers;
use super::queue::{Queue, Urgent};
use super::root::Root;
use super::share::{Progress, WorkShare};
use super::tally::Tally;
use super::task::{Function, Task};
use super::thread::{Seat, Thread};
use crate::primitives::bell::{Bell, Sleepers};
use crate::primitives::cache_line::CacheLine;
use crate::primitives::icv::Icv;
use crate::primitives::nodes::NODES;
use crate::primitives::skew::{self, Weight};
use crate::primitives::sys;

/// The bit of [`Team::helpers`] that says that the region has ended.
const CLOSED: u64 = 1 << 15;

/// A thread's part of a team.
#[repr(C, align(64))]
pub struct Member {
    /// Who it is.
    pub thread: AtomicPtr<Thread>,
    /// Tasks that it created and that wait for a thread.
    pub queue: Queue,
    /// Tasks that it created, and tasks that it finished. Only it writes them.
    pub created: AtomicU64,
    /// See `created`.
    pub finished: AtomicU64,
    /// The iteration whose turn it waits for, plus one.
    pub wants: AtomicU64,
    /// What threads with lower numbers weigh, and what it does, where they are not equally fast.
    ahead: Cell<u64>,
    weight: Cell<u64>,
    /// Which constructs it came to.
    pub progress: Progress,
    /// What it does, for the report.
    pub tally: Tally,
    /// The region's own task.
    pub task: Task,
}

/// A team, and the region that it runs.
#[repr(C, align(64))]
pub struct Team {
    /// How many they are.
    pub(crate) size: Cell<u32>,
    /// Workers that wait at their docks for this team's master, itself included.
    pub(crate) crew: Cell<u32>,
    pub(crate) order: u32,
    /// Regions around this one, and how many of them are active.
    pub(crate) level: Cell<u32>,
    pub(crate) active: Cell<u32>,
    /// The league around: the number of its teams less one, and which of them this is within.
    pub(crate) league: Cell<(u32, u32)>,
    /// The node that its threads, and those of all teams within it, are on, plus one; 0 for any.
    pub(crate) only: Cell<u32>,
    /// Whether tasks were ever created in this region.
    pub tasked: AtomicBool,
    /// Whether the region was cancelled.
    pub cancelled: AtomicBool,
    /// The group that all tasks of the region are of, for `reduction(task, …)`.
    pub group: Cell<Option<&'static Group>>,
    /// What tasks begin with. Up to here is what workers read in every region, and what is seldom written.
    pub(crate) icv: Cell<Icv>,
    /// The master's seat outside.
    pub(crate) outside: CacheLine<Cell<Option<Seat>>>,
    pub(crate) function: Cell<Option<Function>>,
    pub(crate) data: Cell<*mut libc::c_void>,
    pub(crate) began_ns: Cell<u64>,
    /// What all threads weigh, and the least of them; 0 where they are equally fast.
    weights: Cell<(u64, u64)>,
    /// Whether they are not, or what they do is reported.
    special: Cell<bool>,
    /// For how many threads that was found; 0: not found yet.
    pub(crate) weighed: Cell<u32>,
    /// How many there are on the processors of each node, where there are several.
    on: [Cell<u32>; NODES],
    /// Where they meet by nodes; null where there is one node.
    node_barriers: Cell<*const NodeBarriers>,
    /// Threads that are counted against a limit.
    pub(crate) counted: Cell<u32>,
    /// The places that the master had outside, if it has fewer within: the first of them, and how many.
    pub(crate) places_outside: Cell<Option<(u32, u32)>>,
    /// The next team that is not in use.
    pub next_spare: Cell<Option<&'static Team>>,
    /// What `copyprivate` copies.
    pub copied: Cell<*mut libc::c_void>,

    /// How often the barrier let them go.
    pub(crate) generation: CacheLine<AtomicU32>,
    /// Where those sleep who have come to the barrier, or wait for the next region.
    pub bell: Bell,
    /// Others that sleep, or are about to, and are to be woken for tasks and the like.
    pub sleepers: Sleepers,
    /// The member that came last to a barrier and waits until all tasks are done, plus one.
    pub(crate) leader: AtomicU32,
    pub(crate) arrived: CacheLine<AtomicU32>,
    pub(crate) finished: CacheLine<AtomicU32>,
    /// The number of the region, and how many help from their docks.
    helpers: CacheLine<AtomicU64>,
    /// `single` constructs that a thread has taken.
    pub singles: CacheLine<AtomicU32>,
    /// Tasks that were finished by a thread outside of the team.
    pub finished_outside: AtomicU64,
    /// Tasks with a priority.
    pub urgent: Urgent,
    /// Where all begin: no construct yet, or that of a combined one.
    pub first: WorkShare,
}

// SAFETY: cells are written by the master while it is alone in the team, and read after what it gave them was
// seen.
unsafe impl Sync for Team {}
// SAFETY: as for `Team`.
unsafe impl Sync for Member {}

impl Team {
    /// A team for `size` threads, for the caller alone.
    pub(crate) fn obtain(root: &'static Root, size: u32) -> &'static Self {
        let order = size.max(1).next_power_of_two().ilog2() as usize;
        if let Some(team) = root.take_team(order) {
            team.set_weights(root, None);
            team.weighed.set(0);
            return team;
        }
        let header = size_of::<Self>().next_multiple_of(64);
        let bytes = header + (size_of::<Member>() << order);
        let Some(memory) = root.store.allocate(bytes, 64) else { root.store.exhausted() };
        // SAFETY: fresh memory of this size and alignment that is a team from now on; all zero is a valid
        // member.
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
            crew: Cell::new(0),
            order,
            level: Cell::new(0),
            active: Cell::new(0),
            league: Cell::new((0, 0)),
            only: Cell::new(0),
            outside: CacheLine(Cell::new(None)),
            icv: Cell::new(icv),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            began_ns: Cell::new(0),
            weights: Cell::new((0, 0)),
            special: Cell::new(false),
            weighed: Cell::new(0),
            on: [const { Cell::new(0) }; NODES],
            node_barriers: Cell::new(ptr::null()),
            counted: Cell::new(0),
            places_outside: Cell::new(None),
            tasked: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            next_spare: Cell::new(None),
            copied: Cell::new(ptr::null_mut()),
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
            urgent: Urgent::default(),
            first: WorkShare::default(),
        }
    }

    /// The logarithm of how many there is room for.
    pub fn order(&self) -> usize {
        self.order as usize
    }

    /// How many they are.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size.get()
    }

    /// How many regions are nested, this one included.
    pub fn level(&self) -> u32 {
        self.level.get()
    }

    /// Of these, how many have more than one thread.
    pub fn active_level(&self) -> u32 {
        self.active.get()
    }

    /// The node that it must not leave: that of a device, in a region for it.
    #[inline]
    pub fn only(&self) -> Option<u32> {
        self.only.get().checked_sub(1)
    }

    /// The master's seat outside; `None` outside of all regions.
    pub fn outside(&self) -> Option<Seat> {
        self.outside.0.get()
    }

    /// Whether its threads are not equally fast, or what they do is reported.
    #[inline]
    pub fn is_special(&self) -> bool {
        self.special.get()
    }

    /// Whether its threads are not equally fast.
    #[inline]
    pub fn is_skewed(&self) -> bool {
        self.weights.get().0 > 0
    }

    /// Where its threads meet by nodes; `None` where there is one node.
    #[inline]
    pub(crate) fn node_barriers(&self) -> Option<&'static NodeBarriers> {
        // SAFETY: what is not null lies in the store, where it stays.
        unsafe { self.node_barriers.get().as_ref() }
    }

    /// How many of its threads run on the processors of a node, where there are several nodes.
    pub(crate) fn on(&self, node: u32) -> u32 {
        self.on[node as usize % NODES].get()
    }

    /// What a thread is among the others, where they are not equally fast.
    pub fn weight(&self, id: u32) -> Weight {
        let (all, least) = self.weights.get();
        let member = self.member(id);
        Weight { ahead: member.ahead.get(), own: member.weight.get(), least, all }
    }

    /// How many tasks a loop is cut into where the program does not say: one for each thread, or where these
    /// are not equally fast as many as let the slowest take one.
    pub fn tasks(&self) -> u64 {
        let size = u64::from(self.size());
        match self.weights.get() {
            (0, _) => size,
            (all, least) => skew::tasks(size, all, least),
        }
    }

    /// Finds out what each thread weighs, unless that is known. The master is not a member yet.
    pub(crate) fn weigh(&self, me: &Thread, size: u32) {
        if self.weighed.replace(size) == size {
            return;
        }
        let node = |id: u32| match self.member(id).thread() {
            Some(thread) if id > 0 => thread.node,
            _ => me.node,
        };
        self.node_barriers()
            .unwrap_or_else(|| {
                let made = NodeBarriers::place(me.store());
                self.node_barriers.set(ptr::from_ref(made));
                made
            })
            .assign(size, node);
        let nodes = me.root().nodes();
        self.on.iter().for_each(|on| on.set(0));
        for id in 0..size {
            let on = &self.on[nodes.at(node(id)).runs_on() as usize % NODES];
            on.set(on.get() + 1);
        }
        let mut ahead = 0;
        let tell = |id: u32, weight: u64| {
            let member = self.member(id);
            member.ahead.set(ahead);
            member.weight.set(weight);
            ahead += weight;
        };
        self.set_weights(me.root(), skew::weigh(nodes, size, node, tell));
    }

    fn set_weights(&self, root: &Root, weights: Option<(u64, u64)>) {
        self.weights.set(weights.unwrap_or((0, 0)));
        self.special.set(weights.is_some() || root.settings.report);
    }

    /// The part of the team that thread `id` has.
    #[inline]
    pub fn member(&self, id: u32) -> &'static Member {
        let members =
            (ptr::from_ref(self) as usize + size_of::<Self>().next_multiple_of(64)) as *const Member;
        debug_assert!(id < 1 << self.order);
        // SAFETY: there are as many behind the header as the order says, and ids are below that.
        unsafe { &*members.add(id as usize) }
    }

    /// The parts of all threads of the team, by number.
    pub fn members(&self) -> impl Iterator<Item = &'static Member> + '_ {
        (0..self.size()).map(|id| self.member(id))
    }

    /// The seat of a thread that is in no region: one that OpenMP did not start, or one that runs a region
    /// for a device, whose teams are to stay on the node `only` less one.
    pub fn outermost(root: &'static Root, thread: &Thread, only: u32) -> Seat {
        let team = Self::obtain(root, 1);
        let mut icv = root.settings.icv;
        icv.threads = root.settings.threads.at(0).unwrap_or(icv.threads);
        team.icv.set(icv);
        team.size.set(1);
        team.level.set(0);
        team.active.set(0);
        team.only.set(only);
        team.outside.0.set(None);
        team.open();
        let seat = team.seat(0, thread, team.number());
        thread.sit(seat);
        seat
    }

    /// Makes ready for a region.
    pub(crate) fn open(&self) {
        for said in [&self.tasked, &self.cancelled] {
            if said.load(Ordering::Relaxed) {
                said.store(false, Ordering::Relaxed);
            }
        }
        self.arrived.0.store(0, Ordering::Relaxed);
        self.finished.0.store(0, Ordering::Relaxed);
        self.leader.store(0, Ordering::Relaxed);
        self.singles.0.store(0, Ordering::Relaxed);
        let number = (self.helpers.0.load(Ordering::Relaxed) >> 16) + 1;
        self.helpers.0.store(number << 16, Ordering::Relaxed);
        self.first.begin_anew();
    }

    /// The number of the region.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.helpers.0.load(Ordering::Relaxed) >> 16
    }

    /// Where a thread with this number begins; its task is made ready.
    #[inline]
    pub(crate) fn seat(&self, id: u32, thread: &Thread, region: u64) -> Seat {
        // SAFETY: teams live for ever.
        let team: &'static Self = unsafe { &*ptr::from_ref(self) };
        let member = team.member(id);
        let pointer = ptr::from_ref(thread).cast_mut();
        // Others look at it: what they have in their caches stays there.
        if member.thread.load(Ordering::Relaxed) != pointer {
            member.thread.store(pointer, Ordering::Relaxed);
        }
        member.task.begin_implicit(team.icv.get(), team.group.get(), &thread.parker);
        member.progress.begin(region);
        if thread.root().settings.report {
            member.tally.begin();
        }
        Seat { team, id, task: &member.task, share: &team.first, singles: 0, trip: 0, chunk: (0, 0) }
    }

    /// Sends workers from this number on home.
    pub fn dismiss_from(&self, first: u32, root: &Root) {
        for id in first..self.crew.get() {
            // SAFETY: threads live for ever.
            if let Some(thread) = unsafe { self.member(id).thread.load(Ordering::Relaxed).as_ref() } {
                root.dismiss(thread);
            }
        }
        self.crew.set(self.crew.get().min(first));
    }

    /// Wakes the threads that sleep and may wait for what just came true.
    pub fn notify(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
        if self.sleepers.any() {
            self.members().for_each(Member::wake);
        }
    }

    /// Wakes the members that sleep and may wait for what just came true, of those that are on no bell.
    pub(crate) fn notify_if(&self, may_wait: impl Fn(u32) -> bool) {
        sys::full_fence();
        if self.sleepers.any() {
            (0..self.size()).filter(|&id| may_wait(id)).for_each(|id| self.member(id).wake());
        }
    }

    /// Wakes workers that wait for the next region, after they were given it.
    pub(crate) fn call(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
    }

    /// Wakes all threads that sleep, whatever they wait for.
    pub fn alarm(&self) {
        sys::full_fence();
        self.bell.ring(u32::MAX >> 1);
        if let Some(barriers) = self.node_barriers() {
            barriers.ring(true);
        }
        self.members().for_each(Member::wake);
    }

    /// Wakes one of the threads that sleep, other than member `but`.
    pub fn notify_one(&self, but: u32) {
        sys::full_fence();
        if self.bell.any() {
            return self.bell.ring(1);
        }
        if self.node_barriers().is_some_and(|barriers| barriers.ring(false)) {
            return;
        }
        if !self.sleepers.any() {
            return;
        }
        let size = self.size();
        for id in (1..size).map(|step| (but + step) % size) {
            if self.member(id).asleep() {
                return self.member(id).wake();
            }
        }
    }

    /// Whether tasks wait for a thread.
    #[inline]
    pub fn has_queued(&self) -> bool {
        self.tasked.load(Ordering::Relaxed)
            && (self.urgent.any() || self.members().any(|member| member.queue.any()))
    }

    /// Whether all tasks that were created are finished.
    pub(crate) fn all_finished(&self) -> bool {
        let mut finished = self.finished_outside.load(Ordering::Acquire);
        for member in self.members() {
            finished += member.finished.load(Ordering::Acquire);
        }
        let created: u64 = self.members().map(|member| member.created.load(Ordering::Acquire)).sum();
        created == finished
    }

    /// Wakes the thread that waits for all tasks to be finished.
    pub fn tell_leader(&self) {
        sys::full_fence();
        let leader = self.leader.load(Ordering::Relaxed);
        if leader > 0 && leader <= self.size() {
            self.member(leader - 1).wake();
        }
    }

    /// Lets a helper in that waits at its dock, if the region it knows has not ended.
    pub(crate) fn admit(&self, region: u64) -> bool {
        let mut seen = self.helpers.0.load(Ordering::Relaxed);
        while seen >> 16 == region && seen & CLOSED == 0 {
            match self.helpers.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// A helper goes.
    pub(crate) fn discharge(&self) {
        self.helpers.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lets no helper in any more, and waits until all have gone.
    pub(crate) fn close(&self) {
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
    /// The thread, once it is known.
    #[inline]
    pub fn thread(&self) -> Option<&'static Thread> {
        // SAFETY: threads live for ever.
        unsafe { self.thread.load(Ordering::Relaxed).as_ref() }
    }

    /// Wakes it if it sleeps; what it waits for was made true before, with a full fence after it.
    #[inline]
    pub fn wake(&self) {
        if let Some(thread) = self.thread() {
            thread.parker.wake();
        }
    }

    /// Counts tasks from zero again.
    pub(crate) fn settle(&self) {
        self.created.store(0, Ordering::Relaxed);
        self.finished.store(0, Ordering::Relaxed);
    }

    fn asleep(&self) -> bool {
        self.thread().is_some_and(|thread| thread.parker.asleep())
    }
}
