//! Waiting with a deadline for whatever may end a sleep: look a few times, spin for about the cost of a wake, then sleep.
//!
//! The clock, the sleep and what is waited for are the caller's ([`Waiter`]): on Linux any number of channels of any
//! transport, on a board any number of its ends.

use core::time::Duration;

use crate::end::Announced;

/// How long to spin before sleeping, in nanoseconds: about what it costs to be woken by another processor
/// through an operating system. Spinning longer than a wake costs wastes more than it can save.
pub const DEFAULT_SPIN_NS: u64 = 50_000;

/// Looks in quick succession before anything else, a hundred nanoseconds of them: an answer from a processor that shares a cache
/// comes within these. The processor's hint for a loop that spins would double the time between two looks.
const LOOKS_AT_ONCE: u32 = 32;

/// Polls between two looks at the clock, which costs as much as a poll of a ring or more.
const POLLS_PER_LOOK: u32 = 16;

/// Vain waits after which the whole budget is tried once more, at first and at most: twice as many after each trial that was
/// in vain, too.
const WAITS_TO_TRIAL: u32 = 16;
const MAX_WAITS_TO_TRIAL: u32 = 256;

/// What a thread waits for, and how it sleeps meanwhile.
pub trait Waiter {
    /// Why it cannot sleep.
    type Error;

    /// Nanoseconds on a clock that never goes back.
    fn now_ns(&self) -> u64;

    /// Announces to every peer that this thread is about to sleep.
    fn announce(&mut self) -> Announced;

    /// Makes every processor that may run a peer execute a full barrier, where an announcement lacks that.
    fn barrier(&mut self);

    /// The last look before the sleep: false when what is waited for came meanwhile.
    fn may_sleep(&mut self) -> bool;

    /// Sleeps until a peer rings or is gone, or the clock shows `until_ns`.
    ///
    /// # Errors
    /// What the operating system answered.
    fn sleep(&mut self, until_ns: u64) -> Result<(), Self::Error>;

    /// Takes the announcements back, and takes note of what ended the sleep, if there was one.
    ///
    /// # Errors
    /// What the monitor said that makes no sense.
    fn awake(&mut self) -> Result<(), Self::Error>;
}

/// A budget that fades: spinning in vain halves it, down to a 64th, and spinning with success restores it.
///
/// With more waiters than processors, spinning only keeps the peer from running; the budget finds that out. A
/// peer that does answer in time, but later than the faded budget, is found out by trying the whole now and then. Two that
/// wait for each other with faded budgets both sleep, and are late because they sleep: trials soon are what wakes such a pair,
/// and trials that get rare are what keeps them cheap where they find nothing.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    full_ns: u64,
    budget_ns: u64,
    vain_waits: u32,
    waits_to_trial: u32,
}

impl Spin {
    /// A budget of `full_ns`; zero sleeps at once.
    #[must_use]
    pub const fn new(full_ns: u64) -> Self {
        Spin { full_ns, budget_ns: full_ns, vain_waits: 0, waits_to_trial: WAITS_TO_TRIAL }
    }

    /// Calls `attempt` a few times, or once if there is no budget, without a look at the clock.
    ///
    /// From one place, so that what is attempted is compiled into its caller: it is what lies between a message and its
    /// answer.
    #[inline(always)]
    pub fn poll_briefly<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let looks = if self.full_ns == 0 { 1 } else { LOOKS_AT_ONCE };
        for look in 0..looks {
            let found = attempt();
            if found.is_some() {
                if look > 0 {
                    self.restore();
                }
                return found;
            }
        }
        None
    }

    /// Calls `attempt` with `target` until it gives something, the budget is spent or the clock of `now_ns` shows
    /// `deadline_ns`.
    pub fn run<C: ?Sized, T>(
        &mut self,
        target: &mut C,
        deadline_ns: u64,
        now_ns: impl Fn(&C) -> u64,
        mut attempt: impl FnMut(&mut C) -> Option<T>,
    ) -> Option<T> {
        if self.full_ns == 0 {
            return None;
        }
        let start_ns = now_ns(target);
        let mut at_ns = start_ns;
        loop {
            if at_ns >= deadline_ns {
                return None;
            }
            if at_ns - start_ns >= self.budget_ns {
                self.fade();
                return None;
            }
            for _ in 0..POLLS_PER_LOOK {
                tombolo_base::sync::spin_hint();
                let found = attempt(target);
                if found.is_some() {
                    self.restore();
                    return found;
                }
            }
            at_ns = now_ns(target);
        }
    }

    fn restore(&mut self) {
        *self = Spin::new(self.full_ns);
    }

    fn fade(&mut self) {
        self.vain_waits += 1;
        self.budget_ns = (self.budget_ns / 2).max(self.full_ns / 64);
        if self.vain_waits == self.waits_to_trial {
            self.budget_ns = self.full_ns;
            self.vain_waits = 0;
            self.waits_to_trial = (2 * self.waits_to_trial).min(MAX_WAITS_TO_TRIAL);
        }
    }
}

