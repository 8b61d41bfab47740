//! The near side of a measurement: leads the peer and takes the times.

use std::time::{Duration, Instant};

use tombolo_bench_far::content::Aligned;
use tombolo_bench_far::lines::Lines;
use tombolo_bench_far::ring::command::{self, Command, SMALL_BYTES, USUAL_BYTES};
use tombolo_bench_far::ring::end::{STALL, recv_polling, send_polling};
use tombolo_bench_far::ring::lead::{end_peer, stream_back, stream_out};

use super::placed::{self, PlacedFigures};
use super::{End, Ends, Error, Schedule};
use crate::cpus;
use crate::sample::{Clock, Flow, Samples, median, sorted};

/// Parts measured for a link, repeated in this order: where a hypervisor moves processors, their distance
/// changes within seconds, so ratios are taken only of adjacent slices.
const CYCLE: [Part; 6] =
    [Part::Limit, Part::Usual, Part::Limit, Part::Small, Part::StreamOut, Part::StreamBack];

/// Maximum ratio of the limits around a slice; beyond it, the processors were moved in between.
const STEADY_RATIO: f64 = 1.25;

/// Number of trial rounds that determine the length of a slice of wake-ups.
const WAKE_PROBES: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Limit,
    Usual,
    Small,
    StreamOut,
    StreamBack,
}

/// Figures of a link.
pub(super) struct Figures {
    pub(super) limit: Samples,
    pub(super) small: Samples,
    pub(super) usual: Samples,
    pub(super) out: Flow,
    pub(super) back: Flow,
    pub(super) wake: Samples,
    /// Figures by placement of slots and credit.
    pub(super) placed: Vec<PlacedFigures>,
    /// Number of messages of `wake` that rang a sleeping peer.
    pub(super) rings: u64,
    /// Share of the time that a side was runnable but not running: the worse of both.
    pub(super) waited_share: f64,
    history: Vec<(Part, f64)>,
}

impl Figures {
    /// Returns the medians of the limit's slices, in the order in which they were taken.
    pub(super) fn limit_slices_ns(&self) -> Vec<f64> {
        self.history.iter().filter(|(part, _)| *part == Part::Limit).map(|(_, p50_ns)| *p50_ns).collect()
    }

    /// Returns the number of slices of 48-byte messages during which the processors were moved; they are
    /// excluded from ratios.
    pub(super) fn moved(&self) -> usize {
        ratios(&self.history, Part::Usual, false).len() - ratios(&self.history, Part::Usual, true).len()
    }

    /// Returns the ratio of each slice of 48-byte messages to the limit around it.
    pub(super) fn usual_ratios(&self) -> Vec<f64> {
        steady_or_all(&self.history, Part::Usual)
    }

    /// Returns the ratios of the slices of 8-byte messages.
    pub(super) fn small_ratios(&self) -> Vec<f64> {
        steady_or_all(&self.history, Part::Small)
    }
}

/// Returns the median ratio, or `None` if there is no limit to compare with.
pub(super) fn typical(ratios: Vec<f64>) -> Option<f64> {
    median(&sorted(ratios))
}

/// Returns the ratios of the steady slices, or of all if none is steady.
fn steady_or_all(history: &[(Part, f64)], part: Part) -> Vec<f64> {
    let steady = ratios(history, part, true);
    if steady.is_empty() { ratios(history, part, false) } else { steady }
}

/// Returns the median of each slice of `part` divided by the mean of the limit's slices right before and
/// after it; with `steady`, only if these two are nearly equal.
fn ratios(history: &[(Part, f64)], part: Part, steady: bool) -> Vec<f64> {
    let limit = |(part, p50_ns): &(Part, f64)| (*part == Part::Limit).then_some(*p50_ns);
    let ratio = |(index, (found, p50_ns)): (usize, &(Part, f64))| {
        let before = history[..index].iter().rev().find_map(limit);
        let after = history[index..].iter().find_map(limit);
        let limit_ns = match (before, after) {
            (Some(before), Some(after)) if steady && before.max(after) > STEADY_RATIO * before.min(after) => {
                return None;
            }
            (Some(before), Some(after)) => f64::midpoint(before, after),
            (before, after) => before.or(after)?,
        };
        (*found == part && limit_ns > 0.0).then_some(*p50_ns / limit_ns)
    };
    history.iter().enumerate().filter_map(ratio).collect()
}

