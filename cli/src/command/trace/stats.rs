//! `tombolo trace stats`

use clap::Args;
use serde::Serialize;
use tombolo_trace::file::Recording;
use tombolo_trace::merge::Timeline;
use tombolo_trace::stats::{Direction, directions};

use super::file::Source;
use super::names::Names;
use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Shows how many messages each channel carried, and how long they took
///
/// Each line is one direction of a channel. P50 to MAX are times from send to receive, in microseconds;
/// between kernels they are as exact as the offset of their clocks is known, which is shown below the table.
/// RINGS counts wake-ups of the receiver, SLEEPS how often it slept; FLIGHT is the largest number of messages
/// under way at once.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace stats job.tbt
  tombolo trace stats job.tbt --json | jq '.directions[] | {channel, from, latency_p99_ns}'")]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A trace, with stable keys.
#[derive(Serialize)]
struct Report {
    machine: String,
    events: usize,
    /// Number of events known to be missing.
    missed_events: u64,
    receives_without_send: u64,
    /// Number of events moved because they would have preceded their cause.
    moved_events: u64,
    moved_max_ns: u64,
    domains: Vec<DomainReport>,
    clocks: Vec<ClockReport>,
    directions: Vec<DirectionReport>,
}

#[derive(Serialize)]
struct DomainReport {
    id: String,
    node: String,
    program: String,
    pid: u32,
    alive: bool,
    events: usize,
    missed_events: u64,
}

/// A kernel's clock, relative to the first.
#[derive(Serialize)]
struct ClockReport {
    /// First domain that reads it.
    domain: String,
    ahead_ns: i64,
    /// Uncertainty; null if messages went only one way, or there were none.
    uncertain_ns: Option<u64>,
    known: bool,
}

#[derive(Serialize)]
struct DirectionReport {
    channel: u64,
    link: &'static str,
    from: String,
    to: String,
    sent: u64,
    sent_bytes: u64,
    received: u64,
    rings: u64,
    sleeps: u64,
    asleep_ns: u64,
    most_in_flight: u64,
    latency_p50_ns: Option<u64>,
    latency_p99_ns: Option<u64>,
    latency_p999_ns: Option<u64>,
    latency_max_ns: Option<u64>,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let (recording, timeline) = options.source.load(context)?;
    let report = Report::new(&recording, &timeline);
    if options.json { print_json(&report) } else { print(report.render(context.colour)) }
}

/// Describes the offset of a clock in words.
fn clock_offset_text(ahead_ns: i64) -> String {
    let side = if ahead_ns < 0 { "behind" } else { "ahead" };
    format!("{} ns {side}", ahead_ns.unsigned_abs())
}

impl Report {
    fn new(recording: &Recording, timeline: &Timeline) -> Report {
        let names = Names::new(recording);
        let direction = |(key, direction): ((u64, bool), Direction)| {
            let place = |bits: Option<u64>| bits.map_or_else(|| "?".to_owned(), |bits| names.place(bits));
            DirectionReport {
                channel: key.0,
                link: names.transport(key.0),
                from: place(names.sender(key)),
                to: place(names.sender((key.0, !key.1))),
                sent: direction.sent,
                sent_bytes: direction.sent_bytes,
                received: direction.received,
                rings: direction.rings,
                sleeps: direction.sleeps,
                asleep_ns: direction.asleep_ns,
                most_in_flight: direction.max_in_flight,
                latency_p50_ns: direction.latency_ns(500),
                latency_p99_ns: direction.latency_ns(990),
                latency_p999_ns: direction.latency_ns(999),
                latency_max_ns: direction.latency_ns(1000),
            }
        };
        let domains = (0..).zip(&recording.domains).map(|(index, domain)| DomainReport {
            id: names.domain(index),
            node: domain.head.node.clone(),
            program: domain.head.program.clone(),
            pid: domain.head.identity.pid,
            alive: domain.final_state.alive,
            events: domain.lanes.values().map(|lane| lane.events.len()).sum(),
            missed_events: domain.lanes.values().map(|lane| lane.missed).sum::<u64>()
                + domain.final_state.losses.events_without_lane,
        });
        let clocks = timeline.clocks.iter().map(|clock| ClockReport {
            domain: clock.domain.to_string(),
            ahead_ns: clock.ahead_ns,
            uncertain_ns: clock.uncertain_ns,
            known: !clock.unknown,
        });
        Report {
            machine: recording.machine.clone(),
            events: timeline.events.len(),
            missed_events: recording.missed_count(),
            receives_without_send: timeline.receives_without_send,
            moved_events: timeline.moved,
            moved_max_ns: timeline.max_moved_ns,
            domains: domains.collect(),
            clocks: clocks.collect(),
            directions: directions(timeline).into_iter().map(direction).collect(),
        }
    }

    fn render(&self, colour: bool) -> String {
        let mut table = Table::new(&[
            "CHANNEL>",
            "LINK",
            "FROM",
            "TO",
            "SENT>",
            "BYTES>",
            "RECEIVED>",
            "P50>",
            "P99>",
            "P99.9>",
            "MAX>",
            "RINGS>",
            "SLEEPS>",
            "FLIGHT>",
        ]);
        let micros = |ns: Option<u64>| {
            ns.map_or_else(|| "-".to_owned(), |ns| format!("{}.{:02}", ns / 1000, ns % 1000 / 10))
        };
        for direction in &self.directions {
            table.row([
                direction.channel.to_string(),
                direction.link.to_owned(),
                direction.from.clone(),
                direction.to.clone(),
                direction.sent.to_string(),
                text::bytes(direction.sent_bytes),
                direction.received.to_string(),
                micros(direction.latency_p50_ns),
                micros(direction.latency_p99_ns),
                micros(direction.latency_p999_ns),
                micros(direction.latency_max_ns),
                direction.rings.to_string(),
                direction.sleeps.to_string(),
                direction.most_in_flight.to_string(),
            ]);
        }
        table.render(colour) + "\n" + &self.accuracy_notes()
    }

    /// Returns remarks on the accuracy of the figures.
    fn accuracy_notes(&self) -> String {
        let mut text =
            format!("{} of {}", text::count(self.events, "event"), text::count(self.domains.len(), "domain"));
        if self.missed_events > 0 {
            text.push_str(&format!("; {} were lost", self.missed_events));
        }
        if self.receives_without_send > 0 {
            text.push_str(&format!("; of {} receives the send was not recorded", self.receives_without_send));
        }
        text.push('\n');
        for clock in self.clocks.iter().skip(1) {
            let known = match (clock.known, clock.uncertain_ns) {
                (false, _) => "is not known: no message was recorded between them".to_owned(),
                (true, None) => {
                    format!("{}, or less: messages went one way only", clock_offset_text(clock.ahead_ns))
                }
                (true, Some(uncertain)) => {
                    format!("{}, give or take {uncertain} ns", clock_offset_text(clock.ahead_ns))
                }
            };
            text.push_str(&format!(
                "clock of {} against that of {}: {known}\n",
                clock.domain, self.clocks[0].domain
            ));
        }
        if self.moved_events > 0 {
            text.push_str(&format!(
                "{} were moved by up to {} ns, so as not to come before their cause\n",
                text::count(self.moved_events as usize, "event"),
                self.moved_max_ns
            ));
        }
        text
    }
}
