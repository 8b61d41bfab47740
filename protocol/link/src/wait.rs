//! Waits with a deadline for anything that can end a sleep: polls briefly, spins for about the cost of a
//! wake-up, then sleeps.
//!
//! The caller supplies the clock, the sleep and the condition ([`Waiter`]): any number of channels of any
//! transport on Linux, any number of channel ends on a board.

use core::time::Duration;

use crate::end::Announced;

/// Time to spin before sleeping, in nanoseconds: about the cost of a wake-up by another processor through an
/// operating system. A longer spin wastes more than it can save.
pub const DEFAULT_SPIN_NS: u64 = 50_000;

/// Number of polls before the clock is first read. A reply from a processor that shares a cache arrives
/// within them.
const BRIEF_POLLS: u32 = 32;

/// Polls between two reads of the clock, each of which costs as much as a poll of a ring or more.
const POLLS_PER_CLOCK: u32 = 16;

/// Failed waits after which the full budget is tried again, as initial value and as upper limit of the
/// adaptive number. The number doubles after each failed trial.
const WAITS_TO_TRIAL: u32 = 16;
const MAX_WAITS_TO_TRIAL: u32 = 256;

/// Duration of a slow yield, in nanoseconds: the processor went to a program that computes and is unrelated
/// to the wait, so a sleep would have ended sooner.
const SLOW_YIELD_NS: u64 = 100_000;

/// Number of waits without yields after a slow one.
const WAITS_WITHOUT_YIELD: u32 = 256;

/// Condition that a thread waits for, and the means to sleep.
pub trait Waiter {
    /// The error of a failed sleep.
    type Error;

    /// Returns the time on a monotonic clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Lets another runnable program use this processor, possibly the peer. Does nothing where nothing else
    /// can run.
    fn yield_now(&self) {}

    /// Announces to all peers that this thread is about to sleep.
    fn announce(&mut self) -> Announced;

    /// Makes every processor that may run a peer execute a full barrier. Called if an announcement requires
    /// it.
    fn barrier(&mut self);

    /// Polls a last time before the sleep. Returns false if the awaited condition already holds.
    fn may_sleep(&mut self) -> bool;

    /// Sleeps until a peer rings or is gone, or the clock reaches `until_ns`.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sleep(&mut self, until_ns: u64) -> Result<(), Self::Error>;

    /// Withdraws the announcements and processes the event that ended the sleep, if there was a sleep.
    ///
    /// # Errors
    /// A malformed report of the monitor.
    fn finish_sleep(&mut self) -> Result<(), Self::Error>;
}

/// Adaptive spin budget: a failed spin halves it, down to a 64th, and a successful one restores it.
///
/// With more waiters than processors, spinning only keeps the peer from running, and the budget adapts to
/// that. To detect a peer that answers in time but after the reduced budget, the full budget is retried
/// occasionally. Two sides that wait for each other with reduced budgets both sleep, and are late because
/// they sleep: early trials break that pattern, and increasingly rare ones keep the cost low where they fail.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    full_ns: u64,
    budget_ns: u64,
    failed_waits: u32,
    waits_to_trial: u32,
    waits_without_yield: u32,
}

impl Spin {
    /// Creates a budget of `full_ns` nanoseconds. With zero, a wait sleeps at once.
    #[must_use]
    pub const fn new(full_ns: u64) -> Self {
        let waits_to_trial = WAITS_TO_TRIAL;
        Spin { full_ns, budget_ns: full_ns, failed_waits: 0, waits_to_trial, waits_without_yield: 0 }
    }

