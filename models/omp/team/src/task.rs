//! Tasks: from `GOMP_task` to the end of what they are waited for by. Who runs which is in [`crate::tasking`].
//!
//! A task is a record in the store with its arguments behind it. It lives until it is finished and all tasks that it created are
//! gone, as these know it as their parent.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::depend::{self, Dependents, Table};
use crate::group::Group;
use crate::icv::Icv;
use crate::queue::Links;
use crate::tasking::{self, help_until};
use crate::thread::{Function, Thread};
use crate::{sys, tally};

/// Tasks of a region that wait at a thread for each thread of the team before it runs the next at once, and as many as wait at most.
const ENOUGH: (u32, u32) = (16, 256);
/// The same of tasks that tasks create, for all of the team: what waits of a tree of tasks is its upper branches, and who takes one has as many again.
const ENOUGH_OF_TASKS: u32 = 8;

/// What `omp_fulfill_event` and the end of the body have done.
const BODY_ENDED: u32 = 1;
const FULFILLED: u32 = 2;

/// In [`Task::counts`]: a task that it created and that is not finished.
const CHILD: u64 = 1;
/// In [`Task::counts`]: somebody who knows its record, itself included until it is finished.
const KNOWN: u64 = 1 << 32;

/// How a task came to be queued: when, and by whom.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Origin {
    /// The member who did.
    pub by: u32,
    /// How many that one had queued, up to this.
    pub number: u64,
    /// The task that member had taken from another's queue before, from which this one descends. The *strand* is what runs without going over to
    /// another thread.
    pub strand: Option<&'static Task>,
}

/// A task.
#[repr(C, align(64))]
pub struct Task {
    /// Its place in a queue.
    pub links: Links,
    /// How many were queued where it is, up to itself.
    pub number: Cell<u64>,
    /// How many whoever runs it had queued when it began: what has a higher number in that queue descends from it.
    pub began: Cell<u64>,
    /// How it came to be queued.
    pub origin: Cell<Origin>,
    /// The strand that it runs in, for what it creates.
    pub strand: Cell<Option<&'static Task>>,
    /// [`CHILD`]ren and those to whom it is [`KNOWN`].
    counts: AtomicU64,
    function: Cell<Option<Function>>,
    data: Cell<*mut libc::c_void>,
    parent: Cell<Option<&'static Task>>,
    /// Who runs it.
    thread: AtomicPtr<Thread>,
    priority: Cell<i32>,
    explicit: Cell<bool>,
    last: Cell<bool>,
    deferred: Cell<bool>,
    /// Whether its arguments were made by the program, which then has to destroy them by running it.
    constructed: Cell<bool>,
    detachable: Cell<bool>,
    /// Whether others may wait for it by `depend`.
    depends: Cell<bool>,
    event: AtomicU32,
    icv: Cell<Option<Icv>>,
    /// The group it is of.
    group: Cell<Option<&'static Group>>,
    /// How many tasks it waits for before it may run, and itself while it is created.
    pub blockers: AtomicU32,
    /// Which tasks wait for it.
    pub dependents: Dependents,
    /// What its children have said to depend on.
    pub table: Cell<Option<&'static Table>>,
    /// The team that finishes it, if it can be fulfilled.
    team: Cell<Option<&'static crate::team::Team>>,
    finished: AtomicBool,
}

// SAFETY: cells are written by whoever creates the task before others know it, or by the thread that runs it; what others
// read of it meanwhile are atomics, and what is under the lock of `dependents`.
unsafe impl Sync for Task {}

/// What a task is created with.
#[derive(Clone, Copy)]
pub struct Create<'a> {
    /// What it runs.
    pub function: Function,
    /// The arguments, to be copied.
    pub data: *mut libc::c_void,
    /// How the program copies them; `None`: byte by byte.
    pub copy: Option<unsafe extern "C" fn(*mut libc::c_void, *mut libc::c_void)>,
    /// Bytes of the arguments.
    pub size: usize,
    /// Their alignment.
    pub align: usize,
    /// False: the creator waits for it.
    pub deferred: bool,
    /// Whether its children are run at once.
    pub last: bool,
    /// `priority`.
    pub priority: i32,
    /// What it depends on.
    pub depend: Option<&'a [depend::Dependence]>,
    /// Where the event's handle is to be stored.
    pub event: Option<*mut usize>,
    /// Bounds that are stored as the first two arguments, for `taskloop`.
    pub bounds: Option<(u64, u64)>,
}

