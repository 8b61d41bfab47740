//! Creation and execution of tasks, and waiting for them. The scheduling is in [`super::tasking`].

use std::ptr;
use std::sync::atomic::Ordering;

use super::tasking::{self, help_until};
use crate::team::depend::{self, Dependence};
use crate::team::group::Group;
use crate::team::members::Team;
use crate::team::task::{BODY_ENDED, CHILD, FULFILLED, Function, REFERENCE, Task};
use crate::team::thread::Thread;

/// Limits of a thread's queue above which it runs a task of the region at once: per thread of the team, and
/// in total.
const QUEUE_LIMIT: (u32, u32) = (16, 256);
/// The same for tasks created by explicit tasks, for the whole team. Of a tree of tasks only the upper
/// branches are queued, and a thread that takes one queues as many again.
const NESTED_QUEUE_LIMIT: u32 = 8;

/// Parameters of a task to be created.
#[derive(Clone, Copy)]
pub struct NewTask<'a> {
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
    pub is_final: bool,
    /// Value of the `priority` clause.
    pub priority: i32,
    /// Dependences of the task.
    pub depend: Option<&'a [Dependence]>,
    /// Address at which the event handle of a detachable task is stored.
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
fn is_creation_cancelled(me: &'static Thread) -> bool {
    me.root().settings.cancellation
        && (me.team().cancelled.load(Ordering::Relaxed) || me.task().group().is_some_and(Group::is_cancelled))
}

/// Whether a task without dependences is run by its creator at once: because of the current task's kind, or
/// because enough tasks are queued.
#[inline]
pub fn must_run_undeferred(me: &'static Thread) -> bool {
    let (team, task) = (me.team(), me.task());
    let size = team.size();
    if size == 1 || task.is_final() {
        return true;
    }
    let queue = &team.member(me.id()).queue;
    if task.is_explicit() {
        return queue.is_saturated(NESTED_QUEUE_LIMIT);
    }
    let (each, most) = QUEUE_LIMIT;
    queue.length() >= (each * size).min(most)
}

/// Creates a task, and runs it at once if it is not deferred.
pub fn create(me: &'static Thread, new_task: NewTask<'_>) {
    let (parent, team) = (me.task(), me.team());
    if is_creation_cancelled(me) {
        return;
    }
    // An event or other tasks that it waits for may depend on what the creator does next.
    let waits = new_task.event.is_some() || new_task.depend.is_some();
    if !new_task.deferred || parent.is_final() || (!waits && must_run_undeferred(me)) {
        return run_undeferred(me, parent, new_task);
    }
    let member = team.member(me.id());
    let task = create_record(me, parent, &new_task, true);
    member.created.store(member.created.load(Ordering::Relaxed) + 1, Ordering::Release);
    if !team.has_tasks.load(Ordering::Relaxed) {
        team.has_tasks.store(true, Ordering::Release);
    }
    parent.counts.fetch_add(CHILD + REFERENCE, Ordering::Relaxed);
    if let Some(group) = parent.group() {
        group.add_task();
    }
    if let Some(dependences) = new_task.depend {
        task.depends.set(true);
        depend::register(me.store(), parent, task, dependences);
        if task.blockers.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
    }
    tasking::enqueue(me, task);
}

/// Creates a task record with its arguments. The parent's counts do not include it yet.
fn create_record(
    me: &'static Thread,
    parent: &'static Task,
    new_task: &NewTask<'_>,
    deferred: bool,
) -> &'static Task {
    let align = new_task.align.max(1);
    let copied = deferred || new_task.copy.is_some() || new_task.bounds.is_some();
    let bytes = size_of::<Task>() + if copied { new_task.size + align - 1 } else { 0 };
    let Some(memory) = me.store().allocate(bytes, 64) else { me.store().exhausted() };
    // Written in place: a record that is built elsewhere and moved here is read in pieces of other sizes than
    // those just written, which defeats store-to-load forwarding.
    // SAFETY: fresh memory of this size and alignment; an all-zero record is valid.
    let task: &'static Task = unsafe {
        memory.write_bytes(0, size_of::<Task>());
        &*memory.cast::<Task>()
    };
    task.counts.store(REFERENCE, Ordering::Relaxed);
    task.function.set(Some(new_task.function));
    task.data.set(new_task.data);
    task.parent.set(Some(parent));
    task.set_parker(&me.parker);
    task.priority.set(new_task.priority.clamp(0, me.root().settings.priority));
    task.explicit.set(true);
    task.is_final.set(new_task.is_final || (!deferred && parent.is_final()));
    task.deferred.set(deferred);
    task.group.set(parent.group.get());
    task.blockers.store(1, Ordering::Relaxed);
    task.pushes_at_start.set(me.member().queue.pushes());
    task.steal_root.set(parent.steal_root.get());
    task.inherit(parent);
    if let Some(place) = new_task.event {
        task.detachable.set(true);
        task.team.set(ptr::from_ref(me.team()).cast());
        // SAFETY: the program gave the place for the handle; if there are arguments, the first is the handle
        // too.
        unsafe {
            place.write(ptr::from_ref(task) as usize);
            if !new_task.data.is_null() {
                new_task.data.cast::<usize>().write(ptr::from_ref(task) as usize);
            }
        }
    }
    if copied {
        let data = ((memory as usize + size_of::<Task>()).next_multiple_of(align)) as *mut libc::c_void;
        copy_arguments(me, task, new_task, data);
        task.data.set(data);
    }
    task
}