    /// Calls `attempt` up to 32 times, or once with a budget of zero, without reading the clock.
    ///
    /// Inlined with a single call of `attempt`, so that `attempt` is compiled into the caller: this path lies
    /// between a message and its reply.
    #[inline(always)]
    pub fn poll_briefly<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        for poll in 0..self.brief_polls() {
            let found = attempt();
            if found.is_some() {
                self.record_success(poll);
                return found;
            }
            // Polling without a pause would take the line from a peer that is still filling it; see ADR 0069.
            tombolo_base::sync::delay_poll();
        }
        None
    }

    /// Returns the number of polls to make without reading the clock.
    #[inline(always)]
    #[must_use]
    pub fn brief_polls(&self) -> u32 {
        if self.full_ns == 0 { 1 } else { BRIEF_POLLS }
    }

    /// Records that one of those polls succeeded after `polls` failed ones.
    #[inline(always)]
    pub fn record_success(&mut self, polls: u32) {
        if polls > 0 {
            self.restore_budget();
        }
    }

    /// Calls `attempt` with `target` until it returns `Some`, the budget is spent or the clock reaches
    /// `deadline_ns`. Calls `yield_now` before each clock read but the first; after a slow yield it omits
    /// this for some waits, because the processor has other work.
    pub fn run<C: ?Sized, T>(
        &mut self,
        target: &mut C,
        deadline_ns: u64,
        now_ns: impl Fn(&C) -> u64,
        yield_now: impl Fn(&C),
        mut attempt: impl FnMut(&mut C) -> Option<T>,
    ) -> Option<T> {
        if self.full_ns == 0 {
            return None;
        }
        let start_ns = now_ns(target);
        let mut at_ns = start_ns;
        let yields = self.waits_without_yield == 0;
        self.waits_without_yield = self.waits_without_yield.saturating_sub(1);
        loop {
            if at_ns >= deadline_ns {
                return None;
            }
            if at_ns - start_ns >= self.budget_ns {
                self.reduce_budget();
                return None;
            }
            for _ in 0..POLLS_PER_CLOCK {
                tombolo_base::sync::spin_hint();
                let found = attempt(target);
                if found.is_some() {
                    self.restore_budget();
                    return found;
                }
            }
            let before_ns = at_ns;
            if yields {
                yield_now(target);
            }
            at_ns = now_ns(target);
            if yields && at_ns - before_ns > SLOW_YIELD_NS {
                self.waits_without_yield = WAITS_WITHOUT_YIELD;
            }
        }
    }

    fn restore_budget(&mut self) {
        *self = Spin { waits_without_yield: self.waits_without_yield, ..Spin::new(self.full_ns) };
    }

    fn reduce_budget(&mut self) {
        self.failed_waits += 1;
        self.budget_ns = (self.budget_ns / 2).max(self.full_ns / 64);
        if self.failed_waits == self.waits_to_trial {
            self.budget_ns = self.full_ns;
            self.failed_waits = 0;
            self.waits_to_trial = (2 * self.waits_to_trial).min(MAX_WAITS_TO_TRIAL);
        }
    }
}

impl Default for Spin {
    fn default() -> Self {
        Spin::new(DEFAULT_SPIN_NS)
    }
}

/// Calls `attempt` until it returns `Some`. Returns `None` after `timeout`.
///
/// The timeout starts after the first few failed attempts, so that these need no clock.
///
/// # Errors
/// Same as [`Waiter::sleep`] and [`Waiter::finish_sleep`].
#[inline]
pub fn until<W: Waiter, T>(
    waiter: &mut W,
    spin: &mut Spin,
    timeout: Duration,
    mut attempt: impl FnMut(&mut W) -> Option<T>,
) -> Result<Option<T>, W::Error> {
    let found = spin.poll_briefly(|| attempt(waiter));
    if found.is_some() {
        return Ok(found);
    }
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = waiter.now_ns().saturating_add(timeout_ns);
    loop {
        let found = spin.run(waiter, deadline_ns, W::now_ns, W::yield_now, &mut attempt);
        if found.is_some() {
            return Ok(found);
        }
        if waiter.now_ns() >= deadline_ns {
            return Ok(attempt(waiter));
        }
        sleep(waiter, deadline_ns)?;
        let found = attempt(waiter);
        if found.is_some() {
            return Ok(found);
        }
    }
}

