//! Measures one metric slice by slice, each between two probes of the processors' distance.

use std::time::Duration;

use super::session::{Session, Usage};
use super::work::{Counted, Work};
use super::{Error, Metric, Schedule};
use crate::sample::{CYCLE_ROUNDS, Samples};

/// Maximum ratio of the probes before and after a slice; beyond it, the processors were moved in between.
pub(super) const STEADY_RATIO: f64 = 1.25;

/// Maximum share of the time that a side may be kept from its processor; beyond it, the slice is repeated.
pub(super) const DISTURBED_SHARE: f64 = 0.02;

/// Result of one slice.
#[derive(Clone, Debug)]
pub(super) enum SliceResult {
    Times(Samples),
    /// `amount` messages or bytes in `elapsed_ns` nanoseconds.
    Flow {
        amount: u64,
        elapsed_ns: u64,
    },
    Number(f64),
}

/// Slice with the conditions around it.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) result: SliceResult,
    /// Round trips of the bare lines before and after, in nanoseconds.
    pub(super) probes_ns: [f64; 2],
    pub(super) waited_share: f64,
    /// Share of all messages that had to ring a sleeping peer.
    pub(super) ring_share: f64,
}

impl Slice {
    pub(super) fn probe_ns(&self) -> f64 {
        f64::midpoint(self.probes_ns[0], self.probes_ns[1])
    }

    /// Returns whether the distance of the processors stayed the same.
    pub(super) fn steady(&self) -> bool {
        let [before, after] = self.probes_ns;
        before.max(after) <= STEADY_RATIO * before.min(after)
    }

    pub(super) fn disturbed(&self) -> bool {
        self.waited_share > DISTURBED_SHARE
    }
}

/// Slices of a metric.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    pub(super) kept: Vec<Slice>,
    /// Number of slices repeated because the processors were moved.
    pub(super) moved: u32,
    /// Number of slices repeated because other programs held a processor.
    pub(super) disturbed: u32,
}

/// Takes all slices of `metric`.
pub(super) fn take(session: &mut Session<'_>, metric: Metric, schedule: &Schedule) -> Result<Slices, Error> {
    let mut slices = Slices::default();
    match metric {
        Metric::Open => {
            for _ in 0..schedule.slices * OPENINGS {
                let opened_ns = session.open(metric)?;
                session.close()?;
                slices.kept.push(number(opened_ns as f64));
            }
        }
        Metric::Memory => {
            // Enough messages to touch every slot of a ring.
            let use_it = Work::RoundTrips { bytes: 8, warm: 0, cycles: 4 };
            // The first channel allocates what all others share.
            session.open(metric)?;
            session.work(use_it)?;
            let before = session.resident_bytes()?;
            for _ in 0..CHANNELS {
                session.open(metric)?;
                session.work(use_it)?;
            }
            let after = session.resident_bytes()?;
            session.close()?;
            slices.kept.push(number(after.saturating_sub(before) as f64 / f64::from(CHANNELS)));
        }
        Metric::Idle => {
            session.open(metric)?;
            let (before, length) = (session.usage()?, schedule.slice.max(IDLE));
            let after = session.wake_after(length)?;
            session.close()?;
            let used_ns = after.far_cpu_ns.saturating_sub(before.far_cpu_ns);
            slices.kept.push(number(used_ns as f64 / length.as_nanos() as f64));
        }
        Metric::SystemCalls => {
            session.open(metric)?;
            let rounds = find_rounds(session, schedule.slice)?;
            for _ in 0..schedule.slices {
                slices.kept.push(number(session.count_calls(rounds)?));
            }
            session.close()?;
        }
        _ => {
            session.open(metric)?;
            let size = find_size(session, metric, schedule.slice)?;
            for _ in 0..schedule.slices {
                take_steady(session, metric, size, schedule.retries, &mut slices)?;
            }
            session.close()?;
        }
    }
    Ok(slices)
}

