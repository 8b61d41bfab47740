//! The barrier of a team.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::dock::Bell;
use crate::thread::Thread;
use crate::wait::{self, Sleep};
use crate::{sys, tasking};

/// Waits until all threads of the team are here and all tasks are finished. True if the region was cancelled, which only
/// those notice that may be.
pub fn barrier(me: &'static Thread, cancellable: bool) -> bool {
    let team = me.team();
    let cancelled = || cancellable && team.cancelled.load(Ordering::Acquire);
    if cancelled() {
        return true;
    }
    let tasked = || team.tasked.load(Ordering::Acquire);
    let finish_tasks = || {
        if tasked() {
            team.finish_tasks(me);
        }
        false
    };
    if team.size() == 1 {
        return finish_tasks();
    }
    let whole =
        |size| Place { arrived: &team.arrived.0, size, generation: &team.generation.0, bell: &team.bell };
    let open_whole = || team.notify();
    let Some(gates) = team.gates() else {
        return meet(me, &whole(team.size()), &cancelled, finish_tasks, open_whole);
    };
    let gate = gates.at(me.node);
    let node =
        Place { arrived: &gate.arrived, size: gate.size(), generation: &gate.generation.0, bell: &gate.bell };
    let open_node = || {
        sys::full_fence();
        gate.bell.ring(u32::MAX >> 1);
    };
    let others = || meet(me, &whole(gates.nodes()), &cancelled, finish_tasks, open_whole);
    meet(me, &node, &cancelled, others, open_node)
}

/// Where threads meet.
struct Place<'a> {
    /// How many have come, of how many.
    arrived: &'a AtomicU32,
    size: u32,
    /// How often they went on from here.
    generation: &'a AtomicU32,
    /// Where they sleep.
    bell: &'a Bell,
}

/// Waits until all have come, or the region is cancelled, which is true then. Whoever comes last does something before others go on,
/// unless it finds that the region is cancelled, and wakes them.
#[inline]
fn meet(
    me: &'static Thread,
    place: &Place<'_>,
    cancelled: &impl Fn() -> bool,
    last: impl FnOnce() -> bool,
    wake: impl FnOnce(),
) -> bool {
    let team = me.team();
    let generation = place.generation.load(Ordering::Relaxed);
    if team.tasked.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if place.arrived.fetch_add(1, Ordering::AcqRel) + 1 == place.size {
        if last() {
            return true;
        }
        place.arrived.store(0, Ordering::Relaxed);
        place.generation.swap(generation.wrapping_add(1), Ordering::SeqCst);
        wake();
        return false;
    }
    loop {
        let open = || place.generation.load(Ordering::Acquire) != generation;
        if wait::until(me, Sleep::Together(place.bell), || open() || cancelled(), || team.has_queued()) {
            return !open();
        }
        tasking::run_any(me);
    }
}
