//! One timeline out of what domains without a common clock recorded.
//!
//! A channel keeps the order of its messages and loses none, so the n-th message received is the n-th that was sent:
//! which send caused which receive is known without a byte on the wire. With the order within each thread, the order
//! within each end of a channel and the starts of domains that is Lamport's "happened before"; [`merge`] gives every
//! event a logical clock that agrees with it, estimates how far the kernels' clocks are apart, and moves what still
//! contradicts the order, so that nothing is shown before its cause.

mod offset;
mod order;
// Interpreting these takes long and can find nothing: they compute over bytes of their own.
#[cfg(all(test, not(miri)))]
pub(crate) mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use tombolo_base::DomainId;

use crate::clock::{Anchor, Clock};
use crate::event::{Event, EventKind};
use crate::file::Recording;

pub use offset::ClockOffset;

/// Later than any time that is shown: half a century. Keeps sums from overflowing whatever a file says.
const MAX_NS: u64 = 1 << 61;

/// An event on the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The domain's place in the recording.
    pub domain: u32,
    /// Its lane.
    pub lane: u32,
    /// What happened.
    pub event: Event,
    /// When, in nanoseconds since the first event.
    pub time_ns: u64,
    /// Its logical clock: larger than that of everything that it depends on.
    pub logical: u64,
    /// Where on the timeline the message that was received had been sent, if that was recorded.
    pub cause: Option<u32>,
}

/// A recording as one timeline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timeline {
    /// In the order of time, and of causes.
    pub events: Vec<Placed>,
    /// How the clocks of the kernels lie to each other.
    pub clocks: Vec<ClockOffset>,
    /// Receives whose send was not recorded.
    pub receives_without_send: u64,
    /// Events that were moved because they would have been shown before their cause.
    pub moved: u64,
    /// How far at most, in nanoseconds.
    pub moved_max_ns: u64,
}

/// A message: its channel, whether the accepting end sent it, and its number in that direction from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageId {
    /// The channel.
    pub channel: u64,
    /// Sent by the accepting end.
    pub from_accepting: bool,
    /// From 1.
    pub number: u64,
}

impl core::fmt::Display for MessageId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let end = if self.from_accepting { "accepting" } else { "connecting" };
        write!(f, "message {} of the {end} end of channel {}", self.number, self.channel)
    }
}

impl MessageId {
    /// The message that an event sends or receives.
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

/// A recording of what cannot have happened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Impossible {
    /// Two events are the same send, or the same receive.
    #[error("the trace is impossible: {message} was {what} twice, by domain {first} and by domain {second}")]
    Twice {
        /// Which message.
        message: MessageId,
        /// "sent" or "received".
        what: &'static str,
        /// Who did it.
        first: DomainName,
        /// And who else.
        second: DomainName,
    },
    /// Another message arrived than was sent.
    #[error(
        "the trace is impossible: {message} was sent with {sent_bytes} bytes and received with {received_bytes}"
    )]
    Length {
        /// Which message.
        message: MessageId,
        /// Its bytes as sent.
        sent_bytes: u32,
        /// Its bytes as received.
        received_bytes: u32,
    },
    /// Something comes before itself.
    #[error(
        "the trace is impossible: event {position} of lane {lane} of domain {domain} ({event}) comes before its own cause"
    )]
    Cycle {
        /// Whose event.
        domain: DomainName,
        /// Of which lane.
        lane: u32,
        /// Which of that lane, from 0.
        position: usize,
        /// What it is.
        event: &'static str,
    },
    /// More events than can be numbered.
    #[error("the trace has {0} events; up to 4,294,967,295 can be merged")]
    TooMany(usize),
}

/// A domain, as a file names it.
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

/// An event with what is needed to place it.
#[derive(Clone, Copy, Debug)]
struct Node {
    domain: u32,
    lane: u32,
    /// Its place in the lane.
    position: u32,
    event: Event,
    /// On its kernel's clock, then on the machine's.
    time_ns: u64,
}

/// Puts a recording in causal order.
///
/// # Errors
/// [`Impossible`].
pub fn merge(recording: &Recording) -> Result<Timeline, Impossible> {
    let total = recording.events();
    if u32::try_from(total).is_err() {
        return Err(Impossible::TooMany(total));
    }
    let mut nodes = flatten(recording);
    let edges = order::edges(recording, &nodes)?;
    let clock_of = clocks(recording);
    let clocks = offset::estimate(recording, &nodes, &edges.messages, &clock_of);
    offset::apply(&mut nodes, &clocks, &clock_of);
    order::place(recording, &nodes, &edges, clocks)
}

/// All events but those that only set clocks, lane by lane, with the time of their kernel.
fn flatten(recording: &Recording) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(recording.events());
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
                    // A thread that moves between processors may see its clock a little earlier than before.
                    latest_ns = clock.to_ns(event.ticks).min(MAX_NS).max(latest_ns);
                    let (event, time_ns) = (*event, latest_ns);
                    nodes.push(Node { domain, lane: *lane, position, event, time_ns });
                }
            }
        }
    }
    nodes
}

/// For each domain the number of its kernel's clock, from 0.
fn clocks(recording: &Recording) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut clock_of = Vec::with_capacity(recording.domains.len());
    for (index, domain) in recording.domains.iter().enumerate() {
        // A domain that does not say whose clock it reads has its own.
        let key = match domain.head.identity.clock {
            0 => (index + 1, 0),
            clock => (0, clock),
        };
        let next = numbers.len();
        clock_of.push(*numbers.entry(key).or_insert(next));
    }
    clock_of
}
