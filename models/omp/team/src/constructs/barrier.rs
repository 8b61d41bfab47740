//! Barrier of a team's threads.

use std::sync::atomic::{AtomicU32, Ordering};

use super::tasking;
use crate::primitives::bell::Bell;
use crate::primitives::sys;
use crate::primitives::wait::Sleep;
use crate::team::thread::Thread;
use crate::team::waiting;

/// Waits until all threads of the team have arrived and all tasks are finished. Returns true if the region
/// was cancelled, which only a `cancellable` barrier notices.
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

/// Meeting point of a number of threads.
struct Meeting<'a> {
    /// Number of threads that have arrived, and number expected.
    arrived: &'a AtomicU32,
    size: u32,
    /// Generation, incremented at each release.
    generation: &'a AtomicU32,
    /// Bell on which they sleep.
    bell: &'a Bell,
}

/// Waits until all have arrived or the region is cancelled. Returns whether it was cancelled. The last thread
/// to arrive calls `last`, which returns whether the region is cancelled; if not, that thread releases the
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
