//! Loops and sections: which thread gets which iterations.

use std::sync::atomic::Ordering;

use super::share;
use crate::primitives::icv::ScheduleKind;
use crate::primitives::wait::Sleep;
use crate::primitives::{skew, sys};
use crate::team::share::{Range, WorkShare};
use crate::team::thread::Thread;
use crate::team::waiting;

/// A schedule as a construct has it: with the chunk of the clause, or of `run-sched-var` for
/// `schedule(runtime)`.
pub fn runtime(me: &'static Thread) -> (ScheduleKind, u64) {
    let schedule = me.task().icv().schedule;
    let chunk = u64::try_from(schedule.chunk).unwrap_or(0);
    match schedule.kind {
        // What the program leaves to us need not be equal.
        ScheduleKind::Auto => (ScheduleKind::Auto, 0),
        ScheduleKind::Static if chunk == 0 => (ScheduleKind::Auto, 0),
        ScheduleKind::Static => (ScheduleKind::Static, chunk),
        kind => (kind, chunk.max(1)),
    }
}

/// What `GOMP_loop_start` and the like are told: a number of a schedule, with a chunk that may be 0.
pub fn by_number(me: &'static Thread, number: u64, chunk: u64) -> (ScheduleKind, u64) {
    match number & 0x7fff_ffff {
        1 => (ScheduleKind::Static, chunk),
        2 => (ScheduleKind::Dynamic, chunk.max(1)),
        3 => (ScheduleKind::Guided, chunk.max(1)),
        0 | 4 => runtime(me),
        other => sys::fatal(format_args!("a loop has schedule {other}, which GCC 12 does not know")),
    }
}

/// Comes to a loop.
#[inline]
pub fn start(
    me: &'static Thread,
    range: Range,
    (kind, chunk): (ScheduleKind, u64),
) -> (&'static WorkShare, bool) {
    share::enter(me, |share| share.describe(range, kind, chunk))
}

/// The next chunk of the loop that the thread is at, in the program's bounds.
#[inline]
pub fn next(me: &'static Thread) -> Option<(u64, u64)> {
    let share = me.share();
    let (low, high) = if share.by_adding.get() && !me.team().is_special() {
        next_added(share)?
    } else {
        next_otherwise(me)?
    };
    Some(share.range.get().bounds(low, high))
}

/// As [`next`], by iteration, of loops whose chunks are not taken by adding.
#[inline(never)]
fn next_otherwise(me: &'static Thread) -> Option<(u64, u64)> {
    match me.share().kind() {
        _ if me.team().is_special() => next_specially(me),
        ScheduleKind::Dynamic => next_dynamic(me.share()),
        ScheduleKind::Guided => next_guided(me),
        ScheduleKind::Static | ScheduleKind::Auto => next_static(me),
    }
}

/// As [`next`], by iteration, where threads are not equally fast or what they do is reported.
#[cold]
fn next_specially(me: &'static Thread) -> Option<(u64, u64)> {
    let (low, high) = match me.share().kind() {
        ScheduleKind::Dynamic if me.team().is_skewed() => next_dynamic_skewed(me)?,
        ScheduleKind::Dynamic => next_dynamic(me.share())?,
        ScheduleKind::Guided => next_guided(me)?,
        ScheduleKind::Static | ScheduleKind::Auto => next_static(me)?,
    };
    if let Some(tally) = me.tally() {
        tally.iterate(high - low);
    }
    Some((low, high))
}

/// As [`next`], for loops in which the order matters: what the thread had before is in order first.
pub fn next_ordered(me: &'static Thread) -> Option<(u64, u64)> {
    finish_chunk(me);
    let share = me.share();
    let taken = match share.kind() {
        ScheduleKind::Dynamic => next_dynamic(share),
        ScheduleKind::Guided => next_guided(me),
        ScheduleKind::Static | ScheduleKind::Auto => next_static(me),
    };
    me.set_chunk(taken.unwrap_or((0, 0)));
    if let (Some((low, high)), Some(tally)) = (taken, me.tally()) {
        tally.iterate(high - low);
    }
    taken.map(|(low, high)| share.range.get().bounds(low, high))
}

#[inline]
fn next_dynamic(share: &WorkShare) -> Option<(u64, u64)> {
    if share.by_adding.get() {
        return next_added(share);
    }
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let chunk = share.chunk.get();
    take(share, |left| left.min(chunk))
}

/// As [`next_dynamic`], of loops whose chunks are taken by adding. The counter is not looked at before: its
/// line comes once, to be written. Threads go on adding behind the end once each, which is far from 2⁶⁴.
#[inline]
fn next_added(share: &WorkShare) -> Option<(u64, u64)> {
    let (count, chunk) = (share.range.get().count, share.chunk.get());
    let low = share.taken.0.fetch_add(chunk, Ordering::Relaxed);
    (low < count && !share.cancelled.load(Ordering::Relaxed)).then(|| (low, count.min(low + chunk)))
}

