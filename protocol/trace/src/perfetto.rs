//! Exports traces in the format of Perfetto (`ui.perfetto.dev`).
//!
//! Each domain is a process and each of its lanes a thread. Sleeps and spans are slices, other events are
//! instants; an arrow (a "flow") leads from each send to its receive. For each direction of a channel a
//! counter shows the number of messages in transit.
//!
//! The format is protocol buffers, with messages and field numbers from Perfetto's `trace_packet.proto`,
//! `track_event.proto` and `track_descriptor.proto`. Only those used here are defined here.

mod wire;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tombolo_base::DomainId;
use tombolo_base::hash::fnv1a;

use crate::event::{AWAITS_ROOM, EventKind, GONE_CLOSED, GONE_DIED};
use crate::file::Recording;
use crate::merge::{MessageId, Timeline, TimelineEvent};
pub use wire::Message;

/// Numbers of the Perfetto fields and choices that are used here.
pub mod field {
    /// `Trace.packet`.
    pub const PACKET: u32 = 1;
    /// `TracePacket.timestamp`.
    pub const TIMESTAMP: u32 = 8;
    /// `TracePacket.trusted_packet_sequence_id`.
    pub const SEQUENCE: u32 = 10;
    /// `TracePacket.track_event`.
    pub const TRACK_EVENT: u32 = 11;
    /// `TracePacket.track_descriptor`.
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `TrackDescriptor.uuid`.
    pub const UUID: u32 = 1;
    /// `TrackDescriptor.name`.
    pub const TRACK_NAME: u32 = 2;
    /// `TrackDescriptor.process`.
    pub const PROCESS: u32 = 3;
    /// `TrackDescriptor.thread`.
    pub const THREAD: u32 = 4;
    /// `TrackDescriptor.parent_uuid`.
    pub const PARENT: u32 = 5;
    /// `TrackDescriptor.counter`.
    pub const COUNTER: u32 = 8;
    /// `ProcessDescriptor.pid` and `ThreadDescriptor.pid`.
    pub const PID: u32 = 1;
    /// `ProcessDescriptor.process_name`.
    pub const PROCESS_NAME: u32 = 6;
    /// `ThreadDescriptor.tid`.
    pub const TID: u32 = 2;
    /// `ThreadDescriptor.thread_name`.
    pub const THREAD_NAME: u32 = 5;
    /// `TrackEvent.debug_annotations`.
    pub const ANNOTATION: u32 = 4;
    /// `TrackEvent.type`.
    pub const TYPE: u32 = 9;
    /// `TrackEvent.track_uuid`.
    pub const TRACK: u32 = 11;
    /// `TrackEvent.categories`.
    pub const CATEGORY: u32 = 22;
    /// `TrackEvent.name`.
    pub const NAME: u32 = 23;
    /// `TrackEvent.counter_value`.
    pub const COUNTER_VALUE: u32 = 30;
    /// `TrackEvent.flow_ids`.
    pub const FLOW: u32 = 47;
    /// `TrackEvent.terminating_flow_ids`.
    pub const FLOW_END: u32 = 48;
    /// `DebugAnnotation.uint_value`.
    pub const UINT_VALUE: u32 = 3;
    /// `DebugAnnotation.string_value`.
    pub const STRING_VALUE: u32 = 6;
    /// `DebugAnnotation.name`.
    pub const ANNOTATION_NAME: u32 = 10;
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum TrackEventType {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// Sequence id of all packets, which have one writer.
const SEQUENCE_ID: u64 = 1;

/// Distance between the Perfetto process ids of domains, which leaves room for their lanes.
const PID_STRIDE: u64 = 100;

/// Exporter of a timeline in pieces, so that a large one is not in memory twice.
pub struct Export<'a> {
    recording: &'a Recording,
    timeline: &'a Timeline,
    /// Number of messages in transit in each direction of a channel.
    in_flight: BTreeMap<(u64, bool), u64>,
    next: usize,
}

/// Number of events per piece.
const CHUNK_EVENTS: usize = 4096;

impl<'a> Export<'a> {
    /// Creates an exporter of a recording in the order found by [`crate::merge::merge`].
    #[must_use]
    pub fn new(recording: &'a Recording, timeline: &'a Timeline) -> Self {
        Export { recording, timeline, in_flight: BTreeMap::new(), next: 0 }
    }