/// Sleeps until the awaited condition may hold or the clock reaches `until_ns`. Does not sleep if the
/// condition already holds.
///
/// # Errors
/// Same as [`Waiter::sleep`] and [`Waiter::finish_sleep`].
pub fn sleep<W: Waiter>(waiter: &mut W, until_ns: u64) -> Result<(), W::Error> {
    if waiter.announce() == Announced::NeedsBarrier {
        waiter.barrier();
    }
    let slept = if waiter.may_sleep() { waiter.sleep(until_ns) } else { Ok(()) };
    let finished = waiter.finish_sleep();
    slept.and(finished)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Returns a clock that advances by a nanosecond with each read.
    fn clock(now_ns: &core::cell::Cell<u64>) -> u64 {
        now_ns.set(now_ns.get() + 1);
        now_ns.get()
    }

    fn run<T>(spin: &mut Spin, deadline_ns: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        spin.run(&mut core::cell::Cell::new(0), deadline_ns, clock, |_| {}, |_| attempt())
    }

    fn fail_to_wait(spin: &mut Spin) {
        assert_eq!(run(spin, u64::MAX, || None::<()>), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it computes, and takes long to interpret")]
    fn spin_budget_halves_after_failures_and_recovers() {
        let mut spin = Spin::new(6_400);
        for expected_ns in [3_200, 1_600, 800, 400, 200, 100, 100] {
            fail_to_wait(&mut spin);
            assert_eq!(spin.budget_ns, expected_ns);
        }
        assert_eq!(run(&mut spin, u64::MAX, || Some(5)), Some(5));
        assert_eq!(spin.budget_ns, 6_400);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it computes, and takes long to interpret")]
    fn full_budget_is_retried_with_increasing_intervals() {
        let mut spin = Spin::new(640);
        let mut trials_of = |waits: u32| {
            let trials = (1..=waits).filter(|_| {
                fail_to_wait(&mut spin);
                spin.budget_ns == 640
            });
            trials.collect::<Vec<u32>>()
        };
        assert_eq!(trials_of(1008), [16, 48, 112, 240, 496, 752, 1008]);
        assert_eq!(run(&mut spin, u64::MAX, || Some(5)), Some(5));
        let again = (1..=48).filter(|_| {
            fail_to_wait(&mut spin);
            spin.budget_ns == 640
        });
        assert_eq!(again.collect::<Vec<u32>>(), [16, 48]);
    }

    #[test]
    fn spin_ends_after_its_budget_or_at_the_deadline() {
        let mut polls = 0;
        // Starts at 1, and is read again after every few polls.
        assert_eq!(run(&mut Spin::new(3), u64::MAX, || count_poll(&mut polls)), None);
        assert_eq!(polls, 3 * POLLS_PER_CLOCK);
        polls = 0;
        assert_eq!(run(&mut Spin::new(1 << 40), 3, || count_poll(&mut polls)), None);
        assert_eq!(polls, 2 * POLLS_PER_CLOCK);
    }

    #[test]
    fn spin_yields_before_each_further_clock_read() {
        let (mut yields, mut polls) = (core::cell::Cell::new(0), 0);
        let now_ns = |yields: &core::cell::Cell<u64>| yields.get();
        let yield_now = |yields: &core::cell::Cell<u64>| yields.set(yields.get() + 1);
        let attempt = |_: &mut core::cell::Cell<u64>| {
            polls += 1;
            None::<()>
        };
        assert_eq!(Spin::new(3).run(&mut yields, u64::MAX, now_ns, yield_now, attempt), None);
        assert_eq!((yields.get(), polls), (3, 3 * POLLS_PER_CLOCK));
    }

    #[test]
    fn slow_yield_suspends_yielding_for_some_waits() {
        let mut spin = Spin::new(1 << 40);
        // Each yield lets another program compute for a millisecond.
        let yields = |spin: &mut Spin, polls: u32| {
            let (mut count, mut left) = (core::cell::Cell::new(0_u64), polls);
            let now_ns = |count: &core::cell::Cell<u64>| count.get() * 1_000_000;
            let yield_now = |count: &core::cell::Cell<u64>| count.set(count.get() + 1);
            let attempt = |_: &mut core::cell::Cell<u64>| {
                left -= 1;
                (left == 0).then_some(())
            };
            assert_eq!(spin.run(&mut count, u64::MAX, now_ns, yield_now, attempt), Some(()));
            count.get()
        };
        assert_eq!(yields(&mut spin, POLLS_PER_CLOCK + 1), 1);
        for _ in 0..WAITS_WITHOUT_YIELD {
            assert_eq!(yields(&mut spin, 3 * POLLS_PER_CLOCK), 0);
        }
        assert_eq!(yields(&mut spin, POLLS_PER_CLOCK + 1), 1);
    }

    #[test]
    fn brief_poll_that_succeeds_late_restores_the_budget() {
        let mut spin = Spin::new(640);
        fail_to_wait(&mut spin);
        assert_eq!(spin.poll_briefly(|| Some(5)), Some(5));
        assert_eq!(spin.budget_ns, 320, "it was there already, which says nothing about waiting");
        let mut polls = 0;
        let found = spin.poll_briefly(|| {
            polls += 1;
            (polls == BRIEF_POLLS).then_some(6)
        });
        assert_eq!((found, spin.budget_ns), (Some(6), 640));
    }

    #[test]
    fn zero_budget_polls_once_and_past_deadline_never() {
        let mut polls = 0;
        assert_eq!(Spin::new(0).poll_briefly(|| count_poll(&mut polls)), None);
        assert_eq!(run(&mut Spin::new(0), u64::MAX, || count_poll(&mut polls)), None);
        assert_eq!(polls, 1);
        assert_eq!(run(&mut Spin::new(1 << 40), 1, || count_poll(&mut polls)), None);
        assert_eq!(polls, 1);
    }

    fn count_poll(polls: &mut u32) -> Option<()> {
        *polls += 1;
        None
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Step {
        Announced,
        Barrier,
        LastPoll,
        Slept(u64),
        Awake,
    }

    /// Records the steps of a sleep, which lasts until the deadline.
    struct RecordedSteps {
        now_ns: u64,
        lacks: Announced,
        may_sleep: bool,
        refusal: Option<&'static str>,
        steps: Vec<Step>,
    }

    fn recorded(lacks: Announced, may_sleep: bool) -> RecordedSteps {
        RecordedSteps { now_ns: 7, lacks, may_sleep, refusal: None, steps: Vec::new() }
    }

    impl Waiter for RecordedSteps {
        type Error = &'static str;

        fn now_ns(&self) -> u64 {
            self.now_ns
        }

        fn announce(&mut self) -> Announced {
            self.steps.push(Step::Announced);
            self.lacks
        }

        fn barrier(&mut self) {
            self.steps.push(Step::Barrier);
        }

        fn may_sleep(&mut self) -> bool {
            self.steps.push(Step::LastPoll);
            self.may_sleep
        }

        fn sleep(&mut self, until_ns: u64) -> Result<(), &'static str> {
            self.steps.push(Step::Slept(until_ns));
            self.now_ns = until_ns;
            self.refusal.map_or(Ok(()), Err)
        }

        fn finish_sleep(&mut self) -> Result<(), &'static str> {
            self.steps.push(Step::Awake);
            Ok(())
        }
    }

    #[test]
    fn a_sleep_is_announced_and_followed_by_a_last_poll() {
        let mut waiter = recorded(Announced::NeedsBarrier, true);
        sleep(&mut waiter, 9).unwrap();
        let steps = [Step::Announced, Step::Barrier, Step::LastPoll, Step::Slept(9), Step::Awake];
        assert_eq!(waiter.steps, steps);

        let mut waiter = recorded(Announced::Complete, false);
        sleep(&mut waiter, 9).unwrap();
        assert_eq!(waiter.steps, [Step::Announced, Step::LastPoll, Step::Awake]);
    }

    #[test]
    fn refused_sleep_is_disarmed() {
        let mut waiter =
            RecordedSteps { refusal: Some("no descriptors"), ..recorded(Announced::Complete, true) };
        assert_eq!(sleep(&mut waiter, 9), Err("no descriptors"));
        assert_eq!(waiter.steps.last(), Some(&Step::Awake));
    }

    #[test]
    fn a_wait_ends_with_an_attempt_after_the_deadline() {
        let mut waiter = recorded(Announced::Complete, true);
        let mut attempts = 0;
        let waited = until(&mut waiter, &mut Spin::new(0), Duration::from_nanos(5), |waiter| {
            attempts += 1;
            waiter.steps.push(Step::LastPoll);
            None::<()>
        });
        assert_eq!(waited, Ok(None));
        // One at first, one after the sleep, and one after the deadline.
        assert_eq!(attempts, 3);
        let slept = waiter.steps.iter().filter(|step| matches!(step, Step::Slept(12))).count();
        assert_eq!(slept, 1, "{:?}", waiter.steps);
    }

    #[test]
    fn successful_wait_reads_no_clock() {
        let mut waiter = recorded(Announced::Complete, true);
        let found = until(&mut waiter, &mut Spin::new(640), LONG, |_| Some(5));
        assert_eq!((found, waiter.steps.len()), (Ok(Some(5)), 0));
        let mut after_sleep = recorded(Announced::Complete, true);
        let found = until(&mut after_sleep, &mut Spin::new(0), LONG, |waiter| {
            waiter.steps.contains(&Step::Awake).then_some(6)
        });
        assert_eq!(found, Ok(Some(6)));
    }
}
