//! Decides when a waiting thread asks the kernel to run another thread.

/// Number of consecutive yields without another thread running after which the thread counts as alone.
const YIELDS_PER_CHECK: u32 = 32;

/// Final interval between fruitless yields, as a multiple of the duration of one.
const MAX_GAP_FACTOR: u64 = 16;

/// Maximum interval between two yields, so that a thread that becomes runnable is noticed.
const MAX_GAP_NS: u64 = 50_000;

/// Maximum number of polls for a message before a thread yields: some microseconds, about the time that it
/// takes to get the processor back.
const MAX_POLLS: u32 = 64;

/// Number of polls allowed again on trial, after [`WAITS_PER_TRIAL`] waits without any.
const TRIAL_POLLS: u32 = 8;
const WAITS_PER_TRIAL: u32 = 16;

/// Adaptive number of polls before a thread lets others run.
///
/// A message from a sender on another processor arrives within a few polls, and yielding meanwhile would cost
/// the time slice. A message from a sender that waits for this processor never arrives by polling. So waits
/// that ended by polling allow more polls, and the others fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBudget {
    allowed: u32,
    /// Fruitless polls since something was found.
    taken: u32,
    /// Waits since the last one that was allowed any polls.
    waits: u32,
}

impl PollBudget {
    pub(crate) const NEW: PollBudget = PollBudget { allowed: MAX_POLLS, taken: 0, waits: 0 };

    /// Notes that the last poll found something, which begins the next wait.
    #[inline]
    pub(crate) fn poll_succeeded(&mut self) {
        if self.allowed == 0 {
            self.waits += 1;
            if self.waits >= WAITS_PER_TRIAL {
                self.waits = 0;
                self.allowed = TRIAL_POLLS;
            }
        } else if self.taken <= self.allowed {
            self.allowed = (self.allowed * 2).min(MAX_POLLS);
        }
        self.taken = 0;
    }

    /// Notes a fruitless poll. Returns whether to poll again at once.
    #[inline]
    pub(crate) fn should_poll_again(&mut self) -> bool {
        if self.taken > self.allowed {
            return false;
        }
        self.taken += 1;
        if self.taken <= self.allowed {
            return true;
        }
        self.allowed /= 2;
        // No more polls in this wait.
        self.taken = u32::MAX;
        false
    }
}

/// Access to the clock and the scheduler. Each call costs a fraction of a yield, so it is made only when
/// needed.
pub(crate) trait Scheduler {
    /// Returns the time, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Lets another thread run, if one wants to.
    fn yield_now(&self);
    /// Returns the number of context switches of this thread so far.
    fn switches(&self) -> u64;
}

/// Adaptive yield interval of a thread, which depends on whether other threads want its processor.
///
/// While they do, every call yields. After some yields without another thread running, the next one is
/// deferred, twice as long each time, up to sixteen times the duration of a yield, until another thread has
/// run in place of this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct YieldPacer {
    /// Interval between yields; 0 while every call yields.
    gap_ns: u64,
    due_ns: u64,
    /// Yields since the last check of the context switches.
    yields: u32,
    switches: u64,
}

impl YieldPacer {
    pub(crate) const NEW: YieldPacer = YieldPacer { gap_ns: 0, due_ns: 0, yields: 0, switches: 0 };