impl Task {
    pub(crate) fn empty() -> Self {
        Self {
            links: Links::default(),
            number: Cell::new(0),
            began: Cell::new(0),
            origin: Cell::new(Origin::default()),
            strand: Cell::new(None),
            counts: AtomicU64::new(KNOWN),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            parent: Cell::new(None),
            thread: AtomicPtr::new(ptr::null_mut()),
            priority: Cell::new(0),
            explicit: Cell::new(true),
            last: Cell::new(false),
            deferred: Cell::new(false),
            constructed: Cell::new(false),
            detachable: Cell::new(false),
            depends: Cell::new(false),
            event: AtomicU32::new(0),
            icv: Cell::new(None),
            group: Cell::new(None),
            blockers: AtomicU32::new(1),
            dependents: Dependents::default(),
            table: Cell::new(None),
            team: Cell::new(None),
            finished: AtomicBool::new(false),
        }
    }

    /// Makes a region's own task ready. Its record is part of the team.
    #[inline]
    pub fn begin_implicit(&self, icv: Icv, group: Option<&'static Group>, thread: &Thread) {
        self.icv.set(Some(icv));
        self.parent.set(None);
        self.explicit.set(false);
        self.last.set(false);
        self.group.set(group);
        self.counts.store(KNOWN, Ordering::Relaxed);
        self.thread.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
    }

    /// The region has ended.
    #[inline]
    pub fn end_implicit(&self) {
        if let Some(table) = self.table.take() {
            table.release();
        }
    }

    /// Its variables.
    #[inline]
    pub fn icv(&self) -> Icv {
        self.icv.get().unwrap_or(crate::root::root().settings.icv)
    }

    /// Changes its variables.
    pub fn set_icv(&self, change: impl FnOnce(&mut Icv)) {
        let mut icv = self.icv();
        change(&mut icv);
        self.icv.set(Some(icv));
    }

    /// Begins with another's variables.
    #[inline]
    fn inherit(&self, parent: &Self) {
        // SAFETY: both are there and not the same, and belong to this thread. A copy by `get` and `set` may be in other pieces.
        unsafe { self.icv.as_ptr().copy_from_nonoverlapping(parent.icv.as_ptr(), 1) };
    }

    /// `priority`.
    pub fn priority(&self) -> i32 {
        self.priority.get()
    }

    /// Whether it was created by `task` or the like.
    pub fn is_explicit(&self) -> bool {
        self.explicit.get()
    }

    /// Whether all that it creates is run at once.
    pub fn is_final(&self) -> bool {
        self.last.get()
    }

