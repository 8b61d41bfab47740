//! Worksharing loops and sections: distribution of iterations to threads.

use std::sync::atomic::Ordering;

use super::share;
use crate::primitives::icv::ScheduleKind;
use crate::primitives::wait::Sleep;
use crate::primitives::{skew, sys};
use crate::team::share::{Range, WorkShare};
use crate::team::thread::Thread;
use crate::team::waiting;

/// Returns the schedule and chunk size for `schedule(runtime)`, from `run-sched-var`.
pub fn runtime(me: &'static Thread) -> (ScheduleKind, u64) {
    let schedule = me.task().icv().schedule;
    let chunk = u64::try_from(schedule.chunk).unwrap_or(0);
    match schedule.kind {
        // A schedule of our choice need not have equal parts.
        ScheduleKind::Auto => (ScheduleKind::Auto, 0),
        ScheduleKind::Static if chunk == 0 => (ScheduleKind::Auto, 0),
        ScheduleKind::Static => (ScheduleKind::Static, chunk),
        kind => (kind, chunk.max(1)),
    }
}

/// Decodes the schedule number and chunk size passed to `GOMP_loop_start` and similar functions; the chunk
/// may be 0.
pub fn decode_schedule(me: &'static Thread, number: u64, chunk: u64) -> (ScheduleKind, u64) {
    match number & 0x7fff_ffff {
        1 => (ScheduleKind::Static, chunk),
        2 => (ScheduleKind::Dynamic, chunk.max(1)),
        3 => (ScheduleKind::Guided, chunk.max(1)),
        0 | 4 => runtime(me),
        other => sys::fatal(format_args!("a loop has schedule {other}, which GCC 12 does not know")),
    }
}

/// Enters a worksharing loop.
#[inline]
pub fn start(
    me: &'static Thread,
    range: Range,
    (kind, chunk): (ScheduleKind, u64),
) -> (&'static WorkShare, bool) {
    share::enter(me, |share| share.describe(range, kind, chunk))
}

/// Returns the next chunk of the current loop, in the program's bounds.
#[inline]
pub fn next(me: &'static Thread) -> Option<(u64, u64)> {
    let share = me.share();
    let (low, high) = if share.uses_fetch_add.get() && !me.team().is_weighted_or_measured() {
        next_fetch_add(share)?
    } else {
        next_slow(me)?
    };
    Some(share.range.get().bounds(low, high))
}

/// Variant of [`next`] for loops whose chunks are not claimed by fetch-and-add; returns iteration indices.
#[inline(never)]
fn next_slow(me: &'static Thread) -> Option<(u64, u64)> {
    match me.share().kind() {
        _ if me.team().is_weighted_or_measured() => next_weighted_or_measured(me),
        ScheduleKind::Dynamic => next_dynamic(me.share()),
        ScheduleKind::Guided => next_guided(me),
        ScheduleKind::Static | ScheduleKind::Auto => next_static(me),
    }
}

/// Variant of [`next`] for teams whose threads differ in speed or are measured; returns iteration indices.
#[cold]
fn next_weighted_or_measured(me: &'static Thread) -> Option<(u64, u64)> {
    let (low, high) = match me.share().kind() {
        ScheduleKind::Dynamic if me.team().is_skewed() => next_dynamic_skewed(me)?,
        ScheduleKind::Dynamic => next_dynamic(me.share())?,
        ScheduleKind::Guided => next_guided(me)?,
        ScheduleKind::Static | ScheduleKind::Auto => next_static(me)?,
    };
    if let Some(tally) = me.tally() {
        tally.count_iterations(high - low);
    }
    Some((low, high))
}

/// Variant of [`next`] for ordered loops: completes the ordered part of the previous chunk first.
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
        tally.count_iterations(high - low);
    }
    taken.map(|(low, high)| share.range.get().bounds(low, high))
}

#[inline]
fn next_dynamic(share: &WorkShare) -> Option<(u64, u64)> {
    if share.uses_fetch_add.get() {
        return next_fetch_add(share);
    }
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let chunk = share.chunk.get();
    claim(share, |left| left.min(chunk))
}

/// Variant of [`next_dynamic`] that claims chunks by fetch-and-add. The counter is not read before, so that
/// its cache line is fetched only once, for writing. Each thread adds once beyond the end, which cannot reach
/// 2⁶⁴.
#[inline]
fn next_fetch_add(share: &WorkShare) -> Option<(u64, u64)> {
    let (count, chunk) = (share.range.get().count, share.chunk.get());
    let low = share.next_iteration.0.fetch_add(chunk, Ordering::Relaxed);
    (low < count && !share.cancelled.load(Ordering::Relaxed)).then(|| (low, count.min(low + chunk)))
}

