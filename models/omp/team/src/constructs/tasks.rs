//! Tasks: from `GOMP_task` to the end of what they are waited for by. Which thread runs which task is in
//! [`super::tasking`].

use std::ptr;
use std::sync::atomic::Ordering;

use super::tasking::{self, help_until};
use crate::team::depend::{self, Dependence};
use crate::team::group::Group;
use crate::team::members::Team;
use crate::team::task::{BODY_ENDED, CHILD, FULFILLED, Function, KNOWN, Task};
use crate::team::thread::Thread;

/// Tasks of a region that wait at a thread for each thread of the team before it runs the next at once, and
/// as many as wait at most.
const ENOUGH: (u32, u32) = (16, 256);
/// The same for tasks that tasks create, for the whole team. Of a tree of tasks its upper branches wait, and
/// a thread that takes one queues as many again.
const ENOUGH_OF_TASKS: u32 = 8;

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
    pub depend: Option<&'a [Dependence]>,
    /// Where the event's handle is to be stored.
    pub event: Option<*mut usize>,
    /// Bounds that are stored as the first two arguments, for `taskloop`.
    pub bounds: Option<(u64, u64)>,
}

/// Whether `cancel` says that a task need not begin.
fn is_cancelled(task: &Task, me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && !task.constructed.get()
        && (me.team().cancelled.load(Ordering::Relaxed) || task.group().is_some_and(Group::is_cancelled))
}

/// Whether `cancel` says that what the current task creates need not begin.
#[inline]
fn need_not_begin(me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && (me.team().cancelled.load(Ordering::Relaxed) || me.task().group().is_some_and(Group::is_cancelled))
}

/// Whether a task that waits for nothing is run by its creator at once: because of what the current one is,
/// or as enough wait already.
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
        depend::register(me.store(), parent, task, dependences);
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
    // What is built elsewhere and moved here is read before it is written in pieces of the same size, which
    // processors are slow at.
    // SAFETY: fresh memory of this size and alignment; all zero is a record.
    let task: &'static Task = unsafe {
        memory.write_bytes(0, size_of::<Task>());
        &*memory.cast::<Task>()
    };
    task.counts.store(KNOWN, Ordering::Relaxed);
    task.function.set(Some(create.function));
    task.data.set(create.data);
    task.parent.set(Some(parent));
    task.set_parker(&me.parker);
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
        task.team.set(ptr::from_ref(me.team()).cast());
        // SAFETY: the program gave the place for the handle, and if there are arguments their first is the
        // handle too.
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

/// Runs a task at once. A record that is used again needs only the fields that are set here: most of these
/// tasks create no others, and no thread refers to them but the one that runs them.
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
        None => Task::stub(me.store(), &me.parker),
    };
    task.function.set(Some(function));
    task.parent.set(Some(parent));
    task.last.set(last || parent.is_final());
    task.group.set(parent.group.get());
    task.began.set(me.member().queue.pushed());
    task.strand.set(parent.strand.get());
    task.inherit(parent);
    me.set_task(task);
    if let Some(tally) = me.tally() {
        tally.run_task();
    }
    // SAFETY: the program's function, with the arguments that the program gave for it.
    unsafe { function(data) };
    me.set_task(parent);
    if let Some(table) = task.table.take() {
        table.release();
    }
    if task.counts.load(Ordering::Acquire) == KNOWN {
        // Nothing refers to it any more; its parent, which waits here, need not be told.
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
        wait_for_dependences(me, parent, dependences);
    }
    if create.copy.is_none() && create.bounds.is_none() && create.event.is_none() {
        return include(me, parent, create.function, create.data, create.last);
    }
    let task = record(me, parent, &create, false);
    me.set_task(task);
    if let Some(tally) = me.tally() {
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
    task.set_parker(&me.parker);
    task.began.set(member.queue.pushed());
    if !is_cancelled(task, me) {
        me.set_task(task);
        if let Some(tally) = me.tally() {
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

/// A deferred task is finished: tasks and threads that waited for it may go on.
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

/// Waits until a task with these dependences could begin, and helps meanwhile.
pub fn wait_for_dependences(me: &'static Thread, parent: &'static Task, dependences: &[Dependence]) {
    let Some(stub) = depend::stub_for(me.store(), &me.parker, parent, dependences) else { return };
    help_until(me, || stub.blockers.load(Ordering::Acquire) == 1);
    stub.forget();
}

/// Says that the event has come that a detached task waits for. False if the handle was used before. The
/// calling thread has to have a record: its memory is used.
pub fn fulfill(handle: usize) -> bool {
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
    // SAFETY: what is stored there is a team, which lives for ever.
    let Some(team) = (unsafe { task.team.get().cast::<Team>().as_ref() }) else { return false };
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
