//! Breakdown of a round trip between two sleeping sides, as in Barrelfish's technical note: the message is
//! written and the peer interrupted (λ₂, or λ₁ including the program's call), the peer wakes, reads and
//! answers (λ₃), and the first side reads the answer (λ₄, or λ₅ including the return to the program). The
//! cost of an interrupt follows: λ = (λ₃ − λ₂ − λ₄) / 2.
//!
//! *Counted*: the lines of each step, with emulated caches. *Timed*: two processes of this host whose
//! waitsets sleep immediately.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tombolo::{Channel, Domain, Token, WaitSet};
use tombolo_base::SharedMemory;
use tombolo_base::coherence::{CacheCounters, EmulatedCache, Evictions, Flushed};
use tombolo_link::end::{Awaited, ChannelEnd, DeferredSignals, EndError};
use tombolo_link::{ChannelConfig, ChannelLayout, Side};
use tombolo_ring::WakeOrder;

use super::{Lines, counters};
use crate::members;
use crate::table::{align, cells, none, significant};

/// Message of one SCC cache line.
const MESSAGE: [u8; 32] = [1; 32];

/// Number of round trips whose lines are counted.
const COUNTED: u32 = 512;

/// Number of timed round trips per trial, preceded by a tenth as many for warm-up.
const TIMED: usize = 2000;

/// Timeout for the other process.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Figures of the technical note, in cycles: on one tile, means of 100,000.
const NOTE: Note =
    Note { call_and_send: 1135, send: 684, peer: 3662, receive: 1754, receive_and_return: 3864, all: 8746 };

#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the names of fields are those of the steps")]
pub struct Note {
    pub call_and_send: u32,
    pub send: u32,
    pub peer: u32,
    pub receive: u32,
    pub receive_and_return: u32,
    pub all: u32,
}

impl Note {
    /// Returns the cost of an interrupt, in cycles.
    #[must_use]
    pub fn interrupt(self) -> u32 {
        (self.peer - self.send - self.receive) / 2
    }
}

/// Lines moved in each step.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// λ₂: the message is written, and the peer is found asleep.
    pub send: Lines,
    /// λ₃ without its interrupts: the peer reads, announces its sleep and answers.
    pub peer: Lines,
    /// λ₄: the answer is read.
    pub receive: Lines,
    /// Part of no step: the first side announces its sleep.
    pub sleep: Lines,
}

impl Counted {
    /// Returns an estimate of λ₃ including the interrupts measured in the note, in cycles.
    fn peer_cycles(&self) -> f64 {
        self.peer.scc_cycles + 2.0 * f64::from(NOTE.interrupt())
    }

    /// Returns an estimate of the round trip, in cycles.
    fn cycles(&self) -> f64 {
        let steps = [&self.send, &self.receive, &self.sleep];
        steps.iter().map(|lines| lines.scc_cycles).sum::<f64>() + self.peer_cycles()
    }
}

/// Times of the steps between two processes of this host: medians, in ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "metric")]
pub struct Timed {
    /// λ₁ + λ₂: time of the send call.
    pub send_ns: f64,
    /// λ₃: time until this side's waitset reports the answer.
    pub peer_ns: f64,
    /// λ₄ + λ₅: time of the receive call.
    pub receive_ns: f64,
}

impl Timed {
    /// Returns the cost of a wake-up by the waitset and the kernel.
    #[must_use]
    pub fn wake_up_ns(self) -> f64 {
        (self.peer_ns - self.send_ns - self.receive_ns) / 2.0
    }
}

/// Round trip between two sleeping sides.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// Figures of the technical note.
    pub note: Note,
    /// Lines moved in each step.
    pub counted: Counted,
    /// Times of the steps, if measured.
    pub timed: Option<Timed>,
    /// Cost of a wake-up of the two processes, in ns.
    pub wake_up_ns: Option<f64>,
    /// Reason if it was not timed.
    pub failed: Option<String>,
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    round_trips: usize,
}

