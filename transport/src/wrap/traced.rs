//! Counts and traces the traffic at one end of a channel.

use std::hint::cold_path;
use std::sync::Arc;

use tombolo_link::TransportKind;
use tombolo_link::end::Peek;
use tombolo_platform::event::Interest;
use tombolo_platform::time::now_ns;
use tombolo_trace::event::{AWAITS_MESSAGE, AWAITS_ROOM, GONE_BROKEN, GONE_CLOSED, GONE_DIED};
use tombolo_trace::page::{Row, RowDescription, RowState, Switch};

use crate::capabilities::Capabilities;
use crate::contract::{
    Description, EndError, Room, ShortMessage, Stored, Transport, recv_one_by_one, send_one_by_one,
};
use crate::memory::MemoryChannel;
use crate::message::{Batch, Draft, Message};
use crate::trace::{EventKind, NewEvent, Recorder};

/// Messages between two publications of the room, on an end that never has to wait or wake: few enough that a
/// reader sampling once a second sees the state of a busy channel, many enough that their cost is negligible.
const MESSAGES_PER_ROOM_UPDATE: u64 = 1024;

/// Channel end with public counters, whose messages are traced while tracing is on.
///
/// While tracing is off, an operation costs one additional store of two counters and two loads.
#[derive(Debug)]
pub struct Traced<T> {
    /// Dropped first, so that its last event comes before the end of the channel.
    probe: Probe,
    inner: T,
}

/// Identity of a traced channel end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TracedEnd {
    /// Id of the channel.
    pub channel: u64,
    /// Whether it is the accepting end.
    pub accepting: bool,
    /// Domain at the other end, as bits.
    pub peer: u64,
}

#[derive(Debug)]
struct Probe {
    switch: Switch,
    row: Row,
    row_number: Option<usize>,
    recorder: Arc<Recorder>,
    end: TracedEnd,
    rings: u64,
    /// Number of sent messages at which the room is published next.
    next_room_update: u64,
    stalls: u64,
    /// Number of sent messages when there was last no room.
    stalled_at: Option<u64>,
    /// Whether the start of a sleep was recorded but not its end.
    asleep: bool,
    gone: bool,
    closed: bool,
}

impl Probe {
    #[inline]
    fn is_on(&self) -> bool {
        self.switch.is_on()
    }

    fn event(&self, kind: EventKind, size: u32, value: u64) -> NewEvent {
        NewEvent { kind, accepting: self.end.accepting, size, subject: self.end.channel, value }
    }

    fn record(&self, kind: EventKind, size: u32, value: u64) {
        if self.is_on() {
            self.recorder.record(self.event(kind, size, value));
        }
    }

    /// Publishes sent messages, and whether sending rang the peer.
    #[inline(always)]
    fn count_sent(&mut self, inner: &impl Transport, ticks: u64) {
        let stats = inner.stats();
        self.row.set_sent(stats.messages_sent, stats.bytes_sent);
        if stats.rings != self.rings {
            self.count_waits(inner, ticks);
        } else if stats.messages_sent >= self.next_room_update {
            self.publish_room_periodically(inner);
        }
    }

    /// Publishes received messages, and whether returning slots rang the peer.
    #[inline(never)]
    fn count_received(&mut self, inner: &impl Transport) {
        let stats = inner.stats();
        self.row.set_received(stats.messages_received, stats.bytes_received);
        if stats.rings != self.rings {
            self.count_waits(inner, 0);
        }
    }

    /// Counts a lack of room, once for each affected message however often it was retried.
    #[cold]
    fn count_stall(&mut self, inner: &impl Transport) {
        let sent = Some(inner.stats().messages_sent);
        if self.stalled_at != sent {
            self.stalled_at = sent;
            self.stalls += 1;
            self.row.set_stalls(self.stalls);
            self.publish_room(inner);
        }
    }

    fn publish_room(&self, inner: &impl Transport) {
        let Room { slots, free_slots } = inner.stats().room;
        self.row.set_room(slots, free_slots);
    }

    #[cold]
    fn publish_room_periodically(&mut self, inner: &impl Transport) {
        self.next_room_update = inner.stats().messages_sent.saturating_add(MESSAGES_PER_ROOM_UPDATE);
        self.publish_room(inner);
    }

    /// Publishes rings, sleeps and room. A ring is stamped `ticks`, so that it does not come after its
    /// effects; 0 means the current time.
    #[cold]
    fn count_waits(&mut self, inner: &impl Transport, ticks: u64) {
        let stats = inner.stats();
        if stats.rings != self.rings {
            self.rings = stats.rings;
            if self.is_on() {
                let ticks = if ticks == 0 { self.recorder.ticks() } else { ticks };
                self.recorder.record_at(ticks, self.event(EventKind::Ring, 0, 0));
            }
        }
        self.row.set_rings_and_sleeps(stats.rings, stats.sleeps);
        self.publish_room(inner);
    }

