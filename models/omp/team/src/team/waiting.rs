//! Waiting within a region, measured for the report.

use super::thread::Thread;
use crate::primitives::wait::{self, Sleep};

/// Waits until one of the conditions holds, or something else wakes this thread. Returns whether the first
/// condition holds: the wait may end without it. The second condition reads lines that others write often, so
/// it is checked less often.
#[inline]
#[must_use = "the wait may end before the condition holds"]
pub fn until(
    me: &Thread,
    sleep: Sleep<'_>,
    mut condition: impl FnMut() -> bool,
    mut rare_condition: impl FnMut() -> bool,
) -> bool {
    if condition() {
        return true;
    }
    if rare_condition() {
        return false;
    }
    match me.tally() {
        Some(tally) => {
            tally.measure_wait(|| wait::until_slow(&me.local, sleep, &mut condition, &mut rare_condition))
        }
        None => wait::until_slow(&me.local, sleep, &mut condition, &mut rare_condition),
    }
}

/// Waits until the condition holds, regardless of spurious wake-ups. Code that makes it true must wake the
/// thread's parker.
pub fn until_true(me: &Thread, mut condition: impl FnMut() -> bool) {
    while !until(me, Sleep::Alone, &mut condition, || false) {}
}
