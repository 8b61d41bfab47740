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
    let has_tasks = || team.has_tasks.load(Ordering::Acquire);
    let finish_tasks = || {
        if has_tasks() {
            tasking::finish_tasks(me);
        }
        // A cancelled construct ends here. Its record stays current through loops with static schedules.
        me.team_state().share.end_cancellation();
        false
    };
    if team.size() == 1 {
        return finish_tasks();
    }
    let whole = |size| Rendezvous {
        arrived: &team.arrived.0,
        size,
        generation: &team.generation.0,
        bell: &team.bell,
    };
    let open_whole = || team.notify();
    let Some(barriers) = team.node_barriers() else {
        return arrive_and_wait(me, &whole(team.size()), &cancelled, finish_tasks, open_whole);
    };
    let own = barriers.at(me.node);
    let node = Rendezvous {
        arrived: &own.arrived,
        size: own.size(),
        generation: &own.generation.0,
        bell: &own.bell,
    };
    let open_node = || {
        sys::full_fence();
        own.bell.ring(u32::MAX >> 1);
    };
    let others = || arrive_and_wait(me, &whole(barriers.nodes()), &cancelled, finish_tasks, open_whole);
    arrive_and_wait(me, &node, &cancelled, others, open_node)
}

/// Meeting point of a number of threads.
struct Rendezvous<'a> {
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
fn arrive_and_wait(
    me: &'static Thread,
    rendezvous: &Rendezvous<'_>,
    cancelled: &impl Fn() -> bool,
    last: impl FnOnce() -> bool,
    wake: impl FnOnce(),
) -> bool {
    let team = me.team();
    let generation = rendezvous.generation.load(Ordering::Relaxed);
    if team.has_tasks.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if rendezvous.arrived.fetch_add(1, Ordering::AcqRel) + 1 == rendezvous.size {
        if last() {
            return true;
        }
        rendezvous.arrived.store(0, Ordering::Relaxed);
        rendezvous.generation.swap(generation.wrapping_add(1), Ordering::SeqCst);
        wake();
        return false;
    }
    loop {
        let open = || rendezvous.generation.load(Ordering::Acquire) != generation;
        if waiting::until(
            me,
            Sleep::Together(rendezvous.bell),
            || open() || cancelled(),
            || team.has_queued(),
        ) {
            return !open();
        }
        tasking::run_any(me);
    }
}
