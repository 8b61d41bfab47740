//! Waiting: spinning while there are free processors, sleeping otherwise.
//!
//! What threads sleep on, and why no wake-up is lost, is in [`super::parker`].

use super::awake::CROWDED;
use super::bell::{Bell, Sleepers};
use super::local::Local;
use super::pace;

/// Turns between checks of what others write often, and of how many are awake.
const SELDOM: u64 = 16;

/// Where a thread sleeps once it has spun for long enough.
#[derive(Clone, Copy)]
pub enum Sleep<'a> {
    /// On its parker, which is woken in any case when the condition becomes true.
    Alone,
    /// On its parker, counted among those that may need to be woken.
    Counted(&'a Sleepers),
    /// Together with others that wait for the same.
    Together(&'a Bell),
}

/// Waits until one of the conditions holds, or something else wakes this thread. Returns whether the first
/// condition holds: the wait may end without it. The second condition reads lines that others write often, so
/// it is checked less often.
#[inline]
#[must_use = "the wait may end before the condition holds"]
pub fn until(
    me: &Local,
    sleep: Sleep<'_>,
    mut condition: impl FnMut() -> bool,
    mut seldom: impl FnMut() -> bool,
) -> bool {
    condition() || (!seldom() && until_slowly(me, sleep, &mut condition, &mut seldom))
}

/// As [`until`], after both conditions have been found not to hold.
pub(crate) fn until_slowly(
    me: &Local,
    sleep: Sleep<'_>,
    condition: &mut impl FnMut() -> bool,
    seldom: &mut impl FnMut() -> bool,
) -> bool {
    if pace::is_on() {
        let mut looks = pace::Looks::new();
        while looks.next() {
            if condition() {
                return true;
            }
            if seldom() {
                return false;
            }
        }
        return sleep_until(me, sleep, condition, seldom);
    }
    let awake = me.awake();
    let turns = awake.turns();
    let mut spun = 0_u64;
    let mut asks_at = me.asking.after();
    while spun < turns {
        if condition() {
            return true;
        }
        std::hint::spin_loop();
        spun += 1;
        if spun.is_multiple_of(SELDOM) {
            if seldom() {
                return false;
            }
            if spun >= CROWDED && awake.crowded() {
                break;
            }
            if spun >= asks_at {
                if !me.asking.ask(condition) {
                    break;
                }
                asks_at = spun * 2;
            }
        }
    }
    sleep_until(me, sleep, condition, seldom)
}

/// The part of [`until_slowly`] in which the thread sleeps.
fn sleep_until(
    me: &Local,
    sleep: Sleep<'_>,
    condition: &mut impl FnMut() -> bool,
    seldom: &mut impl FnMut() -> bool,
) -> bool {
    let mut either = || condition() || seldom();
    match sleep {
        Sleep::Alone => me.parker().sleep_unless(&mut either),
        Sleep::Counted(sleepers) => sleepers.with(|| me.parker().sleep_unless(&mut either)),
        Sleep::Together(bell) => bell.sleep_unless(&mut either),
    }
    condition()
}
