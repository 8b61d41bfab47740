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
const STEALS_MAX: u32 = 8;
/// How many times the interval between scans of other queues doubles while they find nothing.
const BACKOFF_MAX: u32 = 9;

/// Enqueues a new task, a child of the one that the thread executes.
#[inline]
pub fn enqueue(me: &'static Thread, task: &'static Task) {
    let member = me.id();
    let number = me.team().member(member).queue.count();
    task.origin.set(Origin { member, number, steal_root: me.task().steal_root.get() });
    push_task(me, task, number);
}

/// Enqueues a task that waited for a sibling with this origin.
pub fn enqueue_after(me: &'static Thread, task: &'static Task, origin: Origin) {
    task.origin.set(origin);
    push_task(me, task, me.member().queue.count());
}

fn push_task(me: &'static Thread, task: &'static Task, number: u64) {
    let (team, id) = (me.team(), me.id());
    task.number.set(number);
    if task.priority() > 0 {
        team.priority_tasks.push(task);
    } else {
        team.member(id).queue.push(task);
    }
    team.notify_one(id);
}

/// Takes a task that this thread may run now: in a barrier any, otherwise a descendant of `within`.
fn take_runnable(me: &'static Thread, within: Option<&'static Task>) -> Option<&'static Task> {
    let (team, id) = (me.team(), me.id());
    let is_allowed =
        |look| move |task: &'static Task| within.is_none_or(|current| task.descends_from(id, current, look));
    if let Some(task) = team.priority_tasks.take(is_allowed(u32::MAX)) {
        task.steal_root.set(Some(task));
        return Some(task);
    }
    let since = within.map_or(0, |current| current.pushes_at_start.get());
    if let Some(task) = team.member(id).queue.take_newest(since) {
        let origin = task.origin.get();
        let is_own_push = origin.member == id && origin.number == task.number.get();
        task.steal_root.set(if is_own_push { origin.steal_root } else { Some(task) });
        return Some(task);
    }
    let size = team.size();
    let others = (1..size).map(|step| &team.member((id + step) % size).queue);
    let task = if within.is_none() {
        others.into_iter().find_map(Queue::take_oldest)
    } else {
        others.into_iter().find_map(|queue| queue.try_take_either_end(is_allowed(STEALS_MAX)))
    }?;
    // The task is the root of a stolen subtree.
    task.steal_root.set(Some(task));
    Some(task)
}

/// Runs the newest task that the calling thread pushed since it began its current one.
pub fn run_newest(me: &'static Thread) {
    if let Some(task) = me.member().queue.take_newest(me.task().pushes_at_start.get()) {
        task.steal_root.set(task.origin.get().steal_root);
        tasks::run(me, task);
    }
}

/// Runs ready tasks until there are none.
pub fn run_any(me: &'static Thread) {
    let mut ran = false;
    while let Some(task) = take_runnable(me, None) {
        tasks::run(me, task);
        ran = true;
    }
    if ran {
        me.team().wake_leader();
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
    let mut failed_scans = 0;
    while !condition() {
        if let Some(task) = take_runnable(me, Some(current)) {
            tasks::run(me, task);
            failed_scans = 0;
        } else {
            idle(me, team, failed_scans, &condition);
            failed_scans = (failed_scans + 1).min(BACKOFF_MAX);
        }
    }
}

/// Waits until the condition holds or it is time to look for tasks again.
///
/// Scans of queues and tasks slow down the threads that work on them, and may find nothing that this thread
/// may run, so they become less and less frequent. Progress does not depend on them. A thread that slept and
/// found nothing is not woken for tasks again.
fn idle(me: &'static Thread, team: &'static Team, failed_scans: u32, condition: &impl Fn() -> bool) {
    let priority_tasks = team.priority_tasks.length();
    let mut turns_until_scan = 1_u32 << failed_scans;
    let due = || {
        turns_until_scan = turns_until_scan.saturating_sub(1);
        turns_until_scan == 0 && team.has_queued()
    };
    let sleep = if failed_scans == 0 { Sleep::Counted(&team.sleepers) } else { Sleep::Alone };
    // The caller checks the condition, and for tasks, in any case.
    let _ = waiting::until(me, sleep, || condition() || team.priority_tasks.length() != priority_tasks, due);
}