    /// The group that its children are of.
    #[inline]
    pub fn group(&self) -> Option<&'static Group> {
        self.group.get()
    }

    /// Puts its children into another group.
    pub fn set_group(&self, group: Option<&'static Group>) {
        self.group.set(group);
    }

    /// Whether it is finished.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// A record that only stands for a thread that waits for tasks.
    #[cold]
    #[inline(never)]
    pub fn stub(me: &'static Thread) -> &'static Self {
        let stub = me.store().place(Self::empty());
        stub.thread.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
        stub
    }

    /// Whether it only stands for a thread that waits.
    pub fn is_stub(&self) -> bool {
        self.function.get().is_none()
    }

    /// Who created it.
    pub fn parent(&self) -> Option<&'static Task> {
        self.parent.get()
    }

    /// One more knows its record.
    pub fn remember(&self) {
        self.counts.fetch_add(KNOWN, Ordering::Relaxed);
    }

    /// One fewer knows its record; it goes if that was the last.
    pub fn forget(&'static self) {
        if self.counts.fetch_sub(KNOWN, Ordering::AcqRel) >> 32 == 1 && self.explicit.get() {
            self.go(0);
        }
    }

    /// It is finished: its parent has `child` fewer that are not, and its record goes if nobody else knows it.
    fn leave(&'static self, child: u64) {
        let alone = self.counts.load(Ordering::Acquire) >> 32 == 1;
        if alone || self.counts.fetch_sub(KNOWN, Ordering::AcqRel) >> 32 == 1 {
            self.go(child);
        } else if child > 0
            && let Some(parent) = self.parent.get()
        {
            parent.lose(child);
        }
    }

    /// Nobody knows its record any more.
    fn go(&'static self, mut child: u64) {
        let mut task = self;
        loop {
            let parent = task.parent.get();
            task.release();
            let Some(above) = parent.filter(|above| above.lose(child + KNOWN)) else { return };
            (task, child) = (above, 0);
        }
    }

    /// Takes that off its counts; whether nobody knows its record any more.
    fn lose(&'static self, counts: u64) -> bool {
        let explicit = self.explicit.get();
        // It may be gone afterwards.
        let thread = self.thread.load(Ordering::Relaxed);
        let left = self.counts.fetch_sub(counts, Ordering::AcqRel) - counts;
        if counts & CHILD != 0 && left & (KNOWN - 1) == 0 && !ptr::eq(thread, me_or_null()) {
            // SAFETY: threads live for ever.
            unsafe { thread.as_ref() }.into_iter().for_each(|thread| thread.dock.tell());
        }
        explicit && left >> 32 == 0
    }

    fn release(&'static self) {
        if let Some(me) = sys::me() {
            // SAFETY: it came from the store, and nobody knows it any more.
            unsafe { me.store().release(ptr::from_ref(self).cast_mut().cast()) };
        }
    }

    /// Whether all that it created is finished.
    fn is_childless(&self) -> bool {
        self.counts.load(Ordering::Acquire) & (KNOWN - 1) == 0
    }

    /// Whether it, being queued, descends from what a member of the team executes. At most so many changes of thread are looked at.
    #[inline]
    pub fn descends_from(&self, member: u32, current: &Task, look: u32) -> bool {
        let mut origin = self.origin.get();
        for _ in 0..look {
            if origin.by == member {
                return origin.number > current.began.get();
            }
            match origin.strand {
                Some(root) => origin = root.origin.get(),
                None => return false,
            }
        }
        false
    }

    /// Wakes whoever runs it, if that one sleeps.
    pub fn wake(&self) {
        // SAFETY: threads live for ever.
        if let Some(thread) = unsafe { self.thread.load(Ordering::Relaxed).as_ref() } {
            thread.dock.tell();
        }
    }

    /// Whether `cancel` says that it need not begin.
    pub(crate) fn is_cancelled(&self, me: &'static Thread) -> bool {
        me.root().settings.cancellation
            && !self.constructed.get()
            && (me.team().cancelled.load(Ordering::Relaxed)
                || self.group.get().is_some_and(Group::is_cancelled))
    }
}

pub(crate) fn me_or_null() -> *const Thread {
    sys::me().map_or(ptr::null(), ptr::from_ref)
}

/// Whether `cancel` says that what the current task creates need not begin.
#[inline]
fn need_not_begin(me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && (me.team().cancelled.load(Ordering::Relaxed) || me.task().group().is_some_and(Group::is_cancelled))
}

/// Whether a task that waits for nothing is run by its creator at once: because of what the current one is, or as enough wait already.
#[inline]
pub fn runs_at_once(me: &'static Thread) -> bool {
    let (team, task) = (me.team(), me.task());
    let size = team.size();
    if size == 1 || task.is_final() {
        return true;
    }
    let queue = &team.member(me.id()).queue;
    if task.is_explicit() {
        return queue.is_filled(ENOUGH_OF_TASKS);
    }
    let (each, most) = ENOUGH;
    queue.length() >= (each * size).min(most)
}

/// Creates a task, and runs it if it is not deferred.
pub fn create(me: &'static Thread, create: Create<'_>) {
    let (parent, team) = (me.task(), me.team());
    if need_not_begin(me) {
        return;
    }
    // What a task waits for, an event or other tasks, may need what its creator does next.
    let waits = create.event.is_some() || create.depend.is_some();
    if !create.deferred || parent.is_final() || (!waits && runs_at_once(me)) {
        return run_at_once(me, parent, create);
    }
    let member = team.member(me.id());
    let task = record(me, parent, &create, true);
    member.created.store(member.created.load(Ordering::Relaxed) + 1, Ordering::Release);
    if !team.tasked.load(Ordering::Relaxed) {
        team.tasked.store(true, Ordering::Release);
    }
    parent.counts.fetch_add(CHILD + KNOWN, Ordering::Relaxed);
    if let Some(group) = parent.group() {
        group.enter();
    }
    if let Some(dependences) = create.depend {
        task.depends.set(true);
        depend::register(me, parent, task, dependences);
        if task.blockers.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
    }
    tasking::enqueue(me, task);
}

