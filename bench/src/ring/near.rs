//! The near side of a measurement: leads the peer through it and looks at the clock.

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

/// What is measured of a link. Slices follow one another in this order, over and over: the distance of two
/// processors changes within seconds where a hypervisor moves them, and a ratio is taken of neighbours only.
const CYCLE: [Part; 6] =
    [Part::Limit, Part::Usual, Part::Limit, Part::Small, Part::StreamOut, Part::StreamBack];

/// The limits around a slice may differ by so much, or the processors were moved in between.
const STEADY_RATIO: f64 = 1.25;

/// Rounds by which the length of a slice of wake-ups is found.
const WAKE_PROBES: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Limit,
    Usual,
    Small,
    StreamOut,
    StreamBack,
}

/// What was measured of a link.
pub(super) struct Figures {
    pub(super) limit: Samples,
    pub(super) small: Samples,
    pub(super) usual: Samples,
    pub(super) out: Flow,
    pub(super) back: Flow,
    pub(super) wake: Samples,
    /// Where slots and credit lie.
    pub(super) placed: Vec<PlacedFigures>,
    /// Messages of `wake` that rang a sleeping peer.
    pub(super) rings: u64,
    /// Share of the time in which a side was ready to run and something else ran in its place: the worse of
    /// both.
    pub(super) waited_share: f64,
    history: Vec<(Part, f64)>,
}

impl Figures {
    /// The medians of the slices of the limit, in the order in which they were taken.
    pub(super) fn limit_slices_ns(&self) -> Vec<f64> {
        self.history.iter().filter(|(part, _)| *part == Part::Limit).map(|(_, p50_ns)| *p50_ns).collect()
    }

    /// Slices of 48-byte messages during which the processors were moved: they count for no ratio.
    pub(super) fn moved(&self) -> usize {
        ratios(&self.history, Part::Usual, false).len() - ratios(&self.history, Part::Usual, true).len()
    }

    /// Of each slice of 48-byte messages: how many times the limit around it.
    pub(super) fn usual_ratios(&self) -> Vec<f64> {
        steady_or_all(&self.history, Part::Usual)
    }

    /// The same for 8 bytes.
    pub(super) fn small_ratios(&self) -> Vec<f64> {
        steady_or_all(&self.history, Part::Small)
    }
}

/// The typical ratio; `None` where there is no limit to compare with.
pub(super) fn typical(ratios: Vec<f64>) -> Option<f64> {
    median(&sorted(ratios))
}

/// The steady slices, or all if no slice is steady.
fn steady_or_all(history: &[(Part, f64)], part: Part) -> Vec<f64> {
    let steady = ratios(history, part, true);
    if steady.is_empty() { ratios(history, part, false) } else { steady }
}

/// The median of each slice of `part` over the mean of the slices of the limit right before and after it; of
/// the `steady` ones only, around which these are much the same.
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

/// Measures a link whose far side [serves](super::peer::serve), and ends that side.
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
        // As many as were asked for, and more where the processors were moved in between, up to twice as
        // many.
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
    // Last, for the memory is used up by it.
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

    /// Round trips between two sides that both sleep, for about as long as a slice.
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

/// Round trips of the bare cache lines; `None` where no memory is shared.
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

/// Round trips of messages of `N` bytes, every byte of which is written and, once it is back, checked.
fn echo<const N: usize>(ring: &mut impl End, clock: Clock, slice: Duration) -> Result<Samples, Error> {
    ring.send(&Command::Echo.to_bytes(), STALL)?;
    let mut echoes = Echoes::<N>::new();
    let samples = Samples::take(clock, slice, || echoes.round(ring))?;
    echoes.check()?;
    Ok(samples)
}

/// Messages that the peer returns.
struct Echoes<const N: usize> {
    message: Aligned<N>,
    answer: Vec<u8>,
    /// How many have come back; the last is in `answer`.
    back: u64,
}

impl<const N: usize> Echoes<N> {
    fn new() -> Self {
        let mut message = Aligned([0; N]);
        command::fill(&mut message.0, 1);
        Echoes { message, answer: Vec::with_capacity(64), back: 0 }
    }

    /// What a program does with its messages is not to be measured: while one is on its way, the answer to
    /// the one before is checked and the next one is made.
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

/// Round trips of 48-byte messages, each of which has to wake its receiver.
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
        // The processors were moved during both: there is nothing better.
        assert!(ratios(&history, Usual, true).is_empty());
        assert_eq!(steady_or_all(&history, Usual), [1.0, 1.0]);
    }

    #[test]
    fn without_a_limit_there_is_no_ratio() {
        assert_eq!(typical(ratios(&[(Part::Usual, 100.0)], Part::Usual, true)), None);
    }
}