/// Measures a link whose far side [serves](super::peer::serve), then ends that side.
///
/// # Errors
/// When a channel fails, the peer stalls, or something else than was sent comes back.
pub(super) fn measure<E: End>(
    ends: &mut Ends<E>,
    clock: Clock,
    schedule: &Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<Figures, Error> {
    let mut figures = Figures {
        limit: Samples::new(),
        small: Samples::new(),
        usual: Samples::new(),
        out: Flow::default(),
        back: Flow::default(),
        wake: Samples::new(),
        placed: Vec::new(),
        rings: 0,
        waited_share: 0.0,
        history: Vec::new(),
    };
    let (start, waited_before_ns) = (Instant::now(), cpus::waited_ns());
    for slice in 1..=2 * schedule.slices {
        progress(&format!("rings, slice {slice} of {}", schedule.slices));
        for part in CYCLE {
            figures.measure_part(part, ends, clock, schedule.slice)?;
        }
        // Takes the requested number of slices, and up to twice as many if the processors were moved in
        // between.
        let steady = ratios(&figures.history, Part::Usual, true).len();
        if slice >= schedule.slices && steady >= schedule.slices as usize {
            break;
        }
    }
    figures.measure_part(Part::Limit, ends, clock, schedule.slice)?;
    for slice in 1..=schedule.slices {
        progress(&format!("wake-ups, slice {slice} of {}", schedule.slices));
        figures.measure_wake(ends, clock, schedule.slice)?;
    }
    // Last, because it overwrites the memory.
    figures.placed = placed::measure(ends, clock, schedule, progress)?;
    let waited_ns = cpus::waited_ns().zip(waited_before_ns).map_or(0, |(now, before)| now - before);
    let waited_ns = waited_ns.max(end_peer(&mut ends.ring)?);
    figures.waited_share = waited_ns as f64 / start.elapsed().as_nanos() as f64;
    Ok(figures)
}

impl Figures {
    fn measure_part<E: End>(
        &mut self,
        part: Part,
        ends: &mut Ends<E>,
        clock: Clock,
        slice: Duration,
    ) -> Result<(), Error> {
        let (samples, total) = match part {
            Part::Limit => match limit(ends, clock, slice)? {
                None => return Ok(()),
                Some(samples) => (samples, &mut self.limit),
            },
            Part::Usual => (echo::<USUAL_BYTES>(&mut ends.ring, clock, slice)?, &mut self.usual),
            Part::Small => (echo::<SMALL_BYTES>(&mut ends.ring, clock, slice)?, &mut self.small),
            Part::StreamOut => {
                let (messages, elapsed) = stream_out::<USUAL_BYTES>(&mut ends.ring, slice)?;
                self.out.add(messages, elapsed);
                return Ok(());
            }
            Part::StreamBack => {
                let (messages, elapsed) = stream_back::<USUAL_BYTES>(&mut ends.ring, slice)?;
                self.back.add(messages, elapsed);
                return Ok(());
            }
        };
        total.add(&samples);
        self.history.push((part, samples.p50_ns()));
        Ok(())
    }

    /// Measures round trips between two sleeping sides, for about as long as a slice.
    fn measure_wake<E: End>(
        &mut self,
        ends: &mut Ends<E>,
        clock: Clock,
        slice: Duration,
    ) -> Result<(), Error> {
        let probe = wake(ends, clock, WAKE_PROBES)?;
        let rounds = (slice.as_nanos() as f64 / probe.p50_ns().max(1.0)) as u64;
        let rung_before = ends.wake.rings();
        let samples = wake(ends, clock, rounds.max(WAKE_PROBES))?;
        self.rings += ends.wake.rings() - rung_before;
        self.wake.add(&samples);
        Ok(())
    }
}

/// Samples round trips of the bare cache lines; `None` if no memory is shared.
pub(super) fn limit<E: End>(
    ends: &mut Ends<E>,
    clock: Clock,
    slice: Duration,
) -> Result<Option<Samples>, Error> {
    let Some(raw) = &ends.raw else { return Ok(None) };
    let lines = Lines::new(raw.memory.words())?;
    ends.ring.send(&Command::Raw.to_bytes(), STALL)?;
    let mut number = 0;
    let samples = Samples::take(clock, slice, || {
        number += 1;
        lines.round_trip(number)
    })?;
    lines.stop()?;
    Ok(Some(samples))
}

/// Samples round trips of messages of `N` bytes; every byte is written and checked after its return.
fn echo<const N: usize>(ring: &mut impl End, clock: Clock, slice: Duration) -> Result<Samples, Error> {
    ring.send(&Command::Echo.to_bytes(), STALL)?;
    let mut echoes = Echoes::<N>::new();
    let samples = Samples::take(clock, slice, || echoes.round(ring))?;
    echoes.check()?;
    Ok(samples)
}

/// Message that the peer echoes.
struct Echoes<const N: usize> {
    message: Aligned<N>,
    answer: Vec<u8>,
    /// Number of messages returned; the last is in `answer`.
    back: u64,
}

impl<const N: usize> Echoes<N> {
    fn new() -> Self {
        let mut message = Aligned([0; N]);
        command::fill(&mut message.0, 1);
        Echoes { message, answer: Vec::with_capacity(64), back: 0 }
    }

    /// Runs one round trip. The work on messages overlaps with the transfer, so that it is not part of the
    /// measured time: while a message is in flight, the previous answer is checked and the next message is
    /// prepared.
    #[inline(always)]
    fn round(&mut self, ring: &mut impl End) -> Result<(), Error> {
        send_polling(ring, &self.message.0)?;
        self.check()?;
        self.back += 1;
        command::fill(&mut self.message.0, self.back + 1);
        recv_polling(ring, &mut self.answer)?;
        Ok(())
    }

    #[inline(always)]
    fn check(&self) -> Result<(), Error> {
        match self.back {
            0 => Ok(()),
            last if command::is_filled(&self.answer, N, last) => Ok(()),
            last => Err(Error::Corrupt { message: last }),
        }
    }
}

/// Samples round trips of 48-byte messages, each of which must wake its receiver.
fn wake<E: End>(ends: &mut Ends<E>, clock: Clock, rounds: u64) -> Result<Samples, Error> {
    ends.ring.send(&Command::Wake { rounds }.to_bytes(), STALL)?;
    let (mut message, mut answer, mut sequence) = ([0; USUAL_BYTES], Vec::with_capacity(64), 0);
    Samples::take_singly(clock, rounds, || {
        sequence += 1;
        command::fill(&mut message, sequence);
        ends.wake.send(&message, STALL)?;
        ends.wake.recv_into(&mut answer, STALL)?;
        if command::is_filled(&answer, USUAL_BYTES, sequence) {
            Ok(())
        } else {
            Err(Error::Corrupt { message: sequence })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_to_the_limits_around_it() {
        use Part::{Limit, Small, Usual};
        let history = [
            (Limit, 100.0),
            (Usual, 150.0),
            (Limit, 200.0),
            (Small, 220.0),
            (Limit, 200.0),
            (Usual, 400.0),
            (Limit, 600.0),
        ];
        assert_eq!(ratios(&history, Usual, false), [1.0, 1.0]);
        assert_eq!(ratios(&history, Small, true), [1.1]);
        assert_eq!(typical(ratios(&history, Small, true)), Some(1.1));
        assert_eq!(ratios(&history[1..3], Usual, true), [0.75]);
        // The processors were moved during both slices: there are no better ones.
        assert!(ratios(&history, Usual, true).is_empty());
        assert_eq!(steady_or_all(&history, Usual), [1.0, 1.0]);
    }

    #[test]
    fn without_a_limit_there_is_no_ratio() {
        assert_eq!(typical(ratios(&[(Part::Usual, 100.0)], Part::Usual, true)), None);
    }
}
