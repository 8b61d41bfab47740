//! Which thread runs which of the tasks that wait.
//!
//! A thread that waits in a barrier runs any. One that waits inside of a task runs only what descends from
//! that, as OpenMP says of tied tasks. A thread's own queue is in the order in which it queued: what it
//! queued since it began the task in which it waits descends from that task, and nothing else does. So one
//! number tells, and the newest of its queue is enough to look at. It always finds there what only it can be
//! expected to run: so of the queues of others it looks at both ends and no further. What it misses there is
//! run by whose queue it is.

use std::sync::atomic::Ordering;

use super::tasks;
use crate::primitives::wait::Sleep;
use crate::team::members::Team;
use crate::team::queue::Queue;
use crate::team::task::{Origin, Task};
use crate::team::thread::Thread;
use crate::team::waiting;

/// Changes of thread that are looked at to tell whether a task of another's queue may be taken.
const LOOK: u32 = 8;
/// How often the time between looks at the queues of others doubles while they find nothing.
const MISSES: u32 = 9;

/// Puts a task where it will be found. It descends from what its creator executes.
#[inline]
pub fn enqueue(me: &'static Thread, task: &'static Task) {
    let by = me.id();
    let number = me.team().member(by).queue.count();
    task.origin.set(Origin { by, number, strand: me.task().strand.get() });
    queue_up(me, task, number);
}

/// Puts a task where it will be found that waited for one of this origin, which has the same parent.
pub fn enqueue_after(me: &'static Thread, task: &'static Task, origin: Origin) {
    task.origin.set(origin);
    queue_up(me, task, me.member().queue.count());
}

fn queue_up(me: &'static Thread, task: &'static Task, number: u64) {
    let (team, id) = (me.team(), me.id());
    task.number.set(number);
    if task.priority() > 0 {
        team.urgent.push(task);
    } else {
        team.member(id).queue.push(task);
    }
    team.notify_one(id);
}

/// Takes a task that this thread may run now. In a barrier it may run any, otherwise what descends from the
/// current one.
fn take(me: &'static Thread, within: Option<&'static Task>) -> Option<&'static Task> {
    let (team, id) = (me.team(), me.id());
    let may =
        |look| move |task: &'static Task| within.is_none_or(|current| task.descends_from(id, current, look));
    if let Some(task) = team.urgent.take(may(u32::MAX)) {
        task.strand.set(Some(task));
        return Some(task);
    }
    let since = within.map_or(0, |current| current.began.get());
    if let Some(task) = team.member(id).queue.take_newest(since) {
        let origin = task.origin.get();
        let pushed_here = origin.by == id && origin.number == task.number.get();
        task.strand.set(if pushed_here { origin.strand } else { Some(task) });
        return Some(task);
    }
    let size = team.size();
    let others = (1..size).map(|step| &team.member((id + step) % size).queue);
    let task = if within.is_none() {
        others.into_iter().find_map(Queue::take_oldest)
    } else {
        others.into_iter().find_map(|queue| queue.take_end(may(LOOK)))
    }?;
    // A strand of its own begins.
    task.strand.set(Some(task));
    Some(task)
}

/// Runs the newest task that the calling thread queued since it began its current one.
pub fn run_newest(me: &'static Thread) {
    if let Some(task) = me.member().queue.take_newest(me.task().began.get()) {
        task.strand.set(task.origin.get().strand);
        tasks::run(me, task);
    }
}

/// Runs tasks until there are none that wait.
pub fn run_any(me: &'static Thread) {
    let mut ran = false;
    while let Some(task) = take(me, None) {
        tasks::run(me, task);
        ran = true;
    }
    if ran {
        me.team().tell_leader();
    }
}

/// Helps until all tasks of the team are finished.
pub(crate) fn finish_tasks(me: &'static Thread) {
    let team = me.team();
    team.leader.store(me.id() + 1, Ordering::SeqCst);
    loop {
        run_any(me);
        if team.all_finished() {
            break;
        }
        // All of it is in lines that others write often.
        let look = || team.has_queued() || team.all_finished();
        let _ = waiting::until(me, Sleep::Counted(&team.sleepers), || false, look);
    }
    team.leader.store(0, Ordering::Relaxed);
}

/// Runs tasks that descend from the current one, until the condition holds.
pub fn help_until(me: &'static Thread, condition: impl Fn() -> bool) {
    let (team, current) = (me.team(), me.task());
    let mut misses = 0;
    while !condition() {
        if let Some(task) = take(me, Some(current)) {
            tasks::run(me, task);
            misses = 0;
        } else {
            idle(me, team, misses, &condition);
            misses = (misses + 1).min(MISSES);
        }
    }
}

/// Nothing to do until the condition holds or it is time to look for tasks again.
///
/// Looking at the queues and tasks of those who work slows them down, and what is there may be nothing that
/// we may run: so it is done less and less often. Nothing depends on it. A thread that slept and found
/// nothing is not woken for tasks again.
fn idle(me: &'static Thread, team: &'static Team, misses: u32, condition: &impl Fn() -> bool) {
    let urgent = team.urgent.length();
    let mut looks = 1_u32 << misses;
    let due = || {
        looks = looks.saturating_sub(1);
        looks == 0 && team.has_queued()
    };
    let sleep = if misses == 0 { Sleep::Counted(&team.sleepers) } else { Sleep::Alone };
    // The caller looks at the condition, and for tasks, in any case.
    let _ = waiting::until(me, sleep, || condition() || team.urgent.length() != urgent, due);
}