impl Default for Spin {
    fn default() -> Self {
        Spin::new(DEFAULT_SPIN_NS)
    }
}

/// Calls `attempt` until it gives something; `None` when `timeout` passed.
///
/// The time starts when the first few attempts were in vain, so that those cost no look at the clock.
///
/// # Errors
/// As [`Waiter::sleep`] and [`Waiter::awake`].
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
        let found = spin.run(waiter, deadline_ns, W::now_ns, &mut attempt);
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

/// Sleeps until what is waited for may be there or the clock shows `until_ns`; not at all when it is there already.
///
/// # Errors
/// As [`Waiter::sleep`] and [`Waiter::awake`].
pub fn sleep<W: Waiter>(waiter: &mut W, until_ns: u64) -> Result<(), W::Error> {
    if waiter.announce() == Announced::NeedsBarrier {
        waiter.barrier();
    }
    let slept = if waiter.may_sleep() { waiter.sleep(until_ns) } else { Ok(()) };
    let awake = waiter.awake();
    slept.and(awake)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A clock that goes on by a nanosecond with each look at it.
    fn clock(now_ns: &core::cell::Cell<u64>) -> u64 {
        now_ns.set(now_ns.get() + 1);
        now_ns.get()
    }

    fn run<T>(spin: &mut Spin, deadline_ns: u64, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        spin.run(&mut core::cell::Cell::new(0), deadline_ns, clock, |_| attempt())
    }

    fn wait_in_vain(spin: &mut Spin) {
        assert_eq!(run(spin, u64::MAX, || None::<()>), None);
    }

    #[test]
    fn a_budget_fades_and_comes_back() {
        let mut spin = Spin::new(6_400);
        for expected_ns in [3_200, 1_600, 800, 400, 200, 100, 100] {
            wait_in_vain(&mut spin);
            assert_eq!(spin.budget_ns, expected_ns);
        }
        assert_eq!(run(&mut spin, u64::MAX, || Some(5)), Some(5));
        assert_eq!(spin.budget_ns, 6_400);
    }

    #[test]
    fn the_whole_budget_is_tried_soon_and_then_ever_less_often() {
        let mut spin = Spin::new(640);
        let mut trials_of = |waits: u32| {
            let trials = (1..=waits).filter(|_| {
                wait_in_vain(&mut spin);
                spin.budget_ns == 640
            });
            trials.collect::<Vec<u32>>()
        };
        assert_eq!(trials_of(1008), [16, 48, 112, 240, 496, 752, 1008]);
        assert_eq!(run(&mut spin, u64::MAX, || Some(5)), Some(5));
        let again = (1..=48).filter(|_| {
            wait_in_vain(&mut spin);
            spin.budget_ns == 640
        });
        assert_eq!(again.collect::<Vec<u32>>(), [16, 48]);
    }

    #[test]
    fn a_budget_is_spent_on_the_clock_and_not_past_the_deadline() {
        let mut looks = 0;
        // Begun at 1, and asked again after each few polls.
        assert_eq!(run(&mut Spin::new(3), u64::MAX, || looks_at(&mut looks)), None);
        assert_eq!(looks, 3 * POLLS_PER_LOOK);
        looks = 0;
        assert_eq!(run(&mut Spin::new(1 << 40), 3, || looks_at(&mut looks)), None);
        assert_eq!(looks, 2 * POLLS_PER_LOOK);
    }

    #[test]
    fn a_glance_restores_the_budget_when_it_had_to_look_again() {
        let mut spin = Spin::new(640);
        wait_in_vain(&mut spin);
        assert_eq!(spin.poll_briefly(|| Some(5)), Some(5));
        assert_eq!(spin.budget_ns, 320, "it was there already, which says nothing about waiting");
        let mut looks = 0;
        let found = spin.poll_briefly(|| {
            looks += 1;
            (looks == LOOKS_AT_ONCE).then_some(6)
        });
        assert_eq!((found, spin.budget_ns), (Some(6), 640));
    }

    #[test]
    fn no_budget_is_one_look_and_a_deadline_that_passed_none() {
        let mut looks = 0;
        assert_eq!(Spin::new(0).poll_briefly(|| looks_at(&mut looks)), None);
        assert_eq!(run(&mut Spin::new(0), u64::MAX, || looks_at(&mut looks)), None);
        assert_eq!(looks, 1);
        assert_eq!(run(&mut Spin::new(1 << 40), 1, || looks_at(&mut looks)), None);
        assert_eq!(looks, 1);
    }

    fn looks_at(looks: &mut u32) -> Option<()> {
        *looks += 1;
        None
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Step {
        Announced,
        Barrier,
        LastLook,
        Slept(u64),
        Awake,
    }

    /// Notes the steps of a sleep, which takes it to the deadline.
    struct Noted {
        now_ns: u64,
        lacks: Announced,
        may_sleep: bool,
        refusal: Option<&'static str>,
        steps: Vec<Step>,
    }

    fn noted(lacks: Announced, may_sleep: bool) -> Noted {
        Noted { now_ns: 7, lacks, may_sleep, refusal: None, steps: Vec::new() }
    }

    impl Waiter for Noted {
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
            self.steps.push(Step::LastLook);
            self.may_sleep
        }

        fn sleep(&mut self, until_ns: u64) -> Result<(), &'static str> {
            self.steps.push(Step::Slept(until_ns));
            self.now_ns = until_ns;
            self.refusal.map_or(Ok(()), Err)
        }

        fn awake(&mut self) -> Result<(), &'static str> {
            self.steps.push(Step::Awake);
            Ok(())
        }
    }

    #[test]
    fn a_sleep_is_announced_and_looked_through_once_more() {
        let mut waiter = noted(Announced::NeedsBarrier, true);
        sleep(&mut waiter, 9).unwrap();
        let steps = [Step::Announced, Step::Barrier, Step::LastLook, Step::Slept(9), Step::Awake];
        assert_eq!(waiter.steps, steps);

        let mut waiter = noted(Announced::Complete, false);
        sleep(&mut waiter, 9).unwrap();
        assert_eq!(waiter.steps, [Step::Announced, Step::LastLook, Step::Awake]);
    }

    #[test]
    fn a_sleep_that_is_refused_is_taken_back() {
        let mut waiter = Noted { refusal: Some("no descriptors"), ..noted(Announced::Complete, true) };
        assert_eq!(sleep(&mut waiter, 9), Err("no descriptors"));
        assert_eq!(waiter.steps.last(), Some(&Step::Awake));
    }

    #[test]
    fn a_wait_ends_with_an_attempt_after_the_deadline() {
        let mut waiter = noted(Announced::Complete, true);
        let mut attempts = 0;
        let waited = until(&mut waiter, &mut Spin::new(0), Duration::from_nanos(5), |waiter| {
            attempts += 1;
            waiter.steps.push(Step::LastLook);
            None::<()>
        });
        assert_eq!(waited, Ok(None));
        // At first, after the sleep, and when the time had passed.
        assert_eq!(attempts, 3);
        let slept = waiter.steps.iter().filter(|step| matches!(step, Step::Slept(12))).count();
        assert_eq!(slept, 1, "{:?}", waiter.steps);
    }

    #[test]
    fn a_wait_that_finds_something_looks_at_no_clock() {
        let mut waiter = noted(Announced::Complete, true);
        let found = until(&mut waiter, &mut Spin::new(640), LONG, |_| Some(5));
        assert_eq!((found, waiter.steps.len()), (Ok(Some(5)), 0));
        let mut after_sleep = noted(Announced::Complete, true);
        let found = until(&mut after_sleep, &mut Spin::new(0), LONG, |waiter| {
            waiter.steps.contains(&Step::Awake).then_some(6)
        });
        assert_eq!(found, Ok(Some(6)));
    }
}
