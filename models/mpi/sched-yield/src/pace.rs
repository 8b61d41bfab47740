//! Decides when a waiting thread asks the kernel to run another thread.

/// Number of consecutive yields without another thread running after which the thread counts as alone.
const QUESTIONS_IN_VAIN: u32 = 32;

/// Final interval between fruitless yields, as a multiple of the duration of one.
const PATIENCE: u64 = 16;

/// Maximum interval between two yields, so that a thread that becomes runnable is noticed.
const MAX_GAP_NS: u64 = 50_000;

/// Maximum number of polls for a message before a thread yields: some microseconds, about the time that it
/// takes to get the processor back.
const MAX_LOOKS: u32 = 64;

/// Number of polls allowed again on trial, after [`WAITS_PER_TRIAL`] waits without any.
const TRIAL_LOOKS: u32 = 8;
const WAITS_PER_TRIAL: u32 = 16;

/// Adaptive number of polls before a thread lets others run.
///
/// A message from a sender on another processor arrives within a few polls, and yielding meanwhile would cost
/// the time slice. A message from a sender that waits for this processor never arrives by polling. So waits
/// that ended by polling allow more polls, and the others fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    allowed: u32,
    /// Fruitless polls since something was found.
    taken: u32,
    /// Waits since the last one that was allowed any polls.
    waits: u32,
}

impl Looks {
    pub(crate) const NEW: Looks = Looks { allowed: MAX_LOOKS, taken: 0, waits: 0 };

    /// Notes that the last poll found something, which begins the next wait.
    #[inline]
    pub(crate) fn found(&mut self) {
        if self.allowed == 0 {
            self.waits += 1;
            if self.waits >= WAITS_PER_TRIAL {
                self.waits = 0;
                self.allowed = TRIAL_LOOKS;
            }
        } else if self.taken <= self.allowed {
            self.allowed = (self.allowed * 2).min(MAX_LOOKS);
        }
        self.taken = 0;
    }

    /// Notes a fruitless poll. Returns whether to poll again at once.
    #[inline]
    pub(crate) fn may_look_again(&mut self) -> bool {
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
pub(crate) trait Processor {
    /// Returns the time, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Lets another thread run, if one wants to.
    fn ask(&self);
    /// Returns the number of context switches of this thread so far.
    fn switches(&self) -> u64;
}

/// Adaptive yield interval of a thread, which depends on whether other threads want its processor.
///
/// While they do, every call yields. After some yields without another thread running, the next one is
/// deferred, twice as long each time, up to sixteen times the duration of a yield, until another thread has
/// run in place of this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Interval between yields; 0 while every call yields.
    gap_ns: u64,
    due_ns: u64,
    /// Yields since the last check of the context switches.
    questions: u32,
    switches: u64,
}

impl Pace {
    pub(crate) const NEW: Pace = Pace { gap_ns: 0, due_ns: 0, questions: 0, switches: 0 };

