//! The barrier of a team.

use std::sync::atomic::{AtomicU32, Ordering};

use super::tasking;
use crate::primitives::bell::Bell;
use crate::primitives::sys;
use crate::primitives::wait::Sleep;
use crate::team::thread::Thread;
use crate::team::waiting;

/// Waits until all threads of the team are here and all tasks are finished. True if the region was cancelled,
/// which only those notice that may be.
pub fn barrier(me: &'static Thread, cancellable: bool) -> bool {
    let team = me.team();
    let cancelled = || cancellable && team.cancelled.load(Ordering::Acquire);
    if cancelled() {
        return true;
    }
    let tasked = || team.tasked.load(Ordering::Acquire);
    let finish_tasks = || {
        if tasked() {
            tasking::finish_tasks(me);
        }
        false
    };
    if team.size() == 1 {
        return finish_tasks();
    }
    let whole =
        |size| Meeting { arrived: &team.arrived.0, size, generation: &team.generation.0, bell: &team.bell };
    let open_whole = || team.notify();
    let Some(barriers) = team.node_barriers() else {
        return meet(me, &whole(team.size()), &cancelled, finish_tasks, open_whole);
    };
    let own = barriers.at(me.node);
    let node =
        Meeting { arrived: &own.arrived, size: own.size(), generation: &own.generation.0, bell: &own.bell };
    let open_node = || {
        sys::full_fence();
        own.bell.ring(u32::MAX >> 1);
    };
    let others = || meet(me, &whole(barriers.nodes()), &cancelled, finish_tasks, open_whole);
    meet(me, &node, &cancelled, others, open_node)
}

/// Where threads meet.
struct Meeting<'a> {
    /// How many have come, of how many.
    arrived: &'a AtomicU32,
    size: u32,
    /// How often they went on from here.
    generation: &'a AtomicU32,
    /// Where they sleep.
    bell: &'a Bell,
}

/// Waits until all have come, or the region is cancelled; returns whether it was cancelled. The thread that
/// comes last calls `last`, which says whether the region is cancelled. If it is not, that thread wakes the
/// others.
#[inline]
fn meet(
    me: &'static Thread,
    meeting: &Meeting<'_>,
    cancelled: &impl Fn() -> bool,
    last: impl FnOnce() -> bool,
    wake: impl FnOnce(),
) -> bool {
    let team = me.team();
    let generation = meeting.generation.load(Ordering::Relaxed);
    if team.tasked.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if meeting.arrived.fetch_add(1, Ordering::AcqRel) + 1 == meeting.size {
        if last() {
            return true;
        }
        meeting.arrived.store(0, Ordering::Relaxed);
        meeting.generation.swap(generation.wrapping_add(1), Ordering::SeqCst);
        wake();
        return false;
    }
    loop {
        let open = || meeting.generation.load(Ordering::Acquire) != generation;
        if waiting::until(me, Sleep::Together(meeting.bell), || open() || cancelled(), || team.has_queued()) {
            return !open();
        }
        tasking::run_any(me);
    }
}
