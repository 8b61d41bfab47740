//! Round-trip times: sampling, histograms and summaries.
//!
//! Reading the clock costs about 20 ns and its resolution is 10 ns on many machines, while a round trip may
//! take 120 ns. So the typical values (`p50`, `mean`) come from batches of round trips timed as one, and the
//! tail (`p99`, `p99.9`) from round trips timed individually, in alternation. The cost of the clock, measured
//! beforehand, is subtracted from both. The ring and its physical limit are sampled in the same way.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Round trips per batch; the same number is timed individually after it.
pub(crate) const BATCH: u32 = 16;

/// Round trips per cycle: a batch and those timed individually after it.
pub(crate) const CYCLE_ROUNDS: u64 = 2 * BATCH as u64;

/// Number of warm-up round trips, for caches and branch predictors; fewer if they are slow.
const WARM_UP: u32 = 500;
/// Upper bound of the warm-up time.
const WARM_UP_TIME: Duration = Duration::from_millis(2);

/// Clock with the measured cost of reading it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    cost_ps: u64,
}

impl Clock {
    pub(crate) fn calibrate() -> Clock {
        const READS: u64 = 20_000;
        // The minimum of several runs, so that an interruption is not counted as clock cost.
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

    /// Times `rounds` calls as one batch and returns picoseconds per call.
    #[inline(always)]
    fn time<E>(self, rounds: u32, round: &mut impl FnMut() -> Result<(), E>) -> Result<u64, E> {
        let start = Instant::now();
        for _ in 0..rounds {
            round()?;
        }
        Ok(self.each_ps(picoseconds(start.elapsed()), rounds))
    }

    /// Returns the time of each of `rounds` round trips that were timed as one.
    fn each_ps(self, elapsed_ps: u64, rounds: u32) -> u64 {
        elapsed_ps.saturating_sub(self.cost_ps) / u64::from(rounds)
    }
}

fn picoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000)
}

/// Histograms of round-trip times, in picoseconds.
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

    /// Samples round trips for `length`, after a warm-up.
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

    /// Samples `cycles` cycles of [`CYCLE_ROUNDS`] round trips. The caller has done the warm-up.
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

    /// Samples one cycle: a batch, then the same number timed individually.
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

    /// Samples `rounds` round trips that are slow enough to be timed individually.
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

    /// Adds a cycle that was timed elsewhere in the same way, with the cost of the clock still included.
    pub(crate) fn add_cycle(&mut self, clock: Clock, batch_ns: u64, singles_ns: impl Iterator<Item = u64>) {
        self.batches.saturating_record(clock.each_ps(batch_ns * 1000, BATCH));
        for single_ns in singles_ns {
            self.singles.saturating_record(clock.each_ps(single_ns * 1000, 1));
        }
        self.rounds += CYCLE_ROUNDS;
    }

    pub(crate) fn add(&mut self, other: &Samples) {
        // All histograms here have the same bounds, so adding cannot fail.
        let _ = self.batches.add(&other.batches);
        let _ = self.singles.add(&other.singles);
        self.rounds += other.rounds;
    }

    pub(crate) fn p50_ns(&self) -> f64 {
        self.batches.value_at_quantile(0.5) as f64 / 1000.0
    }

    /// Returns percentiles and mean, or `None` without samples.
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

/// Creates a histogram from one picosecond to one minute, with three significant digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000_000, 3).expect("constant bounds, used by every test")
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Percentiles of a latency, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Median of the samples.
    pub p50: f64,
    /// 99th percentile of the samples.
    pub p99: f64,
    /// 99.9th percentile of the samples.
    pub p999: f64,
    /// Arithmetic mean, including interruptions.
    pub mean: f64,
    /// Number of round trips measured.
    pub rounds: u64,
}

/// Messages per second, over the slices of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    /// Median over the slices.
    pub p50: f64,
    /// Rate that 99 of 100 slices reached: with fewer than 100 slices, that of the slowest.
    pub p99: f64,
    /// Total messages divided by total time.
    pub mean: f64,
    /// Number of messages sent, received and checked.
    pub messages: u64,
}

/// Number of messages and elapsed time of each slice.
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

    /// Returns the rates, or `None` if nothing was sent.
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

/// Times in ascending order.
pub(crate) struct Ordered(pub(crate) Vec<u64>);

impl Ordered {
    pub(crate) fn new(mut times: Vec<u64>) -> Ordered {
        times.sort_unstable();
        Ordered(times)
    }

    /// Returns the quantile `share` (0 to 1); 0 if there are no times.
    pub(crate) fn at(&self, share: f64) -> u64 {
        let rank = (self.0.len() as f64 * share) as usize;
        self.0.get(rank.min(self.0.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the median of sorted values: the middle one, or the mean of the middle two.
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
    fn out_of_range_samples_saturate() {
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
