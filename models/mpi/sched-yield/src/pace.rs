//! When a thread that waits should ask the kernel to run another thread.

/// After this many questions in a row that let no other thread run, the thread is taken to be alone.
const QUESTIONS_IN_VAIN: u32 = 32;

/// Questions in vain are this many times as far apart as one takes, in the long run.
const PATIENCE: u64 = 16;

/// At most this long between two questions, so that a thread that is started meanwhile is noticed.
const MAX_GAP_NS: u64 = 50_000;

/// A thread looks at most this many times for a message before it asks: some microseconds, about what it
/// takes to get the processor back.
const MAX_LOOKS: u32 = 64;

/// Looks that are tried again after [`WAITS_PER_TRIAL`] waits in which looking was of no use.
const TRIAL_LOOKS: u32 = 8;
const WAITS_PER_TRIAL: u32 = 16;

/// How often a thread looks for what it waits for before it lets others run.
///
/// A message whose sender runs on another processor comes within some looks, and to let others run meanwhile
/// costs the turn. One whose sender waits for this processor never comes by looking. So waits that ended by
/// looking allow more looks, and the others fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    allowed: u32,
    /// Looks in vain since something was found.
    taken: u32,
    /// Waits since the last that was allowed any.
    waits: u32,
}

impl Looks {
    pub(crate) const NEW: Looks = Looks { allowed: MAX_LOOKS, taken: 0, waits: 0 };

    /// Notes that the last look found something: the next wait begins.
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

    /// Notes a look in vain. Whether to look again at once.
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
        // This wait stays one that was too long.
        self.taken = u32::MAX;
        false
    }
}

/// What a pace is kept by. Asked for only where it is needed, for each takes a part of what a question does.
pub(crate) trait Processor {
    /// The time, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Lets another thread run, if one wants to.
    fn ask(&self);
    /// How often this thread has lost its processor so far.
    fn switches(&self) -> u64;
}

/// What a thread knows of its processor: whether others want it.
///
/// While they do, every call asks. After some questions that let no other thread run, the next is put off,
/// twice as long each time, up to sixteen times what a question takes, until anybody has run in this thread's
/// place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long questions are put off; 0 while every call asks.
    gap_ns: u64,
    due_ns: u64,
    /// Questions since it was looked whether they helped.
    questions: u32,
    switches: u64,
}

impl Pace {
    pub(crate) const NEW: Pace = Pace { gap_ns: 0, due_ns: 0, questions: 0, switches: 0 };

    /// A thread has nothing to do for the moment.
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

    /// A processor on which a look takes 100 ns and a question 400.
    struct Pretended<F> {
        now_ns: Cell<u64>,
        questions: Cell<u64>,
        /// Maps the number of questions so far to how often the thread has lost the processor.
        switches: F,
    }

    impl<F: Fn(u64) -> u64> Pretended<F> {
        fn new(switches: F) -> Pretended<F> {
            Pretended { now_ns: Cell::new(1), questions: Cell::new(0), switches }
        }

        /// How often it is asked in the time to come.
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

    /// How often a thread asks in `waits` waits of `looks_a_wait` looks each.
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
        // A clock that goes back, or ends, is no reason to stop.
        processor.0.set(u64::MAX - 10);
        pace.idle(&processor);
        pace.idle(&processor);
    }
}
