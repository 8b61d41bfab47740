//! Cost of notifying a receiver which of many channels has an event: `tombolo bench notification`.
//!
//! There are two kinds of figures. *Counted*: two ends with emulated caches without eviction, on one thread;
//! the cache lines that move per event, and an estimate for the SCC. *Timed*: two processes of this host
//! notify each other in turn.

mod forms;
mod round_trip;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tombolo::Domain;
use tombolo::region::{CapabilityId, RegionOptions, Rights};
use tombolo_base::coherence::{CacheCosts, CacheCounters, EmulatedCache, Evictions, Flushed};
use tombolo_base::{LINE_BYTES, Random, SharedMemory};
use tombolo_link::shared_doorbell::GROUP_CHANNELS;

use crate::cpus::{allowed, pair, pin};
use crate::members;
use crate::report::BenchReport;
use crate::table::{align, cells, missing, none, significant};
pub use forms::{Error, Form};
use forms::{Notified, Notifiee, Notifier};
pub use round_trip::{Counted, Note, RoundTrip, Timed};

/// Number of events whose lines are counted; fewer if each requires polling very many channels.
const EVENTS: usize = 1024;
const POLLS: usize = 1 << 21;

/// Number of round trips that are timed together.
const BATCH: usize = 16;

/// Number of consecutive events before the receiver polls.
const BURST: usize = 32;

/// Figures of the technical note.
const NOTE: &str = "\
Barrelfish Technical Note 005 (SCC): notifying by the ring takes the sender's kernel 605 cycles on the same tile and up to
927 five hops away, with its lock and the interrupt; the tree was built, measured and found slower; payload in the buffer
was designed and not built. A round trip with interrupts takes 8746 cycles. Its ring has 32-byte entries, one id each, and
one buffer for all senders; here an entry has 8 bytes, and each sender a buffer of its own.\n";

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of channels, up to 65,280.
    pub channels: Vec<usize>,
    /// Number of runs per timed trial; the median counts.
    pub rounds: u32,
    /// Duration of each trial, in ms.
    pub slice_ms: u64,
    /// Arguments that make this program call [`run_member`]; the trial is appended.
    pub member_arguments: Vec<OsString>,
    /// Timeout of one trial.
    pub timeout: Duration,
}

/// Parameters of a timed trial: a job of two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Mechanism of the notification.
    pub form: Form,
    /// Number of channels.
    pub channels: usize,
    /// Duration of the trial, in ms.
    pub slice_ms: u64,
}

/// Result of a trial, as reported by the first process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "metric")]
pub struct Figure {
    /// One-way time of an event: half a round trip, in ns. It is the 10th percentile of batches of 16 round
    /// trips, which is the cost of an event while both processes are running.
    pub event_ns: f64,
}

/// Cache lines moved per event on one side, with their estimated cost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lines {
    /// Number of lines written back.
    pub written_back: f64,
    /// Number of lines invalidated; each is loaded again at its next use.
    pub invalidated: f64,
    /// Estimated cost on the SCC, in core cycles.
    pub scc_cycles: f64,
}

impl Lines {
    /// Computes the lines per event from the counters before and after each part.
    fn of(parts: &[(CacheCounters, CacheCounters)], events: f64) -> Lines {
        let each = |count: fn(CacheCounters) -> u64| {
            let total: u64 = parts.iter().map(|(before, after)| count(*after) - count(*before)).sum();
            total as f64 / events
        };
        Lines {
            written_back: each(|counters| counters.written_back),
            invalidated: each(|counters| counters.invalidated),
            scc_cycles: each(|counters| counters.cycles(CacheCosts::SCC)),
        }
    }
}

/// Figures of a form with a number of channels.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Mechanism of the notification.
    pub form: Form,
    /// Number of channels.
    pub channels: usize,
    /// Memory per sender, in bytes.
    pub bytes: usize,
    /// Lines per single event, of the sender and of the receiver.
    pub alone: [Lines; 2],
    /// Lines per event in bursts of 32 events.
    pub burst: [Lines; 2],
    /// Number of events accepted before the receiver polls, up to 131,070.
    pub accepted: usize,
    /// Number of these whose channel was already pending.
    pub merged: usize,
    /// Measured time of an event, in ns.
    pub event_ns: Option<f64>,
    /// Reason if it was not timed.
    pub failed: Option<String>,
}

/// Figures of all forms.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processors that the two processes share.
    pub processors: usize,
    /// Rows in order of form.
    pub rows: Vec<Row>,
    /// Breakdown of a round trip.
    pub round_trip: RoundTrip,
}

/// Measures every form with every number of channels. `progress` is called before each.
///
/// # Errors
/// [`Error`]; only a bug in a form can cause one.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let mut rows = Vec::new();
    for form in Form::ALL {
        for channels in options.channels.iter().copied() {
            progress(&format!("{}, {channels} channels", form.name()));
            let (accepted, merged) = when_full(form, channels)?;
            let timed = time(options, form, channels);
            rows.push(Row {
                form,
                channels,
                bytes: form.bytes(channels),
                alone: count(form, channels, 1)?,
                burst: count(form, channels, BURST)?,
                accepted,
                merged,
                event_ns: timed.as_ref().ok().copied(),
                failed: timed.err(),
            });
        }
    }
    progress("a round trip");
    let round_trip = round_trip::run(options)?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Report { processors, rows, round_trip })
}

