//! Tasks: from `GOMP_task` to the end of what they are waited for by.
//!
//! A task is a record in the store with its arguments behind it. It lives until it is finished and all tasks that it created are
//! gone, as these know it as their parent. A thread that waits inside of a task runs only tasks that descend from it, as OpenMP
//! says of tied tasks; in a barrier it runs any.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::depend::{self, Dependents, Table};
use crate::group::Group;
use crate::icv::Icv;
use crate::queue::Links;
use crate::thread::{Function, Thread};
use crate::{sys, tally, wait};

/// Tasks that a thread may have waiting before it runs the next at once.
const ENOUGH: u32 = 256;

/// What `omp_fulfill_event` and the end of the body have done.
const BODY_ENDED: u32 = 1;
const FULFILLED: u32 = 2;

/// A task.
#[repr(C, align(64))]
pub struct Task {
    /// Its place in a queue.
    pub links: Links,
    function: Cell<Option<Function>>,
    data: Cell<*mut libc::c_void>,
    parent: Cell<Option<&'static Task>>,
    depth: Cell<u32>,
    /// Tasks that it created and that are not finished.
    children: AtomicU32,
    /// Itself until it is finished, and who knows its record.
    known: AtomicU32,
    priority: Cell<i32>,
    explicit: Cell<bool>,
    last: Cell<bool>,
    deferred: Cell<bool>,
    /// Whether its arguments were made by the program, which then has to destroy them by running it.
    constructed: Cell<bool>,
    detachable: Cell<bool>,
    event: AtomicU32,
    icv: Cell<Option<Icv>>,
    /// Who runs it.
    thread: AtomicPtr<Thread>,
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
    fn empty() -> Self {
        Self {
            links: Links::default(),
            function: Cell::new(None),
            data: Cell::new(ptr::null_mut()),
            parent: Cell::new(None),
            depth: Cell::new(0),
            children: AtomicU32::new(0),
            known: AtomicU32::new(1),
            priority: Cell::new(0),
            explicit: Cell::new(true),
            last: Cell::new(false),
            deferred: Cell::new(false),
            constructed: Cell::new(false),
            detachable: Cell::new(false),
            event: AtomicU32::new(0),
            icv: Cell::new(None),
            thread: AtomicPtr::new(ptr::null_mut()),
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
        self.children.store(0, Ordering::Relaxed);
        self.known.store(1, Ordering::Relaxed);
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
        self.known.fetch_add(1, Ordering::Relaxed);
    }

    /// One fewer knows its record; it goes if that was the last.
    pub fn forget(&'static self) {
        let mut task = self;
        while task.known.fetch_sub(1, Ordering::AcqRel) == 1 && task.explicit.get() {
            let parent = task.parent.get();
            if let Some(me) = sys::me() {
                // SAFETY: it came from the store, and nobody knows it any more.
                unsafe { me.store().release(ptr::from_ref(task).cast_mut().cast()) };
            }
            let Some(parent) = parent else { return };
            task = parent;
        }
    }

    /// Whether it descends from another.
    #[inline]
    fn descends_from(&'static self, ancestor: &'static Task) -> bool {
        let mut task = self;
        while task.depth.get() > ancestor.depth.get() {
            match task.parent.get() {
                Some(parent) => task = parent,
                None => return false,
            }
        }
        ptr::eq(task, ancestor)
    }

    /// Wakes whoever runs it, if that one sleeps.
    pub fn wake(&self) {
        sys::full_fence();
        // SAFETY: threads live for ever.
        if let Some(thread) = unsafe { self.thread.load(Ordering::Relaxed).as_ref() } {
            thread.dock.wake();
        }
    }

    /// Whether `cancel` says that it need not begin.
    fn is_cancelled(&self, me: &'static Thread) -> bool {
        me.root().settings.cancellation
            && !self.constructed.get()
            && (me.team().cancelled.load(Ordering::Relaxed)
                || self.group.get().is_some_and(Group::is_cancelled))
    }
}

/// Creates a task, and runs it if it is not deferred.
pub fn create(me: &'static Thread, create: Create<'_>) {
    let seat = me.seat();
    let (parent, team) = (seat.task, seat.team);
    if me.root().settings.cancellation
        && (team.cancelled.load(Ordering::Relaxed) || parent.group().is_some_and(Group::is_cancelled))
    {
        return;
    }
    let alone = team.size() == 1 && create.depend.is_none() && create.event.is_none();
    let full = team.member(seat.id).queue.length() >= ENOUGH;
    if !create.deferred || parent.is_final() || alone || full {
        return run_at_once(me, parent, create);
    }
    let task = record(me, parent, &create, true);
    let member = team.member(seat.id);
    member.created.store(member.created.load(Ordering::Relaxed) + 1, Ordering::Release);
    team.tasked.store(true, Ordering::Release);
    parent.children.fetch_add(1, Ordering::Relaxed);
    if let Some(group) = parent.group() {
        group.enter();
    }
    if let Some(dependences) = create.depend {
        depend::register(me, parent, task, dependences);
        if task.blockers.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
    }
    enqueue(me, task);
}

/// A record for a task with its arguments in it.
fn record(me: &'static Thread, parent: &'static Task, create: &Create<'_>, deferred: bool) -> &'static Task {
    let align = create.align.max(1);
    let bytes = size_of::<Task>() + create.size + align - 1;
    let Some(memory) = me.store().allocate(bytes, 64) else { me.store().exhausted() };
    // SAFETY: fresh memory of this size and alignment.
    let task: &'static Task = unsafe {
        memory.cast::<Task>().write(Task::empty());
        &*memory.cast::<Task>()
    };
    task.function.set(Some(create.function));
    task.parent.set(Some(parent));
    parent.remember();
    task.depth.set(parent.depth.get() + 1);
    task.priority.set(create.priority.clamp(0, me.root().settings.priority));
    task.last.set(create.last || (!deferred && parent.is_final()));
    task.icv.set(Some(parent.icv()));
    task.group.set(parent.group());
    task.deferred.set(deferred);
    task.thread.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
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
    if deferred || create.copy.is_some() || create.bounds.is_some() {
        let data = ((memory as usize + size_of::<Task>()).next_multiple_of(align)) as *mut libc::c_void;
        copy_arguments(me, task, create, data);
        task.data.set(data);
    } else {
        task.data.set(create.data);
    }
    task
}

fn copy_arguments(me: &'static Thread, task: &'static Task, create: &Create<'_>, data: *mut libc::c_void) {
    if let Some(copy) = create.copy {
        let outer = me.task();
        me.adjust(|seat| seat.task = task);
        // SAFETY: the program's function for arguments of this size and alignment, for which there is room.
        unsafe { copy(data, create.data) };
        me.adjust(|seat| seat.task = outer);
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

/// Runs a task that its creator waits for.
fn run_at_once(me: &'static Thread, parent: &'static Task, create: Create<'_>) {
    if let Some(dependences) = create.depend {
        depend::wait_for(me, parent, dependences);
    }
    let task = record(me, parent, &create, false);
    me.adjust(|seat| seat.task = task);
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
    me.adjust(|seat| seat.task = parent);
    if let Some(table) = task.table.take() {
        table.release();
    }
    task.finished.store(true, Ordering::Release);
    task.forget();
}

/// Puts a task where it will be found.
pub fn enqueue(me: &'static Thread, task: &'static Task) {
    let seat = me.seat();
    if task.priority() > 0 {
        seat.team.urgent.push(task);
    } else {
        seat.team.member(seat.id).queue.push(task);
    }
    seat.team.notify_one(seat.id);
}

/// Takes a task that this thread may run now. In a barrier it may run any, otherwise what descends from the current one.
fn take(me: &'static Thread, within: Option<&'static Task>) -> Option<&'static Task> {
    let seat = me.seat();
    let team = seat.team;
    let may = |task: &'static Task| within.is_none_or(|ancestor| task.descends_from(ancestor));
    if let Some(task) = team.urgent.take(may) {
        return Some(task);
    }
    if let Some(task) = team.member(seat.id).queue.take_newest(may) {
        return Some(task);
    }
    let size = team.size();
    (1..size).find_map(|step| team.member((seat.id + step) % size).queue.take_oldest(may))
}

/// Runs tasks until there are none that wait.
pub fn run_any(me: &'static Thread) {
    let mut ran = false;
    while let Some(task) = take(me, None) {
        run(me, task);
        ran = true;
    }
    if ran {
        me.team().tell_leader();
    }
}

/// Runs tasks that descend from the current one, until the condition holds.
pub fn help_until(me: &'static Thread, condition: impl Fn() -> bool) {
    let seat = me.seat();
    let (team, current) = (seat.team, seat.task);
    while !condition() {
        match take(me, Some(current)) {
            Some(task) => run(me, task),
            None => idle(me, team, &condition),
        }
    }
}

/// Nothing to do until the condition holds or other tasks are queued. Whoever queues a task looks at it itself before it waits.
fn idle(me: &'static Thread, team: &'static crate::team::Team, condition: &impl Fn() -> bool) {
    let queued = || team.members().map(|member| member.queue.length()).fold(0, u32::wrapping_add);
    let before = queued();
    // What is queued may be nothing that we may run; only a change is worth a look.
    wait::until(me, Some(&team.sleepers), || condition() || (team.has_queued() && queued() != before));
}

/// Runs a task that was taken.
fn run(me: &'static Thread, task: &'static Task) {
    let outer = me.task();
    task.thread.store(ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
    if !task.is_cancelled(me) {
        me.adjust(|seat| seat.task = task);
        if let Some(tally) = tally::of(me) {
            tally.run_task();
        }
        if let Some(function) = task.function.get() {
            // SAFETY: the program's function, with the arguments that were copied for it.
            unsafe { function(task.data.get()) };
        }
        me.adjust(|seat| seat.task = outer);
        let fulfilled = |event: u32| event & FULFILLED != 0;
        if task.detachable.get() && !fulfilled(task.event.fetch_or(BODY_ENDED, Ordering::AcqRel)) {
            return;
        }
    }
    let seat = me.seat();
    let member = seat.team.member(seat.id);
    finish(task, |next| enqueue(me, next));
    task.forget();
    // The region may end as soon as all are counted.
    member.finished.store(member.finished.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// A deferred task is finished: who waited for it may go on.
fn finish(task: &'static Task, enqueue: impl Fn(&'static Task)) {
    if let Some(table) = task.table.take() {
        table.release();
    }
    task.finished.store(true, Ordering::Release);
    task.dependents.finish(enqueue);
    if let Some(group) = task.group.get() {
        group.leave();
    }
    if let Some(parent) = task.parent.get()
        && parent.children.fetch_sub(1, Ordering::AcqRel) == 1
    {
        parent.wake();
    }
}

/// Waits for all tasks that the current one created.
pub fn wait_for_children(me: &'static Thread) {
    let task = me.task();
    if task.children.load(Ordering::Acquire) > 0 {
        help_until(me, || task.children.load(Ordering::Acquire) == 0);
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
    finish(task, |next| {
        let queue = &team.member(0).queue;
        if next.priority() > 0 { team.urgent.push(next) } else { queue.push(next) }
    });
    task.forget();
    team.finished_outside.fetch_add(1, Ordering::AcqRel);
    team.notify();
    team.tell_leader();
    true
}
