//! Round-trip times: how they are taken, kept and summed up.
//!
//! Reading the clock costs some 20 ns and on many machines its steps are 10 ns, while a round trip may take
//! 120 ns. So what is typical (`p50`, `mean`) is taken over batches of round trips timed as one, and what is
//! rare (`p99`, `p99.9`) over round trips timed singly, in alternation. The cost of the clock, measured
//! before, is taken off both. It is done in the same way for the ring and for the limit beneath it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Round trips timed as one; as many are timed singly after them.
pub(crate) const BATCH: u32 = 16;

/// Round trips of a batch and of those timed singly after it.
pub(crate) const CYCLE_ROUNDS: u64 = 2 * BATCH as u64;

/// Round trips before the first that counts, for caches and branch predictors; fewer where they are slow.
const WARM_UP: u32 = 500;
/// How long warming up may take.
const WARM_UP_TIME: Duration = Duration::from_millis(2);

/// The clock, and what it costs to read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    cost_ps: u64,
}

impl Clock {
    pub(crate) fn calibrate() -> Clock {
        const READS: u64 = 20_000;
        // The best of several, so that an interruption is not taken for the clock.
        let cost_ps = (0..5).map(|_| {
            let start = Instant::now();
            for _ in 0..READS {
                std::hint::black_box(Instant::now());
            }
            picoseconds(start.elapsed()) / READS
        });
        Clock { cost_ps: cost_ps.min().unwrap_or(0) }
    }

    pub(crate) fn cost_ns(self) -> f64 {
        tenths(self.cost_ps as f64 / 1000.0)
    }

    /// Times `rounds` calls as one; picoseconds each.
    #[inline(always)]
    fn time<E>(self, rounds: u32, round: &mut impl FnMut() -> Result<(), E>) -> Result<u64, E> {
        let start = Instant::now();
        for _ in 0..rounds {
            round()?;
        }
        Ok(self.each_ps(picoseconds(start.elapsed()), rounds))
    }

    /// What each of `rounds` took that were timed as one.
    fn each_ps(self, elapsed_ps: u64, rounds: u32) -> u64 {
        elapsed_ps.saturating_sub(self.cost_ps) / u64::from(rounds)
    }
}

fn picoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

/// Times of round trips, in picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// Averages of batches.
    batches: Histogram<u64>,
    singles: Histogram<u64>,
    rounds: u64,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        Samples { batches: histogram(), singles: histogram(), rounds: 0 }
    }

    /// Round trips for `length`, after a few that do not count.
    #[inline(always)]
    pub(crate) fn take<E>(
        clock: Clock,
        length: Duration,
        mut round: impl FnMut() -> Result<(), E>,
    ) -> Result<Samples, E> {
        let mut samples = Samples::new();
        let start = Instant::now();
        for _ in 0..WARM_UP {
            round()?;
            if start.elapsed() > WARM_UP_TIME {
                break;
            }
        }
        let start = Instant::now();
        while start.elapsed() < length {
            samples.take_cycle(clock, &mut round)?;
        }
        Ok(samples)
    }

    /// [`CYCLE_ROUNDS`] times `cycles` round trips, of which the caller has warmed up.
    #[inline(always)]
    pub(crate) fn take_cycles<E>(
        clock: Clock,
        cycles: u64,
        mut round: impl FnMut() -> Result<(), E>,
    ) -> Result<Samples, E> {
        let mut samples = Samples::new();
        for _ in 0..cycles {
            samples.take_cycle(clock, &mut round)?;
        }
        Ok(samples)
    }

    /// A batch, and as many timed singly.
    #[inline(always)]
    fn take_cycle<E>(&mut self, clock: Clock, round: &mut impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let batch_ps = clock.time(BATCH, round)?;
        self.batches.saturating_record(batch_ps);
        for _ in 0..BATCH {
            let single_ps = clock.time(1, round)?;
            self.singles.saturating_record(single_ps);
        }
        self.rounds += CYCLE_ROUNDS;
        Ok(())
    }

    /// `rounds` round trips so slow that each can be timed alone.
    pub(crate) fn take_singly<E>(
        clock: Clock,
        rounds: u64,
        mut round: impl FnMut() -> Result<(), E>,
    ) -> Result<Samples, E> {
        let mut samples = Samples::new();
        for _ in 0..rounds {
            let single_ps = clock.time(1, &mut round)?;
            samples.batches.saturating_record(single_ps);
            samples.singles.saturating_record(single_ps);
            samples.rounds += 1;
        }
        Ok(samples)
    }

    /// A batch and the singles after it, timed elsewhere in the same way; the cost of the clock is not yet
    /// taken off.
    pub(crate) fn add_cycle(&mut self, clock: Clock, batch_ns: u64, singles_ns: impl Iterator<Item = u64>) {
        self.batches.saturating_record(clock.each_ps(batch_ns * 1000, BATCH));
        for single_ns in singles_ns {
            self.singles.saturating_record(clock.each_ps(single_ns * 1000, 1));
        }
        self.rounds += CYCLE_ROUNDS;
    }

    pub(crate) fn add(&mut self, other: &Samples) {
        // All histograms here have the same bounds, so that adding cannot fail.
        let _ = self.batches.add(&other.batches);
        let _ = self.singles.add(&other.singles);
        self.rounds += other.rounds;
    }

    pub(crate) fn p50_ns(&self) -> f64 {
        self.batches.value_at_quantile(0.5) as f64 / 1000.0
    }

    /// `None` without samples.
    pub(crate) fn summary(&self) -> Option<Latency> {
        let quantile = |quantile| tenths(self.singles.value_at_quantile(quantile) as f64 / 1000.0);
        (self.rounds > 0).then(|| Latency {
            p50: tenths(self.p50_ns()),
            p99: quantile(0.99),
            p999: quantile(0.999),
            mean: tenths(self.batches.mean() / 1000.0),
            rounds: self.rounds,
        })
    }
}