fn random_channel(random: &mut Random, channels: usize) -> u16 {
    random.index(channels) as u16
}

/// Counts the lines moved on each side per event, in bursts of `burst`.
fn count(form: Form, channels: usize, burst: usize) -> Result<[Lines; 2], Error> {
    let memory = SharedMemory::zeroed(form.bytes(channels));
    let views = [(); 2].map(|()| EmulatedCache::view(memory.clone(), Evictions::default()));
    let mut notifier = Notifier::new(form, channels, &views[0])?;
    let mut notifiee = Notifiee::new(form, channels, &views[1])?;
    let mut random = Random::new(1);
    let looks = if form == Form::Poll { POLLS / channels } else { EVENTS };
    let bursts = (EVENTS / burst).min(looks).max(2);
    let mut before = views.each_ref().map(counters);
    for round in 0..2 * bursts {
        if round == bursts {
            // The first accesses, which load everything, are not counted.
            before = views.each_ref().map(counters);
        }
        for _ in 0..burst {
            notifier.notify(random_channel(&mut random, channels));
        }
        notifiee.take(|_| ())?;
    }
    let after = views.each_ref().map(counters);
    let events = (bursts * burst) as f64;
    Ok([0, 1].map(|side| Lines::of(&[(before[side], after[side])], events)))
}

fn counters(view: &SharedMemory<Flushed>) -> CacheCounters {
    view.caches().cache().map(EmulatedCache::counters).unwrap_or_default()
}

/// Returns the number of events accepted while the receiver does not poll, and how many of them are merged.
fn when_full(form: Form, channels: usize) -> Result<(usize, usize), Error> {
    let memory = SharedMemory::zeroed(form.bytes(channels));
    let mut notifier = Notifier::new(form, channels, &memory)?;
    let (mut accepted, mut merged) = (0, 0);
    for event in 0..2 * usize::from(u16::MAX) {
        match notifier.notify((event % channels) as u16) {
            Notified::New => {}
            Notified::Merged => merged += 1,
            Notified::Refused => break,
        }
        accepted += 1;
    }
    Ok((accepted, merged))
}

fn time(options: &Options, form: Form, channels: usize) -> Result<f64, String> {
    let trial = Trial { form, channels, slice_ms: options.slice_ms };
    let (arguments, timeout) = (&options.member_arguments, options.timeout);
    let figures = members::repeat::<Figure>(options.rounds, "notification", 2, arguments, &trial, timeout)?;
    let mut all: Vec<f64> = figures.into_iter().map(|figure| figure.event_ns).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().ok_or_else(|| "no rounds".to_owned())
}

/// Runs as a process of a trial, given as JSON, and prints the figure.
///
/// # Errors
/// A description of the failure.
pub fn run_member(domain: &Domain, trial: &str) -> Result<(), String> {
    /// Trial of a process.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Any {
        Event(Trial),
        RoundTrip(round_trip::Trial),
    }
    /// Figure of a process.
    #[derive(Serialize)]
    #[serde(untagged)]
    enum MemberFigure {
        Event(Figure),
        RoundTrip(Timed),
    }
    members::run_member_trial(trial, |trial| -> Result<MemberFigure, Box<dyn std::error::Error>> {
        Ok(match trial {
            Any::Event(trial) => MemberFigure::Event(run_trial(domain, trial)?),
            Any::RoundTrip(trial) => MemberFigure::RoundTrip(round_trip::run_trial(domain, *trial)?),
        })
    })
}

fn run_trial(domain: &Domain, trial: &Trial) -> Result<Figure, Box<dyn std::error::Error>> {
    let job = domain.job()?;
    let rank = job.rank() as usize;
    let part_bytes = trial.form.bytes(trial.channels).next_multiple_of(LINE_BYTES);
    let mut channel = job.channel_to(1 - job.rank())?;
    let (mapping, _region) = if rank == 0 {
        let region = domain.create_region(&RegionOptions::new(2 * part_bytes as u64))?;
        let capability = region.grant(channel.peer(), Rights::READ_WRITE)?.id.0;
        channel.send(&capability.to_le_bytes())?;
        (region.map(Rights::READ_WRITE)?, Some(region))
    } else {
        let mut bytes = Vec::new();
        channel.recv_into(&mut bytes)?;
        let capability = u64::from_le_bytes(bytes.as_slice().try_into()?);
        (domain.capability(CapabilityId(capability))?.map(Rights::READ_WRITE)?, None)
    };
    let memory = mapping.memory().ok_or("the memory cannot be mapped")?;
    let part = |side: usize| memory.slice(side * part_bytes, part_bytes);
    let notifier = Notifier::new(trial.form, trial.channels, &part(rank)?)?;
    let notifiee = Notifiee::new(trial.form, trial.channels, &part(1 - rank)?)?;
    // Waits until both have mapped the memory.
    channel.send(b"")?;
    channel.recv_into(&mut Vec::new())?;
    if let Some((first, second)) = pair(&allowed()?) {
        pin(if rank == 0 { first } else { second })?;
    }
    let event_ns = exchange(rank == 0, notifier, notifiee, trial)?;
    channel.send(b"")?;
    channel.recv_into(&mut Vec::new())?;
    Ok(Figure { event_ns })
}