fn copy_arguments(me: &'static Thread, task: &'static Task, new_task: &NewTask<'_>, data: *mut libc::c_void) {
    if let Some(copy) = new_task.copy {
        let outer = me.task();
        me.set_task(task);
        // SAFETY: the program's function for arguments of this size and alignment, for which there is room.
        unsafe { copy(data, new_task.data) };
        me.set_task(outer);
        task.constructed.set(true);
    } else {
        // SAFETY: the program's arguments have this size, and there is room.
        unsafe { ptr::copy_nonoverlapping(new_task.data.cast::<u8>(), data.cast::<u8>(), new_task.size) };
    }
    if let Some((low, high)) = new_task.bounds {
        // SAFETY: the arguments of a `taskloop` task begin with two words for its bounds.
        unsafe {
            data.cast::<u64>().write(low);
            data.cast::<u64>().add(1).write(high);
        }
    }
}

/// Runs a task that its creator waits for, with its arguments in place.
#[inline]
pub fn run_undeferred_in_place(
    me: &'static Thread,
    function: Function,
    data: *mut libc::c_void,
    is_final: bool,
) {
    if !is_creation_cancelled(me) {
        run_included(me, me.task(), function, data, is_final);
    }
}

/// Runs a task at once. A reused record needs only the fields set here: most such tasks create no others, and
/// only the thread that runs them refers to them.
fn run_included(
    me: &'static Thread,
    parent: &'static Task,
    function: Function,
    data: *mut libc::c_void,
    is_final: bool,
) {
    let task = match me.free_included.get() {
        Some(task) => {
            me.free_included.set(task.links.take_older());
            task
        }
        None => Task::stub(me.store(), &me.parker),
    };
    task.function.set(Some(function));
    task.parent.set(Some(parent));
    task.is_final.set(is_final || parent.is_final());
    task.group.set(parent.group.get());
    task.pushes_at_start.set(me.member().queue.pushes());
    task.steal_root.set(parent.steal_root.get());
    task.inherit(parent);
    me.set_task(task);
    if let Some(tally) = me.tally() {
        tally.count_task();
    }
    // SAFETY: the program's function, with the arguments that the program gave for it.
    unsafe { function(data) };
    me.set_task(parent);
    if let Some(table) = task.table.take() {
        table.release();
    }
    if task.counts.load(Ordering::Acquire) == REFERENCE {
        // Nothing else refers to it; its parent waits here and need not be notified.
        task.links.set_older(me.free_included.replace(Some(task)));
        return;
    }
    task.finished.store(true, Ordering::Release);
    parent.add_reference();
    task.drop_reference();
}

/// Runs a task that its creator waits for.
fn run_undeferred(me: &'static Thread, parent: &'static Task, new_task: NewTask<'_>) {
    if let Some(dependences) = new_task.depend {
        wait_for_dependences(me, parent, dependences);
    }
    if new_task.copy.is_none() && new_task.bounds.is_none() && new_task.event.is_none() {
        return run_included(me, parent, new_task.function, new_task.data, new_task.is_final);
    }
    let task = create_record(me, parent, &new_task, false);
    me.set_task(task);
    if let Some(tally) = me.tally() {
        tally.count_task();
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
    parent.add_reference();
    task.drop_reference();
}

/// Runs a task taken from a queue.
pub(crate) fn run(me: &'static Thread, task: &'static Task) {
    let outer = me.task();
    let member = me.member();
    task.set_parker(&me.parker);
    task.pushes_at_start.set(member.queue.pushes());
    if !is_cancelled(task, me) {
        me.set_task(task);
        if let Some(tally) = me.tally() {
            tally.count_task();
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
        group.finish_task();
    }
    task.release_finished(CHILD);
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
    let Some(stub) = depend::create_stub(me.store(), &me.parker, parent, dependences) else { return };
    help_until(me, || stub.blockers.load(Ordering::Acquire) == 1);
    stub.drop_reference();
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
        team.priority_tasks.push(next);
    });
    team.finished_outside.fetch_add(1, Ordering::AcqRel);
    team.wake_all();
    true
}