    /// Records an error that ends the channel.
    #[cold]
    fn record_failure(&mut self, error: EndError) {
        let (state, how) = match error {
            EndError::Closed => (RowState::PeerClosed, GONE_CLOSED),
            EndError::PeerDied => (RowState::PeerDied, GONE_DIED),
            EndError::Broken => (RowState::Broken, GONE_BROKEN),
            EndError::Full | EndError::TooLong => return,
        };
        if !self.closed && !std::mem::replace(&mut self.gone, true) {
            self.row.set_state(state);
            self.record(EventKind::Gone, 0, how);
        }
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.row.set_state(RowState::Closed);
            self.record(EventKind::Close, 0, 0);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.close();
        if let Some(number) = self.row_number {
            self.recorder.release_row(number);
        }
    }
}

/// Returns the transport's position in [`TransportKind::ALL`].
fn transport_code(kind: TransportKind) -> u8 {
    TransportKind::ALL.iter().position(|one| *one == kind).unwrap_or(0) as u8
}

impl<T: Transport> Traced<T> {
    /// Starts to count and trace the traffic of `inner` for `recorder`.
    #[must_use]
    pub fn new(inner: T, recorder: &Arc<Recorder>, end: TracedEnd) -> Self {
        let stats = inner.stats();
        let Description { kind, max_message_bytes, .. } = inner.describe();
        let described = RowDescription {
            channel: end.channel,
            peer: end.peer,
            accepting: end.accepting,
            transport: transport_code(kind),
            max_message_bytes: max_message_bytes as u64,
            opened_ns: now_ns(),
            slots: stats.room.slots,
        };
        let (row, row_number) = recorder.acquire_row(&described);
        let probe = Probe {
            switch: recorder.switch(),
            row,
            row_number,
            recorder: Arc::clone(recorder),
            end,
            rings: stats.rings,
            next_room_update: stats.messages_sent.saturating_add(MESSAGES_PER_ROOM_UPDATE),
            stalls: 0,
            stalled_at: None,
            asleep: false,
            gone: false,
            closed: false,
        };
        probe.record(EventKind::Open, u32::from(described.transport), end.peer);
        Traced { probe, inner }
    }

    /// Returns the transport that is wrapped.
    #[must_use]
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Stops counting and tracing, and returns the transport inside.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Records why a message was not sent.
    #[cold]
    fn record_unsent(&mut self, error: EndError) {
        match error {
            EndError::Full => self.probe.count_stall(&self.inner),
            error => self.probe.record_failure(error),
        }
    }

    /// Returns the time before a send, so that no receive of the same message has an earlier timestamp. Zero
    /// while tracing is off.
    #[inline(always)]
    fn timestamp(&self) -> u64 {
        if self.probe.is_on() { self.probe.recorder.ticks() } else { 0 }
    }

    /// Records an attempt to send a message.
    #[inline(always)]
    fn record_send_attempt(
        &mut self,
        ticks: u64,
        length_bytes: usize,
        result: Result<(), EndError>,
    ) -> Result<(), EndError> {
        match result {
            Ok(()) if ticks != 0 => self.trace_send(ticks, length_bytes),
            Ok(()) => self.probe.count_sent(&self.inner, 0),
            Err(error) => self.record_unsent(error),
        }
        result
    }

    #[cold]
    fn trace_send(&mut self, ticks: u64, length_bytes: usize) {
        let size = u32::try_from(length_bytes).unwrap_or(u32::MAX);
        let event = self.probe.event(EventKind::Send, size, self.inner.stats().messages_sent);
        self.probe.recorder.record_at(ticks, event);
        self.probe.count_sent(&self.inner, ticks);
    }

    /// Returns the channel in memory, while tracing is off.
    #[inline(always)]
    fn untraced_memory(&mut self) -> Option<&mut MemoryChannel> {
        if self.probe.is_on() {
            cold_path();
            return None;
        }
        self.inner.as_memory_channel()
    }

    /// Sends a message of the given size if stores to memory suffice; see [`Stored`].
    #[inline(always)]
    pub fn try_store(&mut self, message: &[u8], size: ShortMessage) -> Stored {
        let Some(memory) = self.untraced_memory() else { return Stored::Nothing };
        let stored = memory.try_store(message, size);
        if stored != Stored::Nothing {
            // Sends that look for room publish it: in a ring, at least once per lap.
            self.probe.row.add_sent(1, message.len() as u64);
        }
        stored
    }

    /// Completes a send that returned [`Stored::Unfinished`].
    #[cold]
    pub fn finish(&mut self) {
        if let Some(memory) = self.inner.as_memory_channel() {
            memory.finish();
        }
        self.probe.count_sent(&self.inner, 0);
    }