    /// Encodes the track descriptors, which come first.
    #[must_use]
    pub fn tracks(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, domain) in self.recording.domains.iter().enumerate() {
            let name = domain_name(domain.head.identity.domain);
            let dead = if domain.final_state.alive { "" } else { ", ended" };
            let title = format!("{} on {} ({name}{dead})", domain.head.program, domain.head.node);
            let pid = (index as u64 + 1) * PID_STRIDE;
            let process = Message::new().number(field::PID, pid).text(field::PROCESS_NAME, &title);
            let track =
                Message::new().number(field::UUID, domain_track(index)).message(field::PROCESS, &process);
            put_track_descriptor(&mut out, &track);
            for lane in domain.lanes.keys() {
                let thread = Message::new()
                    .number(field::PID, pid)
                    .number(field::TID, pid + u64::from(*lane))
                    .text(field::THREAD_NAME, &format!("thread {}", lane + 1));
                let track = Message::new()
                    .number(field::UUID, lane_track(index, *lane))
                    .number(field::PARENT, domain_track(index))
                    .message(field::THREAD, &thread);
                put_track_descriptor(&mut out, &track);
            }
        }
        self.counter_tracks(&mut out);
        out
    }

    fn counter_tracks(&self, out: &mut Vec<u8>) {
        let messages = self.timeline.events.iter().filter_map(|placed| MessageId::of(&placed.event));
        let directions: BTreeSet<(u64, bool)> =
            messages.map(|message| (message.channel, message.from_accepting)).collect();
        for direction in directions {
            let track = Message::new()
                .number(field::UUID, depth_track(direction))
                .text(field::TRACK_NAME, &format!("in flight: {}", direction_name(direction)))
                .message(field::COUNTER, &Message::new());
            put_track_descriptor(out, &track);
        }
        let mut named = BTreeSet::new();
        for placed in self.timeline.events.iter().filter(|placed| placed.event.kind == EventKind::Value) {
            if named.insert((placed.domain, placed.event.subject)) {
                let track = Message::new()
                    .number(field::UUID, value_track(placed))
                    .text(field::TRACK_NAME, &self.text(placed))
                    .number(field::PARENT, domain_track(placed.domain as usize))
                    .message(field::COUNTER, &Message::new());
                put_track_descriptor(out, &track);
            }
        }
    }

    /// Encodes the next piece. Returns `None` at the end.
    pub fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let timeline = self.timeline;
        let events = timeline.events.get(self.next..).filter(|rest| !rest.is_empty())?;
        let events = &events[..events.len().min(CHUNK_EVENTS)];
        self.next += events.len();
        let mut out = Vec::new();
        for placed in events {
            self.event(&mut out, placed);
        }
        Some(out)
    }

    fn event(&mut self, out: &mut Vec<u8>, placed: &TimelineEvent) {
        let event = &placed.event;
        let event_type = match event.kind {
            EventKind::Sleep | EventKind::SpanBegin => TrackEventType::Begin,
            EventKind::Wake | EventKind::SpanEnd => TrackEventType::End,
            EventKind::Value => {
                let value = Message::new().number(field::COUNTER_VALUE, event.value);
                return put_packet(out, placed.time_ns, TrackEventType::Counter, value_track(placed), &value);
            }
            _ => TrackEventType::Instant,
        };
        let mut content = Message::new();
        if !matches!(event_type, TrackEventType::End) {
            content =
                content.text(field::NAME, &self.title(placed)).text(field::CATEGORY, category(event.kind));
        }
        if let Some(message) = MessageId::of(event) {
            let flow = if event.kind == EventKind::Send { field::FLOW } else { field::FLOW_END };
            content = content
                .fixed(flow, flow_id(&message))
                .message(field::ANNOTATION, &annotation("bytes", u64::from(event.size)))
                .message(field::ANNOTATION, &annotation("number", event.value));
        }
        if event.kind.is_of_channel() && !matches!(event_type, TrackEventType::End) {
            content = content.message(field::ANNOTATION, &annotation("channel", event.subject));
        }
        if event.kind == EventKind::Marker {
            content = content.message(field::ANNOTATION, &annotation("value", event.value));
        }
        content = content.message(field::ANNOTATION, &annotation("logical clock", placed.logical));
        put_packet(
            out,
            placed.time_ns,
            event_type,
            lane_track(placed.domain as usize, placed.lane),
            &content,
        );
        self.depth(out, placed);
    }

    /// Writes the number of messages in transit, after a message was sent or received whose send is known.
    fn depth(&mut self, out: &mut Vec<u8>, placed: &TimelineEvent) {
        let Some(message) = MessageId::of(&placed.event) else { return };
        let direction = (message.channel, message.from_accepting);
        let count = self.in_flight.entry(direction).or_default();
        if placed.event.kind == EventKind::Send {
            *count += 1;
        } else if placed.cause.is_some() {
            *count = count.saturating_sub(1);
        }
        let value = Message::new().number(field::COUNTER_VALUE, *count);
        put_packet(out, placed.time_ns, TrackEventType::Counter, depth_track(direction), &value);
    }

    fn text(&self, placed: &TimelineEvent) -> String {
        let domain = self.recording.domains.get(placed.domain as usize);
        match domain.and_then(|domain| domain.texts.get(&placed.event.subject)) {
            Some(text) => text.clone(),
            None => "?".to_string(),
        }
    }

    fn title(&self, placed: &TimelineEvent) -> String {
        let event = &placed.event;
        match event.kind {
            EventKind::Send => format!("send {} B", event.size),
            EventKind::Receive => format!("receive {} B", event.size),
            EventKind::Sleep if event.value == AWAITS_ROOM => "asleep, for room".to_string(),
            EventKind::Sleep => "asleep".to_string(),
            EventKind::Gone => match event.value {
                GONE_CLOSED => "peer closed".to_string(),
                GONE_DIED => "peer died".to_string(),
                _ => "peer broke the protocol".to_string(),
            },
            EventKind::Spawn => format!("spawn {}", domain_name(event.subject)),
            EventKind::ChildEnded => format!("{} ended", domain_name(event.subject)),
            EventKind::SpanBegin | EventKind::Marker => self.text(placed),
            kind => kind.name().to_string(),
        }
    }
}