/// A record for a task with its arguments in it. Its parent does not know of it yet.
fn record(me: &'static Thread, parent: &'static Task, create: &Create<'_>, deferred: bool) -> &'static Task {
    let align = create.align.max(1);
    let copied = deferred || create.copy.is_some() || create.bounds.is_some();
    let bytes = size_of::<Task>() + if copied { create.size + align - 1 } else { 0 };
    let Some(memory) = me.store().allocate(bytes, 64) else { me.store().exhausted() };
    // What is built elsewhere and moved here is read before it is written in pieces of the same size, which processors are slow at.
    // SAFETY: fresh memory of this size and alignment; all zero is a record.
    let task: &'static Task = unsafe {
        memory.write_bytes(0, size_of::<Task>());
        &*memory.cast::<Task>()
    };
    task.counts.store(KNOWN, Ordering::Relaxed);
    task.function.set(Some(create.function));
    task.data.set(create.data);
    task.parent.set(Some(parent));
    task.thread.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
    task.priority.set(create.priority.clamp(0, me.root().settings.priority));
    task.explicit.set(true);
    task.last.set(create.last || (!deferred && parent.is_final()));
    task.deferred.set(deferred);
    task.group.set(parent.group.get());
    task.blockers.store(1, Ordering::Relaxed);
    task.began.set(me.member().queue.pushed());
    task.strand.set(parent.strand.get());
    task.inherit(parent);
    if let Some(place) = create.event {
        task.detachable.set(true);
        task.team.set(Some(me.team()));
        // SAFETY: the program gave the place for the handle, and if there are arguments their first is the handle too.
        unsafe {
            place.write(ptr::from_ref(task) as usize);
            if !create.data.is_null() {
                create.data.cast::<usize>().write(ptr::from_ref(task) as usize);
            }
        }
    }
    if copied {
        let data = ((memory as usize + size_of::<Task>()).next_multiple_of(align)) as *mut libc::c_void;
        copy_arguments(me, task, create, data);
        task.data.set(data);
    }
    task
}

fn copy_arguments(me: &'static Thread, task: &'static Task, create: &Create<'_>, data: *mut libc::c_void) {
    if let Some(copy) = create.copy {
        let outer = me.task();
        me.set_task(task);
        // SAFETY: the program's function for arguments of this size and alignment, for which there is room.
        unsafe { copy(data, create.data) };
        me.set_task(outer);
        task.constructed.set(true);
    } else {
        // SAFETY: the program's arguments are that long, and there is room.
        unsafe { ptr::copy_nonoverlapping(create.data.cast::<u8>(), data.cast::<u8>(), create.size) };
    }
    if let Some((low, high)) = create.bounds {
        // SAFETY: the arguments of a part of a loop begin with two words for its bounds.
        unsafe {
            data.cast::<u64>().write(low);
            data.cast::<u64>().add(1).write(high);
        }
    }
}

/// Runs a task that its creator waits for, with its arguments where they are.
#[inline]
pub fn run_here(me: &'static Thread, function: Function, data: *mut libc::c_void, last: bool) {
    if !need_not_begin(me) {
        include(me, me.task(), function, data, last);
    }
}

