//! A channel over two rings in memory that both sides map.

use std::os::fd::BorrowedFd;

use tombolo_base::SharedMemory;
use tombolo_link::{ChannelLayout, Ends, Handshake, Hello, Side, TransportKind};
use tombolo_platform::barrier;
use tombolo_platform::event::Interest;
use tombolo_platform::time::{Deadline, now_ns};
use tombolo_ring::{Glimpse, Look, Producer, RecvError, SendError, Sleeper, WakeOrder};

use crate::capabilities::Capabilities;
use crate::connection::Connection;
use crate::contract::{Announced, Limits, Now, Room, Stats, Tally, Transport};
use crate::error::ChannelError;
use crate::message::{Batch, Draft, Message};

/// Fruitless polls between two looks at the clock, to see whether a look at the lifeline is due.
const POLLS_PER_CLOCK: u32 = 32;

/// Time between two looks at the lifeline, in nanoseconds, for programs that poll and never sleep. A look is a
/// system call or two: at this distance a thousandth of a processor.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// One end of a channel whose two rings lie in memory.
#[derive(Debug)]
pub struct MemoryChannel {
    kind: TransportKind,
    ends: Ends,
    connection: Connection,
    /// How the peer broke the protocol, which is final.
    broken: Option<String>,
    /// This end was closed.
    closed: bool,
    /// Length of the message that last found no room: what a sleep for room waits for.
    refused_bytes: usize,
    /// How often credit had been given back when the peer was last told.
    credit_stores: u64,
    fruitless_polls: u32,
    next_look_ns: u64,
    /// Messages both ways at the last of these looks.
    passed_at_look: u64,
    rings: u64,
    sleeps: u64,
    answers: Answers,
    memory: SharedMemory,
}

/// Whether messages here are answered: something was sent since the last that was received.
#[derive(Default, Debug)]
struct Answers {
    sent: u64,
}

impl Answers {
    /// To be called when a message is found, before it is read. The slot of the answer lies in the cache of the
    /// peer, which polls it; its way here takes as long as that of the message, and may as well begin now. Where
    /// messages only come, the slot is left alone, for the peer would have to fetch it again.
    #[inline(always)]
    fn prepare(&mut self, producer: &Producer) {
        let sent = producer.messages();
        if sent != self.sent {
            self.sent = sent;
            producer.prefetch();
        }
    }
}