/// Runs the exchange, in which the two notify each other in turn.
fn exchange(
    is_first: bool,
    mut notifier: Notifier<tombolo_base::Coherent>,
    mut notifiee: Notifiee<tombolo_base::Coherent>,
    trial: &Trial,
) -> Result<f64, Box<dyn std::error::Error>> {
    // The same seed on both sides, so that each knows the next channel.
    let mut random = Random::new(7);
    let mut started = Instant::now();
    let deadline = started + Duration::from_millis(100 * trial.slice_ms) + Duration::from_secs(10);
    // The same number on both sides, approximately filling the slice.
    let trips = BATCH * (4 + trial.slice_ms as usize * 4000 / BATCH / (16 + trial.polled_channels()));
    let mut batches = Vec::with_capacity(trips / BATCH);
    for trip in 0..trips {
        if trip.is_multiple_of(BATCH) && trip > 0 {
            batches.push(started.elapsed());
            started = Instant::now();
        }
        let expected = random_channel(&mut random, trial.channels);
        let answer = random_channel(&mut random, trial.channels);
        if is_first {
            notifier.notify(expected);
        }
        let mut found = None;
        let mut polls = 0_u32;
        while notifiee.take(|channel| found = Some(channel))? == 0 {
            tombolo_base::sync::spin_hint();
            polls += 1;
            if polls.is_multiple_of(1024) {
                std::thread::yield_now();
                if Instant::now() > deadline {
                    return Err(format!("event {trip} did not arrive").into());
                }
            }
        }
        if found != Some(if is_first { answer } else { expected }) {
            return Err(format!("event {trip} was for {found:?}").into());
        }
        if !is_first {
            notifier.notify(answer);
        }
    }
    batches.sort_unstable();
    let fast = batches.get(batches.len() / 10).copied().unwrap_or_default();
    Ok(fast.as_nanos() as f64 / BATCH as f64 / 2.0)
}

impl Trial {
    /// Returns the number of channels that the receiver polls per event.
    fn polled_channels(&self) -> usize {
        match self.form {
            Form::Poll => self.channels,
            Form::Counts => self.channels.div_ceil(GROUP_CHANNELS) + GROUP_CHANNELS,
            Form::Ring | Form::Tree | Form::Payload => 1,
        }
    }
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut table = vec![cells(&[
            "FORM",
            "CHANNELS",
            "ns",
            "KiB",
            "accepted",
            "merged",
            "sent: cycles",
            "received: cycles",
            "burst, sent",
            "burst, received",
        ])];
        for row in &self.rows {
            let kib = significant(row.bytes as f64 / 1024.0);
            let mut line = vec![row.form.name().to_owned(), row.channels.to_string()];
            line.extend([row.event_ns.map_or_else(none, significant), kib]);
            line.extend([row.accepted, row.merged].map(|count| count.to_string()));
            line.extend(row.alone.iter().chain(&row.burst).map(|lines| significant(lines.scc_cycles)));
            table.push(line);
        }
        let mut text = format!(
            "{} processors. ns: half of a round trip of two processes of this host, while both run. KiB: for each sender.\naccepted: \
             events before the receiver looks; merged: of these, of channels that were pending. cycles: for an event, \
             estimated for the\nSCC from the lines that move; burst: for each of 32 events before the receiver looks\n\n{}\n{NOTE}",
            self.processors,
            align(&table),
        );
        text += &format!("\n{}", self.round_trip.table());
        text += &missing(&[], &self.failures());
        text
    }

    fn failures(&self) -> Vec<String> {
        let round_trip = self.round_trip.failed.iter().map(|why| format!("round trip: {why}"));
        let line = |row: &Row| {
            let why = row.failed.as_ref()?;
            Some(format!("{}, {} channels: {why}", row.form.name(), row.channels))
        };
        round_trip.chain(self.rows.iter().filter_map(line)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_refuses_a_tree_merges_and_polling_grows_with_channels() {
        let channels = 300;
        assert_eq!(when_full(Form::Ring, channels).unwrap(), (1024, 0));
        assert_eq!(when_full(Form::Payload, channels).unwrap(), (128, 0));
        let (accepted, merged) = when_full(Form::Tree, channels).unwrap();
        assert_eq!(accepted - merged, channels);
        let looked = |form, channels| count(form, channels, 1).unwrap()[1].invalidated;
        assert!(looked(Form::Poll, 256) > 200.0);
        // The groups, and the channels of the changed group.
        let counts = looked(Form::Counts, 4096);
        assert!((100.0..=128.0).contains(&counts), "{counts}");
        for form in [Form::Ring, Form::Tree, Form::Payload] {
            assert!(looked(form, 4096) < 10.0, "{form:?}");
        }
    }
}
