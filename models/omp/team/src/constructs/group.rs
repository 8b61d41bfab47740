//! `taskgroup`: its beginning and its end.

use std::ptr;

use super::tasking;
use crate::team::group::Group;
use crate::team::thread::Thread;

/// Begins a task group: what the current task creates from now on belongs to it.
pub fn start(me: &'static Thread) -> &'static Group {
    let task = me.task();
    let group = Group::create(me.store(), &me.parker, task.group());
    task.set_group(Some(group));
    group
}

/// Waits for all tasks of the group that was begun last.
pub fn end(me: &'static Thread) {
    let task = me.task();
    let Some(group) = task.group() else { return };
    if !group.is_empty() {
        tasking::help_until(me, || group.is_empty());
    }
    task.set_group(group.outer());
    // SAFETY: it came from the store, and no task is of it any more.
    unsafe { me.store().release(ptr::from_ref(group).cast_mut().cast()) };
}
