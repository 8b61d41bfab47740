//! Cost of the link between two nodes, measured by two ranks, one on each: round trips by message length, and
//! streams of long messages in both directions, together with the limits of the memory under the channel.
//! Rank 1 serves like the far side of `tombolo bench ring`.

use std::time::{Duration, Instant};

use tombolo::channel::Either;
use tombolo::{Channel, Domain};
use tombolo_copies::engines::SharedMemory;
use tombolo_platform::copy::{self, CopyLoop};

use super::{messages, print_figure};
use crate::lines::Lines;
use crate::ring::command::{Command, LONG_BYTES};
use crate::ring::end::{Ends, STALL, recv_polling, send_polling};
use crate::ring::{lead, peer};
use crate::{Error, cpus};

/// Timeout for the other side to open a channel.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Lengths of messages whose round trips are measured.
pub const LENGTHS: [usize; 7] = [8, 64, 256, 1024, 4096, 16384, LONG_BYTES];

/// Number of warm-up round trips per length.
const WARM: usize = 100;
/// Minimum number of samples: fewer have no 99th percentile.
const MIN_SAMPLES: usize = 100;
/// Maximum number of samples, for which memory is allocated.
const MAX_SAMPLES: usize = 1 << 20;

/// Duration and processors of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Duration of each figure, in milliseconds; at least one.
    pub slice_ms: u64,
    /// Processors of the two ranks; `None` leaves a rank unpinned.
    pub cpus: [Option<usize>; 2],
}

impl Plan {
    /// Encodes the plan as arguments of the program.
    #[must_use]
    pub fn words(&self) -> [String; 4] {
        let [near, far] = self.cpus.map(|cpu| cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string()));
        ["link".into(), self.slice_ms.to_string(), near, far]
    }

    /// Parses the arguments after the first.
    #[must_use]
    pub fn of(words: &[&str]) -> Option<Plan> {
        let [slice_ms, near, far] = words else { return None };
        let cpu = |word: &str| match word {
            "-" => Some(None),
            word => Some(Some(word.parse().ok()?)),
        };
        let slice_ms = slice_ms.parse().ok().filter(|slice_ms| *slice_ms > 0)?;
        Some(Plan { slice_ms, cpus: [cpu(near)?, cpu(far)?] })
    }
}

/// Measures together with the other rank of the job, which runs the same program. Rank 0 prints the figures.
pub(super) fn run(plan: Plan) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let job = domain.job()?;
    let rank = job.rank().min(1);
    if let Some(cpu) = plan.cpus[rank as usize] {
        cpus::pin(cpu).map_err(|error| Error::Cpus { what: format!("stay on processor {cpu}"), error })?;
    }
    let ring = messages::channel(&domain, &job, 0)?;
    let raw = messages::channel(&domain, &job, 1)?.into_raw_memory().and_then(Either::coherent);
    let wake = messages::channel(&domain, &job, 2)?;
    let mut ends = Ends { ring, raw, own: None, wake };
    if rank > 0 {
        return peer::serve(&mut ends);
    }
    let slice = Duration::from_millis(plan.slice_ms);
    let clock_ns = clock_ns();
    if let Some(raw) = &ends.raw {
        print_times("limit", limit(&mut ends.ring, raw.memory.words(), (slice, clock_ns))?);
        print_figure("limit_bytes_per_s", copies(&raw.memory, slice)?);
    }
    for bytes in LENGTHS {
        print_times(&format!("round_trip_{bytes}"), round_trips(&mut ends.ring, bytes, (slice, clock_ns))?);
    }
    let rate = |(count, elapsed): (u64, Duration)| (count * LONG_BYTES as u64) as f64 / elapsed.as_secs_f64();
    print_figure("bytes_per_s", rate(lead::stream_out::<LONG_BYTES>(&mut ends.ring, slice)?));
    print_figure("bytes_per_s_back", rate(lead::stream_back::<LONG_BYTES>(&mut ends.ring, slice)?));
    lead::end_peer(&mut ends.ring)?;
    Ok(())
}

/// Returns the cost of reading the clock twice.
fn clock_ns() -> u64 {
    let times = (0..1000).map(|_| Instant::now().elapsed().as_nanos() as u64);
    times.min().unwrap_or(0)
}

