//! The barrier of a team.

use std::sync::atomic::Ordering;

use crate::tasking;
use crate::thread::Thread;
use crate::wait::{self, Sleep};

/// Waits until all threads of the team are here and all tasks are finished. True if the region was cancelled, which only
/// those notice that may be.
pub fn barrier(me: &'static Thread, cancellable: bool) -> bool {
    let team = me.team();
    let cancelled = || cancellable && team.cancelled.load(Ordering::Acquire);
    if cancelled() {
        return true;
    }
    let tasked = || team.tasked.load(Ordering::Acquire);
    if team.size() == 1 {
        if tasked() {
            team.finish_tasks(me);
        }
        return false;
    }
    let generation = team.generation.0.load(Ordering::Relaxed);
    if tasked() {
        tasking::run_any(me);
    }
    if team.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == team.size() {
        if tasked() {
            team.finish_tasks(me);
        }
        team.arrived.0.store(0, Ordering::Relaxed);
        team.generation.0.swap(generation.wrapping_add(1), Ordering::SeqCst);
        team.notify();
        return false;
    }
    loop {
        let open = || team.generation.0.load(Ordering::Acquire) != generation;
        wait::until(me, Sleep::Together(&team.bell), || open() || cancelled(), || team.has_queued());
        if open() {
            return false;
        }
        if cancelled() {
            return true;
        }
        tasking::run_any(me);
    }
}