/// From a picosecond to a minute, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000_000, 3).expect("constant bounds, used by every test")
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Percentiles of a time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1000 took no longer.
    pub p999: f64,
    /// The arithmetic mean, interruptions included.
    pub mean: f64,
    /// How many were measured.
    pub rounds: u64,
}

/// How many messages arrive per second, over the slices of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    /// Half of the slices were as fast.
    pub p50: f64,
    /// 99 of 100 slices were as fast: with fewer than a hundred, the slowest.
    pub p99: f64,
    /// All messages over all the time.
    pub mean: f64,
    /// How many messages were sent, received and checked.
    pub messages: u64,
}

/// Messages and the time they took, by slice.
#[derive(Clone, Default, Debug)]
pub(crate) struct Flow {
    slices: Vec<(u64, Duration)>,
}

impl Flow {
    pub(crate) fn add(&mut self, messages: u64, elapsed: Duration) {
        if messages > 0 && !elapsed.is_zero() {
            self.slices.push((messages, elapsed));
        }
    }

    /// `None` when nothing was sent.
    pub(crate) fn summary(&self) -> Option<Rate> {
        let rates = self.slices.iter().map(|(messages, elapsed)| *messages as f64 / elapsed.as_secs_f64());
        let rates = sorted(rates.collect());
        let messages = self.slices.iter().map(|(messages, _)| messages).sum::<u64>();
        let elapsed = self.slices.iter().map(|(_, elapsed)| elapsed).sum::<Duration>();
        Some(Rate {
            p50: median(&rates)?.round(),
            p99: rates.get(rates.len() / 100)?.round(),
            mean: (messages as f64 / elapsed.as_secs_f64()).round(),
            messages,
        })
    }
}

/// Times in order.
pub(crate) struct Ordered(pub(crate) Vec<u64>);

impl Ordered {
    pub(crate) fn new(mut times: Vec<u64>) -> Ordered {
        times.sort_unstable();
        Ordered(times)
    }

    /// The time that this share of all do not exceed; 0 of none.
    pub(crate) fn at(&self, share: f64) -> u64 {
        let rank = (self.0.len() as f64 * share) as usize;
        self.0.get(rank.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values, or of the two in the middle.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Error;

    #[test]
    fn percentiles_are_of_batches_and_of_singles() {
        let mut samples = Samples::new();
        for index in 1..=1000_u64 {
            samples.batches.saturating_record(index * 1000);
            samples.singles.saturating_record(index * 2000);
        }
        samples.rounds = 2000;
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
        let summary = samples.summary().expect("there are some");
        assert!(close(summary.p50, 500.0), "{summary:?}");
        assert!(close(summary.mean, 500.5), "{summary:?}");
        assert!(close(summary.p99, 1980.0), "{summary:?}");
        assert!(close(summary.p999, 1998.0), "{summary:?}");

        let mut both = samples.clone();
        both.add(&samples);
        assert_eq!(both.summary().expect("there are some").p50, summary.p50);
        assert_eq!(both.rounds, 4000);
        assert_eq!(Samples::new().summary(), None);
    }

    #[test]
    fn what_is_out_of_range_is_kept_as_the_longest() {
        let mut samples = Samples::new();
        samples.singles.saturating_record(u64::MAX);
        samples.rounds = 1;
        assert!(samples.summary().expect("there is one").p99 >= 60e9);
    }

    #[test]
    fn a_slice_counts_its_rounds_and_passes_errors_on() {
        let clock = Clock::calibrate();
        let mut calls = 0;
        let mut count = || {
            calls += 1;
            Ok::<(), Error>(())
        };
        let samples = Samples::take(clock, Duration::from_millis(1), &mut count).expect("nothing fails");
        let singly = Samples::take_singly(clock, 10, &mut count).expect("nothing fails");
        assert!(samples.rounds >= 32 && samples.rounds + singly.rounds < calls);
        assert_eq!(singly.rounds, 10);

        let fail = || Err::<(), _>(Error::Corrupt { message: 3 });
        assert!(Samples::take(clock, Duration::from_millis(1), fail).is_err());
    }

    #[test]
    fn rates_are_summed_up_by_slice() {
        let mut flow = Flow::default();
        assert_eq!(flow.summary(), None);
        flow.add(0, Duration::from_secs(1));
        for messages in [100, 300, 200, 1000] {
            flow.add(messages, Duration::from_secs(1));
        }
        let rate = flow.summary().expect("there are some");
        assert_eq!((rate.p50, rate.p99, rate.mean, rate.messages), (250.0, 100.0, 400.0, 1600));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0]), Some(1.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&sorted(vec![9.0, 1.0, 3.0])), Some(3.0));
    }
}