/// Measures the round trip.
///
/// # Errors
/// [`EndError`]; only a bug in the channel can cause one.
pub(super) fn run(options: &super::Options) -> Result<RoundTrip, EndError> {
    let (arguments, timeout) = (&options.member_arguments, options.timeout);
    let trial = Trial { round_trips: TIMED };
    let timed = members::repeat::<Timed>(options.rounds, "round-trip", 2, arguments, &trial, timeout)
        .and_then(|mut rounds| {
            rounds.sort_by(|a, b| a.peer_ns.total_cmp(&b.peer_ns));
            rounds.get(rounds.len() / 2).copied().ok_or_else(|| "no rounds".to_owned())
        });
    Ok(RoundTrip {
        note: NOTE,
        counted: count()?,
        timed: timed.as_ref().ok().copied(),
        wake_up_ns: timed.as_ref().ok().map(|timed| timed.wake_up_ns()),
        failed: timed.err(),
    })
}

type End = ChannelEnd<DeferredSignals, Flushed>;

/// Runs `step` and records the counters of `view` before and after it.
fn counting<R>(
    view: &SharedMemory<Flushed>,
    into: &mut Vec<(CacheCounters, CacheCounters)>,
    step: impl FnOnce() -> R,
) -> R {
    let before = counters(view);
    let result = step();
    into.push((before, counters(view)));
    result
}

fn count() -> Result<Counted, EndError> {
    let config = ChannelConfig::default();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let views = [(); 2].map(|()| EmulatedCache::view(memory.clone(), Evictions::default()));
    let attach = |index: usize, side| {
        let attached = End::attach(&views[index], side, config, WakeOrder::Fence, DeferredSignals::default());
        // The memory was created for this layout.
        attached.map_err(|_| EndError::Broken)
    };
    let (mut first, mut peer) = (attach(0, Side::A)?, attach(1, Side::B)?);
    let send = |end: &mut End| {
        end.try_send(&MESSAGE)?;
        let rings = end.signals_mut().take_ring();
        if rings { Ok(()) } else { Err(EndError::Broken) }
    };
    let receive = |end: &mut End| {
        end.finish_sleep(true);
        let read = end.try_recv(|message| message.len())?;
        if read == Some(MESSAGE.len()) { Ok(()) } else { Err(EndError::Broken) }
    };
    let [mut sent, mut answered, mut received, mut slept] = [(); 4].map(|()| Vec::new());
    if !peer.prepare_to_sleep(Awaited::Message) {
        return Err(EndError::Broken);
    }
    for _ in 0..COUNTED {
        counting(&views[0], &mut slept, || first.prepare_to_sleep(Awaited::Message));
        counting(&views[0], &mut sent, || send(&mut first))?;
        counting(&views[1], &mut answered, || {
            receive(&mut peer)?;
            let slept = peer.prepare_to_sleep(Awaited::Message);
            send(&mut peer).and(if slept { Ok(()) } else { Err(EndError::Broken) })
        })?;
        counting(&views[0], &mut received, || receive(&mut first))?;
    }
    let [send, peer, receive, sleep] =
        [sent, answered, received, slept].map(|steps| Lines::of(&steps, f64::from(COUNTED)));
    Ok(Counted { send, peer, receive, sleep })
}

/// Runs as a process of a trial.
pub(super) fn run_trial(domain: &Domain, trial: Trial) -> Result<Timed, Box<dyn std::error::Error>> {
    let job = domain.job()?;
    let is_first = job.rank() == 0;
    let mut set = WaitSet::new()?;
    set.set_spin_ns(0);
    let channel = set.add(job.channel_to(1 - job.rank())?)?;
    let warm_up = trial.round_trips / 10;
    let mut steps = [(); 3].map(|()| Vec::with_capacity(trial.round_trips));
    let mut buffer = Vec::new();
    for trip in 0..warm_up + trial.round_trips {
        if is_first {
            let started = Instant::now();
            set.try_send(channel, &MESSAGE)?;
            let sent = started.elapsed();
            set.wait(TIMEOUT)?;
            let woken = started.elapsed();
            receive(&mut set, channel, &mut buffer)?;
            let received = started.elapsed();
            if trip >= warm_up {
                let each = [sent, woken - sent, received - woken];
                steps.iter_mut().zip(each).for_each(|(all, step)| all.push(step.as_nanos() as f64));
            }
        } else {
            set.wait(TIMEOUT)?;
            receive(&mut set, channel, &mut buffer)?;
            set.try_send(channel, &MESSAGE)?;
        }
    }
    let [send_ns, peer_ns, receive_ns] = steps.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or_default()
    });
    Ok(Timed { send_ns, peer_ns, receive_ns })
}