impl MemoryChannel {
    /// Opens one side of a channel in `memory`: handshake, then rings.
    pub(crate) fn open(
        kind: TransportKind,
        memory: SharedMemory,
        side: Side,
        hello: Hello,
        mut connection: Connection,
        deadline: Deadline,
    ) -> Result<Self, ChannelError> {
        let mut handshake = Handshake::start(&memory, side, hello).map_err(|error| unusable(&error))?;
        let layout = ChannelLayout::new(hello.config);
        let agreed = match connection.shake_hands(&mut handshake, deadline) {
            Ok(agreed) => agreed,
            Err(error @ ChannelError::TimedOut(_)) => {
                if handshake.withdraw()
                    && let Ok(mut ends) = layout.attach(&memory, side, WakeOrder::Fence)
                {
                    ends.close();
                }
                connection.ring();
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let order = if agreed.expedited_barrier { WakeOrder::Asymmetric } else { WakeOrder::Fence };
        let ends = layout.attach(&memory, side, order).map_err(|error| unusable(&error))?;
        Ok(MemoryChannel {
            kind,
            ends,
            connection,
            broken: None,
            closed: false,
            refused_bytes: 0,
            credit_stores: 0,
            fruitless_polls: 0,
            next_look_ns: 0,
            passed_at_look: 0,
            rings: 0,
            sleeps: 0,
            answers: Answers::default(),
            memory,
        })
    }

    /// Declines a channel that a peer proposes in `memory`, so that it learns of it.
    pub(crate) fn decline(
        memory: &SharedMemory,
        side: Side,
        hello: Hello,
        reason: u32,
        mut connection: Connection,
    ) -> Result<(), ChannelError> {
        Handshake::start(memory, side, hello).map_err(|error| unusable(&error))?.decline(reason);
        connection.ring();
        Ok(())
    }

    /// The memory of the channel, header and rings, for measuring the bare memory under it. What is written there
    /// from now on is between the two programs: the rings are of no use any more.
    #[must_use]
    pub fn into_raw_memory(self) -> RawMemory {
        RawMemory { memory: self.memory.clone(), _channel: self }
    }

    /// A message of several slots, or one for which no room is known.
    #[inline(never)]
    fn send_slow(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        match self.ends.producer.try_send(message) {
            Ok(()) => {
                self.wake_peer();
                Ok(())
            }
            Err(error) => Err(self.not_sent(error, message.len())),
        }
    }

    /// A message of several slots, an end, or room to be given back.
    #[inline(never)]
    fn recv_slow(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, ChannelError> {
        self.try_recv_in_place(|message| {
            message.copy_into(buffer);
            message.len()
        })
    }

    /// Takes note of what came along with messages that were received.
    #[inline(always)]
    fn note_received(&mut self) {
        self.wake_peer_for_credit();
        self.ends.producer.hear_credit(self.ends.consumer.reverse_credit());
    }

    /// Does what follows a glimpse of the ring.
    #[inline(always)]
    fn after_glimpse<R>(&mut self, now: Now<R>) -> Now<R> {
        match now {
            Now::Received(_) => self.note_received(),
            Now::Nothing => self.look_now_and_then(),
            Now::Unclear => {}
        }
        now
    }

    /// What a look at the ring comes to, `peer_gone` having been looked at before it.
    #[inline(always)]
    fn after_look<R>(
        &mut self,
        received: Result<Option<R>, RecvError>,
        peer_gone: bool,
    ) -> Result<Option<R>, ChannelError> {
        match received {
            Ok(Some(received)) => {
                self.note_received();
                Ok(Some(received))
            }
            Ok(None) => self.note_nothing(peer_gone).map(|()| None),
            Err(error) => Err(self.not_received(error)),
        }
    }

    /// After a look at the ring that found no message.
    #[inline(always)]
    fn note_nothing(&mut self, peer_gone: bool) -> Result<(), ChannelError> {
        self.wake_peer_for_credit();
        if peer_gone {
            return Err(ChannelError::PeerDied);
        }
        self.look_now_and_then();
        Ok(())
    }

    /// To be called after everything that a peer asleep for a message must hear of.
    #[inline]
    fn wake_peer(&mut self) {
        match self.ends.waker.look() {
            Look::Awake => {}
            Look::Ring => self.ring_peer(),
            Look::Calm => self.ends.waker.stop_fencing(barrier::everywhere),
        }
    }

    /// A peer asleep for room must hear of credit that was given back.
    #[inline(always)]
    fn wake_peer_for_credit(&mut self) {
        let stores = self.ends.consumer.credit_stores();
        if stores != self.credit_stores {
            self.credit_stores = stores;
            self.wake_peer_for_room();
        }
    }

    #[inline(never)]
    fn wake_peer_for_room(&mut self) {
        match self.ends.room_waker.look() {
            Look::Awake => {}
            Look::Ring => self.ring_peer(),
            Look::Calm => self.ends.room_waker.stop_fencing(barrier::everywhere),
        }
    }

    #[cold]
    fn ring_peer(&mut self) {
        self.rings += 1;
        self.connection.ring();
        // A peer that closes leaves its line at asleep, so that a sender that never looks elsewhere comes here.
        self.note_end();
    }

    /// Takes note of what bell and lifeline say.
    fn listen(&mut self) {
        self.connection.listen();
        self.note_end();
    }

    /// Sends nothing more to a peer that is gone or receives nothing more.
    fn note_end(&mut self) {
        // In this order: who closes hangs up right after. What was found is kept by the ring, because the line can
        // be overwritten by the peer at any time.
        if self.ends.producer.peer_closed() {
            self.ends.producer.close();
        } else if self.connection.peer_gone() {
            self.ends.producer.abandon();
        }
    }

    /// Looks at the lifeline now and then, for programs that poll and never sleep. What it finds shows in the next
    /// operation: first the ring must be looked at again.
    #[inline]
    fn look_now_and_then(&mut self) {
        self.fruitless_polls = self.fruitless_polls.wrapping_add(1);
        if self.fruitless_polls.is_multiple_of(POLLS_PER_CLOCK) {
            self.look_if_due();
        }
    }

    #[cold]
    fn look_if_due(&mut self) {
        let now_ns = now_ns();
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns + LOOK_EVERY_NS;
        // A peer that sends, or makes room, lives: the kernel need not be asked. What was sent into room that was there
        // already says nothing, but there is no more of that than a ring holds.
        let passed = self.sent().messages.wrapping_add(self.received().messages);
        if passed == self.passed_at_look {
            self.listen();
        }
        self.passed_at_look = passed;
    }

    /// Notes that the peer broke the protocol; every later operation says so.
    #[cold]
    fn violated(&mut self, what: String) -> ChannelError {
        let what = self.broken.get_or_insert(what).clone();
        self.close();
        ChannelError::Violation(what)
    }

    #[cold]
    fn not_received(&mut self, error: RecvError) -> ChannelError {
        match error {
            RecvError::Violation(violation) => self.violated(violation.to_string()),
            RecvError::Closed => {
                self.note_end();
                self.broken.clone().map_or(ChannelError::Closed, ChannelError::Violation)
            }
        }
    }

    #[cold]
    fn not_sent(&mut self, error: SendError, length_bytes: usize) -> ChannelError {
        match error {
            SendError::Full => {
                self.refused_bytes = length_bytes;
                self.look_now_and_then();
                ChannelError::WouldBlock
            }
            SendError::TooLong { len_bytes, max_bytes } => {
                ChannelError::TooLong { length_bytes: len_bytes, max_bytes }
            }
            SendError::Violation(violation) => self.violated(violation.to_string()),
            SendError::Closed | SendError::Abandoned => match &self.broken {
                Some(what) => ChannelError::Violation(what.clone()),
                None if self.closed || error == SendError::Closed => ChannelError::Closed,
                None => ChannelError::PeerDied,
            },
        }
    }

    /// Not for what was last refused. An end or a broken protocol is no lack of room.
    fn has_no_room(&mut self) -> bool {
        matches!(self.ends.producer.claim(self.refused_bytes), Err(SendError::Full))
    }

    fn has_message_or_end(&mut self) -> bool {
        let found = self.ends.consumer.poll();
        self.wake_peer_for_credit();
        found || self.connection.peer_gone()
    }
}

/// The memory cannot hold what was agreed.
fn unusable(error: &dyn std::fmt::Display) -> ChannelError {
    ChannelError::Violation(error.to_string())
}

/// Says asleep. Whether that needs a barrier yet depends on what the two sides agreed on.
fn announce(sleeper: &mut Sleeper) -> Announced {
    let mut announced = Announced::Complete;
    let Ok(()) = sleeper.arm(|| {
        announced = Announced::NeedsBarrier;
        Ok::<(), std::convert::Infallible>(())
    });
    announced
}

impl Transport for MemoryChannel {
    fn kind(&self) -> TransportKind {
        self.kind
    }

    fn capabilities(&self) -> Capabilities {
        match self.kind.traits().atomics {
            true => Capabilities::OF_SHARED_MEMORY,
            false => Capabilities::OF_WINDOW,
        }
    }

    fn limits(&self) -> Limits {
        Limits { max_message_bytes: self.ends.producer.max_message_bytes() }
    }

    fn stats(&self) -> Stats {
        let (sent, received) = (self.ends.producer.counters(), self.ends.consumer.counters());
        Stats {
            messages_sent: sent.messages,
            bytes_sent: sent.bytes,
            messages_received: received.messages,
            bytes_received: received.bytes,
            rings: self.rings,
            sleeps: self.sleeps,
        }
    }

    fn room(&self) -> Room {
        let producer = &self.ends.producer;
        // A ring has at most 65,536 slots.
        Room { slots: producer.config().slot_count().get(), free_slots: producer.known_free_slots() as u32 }
    }

    #[inline(always)]
    fn sent(&self) -> Tally {
        let counters = self.ends.producer.counters();
        Tally { messages: counters.messages, bytes: counters.bytes }
    }

    #[inline(always)]
    fn received(&self) -> Tally {
        let counters = self.ends.consumer.counters();
        Tally { messages: counters.messages, bytes: counters.bytes }
    }

    #[inline(always)]
    fn rings(&self) -> u64 {
        self.rings
    }

    #[inline(always)]
    fn send_now(&mut self, message: &[u8]) -> bool {
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
        let sent = self.ends.producer.try_send_single(message);
        if sent {
            self.wake_peer();
        }
        sent
    }

    #[inline(always)]
    fn try_send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        if self.send_now(message) { Ok(()) } else { self.send_slow(message) }
    }

    #[inline(always)]
    fn recv_now(&mut self, buffer: &mut Vec<u8>) -> Now<usize> {
        // Not by a closure, as below: it would be called, and this lies between a message and its answer.
        let peer_gone = self.connection.peer_gone();
        let now = match self.ends.consumer.glimpse() {
            Glimpse::Single(message) => {
                self.answers.prepare(&self.ends.producer);
                Message::in_slots(message).copy_into(buffer);
                Now::Received(buffer.len())
            }
            Glimpse::Nothing if !peer_gone => Now::Nothing,
            Glimpse::Nothing | Glimpse::Unclear => Now::Unclear,
        };
        self.after_glimpse(now)
    }

    #[inline(always)]
    fn recv_now_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Now<R> {
        // Looked at before the ring: whoever is gone by now has sent everything it ever will.
        let peer_gone = self.connection.peer_gone();
        let now = match self.ends.consumer.glimpse() {
            Glimpse::Single(message) => {
                self.answers.prepare(&self.ends.producer);
                Now::Received(read(&Message::in_slots(message)))
            }
            Glimpse::Nothing if !peer_gone => Now::Nothing,
            Glimpse::Nothing | Glimpse::Unclear => Now::Unclear,
        };
        self.after_glimpse(now)
    }

    #[inline(always)]
    fn try_recv_into(&mut self, buffer: &mut Vec<u8>) -> Result<Option<usize>, ChannelError> {
        match self.recv_now(buffer) {
            Now::Received(length) => Ok(Some(length)),
            Now::Nothing => Ok(None),
            Now::Unclear => self.recv_slow(buffer),
        }
    }

    #[inline(always)]
    fn try_recv_in_place<R>(
        &mut self,
        read: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, ChannelError> {
        // Looked at before the ring: whoever is gone by now has sent everything it ever will.
        let peer_gone = self.connection.peer_gone();
        // By name, for a message that might have been borrows the ring to the end of the statement.
        let received = match self.ends.consumer.try_recv() {
            Ok(Some(message)) => {
                self.answers.prepare(&self.ends.producer);
                Ok(Some(read(&Message::in_slots(message))))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.after_look(received, peer_gone)
    }

    #[inline(always)]
    fn try_recv_batch(
        &mut self,
        max: usize,
        mut read: impl FnMut(&Message<'_>),
    ) -> Result<usize, ChannelError> {
        let peer_gone = self.connection.peer_gone();
        let mut received = 0;
        let mut failed = None;
        while received < max {
            match self.ends.consumer.try_recv() {
                Ok(Some(message)) => read(&Message::in_slots(message)),
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            received += 1;
        }
        match failed {
            _ if received > 0 => {
                self.note_received();
                Ok(received)
            }
            // An error stays, and is found again by the next call.
            Some(error) => Err(self.not_received(error)),
            None if max == 0 => Ok(0),
            None => self.note_nothing(peer_gone).map(|()| 0),
        }
    }

    #[inline(always)]
    fn try_send_in_place(
        &mut self,
        length_bytes: usize,
        write: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), ChannelError> {
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
        let failed = match self.ends.producer.claim(length_bytes) {
            Ok(claim) => {
                let mut draft = Draft::in_slots(claim);
                write(&mut draft);
                draft.commit();
                None
            }
            Err(error) => Some(error),
        };
        match failed {
            None => {
                self.wake_peer();
                Ok(())
            }
            Some(error) => Err(self.not_sent(error, length_bytes)),
        }
    }

    #[inline(always)]
    fn try_send_batch(&mut self, fill: impl FnOnce(&mut Batch<'_>)) -> Result<u64, ChannelError> {
        if let Err(error) = self.ends.producer.check_open() {
            return Err(self.not_sent(error, 0));
        }
        self.ends.producer.set_reverse_credit(self.ends.consumer.credit_to_piggyback());
        let mut batch = Batch::in_slots(self.ends.producer.batch());
        fill(&mut batch);
        let refused_bytes = batch.refused_bytes();
        let messages = batch.commit();
        if messages > 0 {
            self.wake_peer();
        }
        if let Some(refused_bytes) = refused_bytes {
            // What a sleep for room waits for; the end of the peer is looked for as after any send without room.
            self.refused_bytes = refused_bytes;
            self.look_now_and_then();
        }
        Ok(messages)
    }

    #[inline]
    fn readable(&mut self) -> bool {
        let readable = self.has_message_or_end();
        if !readable {
            self.look_now_and_then();
        }
        readable
    }

    #[inline]
    fn unsent(&mut self) -> bool {
        false
    }

    fn sendable(&mut self) -> bool {
        !self.has_no_room()
    }

    fn announce_sleep(&mut self, awaited: Interest) -> Announced {
        let ends = &mut self.ends;
        let reads = matches!(awaited, Interest::Read | Interest::ReadWrite);
        let writes = matches!(awaited, Interest::Write | Interest::ReadWrite);
        // Both announced, whatever the first lacks: the peer may fence for one and not for the other.
        let needs_barrier =
            [reads.then(|| announce(&mut ends.sleeper)), writes.then(|| announce(&mut ends.room_sleeper))]
                .contains(&Some(Announced::NeedsBarrier));
        if needs_barrier { Announced::NeedsBarrier } else { Announced::Complete }
    }

    fn may_sleep(&mut self, awaited: Interest) -> bool {
        // In any case, for it gives back all room that the peer may be waiting for.
        let nothing_to_read = !self.has_message_or_end();
        let no_room = self.has_no_room();
        let may_sleep = match awaited {
            Interest::Read => nothing_to_read,
            Interest::Write => no_room,
            Interest::ReadWrite => nothing_to_read && no_room,
        };
        self.sleeps += u64::from(may_sleep);
        may_sleep
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        self.connection.sources(sources);
    }

    fn doze(&mut self, deadline: Deadline) -> Option<bool> {
        self.connection.doze(deadline)
    }

    fn woken(&mut self, rung: bool) {
        if !self.closed {
            self.ends.sleeper.disarm();
        }
        self.ends.room_sleeper.disarm();
        if rung {
            self.listen();
        }
    }

    fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        // Where the monitors hold the lifelines, it also hangs up when this end's own monitor is killed. The peer
        // is told that this domain died with it; a memory that says "closed" would say otherwise.
        self.connection.listen();
        if self.connection.peer_gone() {
            self.ends.producer.abandon();
            self.ends.consumer.abandon();
            return;
        }
        self.ends.close();
        // For good: see `ring_peer`. No last look follows, so no barrier is needed.
        let _ = announce(&mut self.ends.sleeper);
        // Whether it sleeps or not: closing is rare, and the last thing said.
        self.connection.ring();
    }
}

impl Drop for MemoryChannel {
    fn drop(&mut self) {
        self.close();
    }
}

/// The bare memory of what was a channel.
#[derive(Debug)]
pub struct RawMemory {
    /// Header, then rings.
    pub memory: SharedMemory,
    /// Keeps the lifeline, so that the peer's end stays open as long as the memory is used.
    _channel: MemoryChannel,
}