/// Number of channels opened per slice, and in total for the memory metric.
const OPENINGS: u32 = 4;
const CHANNELS: u32 = 16;

/// Minimum observation time of an idle program.
const IDLE: Duration = Duration::from_millis(300);

fn number(value: f64) -> Slice {
    Slice { result: SliceResult::Number(value), probes_ns: [0.0; 2], waited_share: 0.0, ring_share: 0.0 }
}

/// Repeats a slice until it is steady and undisturbed, or until the retries are used up; then the last is
/// kept.
fn take_steady(
    session: &mut Session<'_>,
    metric: Metric,
    size: u64,
    retries: u32,
    slices: &mut Slices,
) -> Result<(), Error> {
    for retry in 0..=retries {
        let slice = take_one(session, metric, size)?;
        let (steady, disturbed) = (slice.steady(), slice.disturbed());
        if retry == retries || (steady && !disturbed) {
            slices.kept.push(slice);
            break;
        }
        slices.moved += u32::from(!steady);
        slices.disturbed += u32::from(disturbed);
    }
    Ok(())
}

/// Takes one slice, retrying until it is steady if possible.
pub(super) fn steady(
    session: &mut Session<'_>,
    metric: Metric,
    length: Duration,
    retries: u32,
) -> Result<Slice, Error> {
    let size = find_size(session, metric, length)?;
    let mut slices = Slices::default();
    take_steady(session, metric, size, retries, &mut slices)?;
    slices.kept.pop().ok_or(Error::Unsupported)
}

fn take_one(session: &mut Session<'_>, metric: Metric, size: u64) -> Result<Slice, Error> {
    let before = session.probe()?;
    let used_before = session.usage()?;
    let started_ns = tombolo_platform::time::now_ns();
    let (samples, used) = session.work(work(metric, size))?;
    let length_ns = tombolo_platform::time::now_ns() - started_ns;
    let after = session.probe()?;
    Ok(Slice {
        result: slice_result(metric, size, samples, used),
        probes_ns: [before.p50_ns(), after.p50_ns()],
        waited_share: waited_share(used_before, used, length_ns),
        ring_share: (used.rings - used_before.rings) as f64 / messages(work(metric, size)).max(1) as f64,
    })
}

fn waited_share(before: Usage, after: Usage, length_ns: u64) -> f64 {
    let waited = before.waited_ns.iter().zip(after.waited_ns).map(|(b, a)| a.saturating_sub(*b));
    waited.max().unwrap_or(0) as f64 / length_ns.max(1) as f64
}

/// Returns the work of a slice with `size` rounds, messages or buffers.
fn work(metric: Metric, size: u64) -> Work {
    let warm = (size / 8).clamp(1, 4096);
    match metric {
        Metric::RoundTrip { bytes } | Metric::Call { bytes } => {
            Work::RoundTrips { bytes, warm, cycles: size.div_ceil(CYCLE_ROUNDS) }
        }
        Metric::Transfer { .. } => Work::Transfers { warm, cycles: size.div_ceil(CYCLE_ROUNDS) },
        Metric::Rate { bytes, batch } => Work::Stream { bytes, batch, warm, messages: size },
        Metric::Bandwidth { bytes } => Work::Bulk { bytes, warm, messages: size },
        Metric::WakeUp
        | Metric::Copy { .. }
        | Metric::Delivery { .. }
        | Metric::Idle
        | Metric::Memory
        | Metric::Open
        | Metric::SystemCalls => Work::Singles { bytes: 8, rounds: size },
    }
}

/// Returns the number of messages in both directions together.
fn messages(work: Work) -> u64 {
    match work {
        Work::RoundTrips { warm, cycles, .. } | Work::Transfers { warm, cycles } => {
            2 * (warm + cycles * CYCLE_ROUNDS)
        }
        Work::Singles { rounds, .. } => 2 * rounds,
        Work::Stream { warm, messages, .. } => warm + messages,
        // Each buffer takes two messages: there and back.
        Work::Bulk { warm, messages, .. } => 2 * (warm + messages),
    }
}