/// A record that is used again and again is ready but for what is said here: most of these tasks create none, and nobody ever
/// knows of them but who runs them.
fn include(
    me: &'static Thread,
    parent: &'static Task,
    function: Function,
    data: *mut libc::c_void,
    last: bool,
) {
    let task = match me.included.get() {
        Some(task) => {
            me.included.set(task.links.take_older());
            task
        }
        None => Task::stub(me),
    };
    task.function.set(Some(function));
    task.parent.set(Some(parent));
    task.last.set(last || parent.is_final());
    task.group.set(parent.group.get());
    task.began.set(me.member().queue.pushed());
    task.strand.set(parent.strand.get());
    task.inherit(parent);
    me.set_task(task);
    if let Some(tally) = tally::of(me) {
        tally.run_task();
    }
    // SAFETY: the program's function, with the arguments that the program gave for it.
    unsafe { function(data) };
    me.set_task(parent);
    if let Some(table) = task.table.take() {
        table.release();
    }
    if task.counts.load(Ordering::Acquire) == KNOWN {
        // Nobody else ever knew it, or they are all gone; its parent, which waits here, need not be told.
        task.links.put_before(me.included.replace(Some(task)));
        return;
    }
    task.finished.store(true, Ordering::Release);
    parent.remember();
    task.forget();
}

/// Runs a task that its creator waits for.
fn run_at_once(me: &'static Thread, parent: &'static Task, create: Create<'_>) {
    if let Some(dependences) = create.depend {
        depend::wait_for(me, parent, dependences);
    }
    if create.copy.is_none() && create.bounds.is_none() && create.event.is_none() {
        return include(me, parent, create.function, create.data, create.last);
    }
    let task = record(me, parent, &create, false);
    me.set_task(task);
    if let Some(tally) = tally::of(me) {
        tally.run_task();
    }
    if let Some(function) = task.function.get() {
        // SAFETY: the program's function, with the arguments that the program gave for it.
        unsafe { function(task.data.get()) };
    }
    if task.detachable.get() {
        help_until(me, || task.event.load(Ordering::Acquire) & FULFILLED != 0);
    }
    me.set_task(parent);
    if let Some(table) = task.table.take() {
        table.release();
    }
    task.finished.store(true, Ordering::Release);
    parent.remember();
    task.forget();
}

/// Runs a task that was taken.
pub(crate) fn run(me: &'static Thread, task: &'static Task) {
    let outer = me.task();
    let member = me.member();
    task.thread.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
    task.began.set(member.queue.pushed());
    if !task.is_cancelled(me) {
        me.set_task(task);
        if let Some(tally) = tally::of(me) {
            tally.run_task();
        }
        if let Some(function) = task.function.get() {
            // SAFETY: the program's function, with the arguments that were copied for it.
            unsafe { function(task.data.get()) };
        }
        me.set_task(outer);
        let fulfilled = |event: u32| event & FULFILLED != 0;
        if task.detachable.get() && !fulfilled(task.event.fetch_or(BODY_ENDED, Ordering::AcqRel)) {
            return;
        }
    }
    finish(task, |next| tasking::enqueue_after(me, next, task.origin.get()));
    // The region may end as soon as all are counted.
    member.finished.store(member.finished.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// A deferred task is finished: who waited for it may go on.
fn finish(task: &'static Task, enqueue: impl Fn(&'static Task)) {
    if let Some(table) = task.table.take() {
        table.release();
    }
    task.finished.store(true, Ordering::Release);
    if task.depends.get() {
        task.dependents.finish(enqueue);
    }
    if let Some(group) = task.group.get() {
        group.leave();
    }
    task.leave(CHILD);
}

/// Waits for all tasks that the current one created.
pub fn wait_for_children(me: &'static Thread) {
    let task = me.task();
    if !task.is_childless() {
        help_until(me, || task.is_childless());
    }
}

/// Says that what a detached task waits for has come. False if the handle was used before.
pub fn fulfill(handle: usize) -> bool {
    // Whoever calls is to be known: its memory is used.
    crate::thread::current();
    // SAFETY: the program has the handle from `detach`, whose task is there until this is done.
    let Some(task) = (unsafe { (handle as *const Task).as_ref::<'static>() }) else { return false };
    let before = task.event.fetch_or(FULFILLED, Ordering::AcqRel);
    if before & FULFILLED != 0 {
        return false;
    }
    if !task.deferred.get() {
        task.wake();
        return true;
    }
    if before & BODY_ENDED == 0 {
        return true;
    }
    let Some(team) = task.team.get() else { return false };
    // Queues of members are for what they queue themselves.
    let origin = task.origin.get();
    finish(task, |next| {
        next.origin.set(origin);
        team.urgent.push(next);
    });
    team.finished_outside.fetch_add(1, Ordering::AcqRel);
    team.alarm();
    true
}
