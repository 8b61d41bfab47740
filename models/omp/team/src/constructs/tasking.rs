//! Scheduling of ready tasks.
//!
//! A thread that waits in a barrier runs any task. One that waits inside a task runs only that task's
//! descendants, as OpenMP requires for tied tasks. A thread's own queue is in push order, and exactly the
//! tasks pushed since the current one began descend from it. So one number decides, and only the newest task
//! of the queue needs to be checked. Tasks that only this thread can be expected to run are always found
//! there. So it checks only both ends of other queues; tasks that it misses there are run by the owner of the
//! queue.

use std::sync::atomic::Ordering;

use super::tasks;
use crate::primitives::wait::Sleep;
use crate::team::members::Team;
use crate::team::queue::Queue;
use crate::team::task::{Origin, Task};
use crate::team::thread::Thread;
use crate::team::waiting;

/// Maximum number of steals followed to decide whether a task of another queue may be taken.
const LOOK: u32 = 8;
/// How many times the interval between scans of other queues doubles while they find nothing.
const MISSES: u32 = 9;

/// Enqueues a new task, a child of the one that the thread executes.
#[inline]
pub fn enqueue(me: &'static Thread, task: &'static Task) {
    let by = me.id();
    let number = me.team().member(by).queue.count();
    task.origin.set(Origin { by, number, strand: me.task().strand.get() });
    queue_up(me, task, number);
}

/// Enqueues a task that waited for a sibling with this origin.
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

/// Takes a task that this thread may run now: in a barrier any, otherwise a descendant of `within`.
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
    // The task starts a strand of its own.
    task.strand.set(Some(task));
    Some(task)
}

/// Runs the newest task that the calling thread pushed since it began its current one.
pub fn run_newest(me: &'static Thread) {
    if let Some(task) = me.member().queue.take_newest(me.task().began.get()) {
        task.strand.set(task.origin.get().strand);
        tasks::run(me, task);
    }
}

/// Runs ready tasks until there are none.
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

/// Runs tasks until all tasks of the team are finished.
pub(crate) fn finish_tasks(me: &'static Thread) {
    let team = me.team();
    team.leader.store(me.id() + 1, Ordering::SeqCst);
    loop {
        run_any(me);
        if team.all_finished() {
            break;
        }
        // Both conditions read lines that others write often.
        let look = || team.has_queued() || team.all_finished();
        let _ = waiting::until(me, Sleep::Counted(&team.sleepers), || false, look);
    }
    team.leader.store(0, Ordering::Relaxed);
}

/// Runs descendants of the current task until the condition holds.
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

/// Waits until the condition holds or it is time to look for tasks again.
///
/// Scans of queues and tasks slow down the threads that work on them, and may find nothing that this thread
/// may run, so they become less and less frequent. Progress does not depend on them. A thread that slept and
/// found nothing is not woken for tasks again.
fn idle(me: &'static Thread, team: &'static Team, misses: u32, condition: &impl Fn() -> bool) {
    let urgent = team.urgent.length();
    let mut looks = 1_u32 << misses;
    let due = || {
        looks = looks.saturating_sub(1);
        looks == 0 && team.has_queued()
    };
    let sleep = if misses == 0 { Sleep::Counted(&team.sleepers) } else { Sleep::Alone };
    // The caller checks the condition, and for tasks, in any case.
    let _ = waiting::until(me, sleep, || condition() || team.urgent.length() != urgent, due);
}
