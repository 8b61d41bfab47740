//! Start and end of `taskgroup` constructs.

use std::ptr;

use super::tasking;
use crate::team::group::Group;
use crate::team::thread::Thread;

/// Begins a task group, which the current task's children join from now on.
pub fn start(me: &'static Thread) -> &'static Group {
    let task = me.task();
    let group = Group::create(me.store(), &me.parker, task.group());
    task.set_group(Some(group));
    group
}

/// Waits for all tasks of the innermost group and ends it.
pub fn end(me: &'static Thread) {
    let task = me.task();
    let Some(group) = task.group() else { return };
    if !group.is_empty() {
        tasking::help_until(me, || group.is_empty());
    }
    task.set_group(group.outer());
    // SAFETY: it came from the store, and no task refers to it any more.
    unsafe { me.store().release(ptr::from_ref(group).cast_mut().cast()) };
}