/// Variant of [`next_dynamic`] for threads of different speed: faster ones claim several iterations at once,
/// if the program set no chunk size.
fn next_dynamic_skewed(me: &'static Thread) -> Option<(u64, u64)> {
    let (share, team) = (me.share(), me.team());
    let weight = team.weight(me.id());
    let whole = share.chunk.get() > 1 || share.doacross().is_some() || weight.own < 2 * weight.least;
    if whole || share.cancelled.load(Ordering::Relaxed) {
        return next_dynamic(share);
    }
    claim(share, |left| skew::dynamic_chunk(left, u64::from(team.size()), weight))
}

fn next_guided(me: &'static Thread) -> Option<(u64, u64)> {
    let (share, team) = (me.share(), me.team());
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let (chunk, size) = (share.chunk.get(), u64::from(team.size()));
    if share.doacross().is_some() {
        // Progress is posted per chunk, so each chunk must belong to one thread.
        return claim(share, |left| {
            let part = left.div_ceil(size);
            part.checked_next_multiple_of(chunk).unwrap_or(left).max(chunk).min(left)
        });
    }
    if team.is_skewed() {
        let weight = team.weight(me.id());
        return claim(share, |left| skew::guided_chunk(left, chunk, weight));
    }
    claim(share, |left| left.div_ceil(size).max(chunk).min(left))
}

/// Claims as many of the remaining iterations as `rule` returns for their number.
fn claim(share: &WorkShare, rule: impl Fn(u64) -> u64) -> Option<(u64, u64)> {
    let (count, taken) = (share.range.get().count, &share.next_iteration.0);
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

/// Returns the next chunk of a static schedule. It needs no shared counter, as a thread's iterations follow
/// from its number.
fn next_static(me: &'static Thread) -> Option<(u64, u64)> {
    let share = me.share();
    if share.cancelled.load(Ordering::Relaxed) {
        return None;
    }
    let (count, size, id) = (share.range.get().count, u64::from(me.team().size()), u64::from(me.id()));
    let trip = me.next_chunk_index();
    let part = match share.chunk.get() {
        0 if trip > 0 => None,
        0 if share.kind() == ScheduleKind::Auto && me.team().is_skewed() => {
            Some(skew::iteration_range(count, me.team().weight(me.id())))
        }
        0 => Some(block_range(count, size, id)),
        chunk => {
            let number = u128::from(trip) * u128::from(size) + u128::from(id);
            let low = u64::try_from(number * u128::from(chunk)).ok()?;
            Some((low, low.saturating_add(chunk).min(count)))
        }
    };
    part.filter(|&(low, high)| low < high)
}

/// Returns the part of thread `id` if `count` iterations are divided equally among `size` threads.
pub fn block_range(count: u64, size: u64, id: u64) -> (u64, u64) {
    let (each, more) = (count / size, count % size);
    let low = each * id + id.min(more);
    (low, low + each + u64::from(id < more))
}

/// Waits until it is the turn of the thread's current chunk.
pub fn wait_for_turn(me: &'static Thread) {
    let (share, team, (low, high)) = (me.share(), me.team(), me.chunk());
    if low == high || share.turn.load(Ordering::Acquire) == low {
        return;
    }
    let awaited_iteration = &me.member().awaited_iteration;
    awaited_iteration.store(low + 1, Ordering::SeqCst);
    let is_turn = || {
        share.turn.load(Ordering::Acquire) == low
            || share.cancelled.load(Ordering::Relaxed)
            || team.cancelled.load(Ordering::Relaxed)
    };
    while !waiting::until(me, Sleep::Alone, is_turn, || false) {}
    awaited_iteration.store(0, Ordering::Relaxed);
}

/// Completes the ordered part of the current chunk and passes the turn to the next.
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
        if member.awaited_iteration.load(Ordering::Relaxed) == high + 1 {
            member.wake();
        }
    }
}

/// Enters a `sections` construct with `count` sections.
pub fn start_sections(me: &'static Thread, count: u64) -> (&'static WorkShare, bool) {
    start(me, Range::counted(count), (ScheduleKind::Dynamic, 1))
}

/// Returns the next section for this thread, from 1; 0 if none are left.
pub fn next_section(me: &'static Thread) -> u32 {
    next_dynamic(me.share()).map_or(0, |(low, _)| u32::try_from(low + 1).unwrap_or(u32::MAX))
}

/// Whether this thread must run the `single` construct that it reached.
#[inline]
pub fn try_claim_single(me: &'static Thread) -> bool {
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
    fn blocks_cover_everything_once() {
        for (count, size) in [(0, 3), (1, 4), (10, 3), (12, 4), (7, 7), (5, 1)] {
            let parts: Vec<_> = (0..size).map(|id| block_range(count, size, id)).collect();
            assert_eq!((parts[0].0, parts[parts.len() - 1].1), (0, count));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{count} among {size}");
            assert!(parts.iter().all(|&(low, high)| high - low <= count / size + 1));
        }
    }
}