    /// Called when the thread has nothing to do. Yields if it is time.
    #[inline]
    pub(crate) fn idle(&mut self, scheduler: &impl Scheduler) {
        if self.gap_ns == 0 {
            self.yields += 1;
            if self.yields < YIELDS_PER_CHECK {
                return scheduler.yield_now();
            }
            self.yields = 0;
        }
        let before_ns = scheduler.now_ns();
        if before_ns < self.due_ns {
            return std::hint::spin_loop();
        }
        scheduler.yield_now();
        let after_ns = scheduler.now_ns();
        let switches = scheduler.switches();
        let is_alone = switches == self.switches;
        self.switches = switches;
        let took_ns = after_ns.saturating_sub(before_ns).max(1);
        let longer_ns = self.gap_ns.saturating_mul(2).max(took_ns);
        let max_gap_ns = took_ns.saturating_mul(MAX_GAP_FACTOR).min(MAX_GAP_NS);
        self.gap_ns = if is_alone { longer_ns.min(max_gap_ns) } else { 0 };
        self.due_ns = if is_alone { after_ns.saturating_add(self.gap_ns) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Simulated scheduler on which a poll takes 100 ns and a yield 400 ns.
    struct SimulatedScheduler<F> {
        now_ns: Cell<u64>,
        yields: Cell<u64>,
        /// Maps the number of yields so far to the number of context switches.
        switches: F,
    }

    impl<F: Fn(u64) -> u64> SimulatedScheduler<F> {
        fn new(switches: F) -> SimulatedScheduler<F> {
            SimulatedScheduler { now_ns: Cell::new(1), yields: Cell::new(0), switches }
        }

        /// Returns the number of yields in the next `length_ns`.
        fn yields_in(&self, pacer: &mut YieldPacer, length_ns: u64) -> u64 {
            let (until_ns, before) = (self.now_ns.get() + length_ns, self.yields.get());
            while self.now_ns.get() < until_ns {
                pacer.idle(self);
                self.now_ns.set(self.now_ns.get() + 100);
            }
            self.yields.get() - before
        }
    }

    impl<F: Fn(u64) -> u64> Scheduler for SimulatedScheduler<F> {
        fn now_ns(&self) -> u64 {
            self.now_ns.get()
        }

        fn yield_now(&self) {
            self.now_ns.set(self.now_ns.get() + 400);
            self.yields.set(self.yields.get() + 1);
        }

        fn switches(&self) -> u64 {
            (self.switches)(self.yields.get())
        }
    }

    /// Returns how often a thread yields in `waits` waits of `polls_per_wait` polls each.
    fn yield_count(poll_budget: &mut PollBudget, waits: u32, polls_per_wait: u32) -> u32 {
        let mut yield_count = 0;
        for _ in 0..waits {
            yield_count += (0..polls_per_wait).filter(|_| !poll_budget.should_poll_again()).count() as u32;
            poll_budget.poll_succeeded();
        }
        yield_count
    }

    #[test]
    fn no_yield_if_messages_arrive_soon() {
        assert_eq!(yield_count(&mut { PollBudget::NEW }, 1000, MAX_POLLS), 0);
    }

    #[test]
    fn fruitless_polling_soon_stops() {
        let mut poll_budget = PollBudget::NEW;
        yield_count(&mut poll_budget, 100, 1000);
        let fruitless_polls = 16_000 * 1000 - yield_count(&mut poll_budget, 16_000, 1000);
        assert!(fruitless_polls <= 1000 * 2 * TRIAL_POLLS, "{fruitless_polls} polls in 16,000 waits");
    }

    #[test]
    fn polling_resumes_once_it_succeeds_again() {
        let mut poll_budget = PollBudget::NEW;
        yield_count(&mut poll_budget, 100, 1000);
        yield_count(&mut poll_budget, 100, 4);
        assert_eq!(yield_count(&mut poll_budget, 1000, MAX_POLLS), 0);
    }

    #[test]
    fn poll_count_does_not_overflow() {
        let mut poll_budget = PollBudget::NEW;
        poll_budget.taken = u32::MAX - 1;
        assert!((0..10).all(|_| !poll_budget.should_poll_again()));
    }

    #[test]
    fn lone_thread_yields_less_and_less() {
        let yield_count = SimulatedScheduler::new(|_| 0).yields_in(&mut { YieldPacer::NEW }, 1_000_000);
        // 400 ns each, then 6.4 us apart: not 2,000 in a millisecond.
        assert!((130..200).contains(&yield_count), "{yield_count}");
    }

    #[test]
    fn thread_with_competitors_yields_at_every_call() {
        for yields_per_switch in [1, 10, 31] {
            let yield_count = SimulatedScheduler::new(|yield_count| yield_count / yields_per_switch)
                .yields_in(&mut { YieldPacer::NEW }, 1_000_000);
            assert_eq!(yield_count, 2_000, "a switch after {yields_per_switch}");
        }
    }

    #[test]
    fn new_competitor_is_noticed() {
        let mut pacer = YieldPacer::NEW;
        let scheduler = SimulatedScheduler::new(|yield_count| yield_count.saturating_sub(200));
        scheduler.yields_in(&mut pacer, 1_000_000);
        scheduler.yields_in(&mut pacer, 1_000_000);
        assert_eq!(scheduler.yields_in(&mut pacer, 1_000_000), 2_000);
    }

    #[test]
    fn gap_between_slow_yields_is_bounded() {
        struct Slow(Cell<u64>);
        impl Scheduler for Slow {
            fn now_ns(&self) -> u64 {
                self.0.get()
            }
            fn yield_now(&self) {
                self.0.set(self.0.get().saturating_add(1_000_000));
            }
            fn switches(&self) -> u64 {
                0
            }
        }
        let (mut pacer, scheduler) = (YieldPacer::NEW, Slow(Cell::new(1)));
        for _ in 0..200 {
            pacer.idle(&scheduler);
            scheduler.0.set(scheduler.0.get() + MAX_GAP_NS);
        }
        assert_eq!(scheduler.0.get(), 1 + 200 * (1_000_000 + MAX_GAP_NS), "each call asked");
        // A clock that goes back or overflows must not stop the yields.
        scheduler.0.set(u64::MAX - 10);
        pacer.idle(&scheduler);
        pacer.idle(&scheduler);
    }
}
