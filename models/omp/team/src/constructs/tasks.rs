//! Creation and execution of tasks, and waiting for them. The scheduling is in [`super::tasking`].

use std::ptr;
use std::sync::atomic::Ordering;

use super::tasking::{self, help_until};
use crate::team::depend::{self, Dependence};
use crate::team::group::Group;
use crate::team::members::Team;
use crate::team::task::{BODY_ENDED, CHILD, FULFILLED, Function, KNOWN, Task};
use crate::team::thread::Thread;

/// Limits of a thread's queue above which it runs a task of the region at once: per thread of the team, and
/// in total.
const ENOUGH: (u32, u32) = (16, 256);
/// The same for tasks created by explicit tasks, for the whole team. Of a tree of tasks only the upper
/// branches are queued, and a thread that takes one queues as many again.
const ENOUGH_OF_TASKS: u32 = 8;

/// Parameters of a task to be created.
#[derive(Clone, Copy)]
pub struct Create<'a> {
    /// Function of the task.
    pub function: Function,
    /// Arguments, to be copied.
    pub data: *mut libc::c_void,
    /// Copy constructor of the arguments; `None` to copy bytes.
    pub copy: Option<unsafe extern "C" fn(*mut libc::c_void, *mut libc::c_void)>,
    /// Size of the arguments in bytes.
    pub size: usize,
    /// Alignment of the arguments in bytes.
    pub align: usize,
    /// Whether it may run later; if false, the creator waits for it.
    pub deferred: bool,
    /// Whether its children are run at once (`final`).
    pub last: bool,
    /// Value of the `priority` clause.
    pub priority: i32,
    /// Dependences of the task.
    pub depend: Option<&'a [Dependence]>,
    /// Where to store the event handle of a detachable task.
    pub event: Option<*mut usize>,
    /// Loop bounds to store as the first two arguments, for `taskloop`.
    pub bounds: Option<(u64, u64)>,
}

/// Whether a task must be skipped because of a cancellation.
fn is_cancelled(task: &Task, me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && !task.constructed.get()
        && (me.team().cancelled.load(Ordering::Relaxed) || task.group().is_some_and(Group::is_cancelled))
}

/// Whether new children of the current task must be skipped because of a cancellation.
#[inline]
fn need_not_begin(me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && (me.team().cancelled.load(Ordering::Relaxed) || me.task().group().is_some_and(Group::is_cancelled))
}

/// Whether a task without dependences is run by its creator at once: because of the current task's kind, or
/// because enough tasks are queued.
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

/// Creates a task, and runs it at once if it is not deferred.
pub fn create(me: &'static Thread, create: Create<'_>) {
    let (parent, team) = (me.task(), me.team());
    if need_not_begin(me) {
        return;
    }
    // An event or other tasks that it waits for may depend on what the creator does next.
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

/// Creates a task record with its arguments. The parent's counts do not include it yet.
fn record(me: &'static Thread, parent: &'static Task, create: &Create<'_>, deferred: bool) -> &'static Task {
    let align = create.align.max(1);
    let copied = deferred || create.copy.is_some() || create.bounds.is_some();
    let bytes = size_of::<Task>() + if copied { create.size + align - 1 } else { 0 };
    let Some(memory) = me.store().allocate(bytes, 64) else { me.store().exhausted() };
    // Written in place: a record that is built elsewhere and moved here is read in pieces of other sizes than
    // those just written, which defeats store-to-load forwarding.
    // SAFETY: fresh memory of this size and alignment; an all-zero record is valid.
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
        // SAFETY: the program gave the place for the handle; if there are arguments, the first is the handle
        // too.
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
        // SAFETY: the program's arguments have this size, and there is room.
        unsafe { ptr::copy_nonoverlapping(create.data.cast::<u8>(), data.cast::<u8>(), create.size) };
    }
    if let Some((low, high)) = create.bounds {
        // SAFETY: the arguments of a `taskloop` task begin with two words for its bounds.
        unsafe {
            data.cast::<u64>().write(low);
            data.cast::<u64>().add(1).write(high);
        }
    }
}

/// Runs a task that its creator waits for, with its arguments in place.
#[inline]
pub fn run_here(me: &'static Thread, function: Function, data: *mut libc::c_void, last: bool) {
    if !need_not_begin(me) {
        include(me, me.task(), function, data, last);
    }
}

/// Runs a task at once. A reused record needs only the fields set here: most such tasks create no others, and
/// only the thread that runs them refers to them.
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
        // Nothing else refers to it; its parent waits here and need not be notified.
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

/// Runs a task taken from a queue.
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
    // The region may end as soon as all tasks are counted.
    member.finished.store(member.finished.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Finishes a deferred task and releases the tasks and threads that waited for it.
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

/// Waits for all children of the current task.
pub fn wait_for_children(me: &'static Thread) {
    let task = me.task();
    if !task.is_childless() {
        help_until(me, || task.is_childless());
    }
}

/// Waits until a task with these dependences could begin, and runs other tasks meanwhile.
pub fn wait_for_dependences(me: &'static Thread, parent: &'static Task, dependences: &[Dependence]) {
    let Some(stub) = depend::stub_for(me.store(), &me.parker, parent, dependences) else { return };
    help_until(me, || stub.blockers.load(Ordering::Acquire) == 1);
    stub.forget();
}

/// Fulfills the event of a detached task. Returns false if the handle was used before. The calling thread
/// must have a record, as its memory cache is used.
pub fn fulfill(handle: usize) -> bool {
    // SAFETY: the program has the handle from `detach`; the task exists until the event is fulfilled.
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
    // SAFETY: a non-null pointer is that of a team; teams are never freed.
    let Some(team) = (unsafe { task.team.get().cast::<Team>().as_ref() }) else { return false };
    // Only a member itself may push to its queue.
    let origin = task.origin.get();
    finish(task, |next| {
        next.origin.set(origin);
        team.urgent.push(next);
    });
    team.finished_outside.fetch_add(1, Ordering::AcqRel);
    team.alarm();
    true
}
