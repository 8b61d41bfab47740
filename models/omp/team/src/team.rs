//! Teams: a region from its beginning to its end.
//!
//! A master keeps its last team with the workers in it, each at its dock. To begin a region it writes into each worker's first
//! cache line what to run, and rings. At the end workers say that they have finished and go to their docks; they do not wait for
//! each other. While others have not finished yet there may still be tasks, and whoever waits at its dock helps.
//!
//! Such a helper may look at a team that is of another region by now. A team's memory is never anything else, and a
//! helper is let in by the region's number only, so it can do no harm.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::affinity::Plan;
use crate::dock::Sleepers;
use crate::group::Group;
use crate::icv::Icv;
use crate::nodes::{self, Sequence};
use crate::queue::{Queue, Urgent};
use crate::root::Root;
use crate::share::{self, Line, WorkShare};
use crate::skew::{self, Weight};
use crate::task::{self, Task};
use crate::thread::{Function, Seat, Thread};
use crate::wait::{self, Awake};
use crate::{affinity, exclusive, report, sys};

/// The bit of [`Team::helpers`] that says that the region has ended.
const CLOSED: u64 = 1 << 15;

/// A thread's part of a team.
#[repr(C, align(64))]
pub struct Member {
    /// Who it is.
    pub thread: AtomicPtr<Thread>,
    /// Tasks that it created and that wait for somebody.
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
    /// The region's own task.
    pub task: Task,
}

/// A team, and the region that it runs.
#[repr(C, align(64))]
pub struct Team {
    /// How many they are.
    size: Cell<u32>,
    /// Workers that wait at their docks for this team's master, itself included.
    crew: Cell<u32>,
    order: u32,
    /// Regions around this one, and how many of them are active.
    level: Cell<u32>,
    active: Cell<u32>,
    /// The master's seat outside.
    outside: Cell<Option<Seat>>,
    /// What tasks begin with.
    icv: Cell<Icv>,
    function: Cell<Option<Function>>,
    data: Cell<*mut libc::c_void>,
    began_ns: Cell<u64>,
    /// What all threads weigh, and the least of them; 0 where they are equally fast.
    weights: Cell<(u64, u64)>,
    /// For how many threads that was found; 0: for nobody.
    weighed: Cell<u32>,
    /// Threads that are counted against a limit.
    counted: Cell<u32>,
    /// Whether tasks were ever created in this region.
    pub tasked: AtomicBool,
    /// Whether the region was cancelled.
    pub cancelled: AtomicBool,
    /// The next team that nobody has.
    pub next_spare: Cell<Option<&'static Team>>,
    /// What `copyprivate` copies.
    pub copied: Cell<*mut libc::c_void>,
    /// The group that all tasks of the region are of, for `reduction(task, …)`.
    pub group: Cell<Option<&'static Group>>,

    /// How often the barrier let them go.
    pub(crate) generation: Line<AtomicU32>,
    /// Threads that sleep, or are about to, and want to hear of tasks, barriers and the like.
    pub sleepers: Sleepers,
    /// Whoever came last to a barrier and sees to it that all tasks are done, plus one.
    leader: AtomicU32,
    pub(crate) arrived: Line<AtomicU32>,
    finished: Line<AtomicU32>,
    /// The number of the region, and how many help from their docks.
    helpers: Line<AtomicU64>,
    /// `single` constructs that somebody has taken.
    pub singles: Line<AtomicU32>,
    /// Tasks that somebody outside of the team finished.
    pub finished_outside: AtomicU64,
    /// Tasks with a priority.
    pub urgent: Urgent,
    /// Where all begin: no construct yet, or that of a combined one.
    pub first: WorkShare,
}

// SAFETY: cells are written by the master while nobody else is in the team, and read after what it gave them was seen.
unsafe impl Sync for Team {}
// SAFETY: as for `Team`.
unsafe impl Sync for Member {}