    /// Called when the thread has nothing to do. Yields if it is time.
    #[inline]
    pub(crate) fn idle(&mut self, processor: &impl Processor) {
        if self.gap_ns == 0 {
            self.questions += 1;
            if self.questions < QUESTIONS_IN_VAIN {
                return processor.ask();
            }
            self.questions = 0;
        }
        let before_ns = processor.now_ns();
        if before_ns < self.due_ns {
            return std::hint::spin_loop();
        }
        processor.ask();
        let after_ns = processor.now_ns();
        let switches = processor.switches();
        let is_alone = switches == self.switches;
        self.switches = switches;
        let took_ns = after_ns.saturating_sub(before_ns).max(1);
        let longer_ns = self.gap_ns.saturating_mul(2).max(took_ns);
        let most_ns = took_ns.saturating_mul(PATIENCE).min(MAX_GAP_NS);
        self.gap_ns = if is_alone { longer_ns.min(most_ns) } else { 0 };
        self.due_ns = if is_alone { after_ns.saturating_add(self.gap_ns) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Simulated processor on which a poll takes 100 ns and a yield 400 ns.
    struct Pretended<F> {
        now_ns: Cell<u64>,
        questions: Cell<u64>,
        /// Maps the number of yields so far to the number of context switches.
        switches: F,
    }

    impl<F: Fn(u64) -> u64> Pretended<F> {
        fn new(switches: F) -> Pretended<F> {
            Pretended { now_ns: Cell::new(1), questions: Cell::new(0), switches }
        }

        /// Returns the number of yields in the next `length_ns`.
        fn questions_in(&self, pace: &mut Pace, length_ns: u64) -> u64 {
            let (until_ns, before) = (self.now_ns.get() + length_ns, self.questions.get());
            while self.now_ns.get() < until_ns {
                pace.idle(self);
                self.now_ns.set(self.now_ns.get() + 100);
            }
            self.questions.get() - before
        }
    }

    impl<F: Fn(u64) -> u64> Processor for Pretended<F> {
        fn now_ns(&self) -> u64 {
            self.now_ns.get()
        }

        fn ask(&self) {
            self.now_ns.set(self.now_ns.get() + 400);
            self.questions.set(self.questions.get() + 1);
        }

        fn switches(&self) -> u64 {
            (self.switches)(self.questions.get())
        }
    }

    /// Returns how often a thread yields in `waits` waits of `looks_a_wait` polls each.
    fn asked(looks: &mut Looks, waits: u32, looks_a_wait: u32) -> u32 {
        let mut asked = 0;
        for _ in 0..waits {
            asked += (0..looks_a_wait).filter(|_| !looks.may_look_again()).count() as u32;
            looks.found();
        }
        asked
    }

    #[test]
    fn what_comes_soon_is_not_asked_for() {
        assert_eq!(asked(&mut { Looks::NEW }, 1000, MAX_LOOKS), 0);
    }

    #[test]
    fn what_does_not_come_by_looking_is_asked_for_at_once() {
        let mut looks = Looks::NEW;
        asked(&mut looks, 100, 1000);
        let in_vain = 16_000 * 1000 - asked(&mut looks, 16_000, 1000);
        assert!(in_vain <= 1000 * 2 * TRIAL_LOOKS, "{in_vain} looks in 16,000 waits");
    }

    #[test]
    fn a_sender_that_gets_a_processor_is_noticed() {
        let mut looks = Looks::NEW;
        asked(&mut looks, 100, 1000);
        asked(&mut looks, 100, 4);
        assert_eq!(asked(&mut looks, 1000, MAX_LOOKS), 0);
    }

    #[test]
    fn a_message_may_take_for_ever() {
        let mut looks = Looks::NEW;
        looks.taken = u32::MAX - 1;
        assert!((0..10).all(|_| !looks.may_look_again()));
    }

    #[test]
    fn who_is_alone_asks_ever_less() {
        let asked = Pretended::new(|_| 0).questions_in(&mut { Pace::NEW }, 1_000_000);
        // 400 ns each, then 6.4 us apart: not 2,000 in a millisecond.
        assert!((130..200).contains(&asked), "{asked}");
    }

    #[test]
    fn who_is_not_alone_asks_at_every_call() {
        for questions_a_switch in [1, 10, 31] {
            let asked = Pretended::new(|asked| asked / questions_a_switch)
                .questions_in(&mut { Pace::NEW }, 1_000_000);
            assert_eq!(asked, 2_000, "a switch after {questions_a_switch}");
        }
    }

    #[test]
    fn who_comes_later_is_noticed() {
        let mut pace = Pace::NEW;
        let processor = Pretended::new(|asked| asked.saturating_sub(200));
        processor.questions_in(&mut pace, 1_000_000);
        processor.questions_in(&mut pace, 1_000_000);
        assert_eq!(processor.questions_in(&mut pace, 1_000_000), 2_000);
    }

    #[test]
    fn questions_that_take_long_are_never_far_apart() {
        struct Slow(Cell<u64>);
        impl Processor for Slow {
            fn now_ns(&self) -> u64 {
                self.0.get()
            }
            fn ask(&self) {
                self.0.set(self.0.get().saturating_add(1_000_000));
            }
            fn switches(&self) -> u64 {
                0
            }
        }
        let (mut pace, processor) = (Pace::NEW, Slow(Cell::new(1)));
        for _ in 0..200 {
            pace.idle(&processor);
            processor.0.set(processor.0.get() + MAX_GAP_NS);
        }
        assert_eq!(processor.0.get(), 1 + 200 * (1_000_000 + MAX_GAP_NS), "each call asked");
        // A clock that goes back or overflows must not stop the yields.
        processor.0.set(u64::MAX - 10);
        pace.idle(&processor);
        pace.idle(&processor);
    }
}
