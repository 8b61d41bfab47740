//! `cancel` and `cancellation point`.

use std::sync::atomic::Ordering;

use crate::team::group::Group;
use crate::team::thread::Thread;

/// Kinds of constructs, as numbered by GCC.
const PARALLEL: i32 = 1;
const LOOP: i32 = 2;
const SECTIONS: i32 = 4;
const TASKGROUP: i32 = 8;

/// Cancels the construct, if `OMP_CANCELLATION` allows it and `really` is true. Returns whether the thread
/// must go to its end.
pub fn cancel(me: &'static Thread, which: i32, really: bool) -> bool {
    if !me.root().settings.cancellation {
        return false;
    }
    if !really {
        return point(me, which);
    }
    let seat = me.seat();
    match which {
        PARALLEL => {
            seat.team.cancelled.store(true, Ordering::SeqCst);
            seat.team.alarm();
        }
        TASKGROUP => {
            if let Some(group) = seat.task.group() {
                group.cancellable().cancel();
            }
        }
        _ => {
            seat.share.cancelled.store(true, Ordering::SeqCst);
            seat.team.alarm();
        }
    }
    true
}

/// Whether the thread must go to the end of the construct.
pub fn point(me: &'static Thread, which: i32) -> bool {
    if !me.root().settings.cancellation {
        return false;
    }
    let seat = me.seat();
    if which & (LOOP | SECTIONS) != 0 {
        return seat.share.cancelled.load(Ordering::Acquire);
    }
    // Cancelling a region cancels its tasks.
    (which & TASKGROUP != 0 && seat.task.group().is_some_and(Group::is_cancelled))
        || seat.team.cancelled.load(Ordering::Acquire)
}