impl Team {
    /// A team for `size` threads that nobody has.
    fn obtain(root: &'static Root, size: u32) -> &'static Self {
        let order = size.max(1).next_power_of_two().ilog2() as usize;
        if let Some(team) = root.take_team(order) {
            team.weights.set((0, 0));
            team.weighed.set(0);
            return team;
        }
        let header = size_of::<Self>().next_multiple_of(64);
        let bytes = header + (size_of::<Member>() << order);
        let Some(memory) = root.store.allocate(bytes, 64) else { root.store.exhausted() };
        // SAFETY: fresh memory of this size and alignment that is a team from now on; all zero is a valid member.
        unsafe {
            ptr::write_bytes(memory, 0, bytes);
            let team: *mut Self = memory.cast();
            team.write(Self::empty(u32::try_from(order).unwrap_or(0), root.settings.icv));
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
            outside: Cell::new(None),
            icv: Cell::new(icv),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            began_ns: Cell::new(0),
            weights: Cell::new((0, 0)),
            weighed: Cell::new(0),
            counted: Cell::new(0),
            tasked: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            next_spare: Cell::new(None),
            copied: Cell::new(ptr::null_mut()),
            group: Cell::new(None),
            generation: Line(AtomicU32::new(0)),
            sleepers: Sleepers::default(),
            leader: AtomicU32::new(0),
            arrived: Line(AtomicU32::new(0)),
            finished: Line(AtomicU32::new(0)),
            helpers: Line(AtomicU64::new(CLOSED)),
            singles: Line(AtomicU32::new(0)),
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

    /// Regions around whoever is in this one, this one included.
    pub fn level(&self) -> u32 {
        self.level.get()
    }

    /// Of these, how many have more than one thread.
    pub fn active_level(&self) -> u32 {
        self.active.get()
    }

    /// The master's seat outside; `None` outside of all regions.
    pub fn outside(&self) -> Option<Seat> {
        self.outside.get()
    }

    /// Whether its threads are not equally fast.
    #[inline]
    pub fn is_skewed(&self) -> bool {
        self.weights.get().0 > 0
    }

    /// What a thread is among the others, where they are not equally fast.
    pub fn weight(&self, id: u32) -> Weight {
        let (all, least) = self.weights.get();
        let member = self.member(id);
        Weight { ahead: member.ahead.get(), own: member.weight.get(), least, all }
    }

    /// How many tasks a loop is cut into where the program does not say: one for each thread, or where these are not equally fast as
    /// many as let the slowest take one.
    pub fn tasks(&self) -> u64 {
        let size = u64::from(self.size());
        match self.weights.get() {
            (0, _) => size,
            (all, least) => skew::tasks(size, all, least),
        }
    }

    /// Finds out what each thread weighs, unless that is known. The master is not a member yet.
    fn weigh(&self, me: &Thread, size: u32) {
        if self.weighed.replace(size) == size {
            return;
        }
        let node = |id: u32| match self.member(id).thread() {
            Some(thread) if id > 0 => thread.node,
            _ => me.node,
        };
        let mut ahead = 0;
        let tell = |id: u32, weight: u64| {
            let member = self.member(id);
            member.ahead.set(ahead);
            member.weight.set(weight);
            ahead += weight;
        };
        self.weights.set(skew::weigh(me.root().nodes(), size, node, tell).unwrap_or((0, 0)));
    }

    /// A thread's part.
    #[inline]
    pub fn member(&self, id: u32) -> &'static Member {
        let members =
            (ptr::from_ref(self) as usize + size_of::<Self>().next_multiple_of(64)) as *const Member;
        debug_assert!(id < 1 << self.order);
        // SAFETY: there are as many behind the header as the order says, and ids are below that.
        unsafe { &*members.add(id as usize) }
    }

    /// All parts.
    pub fn members(&self) -> impl Iterator<Item = &'static Member> + '_ {
        (0..self.size()).map(|id| self.member(id))
    }

    /// The seat of a thread that OpenMP did not start.
    pub fn outermost(root: &'static Root, thread: &Thread) -> Seat {
        let team = Self::obtain(root, 1);
        let mut icv = root.settings.icv;
        icv.threads = root.settings.threads.at(0).unwrap_or(icv.threads);
        team.icv.set(icv);
        team.size.set(1);
        team.level.set(0);
        team.active.set(0);
        team.outside.set(None);
        team.open();
        let seat = team.seat(0, thread);
        thread.sit(seat);
        seat
    }

    /// Makes ready for a region.
    fn open(&self) {
        self.tasked.store(false, Ordering::Relaxed);
        self.cancelled.store(false, Ordering::Relaxed);
        self.arrived.0.store(0, Ordering::Relaxed);
        self.finished.0.store(0, Ordering::Relaxed);
        self.leader.store(0, Ordering::Relaxed);
        self.singles.0.store(0, Ordering::Relaxed);
        let number = (self.helpers.0.load(Ordering::Relaxed) >> 16) + 1;
        self.helpers.0.store(number << 16, Ordering::Relaxed);
        self.first.begin_anew();
    }

    /// Where a thread with this number begins; its task is made ready.
    #[inline]
    fn seat(&self, id: u32, thread: &Thread) -> Seat {
        // SAFETY: teams live for ever.
        let team: &'static Self = unsafe { &*ptr::from_ref(self) };
        let member = team.member(id);
        member.thread.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
        member.task.begin_implicit(team.icv.get(), team.group.get(), thread);
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

    /// The task of the master outside.
    pub fn outer_task(&self) -> Option<&'static Task> {
        self.outside.get().map(|seat| seat.task)
    }

    /// Wakes whoever sleeps and wants to hear of what just came true.
    pub fn notify(&self) {
        if !self.sleepers.any() {
            return;
        }
        for member in self.members() {
            member.wake();
        }
    }

    /// Wakes one of those who sleep, other than this.
    pub fn notify_one(&self, but: u32) {
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

    /// Whether tasks wait for somebody.
    #[inline]
    pub fn has_queued(&self) -> bool {
        self.tasked.load(Ordering::Relaxed)
            && (self.urgent.any() || self.members().any(|member| member.queue.any()))
    }

    /// Whether all tasks that were created are finished.
    fn all_finished(&self) -> bool {
        let mut finished = self.finished_outside.load(Ordering::Acquire);
        for member in self.members() {
            finished += member.finished.load(Ordering::Acquire);
        }
        let created: u64 = self.members().map(|member| member.created.load(Ordering::Acquire)).sum();
        created == finished
    }

    /// Wakes whoever waits for all tasks to be finished.
    pub fn tell_leader(&self) {
        sys::full_fence();
        let leader = self.leader.load(Ordering::Relaxed);
        if leader > 0 && leader <= self.size() {
            self.member(leader - 1).wake();
        }
    }

    /// Helps until all tasks are finished.
    pub(crate) fn finish_tasks(&self, me: &'static Thread) {
        let id = me.seat().id;
        self.leader.store(id + 1, Ordering::SeqCst);
        loop {
            task::run_any(me);
            if self.all_finished() {
                break;
            }
            wait::until(me, Some(&self.sleepers), || self.has_queued() || self.all_finished());
        }
        self.leader.store(0, Ordering::Relaxed);
    }

    /// Lets a helper in that waits at its dock, if the region it knows has not ended.
    fn admit(&self, region: u64) -> bool {
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
    fn discharge(&self) {
        self.helpers.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Lets no helper in any more, and waits until all have gone.
    fn close(&self) {
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
            thread.dock.wake();
        }
    }

    /// Counts tasks from zero again.
    fn settle(&self) {
        self.created.store(0, Ordering::Relaxed);
        self.finished.store(0, Ordering::Relaxed);
    }

    fn asleep(&self) -> bool {
        self.thread().is_some_and(|thread| thread.dock.asleep())
    }
}

/// What a region is to be.
#[derive(Clone, Copy)]
pub struct Region {
    /// What all run.
    pub function: Function,
    /// With what.
    pub data: *mut libc::c_void,
    /// `num_threads`; 0 where it was not given.
    pub threads: u32,
    /// `proc_bind`; 0 where it was not given.
    pub bind: u32,
    /// The group that all its tasks are of.
    pub group: Option<&'static Group>,
}

/// Threads that a region gets at most where it does not say how many.
pub fn threads(me: &'static Thread) -> u32 {
    match me.task().icv().threads {
        0 => nodes::settle(me.root()),
        threads => threads,
    }
}

/// How many threads a region gets.
pub fn resolve(me: &'static Thread, asked: u32) -> u32 {
    let (icv, team, root) = (me.task().icv(), me.team(), me.root());
    if asked == 1 || team.active_level() >= icv.active_levels {
        return 1;
    }
    let mut size = if asked == 0 { threads(me) } else { asked };
    if icv.dynamic {
        size = size.min(root.processors());
    }
    if root.nodes().several() && size > 1 {
        nodes::settle(root);
        size = size.min(root.nodes().most_threads());
    }
    size.min(icv.limit).clamp(1, 1 << 20)
}

/// Takes threads out of what a limit leaves; how many there are, of so many wanted.
fn count_against_limit(root: &Root, limit: u32, wanted: u32) -> u32 {
    let mut busy = root.busy.load(Ordering::Relaxed);
    loop {
        let left = limit.saturating_sub(1).saturating_sub(busy);
        let extra = (wanted - 1).min(left);
        match root.busy.compare_exchange_weak(busy, busy + extra, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return extra + 1,
            Err(now) => busy = now,
        }
    }
}

/// Begins a region: from here on the caller is its thread 0. `prepare` sets up the first construct of a combined one.
pub fn begin(me: &'static Thread, region: Region, prepare: impl FnOnce(&WorkShare, u32)) {
    let outside = me.seat();
    let root = me.root();
    let mut size = resolve(me, region.threads);
    let mut icv = outside.task.icv();
    let counted = icv.limit != u32::MAX && size > 1;
    if counted {
        size = count_against_limit(root, icv.limit, size);
    }
    let team = assemble(me, size);
    let level = outside.team.level() + 1;
    if let Some(threads) = root.settings.threads.at(level as usize) {
        icv.threads = threads;
    }
    if let Some(bind) = root.settings.binds.at(level as usize) {
        icv.bind = bind;
    }
    team.size.set(size);
    team.level.set(level);
    team.active.set(outside.team.active_level() + u32::from(size > 1));
    team.outside.set(Some(outside));
    team.icv.set(icv);
    team.function.set(Some(region.function));
    team.data.set(region.data);
    team.group.set(region.group);
    team.counted.set(if counted { size - 1 } else { 0 });
    team.open();
    prepare(&team.first, size);
    if root.settings.report {
        team.began_ns.set(sys::now_ns());
    }
    if size > 1 {
        recruit(me, team, size);
        for_awake(me, team, outside, Awake::engage);
    }
    if root.nodes().several() {
        team.weigh(me, size);
    }
    let places = affinity::plan(me, team, region.bind);
    for id in 1..size {
        engage(root, team, id, region, &places);
    }
    places.assign_master(me);
    me.sit(team.seat(0, me));
}

/// A team for this many whose members the caller has as its workers.
fn assemble(me: &'static Thread, size: u32) -> &'static Team {
    let root = me.root();
    match me.spare.take() {
        Some(team) if size <= 1 << team.order => team,
        Some(small) => {
            let team = Team::obtain(root, size);
            for id in 1..small.crew.get() {
                let thread = small.member(id).thread.load(Ordering::Relaxed);
                team.member(id).thread.store(thread, Ordering::Relaxed);
            }
            team.crew.set(small.crew.get().max(1));
            small.crew.set(0);
            root.give_team(small);
            team
        }
        None => {
            let team = Team::obtain(root, size);
            team.crew.set(1);
            team
        }
    }
}

/// Hires workers until the team has so many threads, each on the node that its number says.
fn recruit(me: &'static Thread, team: &Team, size: u32) {
    let crew = team.crew.get();
    if crew >= size {
        return;
    }
    let root = me.root();
    let mut sequence = root.nodes().several().then(|| Sequence::new(root.nodes(), me.node));
    if let Some(sequence) = &mut sequence {
        for thread in (1..crew).filter_map(|id| team.member(id).thread()) {
            sequence.count(thread.node);
        }
    }
    for id in crew..size {
        let thread = root.hire(sequence.as_mut().map_or(0, Sequence::next_node));
        team.member(id).thread.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
    }
    team.crew.set(size);
    team.weighed.set(0);
}

/// Tells those who count who is awake, on each node, of the threads of a region. A master of several regions counts once.
fn for_awake(me: &'static Thread, team: &Team, outside: Seat, tell: impl Fn(&Awake, u32)) {
    let nodes = me.root().nodes();
    let counted = u32::from(outside.team.active_level() > 0);
    if !nodes.several() {
        return tell(me.awake(), team.size() - counted);
    }
    if counted == 0 {
        tell(me.awake(), 1);
    }
    for thread in (1..team.size()).filter_map(|id| team.member(id).thread()) {
        tell(thread.awake(), 1);
    }
}

/// Gives a member of the team its part of the region.
fn engage(root: &'static Root, team: &'static Team, id: u32, region: Region, places: &Plan) {
    let Some(thread) = team.member(id).thread() else { sys::fatal("a team has lost one of its threads") };
    places.tell(thread, id);
    thread.given_id.set(id);
    thread.given_team.set(team);
    thread.given_function.set(Some(region.function));
    thread.given_data.set(region.data);
    thread.dock.give(thread.dock.given().wrapping_add(1) & (u32::MAX >> 1));
    if let Err(text) = root.start(thread) {
        sys::fatal(&text);
    }
}

/// Ends the region that the caller began.
pub fn end(me: &'static Thread) {
    let seat = me.seat();
    let team = seat.team;
    let root = me.root();
    leave_share(me);
    finish_region(me, team);
    if root.settings.report {
        report::region(root, team.function.get(), team.size(), sys::now_ns() - team.began_ns.get());
    }
    if team.counted.get() > 0 {
        root.busy.fetch_sub(team.counted.get(), Ordering::Relaxed);
    }
    if let Some(outside) = team.outside.get() {
        me.sit(outside);
        if team.size() > 1 {
            for_awake(me, team, outside, Awake::disengage);
        }
        if outside.team.level() > 0 {
            // Others may need the threads of an inner region.
            team.dismiss_from(1, root);
        }
    }
    match me.spare.replace(Some(team)) {
        // An inner region kept another team meanwhile: the larger one stays.
        Some(other) if other.crew.get() > team.crew.get() => {
            me.spare.set(Some(other));
            team.dismiss_from(1, root);
            root.give_team(team);
        }
        Some(other) => {
            other.dismiss_from(1, root);
            root.give_team(other);
        }
        None => {}
    }
}

/// Waits until all have finished, and helps them.
fn finish_region(me: &'static Thread, team: &'static Team) {
    let others = team.size() - 1;
    team.leader.store(1, Ordering::SeqCst);
    loop {
        if team.tasked.load(Ordering::Acquire) {
            task::run_any(me);
        }
        let finished = || team.finished.0.load(Ordering::Acquire) == others;
        wait::until(me, Some(&team.sleepers), || finished() || team.has_queued());
        if team.finished.0.load(Ordering::Acquire) == others {
            break;
        }
    }
    if team.tasked.load(Ordering::Acquire) {
        team.finish_tasks(me);
        team.close();
        for member in team.members() {
            member.settle();
        }
        team.finished_outside.store(0, Ordering::Relaxed);
    }
    team.member(0).task.end_implicit();
}

/// A thread leaves the last construct it came to.
fn leave_share(me: &'static Thread) {
    let seat = me.seat();
    share::pass(me, seat.team, seat.share);
}

/// What a worker runs: what it is given, for ever.
pub extern "C" fn worker(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the argument is the thread's record, which lives for ever.
    if let Some(me) = unsafe { argument.cast::<Thread>().as_ref() } {
        sys::set_me(Some(me));
        me.kernel.set(sys::thread_number());
        me.awake().came();
        if me.root().nodes().several() {
            nodes::measure(me.root(), me.node);
        }
        let (mut done, mut region) = (0, 0);
        loop {
            done = wait_at_dock(me, done, region);
            region = work(me);
        }
    }
    ptr::null_mut()
}

/// Runs what a worker was given. The number of the region.
fn work(me: &'static Thread) -> u64 {
    // SAFETY: teams live for ever, and a worker is given one before its dock says so.
    let Some(team) = (unsafe { me.given_team.get().as_ref() }) else { return 0 };
    let Some(function) = me.given_function.get() else { return 0 };
    affinity::take_place(me);
    me.sit(team.seat(me.given_id.get(), me));
    // SAFETY: the program's function, with the argument that the program gave for it.
    unsafe { function(me.given_data.get()) };
    exclusive::flush();
    finish_work(me, team)
}

/// A worker has come to the end of the region. Its number, which may be another's as soon as this returns.
fn finish_work(me: &'static Thread, team: &'static Team) -> u64 {
    let region = team.helpers.0.load(Ordering::Relaxed) >> 16;
    leave_share(me);
    if team.tasked.load(Ordering::Acquire) {
        task::run_any(me);
    }
    let seat = me.seat();
    seat.task.end_implicit();
    let others = team.size() - 1;
    let master = team.member(0).thread();
    if team.finished.0.fetch_add(1, Ordering::SeqCst) + 1 == others
        && let Some(master) = master
    {
        master.dock.tell();
    }
    region
}

/// Waits until there is something new to do, and helps the last team meanwhile. The number of what was given.
fn wait_at_dock(me: &'static Thread, done: u32, region: u64) -> u32 {
    // SAFETY: teams live for ever.
    let team = unsafe { me.given_team.get().as_ref() };
    let mut helps = done > 0 && team.is_some();
    loop {
        let given = me.dock.given();
        if given != done {
            return given;
        }
        match team {
            Some(team) if helps => {
                wait::until(me, Some(&team.sleepers), || me.dock.given() != done || team.has_queued());
                if me.dock.given() == done && team.has_queued() {
                    helps = team.admit(region);
                    if helps {
                        task::run_any(me);
                        exclusive::flush();
                        team.discharge();
                    }
                }
            }
            _ => wait::until(me, None, || me.dock.given() != done),
        }
    }
}
