//! Timers in order of their deadlines. The clock is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Token;

/// Expiration times of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// First expiration, in nanoseconds of the monotonic clock.
    pub first_ns: u64,
    /// Period after the first expiration, in nanoseconds. The timer is one-shot if `None` or zero.
    pub period_ns: Option<u64>,
}

impl Schedule {
    /// Creates a one-shot schedule, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn once(at_ns: u64) -> Self {
        Schedule { first_ns: at_ns, period_ns: None }
    }

    /// Creates a periodic schedule that first expires one period after `now_ns`. Periods are counted from
    /// there, so a delay does not shift later ones.
    #[must_use]
    pub fn every(period: Duration, now_ns: u64) -> Self {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Schedule { first_ns: now_ns.saturating_add(period_ns), period_ns: Some(period_ns) }
    }
}

/// Active timers, the next one first. Setting, unsetting and expiring take logarithmic time; checking whether
/// one is due takes constant time.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_due_time: BTreeMap<(u64, Token), Option<u64>>,
}

impl Timers {
    pub(super) fn set(&mut self, token: Token, schedule: Schedule) {
        self.by_due_time.insert((schedule.first_ns, token), schedule.period_ns.filter(|period| *period > 0));
    }

    /// Unsets a timer. `due_ns` must be the time that it was last set to.
    pub(super) fn unset(&mut self, token: Token, due_ns: u64) {
        self.by_due_time.remove(&(due_ns, token));
    }

    /// Returns when the next timer is due.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.by_due_time.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }

    /// Removes the next timer that is due by `now_ns`. Returns how many times it expired since it was set or
    /// last popped, and when it is due again.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<(Token, u64, Option<u64>)> {
        let ((due_ns, token), period_ns) =
            self.by_due_time.first_key_value().map(|(key, value)| (*key, *value))?;
        if due_ns > now_ns {
            return None;
        }
        self.by_due_time.pop_first();
        let Some(period_ns) = period_ns else { return Some((token, 1, None)) };
        let times = (now_ns - due_ns) / period_ns + 1;
        let again_ns = due_ns.saturating_add(times.saturating_mul(period_ns));
        self.by_due_time.insert((again_ns, token), Some(period_ns));
        Some((token, times, Some(again_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u32) -> Token {
        Token { index: number, generation: 0 }
    }

    #[test]
    fn timers_expire_in_order_and_once() {
        let mut timers = Timers::default();
        for (number, at_ns) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            timers.set(token(number), Schedule::once(at_ns));
        }
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        let mut gone = Vec::new();
        while let Some((token, 1, None)) = timers.pop_due(20) {
            gone.push(token.index);
        }
        assert_eq!(gone, [2, 4, 3]);
        assert_eq!(timers.next_ns(), Some(30));
        timers.unset(token(1), 30);
        assert_eq!((timers.next_ns(), timers.pop_due(u64::MAX)), (None, None));
    }

    #[test]
    fn periods_do_not_drift_and_missed_ones_are_counted() {
        let mut timers = Timers::default();
        timers.set(token(5), Schedule::every(Duration::from_nanos(100), 1_000));
        assert_eq!(timers.pop_due(1_099), None);
        assert_eq!(timers.pop_due(1_130), Some((token(5), 1, Some(1_200))));
        assert_eq!(timers.pop_due(1_130), None);
        assert_eq!(timers.pop_due(1_555), Some((token(5), 4, Some(1_600))));
        assert_eq!(timers.pop_due(1_600), Some((token(5), 1, Some(1_700))));
    }

    #[test]
    fn clock_overflow_and_no_period_are_handled() {
        let mut timers = Timers::default();
        timers.set(token(1), Schedule { first_ns: 0, period_ns: Some(0) });
        assert_eq!(timers.pop_due(u64::MAX), Some((token(1), 1, None)));
        timers.set(token(1), Schedule::every(Duration::MAX, 5));
        assert_eq!(timers.next_ns(), Some(u64::MAX));
        assert_eq!(timers.pop_due(u64::MAX), Some((token(1), 1, Some(u64::MAX))));
    }
}