    /// Slow path of receiving the next message.
    #[inline(never)]
    fn receive<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        let mut length = 0;
        let received = self.inner.try_recv_in_place(|message| {
            length = message.len();
            read(message)
        });
        match received {
            Ok(None) => Ok(None),
            Ok(Some(result)) => {
                if self.probe.is_on() {
                    self.trace_receive(length);
                } else {
                    self.probe.count_received(&self.inner);
                }
                Ok(Some(result))
            }
            Err(error) => {
                self.probe.record_failure(error);
                Err(error)
            }
        }
    }

    /// Slow path of receiving up to `max` messages.
    #[inline(never)]
    fn receive_batch(&mut self, max: usize, mut read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        if self.probe.is_on() {
            // One by one, so that each gets a timestamp and a number.
            return recv_one_by_one(self, max, &mut read);
        }
        let received = self.inner.try_recv_batch(max, read);
        self.count_received_batch(received)
    }

    /// Counts messages that were received together.
    #[inline(always)]
    fn count_received_batch(&mut self, received: Result<usize, EndError>) -> Result<usize, EndError> {
        match received {
            Ok(0) => {}
            Ok(_) => self.probe.count_received(&self.inner),
            Err(error) => self.probe.record_failure(error),
        }
        received
    }

    /// Records a receive while tracing is on.
    #[cold]
    fn trace_receive(&mut self, length_bytes: usize) {
        let size = u32::try_from(length_bytes).unwrap_or(u32::MAX);
        self.probe.record(EventKind::Receive, size, self.inner.stats().messages_received);
        self.probe.count_received(&self.inner);
    }
}

impl<T: Transport> Transport for Traced<T> {
    /// Removes whole batches while tracing is on, because their messages are then sent one by one.
    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        Description { capabilities: inner.capabilities.without(Capabilities::WHOLE_BATCHES), ..inner }
    }

    crate::forward_transport!(inner: stats failure is_ready announce_sleep sources park);

    #[inline(always)]
    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        let ticks = self.timestamp();
        let result = self.inner.try_send(message);
        self.record_send_attempt(ticks, message.len(), result)
    }

    #[inline(always)]
    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        if let Some(memory) = self.untraced_memory() {
            // The only place for a message that loads find, so that the compiler inlines `read`.
            match memory.peek() {
                Peek::Message(head) => {
                    let length_bytes = head.len_bytes();
                    let received = read(&memory.message(&head));
                    let may_have_rung = memory.consume(head);
                    self.probe.row.add_received(1, length_bytes as u64);
                    if may_have_rung {
                        self.probe.count_received(&self.inner);
                    }
                    return Ok(Some(received));
                }
                Peek::Empty => return Ok(None),
                Peek::SlowPath => {}
            }
        }
        cold_path();
        // Not the result of `receive` itself: the call would write it to the place of the result above, which
        // would then be in memory too.
        let mut received = None;
        self.receive(|message| received = Some(read(message)))?;
        Ok(received)
    }

    #[inline(always)]
    fn try_recv_batch(&mut self, max: usize, read: impl FnMut(&Message<'_>)) -> Result<usize, EndError> {
        let received = match self.untraced_memory() {
            Some(memory) => memory.try_recv_batch(max, read),
            None => return self.receive_batch(max, read),
        };
        self.count_received_batch(received)
    }

    #[inline(always)]
    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), EndError> {
        let ticks = self.timestamp();
        let result = self.inner.try_send_in_place(length_bytes, write);
        self.record_send_attempt(ticks, length_bytes, result)
    }

    #[inline(always)]
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, EndError> {
        if self.probe.is_on() {
            // One by one, so that each gets a timestamp and a number.
            return send_one_by_one(self, fill);
        }
        match self.inner.try_send_batch(fill) {
            Ok(sent) => {
                self.probe.count_sent(&self.inner, 0);
                Ok(sent)
            }
            Err(error) => {
                self.probe.record_failure(error);
                Err(error)
            }
        }
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        let may_sleep = self.inner.may_sleep(awaited);
        if may_sleep {
            if awaited == Interest::Write {
                // Only here is it visible that a batch ran out of room.
                self.probe.count_stall(&self.inner);
            }
            self.probe.count_waits(&self.inner, 0);
            if self.probe.is_on() {
                let what = if awaited == Interest::Write { AWAITS_ROOM } else { AWAITS_MESSAGE };
                self.probe.record(EventKind::Sleep, 0, what);
                self.probe.asleep = true;
            }
        }
        may_sleep
    }

    fn finish_sleep(&mut self, rung: bool) {
        if std::mem::replace(&mut self.probe.asleep, false) {
            self.probe.record(EventKind::Wake, 0, u64::from(rung));
        }
        self.inner.finish_sleep(rung);
    }

    fn close(&mut self) {
        self.probe.close();
        self.inner.close();
    }
}
