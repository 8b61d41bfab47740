//! Doacross loops: `ordered(n)` with `depend(sink)` and `depend(source)`, whose iterations wait for others.
//!
//! Iterations are named by their indices in each of the loops, the first of which is divided among threads.
//! Progress is a number that increases along the whole nest. With static schedules each thread has one such
//! number, as a thread's iterations run in order and their owner is known; with the others each chunk has
//! one.

use std::sync::atomic::Ordering;

use super::loops;
use crate::primitives::icv::ScheduleKind;
use crate::primitives::wait::Sleep;
use crate::team::doacross::Doacross;
use crate::team::share::{Range, WorkShare};
use crate::team::thread::Thread;
use crate::team::waiting;

/// Enters a doacross loop nest. The first thread also calls `prepare`, for which the others wait.
pub fn start(
    me: &'static Thread,
    counts: &[u64],
    (kind, chunk): (ScheduleKind, u64),
    prepare: impl FnOnce(&'static WorkShare),
) -> (&'static WorkShare, bool) {
    // The owner of an iteration must follow from its index.
    let kind = if kind == ScheduleKind::Auto { ScheduleKind::Static } else { kind };
    let range = Range::counted(counts.first().copied().unwrap_or(0));
    let (share, first) = loops::start(me, range, (kind, chunk));
    share.prepare(first, || {
        share.set_doacross(Doacross::create(me.store(), me.team().size(), counts, kind, chunk.max(1)));
        prepare(share);
    });
    (share, first)
}

/// Returns the depth of the current loop nest.
pub fn depth(me: &'static Thread) -> usize {
    me.share().doacross().map_or(0, Doacross::depth)
}

/// Posts an iteration, releasing those that wait for it.
pub fn post(me: &'static Thread, iteration: &[u64]) {
    let Some(doacross) = me.share().doacross() else { return };
    let index = match doacross.chunk {
        0 => u64::from(me.id()),
        chunk => iteration[0] / chunk,
    };
    let number = doacross.number(iteration);
    doacross.entry(index).store(number, Ordering::Release);
    if me.team().size() > 1 {
        // Wakes only matching waiters: with more threads than processors, most wait for later iterations.
        me.team().notify_if(|id| doacross.wait_target(id).is_satisfied_by(index, number));
    }
}

/// Waits until an iteration has been posted.
pub fn wait(me: &'static Thread, iteration: &[u64]) {
    let (share, team) = (me.share(), me.team());
    let Some(doacross) = share.doacross() else { return };
    let index = match doacross.chunk {
        0 => owner(share, u64::from(team.size()), iteration[0]),
        chunk => iteration[0] / chunk,
    };
    let (entry, number) = (doacross.entry(index), doacross.number(iteration));
    let is_posted = || entry.load(Ordering::Acquire) >= number || team.cancelled.load(Ordering::Relaxed);
    if is_posted() {
        return;
    }
    let wait_target = doacross.wait_target(me.id());
    wait_target.begin(index, number);
    while !waiting::until(me, Sleep::Counted(&team.sleepers), is_posted, || false) {}
    wait_target.end();
}

/// Returns the thread that owns an iteration under a static schedule.
fn owner(share: &WorkShare, size: u64, iteration: u64) -> u64 {
    match share.chunk.get() {
        0 => {
            let count = share.range.get().count;
            let (each, more) = (count / size, count % size);
            let longer = more * (each + 1);
            if iteration < longer {
                iteration / (each + 1)
            } else {
                more + (iteration - longer) / each.max(1)
            }
        }
        chunk => iteration / chunk % size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_owner_follows_the_schedule() {
        for (count, size, chunk) in [(10, 3, 0), (3, 8, 0), (100, 7, 0), (10, 3, 2), (1, 2, 5)] {
            let share = WorkShare::default();
            share.describe(Range::counted(count), ScheduleKind::Static, chunk);
            for iteration in 0..count {
                let of_thread = owner(&share, size, iteration);
                let (low, high) = loops::block_range(count, size, of_thread);
                let in_part = (low..high).contains(&iteration);
                let has = iteration.checked_div(chunk).map_or(in_part, |number| number % size == of_thread);
                assert!(has, "{iteration} of {count} among {size} by {chunk}");
            }
        }
    }
}
