//! Waiting: spinning while there are free processors, sleeping otherwise.
//!
//! How threads sleep, and why no wake-up is lost, is explained in [`super::parker`].

use super::bell::{Bell, Sleepers};
use super::local::Local;
use super::node_load::OVERSUBSCRIBED_TURNS;
use super::paged_wait;

/// Turns between checks of frequently written lines and of the number of awake threads.
const RARE_CHECK_TURNS: u64 = 16;

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
    mut rare_condition: impl FnMut() -> bool,
) -> bool {
    condition() || (!rare_condition() && until_slow(me, sleep, &mut condition, &mut rare_condition))
}

/// Continues [`until`] after both conditions have been found false.
pub(crate) fn until_slow(
    me: &Local,
    sleep: Sleep<'_>,
    condition: &mut impl FnMut() -> bool,
    rare_condition: &mut impl FnMut() -> bool,
) -> bool {
    if paged_wait::is_memory_paged() {
        let mut poller = paged_wait::Poller::new();
        while poller.try_pause() {
            if condition() {
                return true;
            }
            if rare_condition() {
                return false;
            }
        }
        return sleep_until(me, sleep, condition, rare_condition);
    }
    let node_load = me.node_load();
    let turns = node_load.turns();
    let mut spin_turns = 0_u64;
    let mut yield_at = me.spin_yield.turns_until_yield();
    while spin_turns < turns {
        if condition() {
            return true;
        }
        std::hint::spin_loop();
        spin_turns += 1;
        if spin_turns.is_multiple_of(RARE_CHECK_TURNS) {
            if rare_condition() {
                return false;
            }
            if spin_turns >= OVERSUBSCRIBED_TURNS && node_load.is_oversubscribed() {
                break;
            }
            if spin_turns >= yield_at {
                if !me.spin_yield.yield_processor(condition) {
                    break;
                }
                yield_at = spin_turns * 2;
            }
        }
    }
    sleep_until(me, sleep, condition, rare_condition)
}

/// Sleeps at the end of [`until_slow`].
fn sleep_until(
    me: &Local,
    sleep: Sleep<'_>,
    condition: &mut impl FnMut() -> bool,
    rare_condition: &mut impl FnMut() -> bool,
) -> bool {
    let mut either = || condition() || rare_condition();
    match sleep {
        Sleep::Alone => me.parker().sleep_unless(&mut either),
        Sleep::Counted(sleepers) => sleepers.while_counted(|| me.parker().sleep_unless(&mut either)),
        Sleep::Together(bell) => bell.sleep_unless(&mut either),
    }
    condition()
}
