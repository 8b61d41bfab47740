//! Merges the events of domains without a common clock into one timeline.
//!
//! A channel keeps the order of its messages and loses none, so the n-th message received is the n-th that
//! was sent: the cause of each receive is known without a byte on the wire. Together with the order within
//! each thread, the order within each channel end and the starts of domains, this is Lamport's "happened
//! before". [`merge`] gives every event a logical clock that agrees with it, estimates the offsets between
//! the kernels' clocks, and moves events that still contradict the order, so that none is shown before its
//! cause.

mod offset;
mod order;
// Too slow under miri, without benefit: the tests only compute on private bytes.
#[cfg(all(test, not(miri)))]
pub(crate) mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tombolo_base::DomainId;

use crate::clock::{Anchor, Clock};
use crate::event::{Event, EventKind};
use crate::file::Recording;

pub use offset::ClockOffset;

/// Upper limit of times: about 73 years. Keeps sums from overflowing for any file content.
const MAX_NS: u64 = 1 << 61;

/// Event on the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimelineEvent {
    /// Index of the domain in the recording.
    pub domain: u32,
    /// Number of the lane.
    pub lane: u32,
    /// Recorded event.
    pub event: Event,
    /// Time in nanoseconds since the first event.
    pub time_ns: u64,
    /// Logical clock: larger than that of every event it depends on.
    pub logical: u64,
    /// For a receive, index on the timeline of the matching send, if that was recorded.
    pub cause: Option<u32>,
}

/// Recording merged into a single timeline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// Events, ordered by time and causality.
    pub events: Vec<TimelineEvent>,
    /// Offsets of the kernels' clocks.
    pub clocks: Vec<ClockOffset>,
    /// Number of receives whose send was not recorded.
    pub receives_without_send: u64,
    /// Number of events moved because they would have been shown before their cause.
    pub moved: u64,
    /// Maximum distance that an event was moved, in nanoseconds.
    pub max_moved_ns: u64,
}

/// Identity of a message: its channel, its direction, and its number in that direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageId {
    /// Id of the channel.
    pub channel: u64,
    /// Whether the accepting end sent it.
    pub from_accepting: bool,
    /// Number of the message, from 1.
    pub number: u64,
}

impl core::fmt::Display for MessageId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let end = if self.from_accepting { "accepting" } else { "connecting" };
        write!(f, "message {} of the {end} end of channel {}", self.number, self.channel)
    }
}

impl MessageId {
    /// Returns the message that an event sends or receives, if any.
    #[must_use]
    pub fn of(event: &Event) -> Option<MessageId> {
        let from_accepting = match event.kind {
            EventKind::Send => event.accepting,
            EventKind::Receive => !event.accepting,
            _ => return None,
        };
        Some(MessageId { channel: event.subject, from_accepting, number: event.value })
    }
}

/// Error of a recording that contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum MergeError {
    /// Two events are the same send, or the same receive.
    #[error("the trace is impossible: {message} was {what} twice, by domain {first} and by domain {second}")]
    Duplicate { message: MessageId, what: &'static str, first: DomainName, second: DomainName },
    /// The lengths of a message when sent and received differ.
    #[error(
        "the trace is impossible: {message} was sent with {sent_bytes} bytes and received with {received_bytes}"
    )]
    LengthMismatch { message: MessageId, sent_bytes: u32, received_bytes: u32 },
    /// An event depends on itself.
    #[error(
        "the trace is impossible: event {position} of lane {lane} of domain {domain} ({event}) comes before its own cause"
    )]
    Cycle { domain: DomainName, lane: u32, position: usize, event: &'static str },
    /// There are too many events to number.
    #[error("the trace has {0} events; at most 4,294,967,295 can be merged")]
    TooManyEvents(usize),
}

/// Id of a domain as bits, as in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainName(pub u64);

impl core::fmt::Display for DomainName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match DomainId::from_bits(self.0) {
            Some(id) => write!(f, "{id}"),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// Event that is being placed.
#[derive(Clone, Copy, Debug)]
struct Node {
    domain: u32,
    lane: u32,
    /// Index in its lane.
    position: u32,
    event: Event,
    /// Time on its kernel's clock, later on the machine's.
    time_ns: u64,
}

/// Merges a recording into causal order.
///
/// # Errors
/// [`MergeError`] when the recording contradicts itself.
pub fn merge(recording: &Recording) -> Result<Timeline, MergeError> {
    let total = recording.event_count();
    if u32::try_from(total).is_err() {
        return Err(MergeError::TooManyEvents(total));
    }
    let mut nodes = flatten(recording);
    let edges = order::edges(recording, &nodes)?;
    let clock_of = clocks(recording);
    let clocks = offset::estimate(recording, &nodes, &edges.messages, &clock_of);
    offset::apply(&mut nodes, &clocks, &clock_of);
    order::place(recording, &nodes, &edges, clocks)
}

/// Collects all events except clock readings, lane by lane, with their kernel's time.
fn flatten(recording: &Recording) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(recording.event_count());
    for (domain, record) in (0..).zip(&recording.domains) {
        let identity = record.head.identity;
        let noted = record
            .lanes
            .values()
            .flat_map(|lane| &lane.events)
            .filter(|event| event.kind == EventKind::Clock);
        let mut anchors: Vec<Anchor> =
            noted.map(|event| Anchor { ticks: event.ticks, ns: event.subject }).collect();
        anchors.push(Anchor { ticks: identity.ticks, ns: identity.monotonic_ns });
        let clock = Clock::new(anchors, identity.ticks_per_s);
        for (lane, record) in &record.lanes {
            let mut latest_ns = 0;
            for (position, event) in (0..).zip(&record.events) {
                if event.kind != EventKind::Clock {
                    // A thread that migrates between processors may read a slightly earlier time than before.
                    latest_ns = clock.to_ns(event.ticks).min(MAX_NS).max(latest_ns);
                    let (event, time_ns) = (*event, latest_ns);
                    nodes.push(Node { domain, lane: *lane, position, event, time_ns });
                }
            }
        }
    }
    nodes
}

/// Returns, for each domain, the number of its kernel's clock, from 0.
fn clocks(recording: &Recording) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut clock_of = Vec::with_capacity(recording.domains.len());
    for (index, domain) in recording.domains.iter().enumerate() {
        // A domain that does not identify its clock has one of its own.
        let key = match domain.head.identity.clock {
            0 => (index + 1, 0),
            clock => (0, clock),
        };
        let next = numbers.len();
        clock_of.push(*numbers.entry(key).or_insert(next));
    }
    clock_of
}