fn category(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Send | EventKind::Receive => "message",
        EventKind::Ring | EventKind::Sleep | EventKind::Wake => "wait",
        EventKind::Open | EventKind::Close | EventKind::Gone => "channel",
        EventKind::Spawn | EventKind::ChildEnded => "domain",
        _ => "program",
    }
}

fn domain_name(bits: u64) -> String {
    DomainId::from_bits(bits).map_or_else(|| format!("{bits:#x}"), |id| id.to_string())
}

fn direction_name((channel, from_accepting): (u64, bool)) -> String {
    format!("channel {channel} {}", if from_accepting { "back" } else { "there" })
}

fn domain_track(index: usize) -> u64 {
    (index as u64 + 1) << 16
}

fn lane_track(index: usize, lane: u32) -> u64 {
    domain_track(index) | (u64::from(lane) + 1)
}

/// Returns an id in the upper half of the range, which no domain uses.
fn depth_track((channel, from_accepting): (u64, bool)) -> u64 {
    1 << 63 | fnv1a(&(channel << 1 | u64::from(from_accepting)).to_le_bytes())
}

fn value_track(placed: &TimelineEvent) -> u64 {
    let key = [u64::from(placed.domain), placed.event.subject, 1];
    1 << 63 | fnv1a(key.map(u64::to_le_bytes).as_flattened())
}

/// Returns the flow id, equal for a send and its receive.
fn flow_id(message: &MessageId) -> u64 {
    let key = [message.channel, u64::from(message.from_accepting), message.number];
    fnv1a(key.map(u64::to_le_bytes).as_flattened())
}

fn annotation(name: &str, value: u64) -> Message {
    Message::new().text(field::ANNOTATION_NAME, name).number(field::UINT_VALUE, value)
}

fn put_track_descriptor(out: &mut Vec<u8>, track: &Message) {
    let packet = Message::new().number(field::SEQUENCE, SEQUENCE_ID).message(field::TRACK_DESCRIPTOR, track);
    out.extend_from_slice(Message::new().message(field::PACKET, &packet).bytes());
}

fn put_packet(out: &mut Vec<u8>, time_ns: u64, event_type: TrackEventType, track: u64, content: &Message) {
    let event =
        Message::new().number(field::TYPE, event_type as u64).number(field::TRACK, track).append(content);
    let packet = Message::new()
        .number(field::TIMESTAMP, time_ns)
        .number(field::SEQUENCE, SEQUENCE_ID)
        .message(field::TRACK_EVENT, &event);
    out.extend_from_slice(Message::new().message(field::PACKET, &packet).bytes());
}

// Too slow under miri, without benefit: the tests only compute on private bytes.
#[cfg(all(test, not(miri)))]
mod tests;
