//! Waiting: spinning while there are free processors, sleeping otherwise.
//!
//! How threads sleep, and why no wake-up is lost, is explained in [`super::parker`].

use super::awake::CROWDED;
use super::bell::{Bell, Sleepers};
use super::local::Local;
use super::pace;

/// Turns between checks of frequently written lines and of the number of awake threads.
const SELDOM: u64 = 16;

/// How a thread sleeps after spinning.
#[derive(Clone, Copy)]
pub enum Sleep<'a> {
    /// On its parker, which is always woken when the condition becomes true.
    Alone,
    /// On its parker, counted among the sleepers that may need to be woken.
    Counted(&'a Sleepers),
    /// On a bell, together with others that wait for the same event.
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

/// Continues [`until`] after both conditions have been found false.
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

/// Sleeps at the end of [`until_slowly`].
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
