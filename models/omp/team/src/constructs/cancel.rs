//! `cancel` and `cancellation point`.

use std::sync::atomic::Ordering;

use crate::team::group::Group;
use crate::team::thread::Thread;

/// Kinds of constructs, as numbered by GCC.
const PARALLEL: i32 = 1;
const LOOP: i32 = 2;
const SECTIONS: i32 = 4;
const TASKGROUP: i32 = 8;

/// Cancels the construct, if `OMP_CANCELLATION` allows it and `is_active` is true. Returns whether the thread
/// must go to its end.
pub fn cancel(me: &'static Thread, which: i32, is_active: bool) -> bool {
    if !me.root().settings.cancellation {
        return false;
    }
    if !is_active {
        return cancellation_point(me, which);
    }
    let team_state = me.team_state();
    match which {
        PARALLEL => {
            team_state.team.cancelled.store(true, Ordering::SeqCst);
            team_state.team.wake_all();
        }
        TASKGROUP => {
            if let Some(group) = team_state.task.group() {
                group.cancel_target().cancel();
            }
        }
        _ => {
            team_state.share.cancelled.store(true, Ordering::SeqCst);
            team_state.team.wake_all();
        }
    }
    true
}

/// Whether the thread must go to the end of the construct.
pub fn cancellation_point(me: &'static Thread, which: i32) -> bool {
    if !me.root().settings.cancellation {
        return false;
    }
    let team_state = me.team_state();
    if which & (LOOP | SECTIONS) != 0 {
        return team_state.share.cancelled.load(Ordering::Acquire);
    }
    // Cancelling a region cancels its tasks.
    (which & TASKGROUP != 0 && team_state.task.group().is_some_and(Group::is_cancelled))
        || team_state.team.cancelled.load(Ordering::Acquire)
}