fn slice_result(metric: Metric, size: u64, samples: Samples, used: Usage) -> SliceResult {
    match metric {
        Metric::Rate { .. } => SliceResult::Flow { amount: size, elapsed_ns: used.elapsed_ns },
        Metric::Bandwidth { bytes } => {
            SliceResult::Flow { amount: size * bytes as u64, elapsed_ns: used.elapsed_ns }
        }
        _ => SliceResult::Times(samples),
    }
}

/// Finds the number of round trips that fill a slice while system calls are counted.
fn find_rounds(session: &mut Session<'_>, slice: Duration) -> Result<Counted, Error> {
    const TRIAL: Counted = Counted { warm: 0, rounds: 128 };
    let started_ns = tombolo_platform::time::now_ns();
    session.count_calls(TRIAL)?;
    let took_ns = (tombolo_platform::time::now_ns() - started_ns).max(1);
    let fitting = u128::from(TRIAL.rounds) * slice.as_nanos() / u128::from(took_ns);
    let rounds = u64::try_from(fitting).unwrap_or(u64::MAX).clamp(16, 1 << 20);
    Ok(Counted { warm: 1000.min(rounds), rounds })
}

/// Finds the amount of work that fills a slice. The trials also serve as warm-up: the first are often slow
/// while memory of the previous measurement is being freed or both sides sleep.
fn find_size(session: &mut Session<'_>, metric: Metric, slice: Duration) -> Result<u64, Error> {
    const MAX_COUNT: u64 = 50_000_000;
    let mut size = match metric {
        Metric::Bandwidth { bytes } if bytes >= 64 << 20 => 2,
        Metric::Bandwidth { .. } => 4,
        _ => CYCLE_ROUNDS,
    };
    let mut told: Option<u64> = None;
    loop {
        let started_ns = tombolo_platform::time::now_ns();
        session.work(work(metric, size))?;
        let took_ns = (tombolo_platform::time::now_ns() - started_ns).max(1);
        let wanted_ns = slice.as_nanos() as u64;
        let fitting = (size as f64 * wanted_ns as f64 / took_ns as f64) as u64;
        // A trial of at least a quarter of a slice is conclusive, if repeating it with the extrapolated size
        // confirms the time; a shorter one is mostly start-up.
        let tells_enough = took_ns * 4 >= wanted_ns;
        if (tells_enough && told.is_some_and(|told| fitting <= 2 * told)) || size >= MAX_COUNT {
            return Ok(fitting.clamp(2, MAX_COUNT));
        }
        told = tells_enough.then_some(fitting);
        size =
            if tells_enough { fitting.max(2) } else { (size * 8).min(fitting.max(size + 1)) }.min(MAX_COUNT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_counted_once() {
        // Even a single round is a whole cycle with its warm-up.
        assert_eq!(messages(work(Metric::RoundTrip { bytes: 64 }, 2)), 2 * (1 + CYCLE_ROUNDS));
        assert_eq!(messages(work(Metric::WakeUp, 10)), 20);
        assert_eq!(messages(work(Metric::Rate { bytes: 64, batch: 1 }, 800)), 900);
        assert_eq!(messages(work(Metric::Bandwidth { bytes: 1 << 20 }, 8)), 18);
    }

    #[test]
    fn a_slice_is_steady_up_to_a_quarter() {
        let slice = |probes_ns| Slice { probes_ns, ..number(0.0) };
        assert!(slice([100.0, 125.0]).steady() && slice([125.0, 100.0]).steady());
        assert!(!slice([100.0, 126.0]).steady());
        let waiting = |waited_share| Slice { waited_share, ..number(0.0) };
        assert!(!waiting(DISTURBED_SHARE).disturbed() && waiting(DISTURBED_SHARE + 0.001).disturbed());
    }
}
