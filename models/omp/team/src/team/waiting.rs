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
    mut seldom: impl FnMut() -> bool,
) -> bool {
    if condition() {
        return true;
    }
    if seldom() {
        return false;
    }
    match me.tally() {
        Some(tally) => tally.wait(|| wait::until_slowly(&me.local, sleep, &mut condition, &mut seldom)),
        None => wait::until_slowly(&me.local, sleep, &mut condition, &mut seldom),
    }
}

/// Waits until the condition holds, regardless of spurious wake-ups. Code that makes it true must wake the
/// thread's parker.
pub fn until_surely(me: &Thread, mut condition: impl FnMut() -> bool) {
    while !until(me, Sleep::Alone, &mut condition, || false) {}
}