/// As [`next_dynamic`] in a team whose threads are not equally fast: those that are faster take several
/// chunks at once, where that was left to us.
fn next_dynamic_skewed(me: &'static Thread) -> Option<(u64, u64)> {
    let (share, team) = (me.share(), me.team());
    let weight = team.weight(me.id());
    let whole = share.chunk.get() > 1 || share.doacross().is_some() || weight.own < 2 * weight.least;
    if whole || share.cancelled.load(Ordering::Relaxed) {
        return next_dynamic(share);
    }
    take(share, |left| skew::dynamic(left, u64::from(team.size()), weight))
}

fn next_guided(me: &'static Thread) -> Option<(u64, u64)> {
    let (share, team) = (me.share(), me.team());
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let (chunk, size) = (share.chunk.get(), u64::from(team.size()));
    if share.doacross().is_some() {
        // What was posted is kept by chunk, so each has to be of one thread.
        return take(share, |left| {
            let part = left.div_ceil(size);
            part.checked_next_multiple_of(chunk).unwrap_or(left).max(chunk).min(left)
        });
    }
    if team.is_skewed() {
        let weight = team.weight(me.id());
        return take(share, |left| skew::guided(left, chunk, weight));
    }
    take(share, |left| left.div_ceil(size).max(chunk).min(left))
}

/// Takes as many iterations as the rule says of those that are left.
fn take(share: &WorkShare, rule: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
    let (count, taken) = (share.range.get().count, &share.taken.0);
    let mut low = taken.load(Ordering::Relaxed);
    loop {
        let left = count.checked_sub(low).filter(|&left| left > 0)?;
        let high = low + rule(left);
        match taken.compare_exchange_weak(low, high, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some((low, high)),
            Err(now) => low = now,
        }
    }
}

/// Static schedules need no shared counter: a thread's iterations follow from its number.
fn next_static(me: &'static Thread) -> Option<(u64, u64)> {
    let share = me.share();
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let (count, size, id) = (share.range.get().count, u64::from(me.team().size()), u64::from(me.id()));
    let trip = me.count_trip();
    let part = match share.chunk.get() {
        0 if trip > 0 => None,
        0 if share.kind() == ScheduleKind::Auto && me.team().is_skewed() => {
            Some(skew::part(count, me.team().weight(me.id())))
        }
        0 => Some(equal_part(count, size, id)),
        chunk => {
            let number = u128::from(trip) * u128::from(size) + u128::from(id);
            let low = u64::try_from(number * u128::from(chunk)).ok()?;
            Some((low, low.saturating_add(chunk).min(count)))
        }
    };
    part.filter(|&(low, high)| low < high)
}

/// The part of thread `id` when `count` iterations are shared out equally.
pub fn equal_part(count: u64, size: u64, id: u64) -> (u64, u64) {
    let (each, more) = (count / size, count % size);
    let low = each * id + id.min(more);
    (low, low + each + u64::from(id < more))
}

/// Waits until it is the turn of the chunk that the thread has.
pub fn wait_for_turn(me: &'static Thread) {
    let (share, team, (low, high)) = (me.share(), me.team(), me.chunk());
    if low == high || share.turn.load(Ordering::Acquire) == low {
        return;
    }
    let wants = &me.member().wants;
    wants.store(low + 1, Ordering::SeqCst);
    let come = || {
        share.turn.load(Ordering::Acquire) == low
            || share.cancelled.load(Ordering::Relaxed)
            || team.cancelled.load(Ordering::Relaxed)
    };
    while !waiting::until(me, Sleep::Alone, come, || false) {}
    wants.store(0, Ordering::Relaxed);
}

/// All of the chunk that the thread has is in order: the next one's turn has come.
fn finish_chunk(me: &'static Thread) {
    let (share, team, (low, high)) = (me.share(), me.team(), me.chunk());
    if low == high {
        return;
    }
    wait_for_turn(me);
    me.set_chunk((0, 0));
    share.turn.store(high, Ordering::Release);
    if team.size() == 1 {
        return;
    }
    sys::full_fence();
    for member in team.members() {
        if member.wants.load(Ordering::Relaxed) == high + 1 {
            member.wake();
        }
    }
}

/// Comes to a `sections` construct with `count` sections.
pub fn start_sections(me: &'static Thread, count: u64) -> (&'static WorkShare, bool) {
    start(me, Range::counted(count), (ScheduleKind::Dynamic, 1))
}

/// The next section for this thread, from 1; 0 when there are none left.
pub fn next_section(me: &'static Thread) -> u32 {
    next_dynamic(me.share()).map_or(0, |(low, _)| u32::try_from(low + 1).unwrap_or(u32::MAX))
}

/// Whether this thread is to run the `single` that it comes to.
#[inline]
pub fn single(me: &'static Thread) -> bool {
    let before = me.count_single();
    let team = me.team();
    team.size() == 1
        || team
            .singles
            .0
            .compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_cover_everything_once() {
        for (count, size) in [(0, 3), (1, 4), (10, 3), (12, 4), (7, 7), (5, 1)] {
            let parts: Vec<_> = (0..size).map(|id| equal_part(count, size, id)).collect();
            assert_eq!((parts[0].0, parts[parts.len() - 1].1), (0, count));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{count} among {size}");
            assert!(parts.iter().all(|&(low, high)| high - low <= count / size + 1));
        }
    }
}