/// Times single runs for the slice, minus the cost of the clock.
fn times(
    (slice, clock_ns): (Duration, u64),
    mut run: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    let (mut start, mut times) = (Instant::now(), Vec::new());
    for number in 1.. {
        let began = Instant::now();
        run(number)?;
        let took_ns = (began.elapsed().as_nanos() as u64).saturating_sub(clock_ns);
        match number as usize {
            // The first rounds run with cold caches and processors.
            ..=WARM => start = Instant::now(),
            _ => times.push(took_ns as f64),
        }
        if times.len() >= MAX_SAMPLES || (times.len() >= MIN_SAMPLES && start.elapsed() >= slice) {
            break;
        }
    }
    Ok(times)
}

/// Times round trips of the bare lines in the memory under a channel.
fn limit(
    ring: &mut Channel,
    words: &[std::sync::atomic::AtomicU64],
    slice: (Duration, u64),
) -> Result<Vec<f64>, Error> {
    let lines = Lines::new(words)?;
    ring.within(STALL).send(&Command::Raw.to_bytes())?;
    let found = times(slice, |number| lines.round_trip(number))?;
    lines.stop()?;
    Ok(found)
}

/// Times round trips of messages; each answer is compared with what was sent.
fn round_trips(ring: &mut Channel, bytes: usize, slice: (Duration, u64)) -> Result<Vec<f64>, Error> {
    ring.within(STALL).send(&Command::Echo.to_bytes())?;
    let (mut message, mut heard) = (vec![7; bytes], Vec::with_capacity(bytes));
    let mut wrong = None;
    let found = times(slice, |number| {
        messages::stamp(&mut message, number as usize);
        send_polling(ring, &message)?;
        recv_polling(ring, &mut heard)?;
        if heard != message {
            wrong = wrong.or(Some(number));
        }
        Ok(())
    })?;
    match wrong {
        None => Ok(found),
        Some(message) => Err(Error::Corrupt { message }),
    }
}

/// Returns the bytes per second of copies of [`LONG_BYTES`] into this memory.
fn copies(memory: &SharedMemory, slice: Duration) -> Result<f64, Error> {
    let source = vec![7; LONG_BYTES];
    let room = memory.len_bytes() / LONG_BYTES;
    let (start, mut count) = (Instant::now(), 0);
    // Advances through the memory like messages in a ring. The other side does not use it meanwhile.
    while count < room || start.elapsed() < slice {
        let at = count % room.max(1) * LONG_BYTES;
        copy::write(CopyLoop::Best, memory, at, &source).map_err(Error::of_figures)?;
        count += 1;
    }
    Ok((count * LONG_BYTES) as f64 / start.elapsed().as_secs_f64())
}

/// Prints the median and the 99th percentile.
fn print_times(name: &str, mut times_ns: Vec<f64>) {
    times_ns.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times_ns.get(times_ns.len() * percent / 100).copied().unwrap_or(0.0);
    print_figure(&format!("{name}_p50_ns"), at(50));
    print_figure(&format!("{name}_p99_ns"), at(99));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip_and_others_are_refused() {
        for cpus in [[None, None], [Some(0), Some(17)], [Some(3), None]] {
            let plan = Plan { slice_ms: 25, cpus };
            let words = plan.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!((words[0], Plan::of(&words[1..])), ("link", Some(plan)));
        }
        for wrong in [&["0", "-", "-"][..], &["1", "-"], &["1", "x", "-"], &["x", "-", "-"]] {
            assert_eq!(Plan::of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn minimum_count_is_timed_in_any_slice() {
        let mut runs = 0;
        let found = times((Duration::ZERO, u64::MAX), |number| {
            runs += 1;
            assert_eq!(number, runs);
            Ok(())
        });
        let found = found.expect("nothing fails");
        assert_eq!((found.len(), runs), (MIN_SAMPLES, (MIN_SAMPLES + WARM) as u64));
        assert!(found.iter().all(|time_ns| *time_ns == 0.0), "the clock takes no less than nothing");
        let failed = times((Duration::ZERO, 0), |_| Err(Error::Stalled { waited: STALL }));
        assert!(failed.is_err());
    }
}