fn receive(
    set: &mut WaitSet<Channel>,
    channel: Token,
    buffer: &mut Vec<u8>,
) -> Result<(), Box<dyn std::error::Error>> {
    let channel = set.get_mut(channel).ok_or("the channel is not there")?;
    match channel.try_recv_into(buffer)? {
        Some(_) => Ok(()),
        None => Err("the waitset told of a message that is not there".into()),
    }
}

impl RoundTrip {
    /// Formats the table with its explanation.
    pub(super) fn table(&self) -> String {
        let Note { call_and_send, send, peer, receive, receive_and_return, all } = self.note;
        let timed = |of: fn(Timed) -> f64| self.timed.map_or_else(none, |timed| significant(of(timed)));
        let Counted { send: sent, peer: answered, receive: received, sleep } = &self.counted;
        let row = |step: &str, note: String, lines: Option<&Lines>, cycles: String, ns: String| {
            let moved = |of: fn(&Lines) -> f64| lines.map_or_else(none, |lines| significant(of(lines)));
            let [written, invalidated] =
                [moved(|lines| lines.written_back), moved(|lines| lines.invalidated)];
            vec![step.to_owned(), note, written, invalidated, cycles, ns]
        };
        let cycles = |lines: &Lines| significant(lines.scc_cycles);
        let sum = self
            .timed
            .map_or_else(none, |timed| significant(timed.send_ns + timed.peer_ns + timed.receive_ns));
        let rows = [
            cells(&[
                "STEP OF A ROUND TRIP",
                "note, cycles",
                "written",
                "invalid.",
                "estimate, cycles",
                "here, ns",
            ]),
            row(
                "send (2; 1 + 2)",
                format!("{send}; {call_and_send}"),
                Some(sent),
                cycles(sent),
                timed(|timed| timed.send_ns),
            ),
            row(
                "peer, two wake-ups (3)",
                peer.to_string(),
                Some(answered),
                significant(self.counted.peer_cycles()),
                timed(|timed| timed.peer_ns),
            ),
            row(
                "receive (4; 4 + 5)",
                format!("{receive}; {receive_and_return}"),
                Some(received),
                cycles(received),
                timed(|timed| timed.receive_ns),
            ),
            row("go to sleep", none(), Some(sleep), cycles(sleep), none()),
            row(
                "a wake-up, (3 - 2 - 4) / 2",
                self.note.interrupt().to_string(),
                None,
                none(),
                self.wake_up_ns.map_or_else(none, significant),
            ),
            row("all", all.to_string(), None, significant(self.counted.cycles()), sum),
        ];
        format!(
            "{}\nnote: Barrelfish on the SCC, one tile. written, invalid.: lines that move, in a window that is not coherent.\nestimate: \
             what these take on the SCC, with the note's {} cycles for each of the two interrupts, and no work of\nprocessors. here: \
             two processes of this host whose waitsets sleep at once; the steps with the calls of the program\n",
            align(&rows),
            self.note.interrupt(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_takes_612_cycles_for_an_interrupt() {
        assert_eq!(NOTE.interrupt(), 612);
        assert_eq!(
            NOTE.call_and_send + NOTE.peer + NOTE.receive_and_return,
            8661,
            "its sum was measured apart"
        );
    }

    #[test]
    fn each_step_moves_the_lines_of_its_message() {
        let counted = count().unwrap();
        assert!(counted.send.written_back >= 1.0 && counted.send.invalidated >= 1.0, "{counted:?}");
        assert!(counted.receive.invalidated >= 1.0 && counted.receive.written_back < 2.0, "{counted:?}");
        let parts = counted.send.scc_cycles + counted.receive.scc_cycles;
        assert!(counted.peer.scc_cycles >= parts, "the peer does both: {counted:?}");
        assert!(counted.sleep.written_back >= 1.0, "{counted:?}");
    }
}
