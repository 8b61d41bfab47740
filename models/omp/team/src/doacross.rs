//! `ordered(n)` with `depend(sink)` and `depend(source)`: iterations that wait for others.
//!
//! Iterations are named by their numbers in each of the loops, the first of which is shared among threads. What has been
//! posted is a number that grows along the whole nest. For static schedules each thread has one such number, as a thread's
//! iterations come in order and whose they are is known; for the others each chunk has one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::icv::Kind;
use crate::share::{Range, WorkShare};
use crate::store::Store;
use crate::thread::Thread;
use crate::wait::{self, Sleep};
use crate::{loops, sys};

/// Loops within each other that can be so ordered.
const DEPTH: usize = 32;

/// How far a nest of loops is.
pub struct Doacross {
    depth: usize,
    /// How many iterations of the whole nest one of each loop is.
    weight: [u64; DEPTH],
    /// Chunks of the first loop, or 0 where each thread has a number.
    chunk: u64,
    /// What was posted: one more than the iteration.
    posted: *mut AtomicU64,
}

// SAFETY: nothing changes once it was made, but atomics.
unsafe impl Sync for Doacross {}

impl Doacross {
    /// For a nest with so many iterations in each loop.
    pub fn create(me: &'static Thread, counts: &[u64], kind: Kind, chunk: u64) -> &'static Self {
        if counts.is_empty() || counts.len() > DEPTH {
            sys::fatal(format_args!("ordered({}): there can be 1 to {DEPTH} loops", counts.len()));
        }
        let mut weight = [1_u64; DEPTH];
        for loop_number in (0..counts.len() - 1).rev() {
            let product = weight[loop_number + 1].checked_mul(counts[loop_number + 1].max(1));
            weight[loop_number] = product.unwrap_or_else(|| too_many());
        }
        if weight[0].checked_mul(counts[0].max(1)).is_none_or(|all| all == u64::MAX) {
            too_many();
        }
        let (chunk, entries) = match kind {
            Kind::Static | Kind::Auto => (0, u64::from(me.team().size())),
            _ => (chunk, counts[0].div_ceil(chunk).max(1)),
        };
        let bytes =
            usize::try_from(entries).ok().and_then(|entries| entries.checked_mul(size_of::<AtomicU64>()));
        let Some(memory) = bytes.and_then(|bytes| me.store().allocate(bytes, 64)) else {
            me.store().exhausted()
        };
        // SAFETY: the memory is that long, and ours.
        unsafe { std::ptr::write_bytes(memory, 0, bytes.unwrap_or(0)) };
        me.store().place(Self { depth: counts.len(), weight, chunk, posted: memory.cast() })
    }

    /// All threads have left the nest.
    pub fn release(&'static self, store: &Store) {
        // SAFETY: both came from the store, and nobody looks at them any more.
        unsafe {
            store.release(self.posted.cast());
            store.release(std::ptr::from_ref(self).cast_mut().cast());
        }
    }

    /// How many loops there are.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The number that stands for an iteration, once it is posted.
    fn number(&self, iteration: &[u64]) -> u64 {
        1 + iteration
            .iter()
            .zip(&self.weight)
            .map(|(at, weight)| at.wrapping_mul(*weight))
            .fold(0, u64::wrapping_add)
    }

    fn entry(&self, index: u64) -> &AtomicU64 {
        // SAFETY: the callers' indices are of threads of the team or of chunks of the loop, and there is one for each.
        unsafe { &*self.posted.wrapping_add(usize::try_from(index).unwrap_or(0)) }
    }
}

fn too_many() -> ! {
    sys::fatal("ordered(n): the nest has more than 2^64 iterations, which depend(sink) cannot count")
}

/// Comes to a nest of loops that iterations of wait for each other.
pub fn start(me: &'static Thread, counts: &[u64], (kind, chunk): (Kind, u64)) -> (&'static WorkShare, bool) {
    // Whose an iteration is has to follow from its number.
    let kind = if kind == Kind::Auto { Kind::Static } else { kind };
    let range = Range::counted(counts.first().copied().unwrap_or(0));
    let (share, first) = loops::start(me, range, (kind, chunk));
    if first {
        share.set_doacross(Doacross::create(me, counts, kind, chunk.max(1)));
        share.set_ready();
    } else {
        share.wait_until_ready();
    }
    (share, first)
}

/// How many loops the nest has that the thread is in.
pub fn depth(me: &'static Thread) -> usize {
    me.share().doacross().map_or(0, Doacross::depth)
}

/// Says that an iteration has come so far.
pub fn post(me: &'static Thread, iteration: &[u64]) {
    let Some(doacross) = me.share().doacross() else { return };
    let index = match doacross.chunk {
        0 => u64::from(me.id()),
        chunk => iteration[0] / chunk,
    };
    doacross.entry(index).store(doacross.number(iteration), Ordering::Release);
    if me.team().size() > 1 {
        me.team().notify();
    }
}

/// Waits until an iteration has come so far.
pub fn wait(me: &'static Thread, iteration: &[u64]) {
    let (share, team) = (me.share(), me.team());
    let Some(doacross) = share.doacross() else { return };
    let index = match doacross.chunk {
        0 => owner(share, u64::from(team.size()), iteration[0]),
        chunk => iteration[0] / chunk,
    };
    let (entry, number) = (doacross.entry(index), doacross.number(iteration));
    let come = || entry.load(Ordering::Acquire) >= number || team.cancelled.load(Ordering::Relaxed);
    while !wait::until(me, Sleep::Counted(&team.sleepers), come, || false) {}
}

/// Whose an iteration is under a static schedule.
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
    fn each_iteration_has_the_owner_that_the_schedule_gives_it() {
        for (count, size, chunk) in [(10, 3, 0), (3, 8, 0), (100, 7, 0), (10, 3, 2), (1, 2, 5)] {
            let share = WorkShare::default();
            share.describe(Range::counted(count), Kind::Static, chunk);
            for iteration in 0..count {
                let of_thread = owner(&share, size, iteration);
                let (low, high) = loops::equal_part(count, size, of_thread);
                let in_part = (low..high).contains(&iteration);
                let has = iteration.checked_div(chunk).map_or(in_part, |number| number % size == of_thread);
                assert!(has, "{iteration} of {count} among {size} by {chunk}");
            }
        }
    }
}
