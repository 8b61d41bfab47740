//! A channel between two simulated domains. It carries numbered messages with predictable contents, or bulk
//! data.

use tombolo_base::{ChannelId, DomainId, Random};
use tombolo_control::{CapabilityId, Grant};
use tombolo_link::{ChannelLayout, Hello, Side, TransportKind};

use crate::bulk::{BulkEnd, Pools};
use crate::channel::{Ended, MemoryEnd};
use crate::descriptor::{Actor, Fd, SocketEnd};
use crate::shared::{ChannelLog, Shared};
use crate::window::WindowPlace;

/// Capacity of a stream, in packets.
const STREAM_PACKETS: usize = 32;

/// Transport of a conversation.
enum ConversationLink {
    /// Rings in shared memory with a lifeline; for a window also its place and the byte offset of the rings.
    Memory { channel: Box<MemoryEnd>, lifeline: SocketEnd, place: Option<(WindowPlace, usize)> },
    /// A stream.
    Stream(SocketEnd),
}

/// Error: the channel accepts no more messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ChannelEnded;

/// One end of a conversation.
pub struct Conversation {
    id: ChannelId,
    side: usize,
    link: ConversationLink,
    /// Number of messages still to be sent.
    pub to_send: u64,
    /// Domain at the other end.
    pub peer: DomainId,
    /// Capabilities announced by received messages and not accepted yet.
    pub received_capabilities: Vec<CapabilityId>,
    /// State of a bulk channel, except its pools.
    bulk: Option<Box<BulkEnd>>,
    actor: Actor,
    pid: i32,
}

impl Conversation {
    /// Opens the end granted to a process, for bulk data if `is_bulk`. Returns `None` if a descriptor or the
    /// window of the grant is missing.
    pub fn open(shared: &mut Shared, pid: i32, grant: &Grant, fds: Vec<Fd>, is_bulk: bool) -> Option<Self> {
        let actor = Actor::Process(pid);
        // As on Linux: on one kernel the sleeper issues an expedited barrier on behalf of both sides.
        let expedited_barrier = grant.transport == TransportKind::Shm;
        let hello = Hello { expedited_barrier, ..Hello::new(grant.config, 5, None) };
        let length_bytes = ChannelLayout::new(grant.config).length_bytes();
        let mut fds = fds.into_iter();
        let link = match (grant.transport, fds.next()?) {
            (TransportKind::Socket, Fd::SocketEnd(end)) => ConversationLink::Stream(end.owned_by(actor)),
            (TransportKind::Shm, Fd::SocketEnd(end)) => {
                let lifeline = end.owned_by(actor);
                let channel = MemoryEnd::open(lifeline.memory(length_bytes), grant.side, hello).ok()?;
                ConversationLink::Memory { channel: Box::new(channel), lifeline, place: None }
            }
            (TransportKind::Window, Fd::Window(place)) => {
                let window = grant.window.as_ref()?;
                let Some(Fd::SocketEnd(lifeline)) = fds.next() else { return None };
                let offset_bytes = window.offset_bytes as usize;
                let memory = shared.windows.memory(place)?.slice(offset_bytes, length_bytes).ok()?;
                let channel = Box::new(MemoryEnd::open(memory, grant.side, hello).ok()?);
                shared.windows.listen(place, offset_bytes, length_bytes, actor);
                let place = Some((place, offset_bytes));
                ConversationLink::Memory { channel, lifeline: lifeline.owned_by(actor), place }
            }
            (transport, fd) => {
                shared.audit.fail(format!("a grant over {transport:?} came with {fd:?}"));
                return None;
            }
        };
        let side = usize::from(grant.side == Side::B);
        let log = shared.channels.entry(grant.channel).or_default();
        if std::mem::replace(&mut log.open[side], true) || log.abandoned[side] {
            shared.audit.fail(format!("side {:?} of {} was granted twice", grant.side, grant.channel));
        }
        let (id, peer) = (grant.channel, grant.peer);
        // Pools are memory that both ends map; ends joined by a stream share none.
        let is_bulk = is_bulk && grant.transport != TransportKind::Socket;
        let bulk = is_bulk.then(|| Box::new(BulkEnd::new(side == 1)));
        Some(Conversation {
            id,
            side,
            link,
            to_send: 0,
            peer,
            received_capabilities: Vec::new(),
            bulk,
            actor,
            pid,
        })
    }

    /// Returns the id of the channel.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Returns the number of messages still to be sent, bulk messages included.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.to_send + self.bulk.as_ref().map_or(0, |bulk| bulk.unsent())
    }

    /// Returns whether the channel carries bulk data.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// Returns the channel and its bulk state, except its pools; `None` if it is not a bulk channel.
    pub fn bulk_end(&mut self) -> Option<(ChannelId, &mut BulkEnd)> {
        let id = self.id;
        self.bulk.as_deref_mut().map(|bulk| (id, bulk))
    }

    fn log<'a>(&self, shared: &'a mut Shared) -> &'a mut ChannelLog {
        shared.channels.entry(self.id).or_default()
    }

    /// Receives and sends as much as possible. Returns `false` once the channel has ended; the end of a bulk
    /// channel is reported to the pools.
    pub fn exchange(&mut self, shared: &mut Shared, pools: &mut Pools) -> bool {
        if let ConversationLink::Memory { channel, .. } = &mut self.link {
            channel.wake_up();
        }
        let over = loop {
            match self.receive() {
                Ok(Some(message)) => self.handle_message(shared, pools, &message),
                Ok(None) => break None,
                Err(ended) => break Some(ended),
            }
        };
        if let Some(ended) = over {
            self.check_end(shared, ended);
            self.report_end(shared, pools, ended == Ended::PeerDied);
            self.ring(shared);
            return false;
        }
        self.send_all(shared);
        self.sleep(shared);
        self.ring(shared);
        true
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        match &mut self.link {
            ConversationLink::Memory { channel, lifeline, .. } => {
                // Checked before the ring: a peer that is gone at this point sends nothing more.
                if lifeline.is_gone() {
                    channel.mark_peer_gone();
                }
                channel.continue_handshake()?;
                channel.receive()
            }
            ConversationLink::Stream(end) => match end.receive() {
                Some((message, _)) => {
                    end.ring();
                    Ok(Some(message))
                }
                None if end.is_gone() => Err(Ended::PeerDied),
                None => Ok(None),
            },
        }
    }

    /// Queues one more message, which carries the number of a capability.
    pub fn send_capability(&mut self, shared: &mut Shared, capability: CapabilityId) {
        let (side, waiting) = (self.side, self.to_send);
        let log = self.log(shared);
        let number = log.sent[side] + waiting;
        log.sent_capabilities[side].push((number, capability));
        self.to_send += 1;
    }

    fn handle_message(&mut self, shared: &mut Shared, pools: &mut Pools, message: &[u8]) {
        let Some(mut bulk) = self.bulk.take() else { return self.check(shared, message) };
        let (id, side, pid) = (self.id, self.side, self.pid);
        let log = self.log(shared);
        log.received[side] += 1;
        let sent = log.bulk[1 - side].pop_front();
        if sent.as_deref() != Some(message) {
            shared.audit.fail(format!("{id}: {message:?} was received in place of {sent:?}"));
        }
        shared.record_event(&[13, id.0, message.len() as u64], || {
            format!("{id} side {side} received {message:?}")
        });
        pools.handle_message(shared, pid, (id, side), &mut bulk, message);
        self.bulk = Some(bulk);
    }

    /// Reports the end of the channel to the pools; `dead` if the program at the other end died.
    fn report_end(&mut self, shared: &mut Shared, pools: &mut Pools, dead: bool) {
        if self.bulk.take().is_some() {
            pools.on_channel_end(shared, self.pid, self.id, dead);
        }
    }

    /// Transfers buffers over a bulk channel if the channel has room.
    pub fn transfer(&mut self, shared: &mut Shared, pools: &mut Pools) {
        let Some(mut bulk) = self.bulk.take() else { return };
        let (id, side, pid) = (self.id, self.side, self.pid);
        if let Some(transfer) = pools.begin(shared, id, &bulk) {
            if self.offer(shared, &transfer.message) == Ok(true) {
                pools.commit(shared, pid, (id, 1 - side), &mut bulk, &transfer);
            } else {
                pools.abort(&transfer);
            }
        }
        self.bulk = Some(bulk);
        self.ring(shared);
    }

    /// Sends a bulk message. Returns `Ok(false)` if the channel is full, and an error once it has ended.
    fn offer(&mut self, shared: &mut Shared, message: &[u8]) -> Result<bool, ChannelEnded> {
        let ConversationLink::Memory { channel, .. } = &mut self.link else { return Err(ChannelEnded) };
        match channel.send(message) {
            Ok(true) => {
                let side = self.side;
                let log = self.log(shared);
                log.sent[side] += 1;
                log.bulk[side].push_back(message.to_vec());
                Ok(true)
            }
            Ok(false) => Ok(false),
            // Receiving reports the reason, after all pending messages.
            Err(Ended::Closed | Ended::PeerDied) => Err(ChannelEnded),
            Err(error) => {
                let id = self.id;
                shared.audit.fail(format!("{id} failed in sending {} bytes: {error}", message.len()));
                Err(ChannelEnded)
            }
        }
    }

    fn check(&mut self, shared: &mut Shared, message: &[u8]) {
        let other = 1 - self.side;
        let log = self.log(shared);
        let number = log.received[self.side];
        log.received[self.side] += 1;
        let received_capabilities = log.sent_capabilities[other].extract_if(.., |(by, _)| *by == number);
        self.received_capabilities.extend(received_capabilities.map(|(_, capability)| capability));
        let log = self.log(shared);
        let sent = log.sent[other];
        let expected = content(self.id, other, number, message.len());
        if number >= sent || message != expected {
            let what = if number >= sent { "that was not sent" } else { "in place of another" };
            let (id, bytes) = (self.id, message.len());
            shared.audit.fail(format!("{id}: message {number} of {bytes} bytes was received {what}"));
        }
        shared.record_event(&[4, self.id.0, number, message.len() as u64], || {
            format!("{} side {} received message {number}", self.id, self.side)
        });
    }

    fn check_end(&self, shared: &mut Shared, ended: Ended) {
        let other = 1 - self.side;
        let log = self.log(shared);
        let (received, sent) = (log.received[self.side], log.sent[other]);
        let wrong = match ended {
            Ended::Closed if !log.closed[other] => Some("it is not closed".to_owned()),
            Ended::Closed if received < sent => Some(format!("{received} of {sent} messages were received")),
            Ended::PeerDied if !log.abandoned[other] && log.open[other] => Some("the peer lives".to_owned()),
            Ended::PeerDied | Ended::Closed => None,
            Ended::Handshake(_) | Ended::Violation(_) | Ended::TooLong => {
                Some("no end here breaks the protocol".to_owned())
            }
        };
        if let Some(wrong) = wrong {
            shared.audit.fail(format!("{} ended on side {} ({ended}), but {wrong}", self.id, self.side));
        }
        let (id, side) = (self.id, self.side);
        shared.record_event(&[5, id.0, side as u64], || format!("{id} ended on side {side}: {ended}"));
    }

    fn send_all(&mut self, shared: &mut Shared) {
        if let Some(mut bulk) = self.bulk.take() {
            while let Some(message) = bulk.next() {
                match self.offer(shared, message) {
                    Ok(true) => bulk.accepted(),
                    Ok(false) => break,
                    Err(ChannelEnded) => bulk.clear(),
                }
            }
            self.bulk = Some(bulk);
            return;
        }
        while self.to_send > 0 {
            let (id, side) = (self.id, self.side);
            let number = self.log(shared).sent[side];
            let sent = match &mut self.link {
                ConversationLink::Memory { channel, .. } if !channel.is_open() => Ok(false),
                ConversationLink::Memory { channel, .. } => {
                    let length = length(id, side, number, channel.max_message_bytes());
                    channel.send(&content(id, side, number, length))
                }
                ConversationLink::Stream(end) if end.is_gone() => Err(Ended::PeerDied),
                ConversationLink::Stream(end) if end.unreceived_packets() >= STREAM_PACKETS => Ok(false),
                ConversationLink::Stream(end) => {
                    let length = length(id, side, number, 4096);
                    Ok(end.send((content(id, side, number, length), Vec::new())))
                }
            };
            match sent {
                Ok(true) => {
                    self.log(shared).sent[side] += 1;
                    self.to_send -= 1;
                }
                Ok(false) => return,
                // Receiving reports the reason, after all pending messages.
                Err(Ended::Closed | Ended::PeerDied) => self.to_send = 0,
                Err(error) => {
                    shared.audit.fail(format!("{id} failed in sending: {error}"));
                    self.to_send = 0;
                }
            }
        }
    }

    fn sleep(&mut self, shared: &mut Shared) {
        let for_room = self.unsent() > 0;
        if let ConversationLink::Memory { channel, .. } = &mut self.link
            && !channel.may_sleep(for_room)
        {
            shared.wake(self.actor);
        }
    }

    fn ring(&mut self, shared: &mut Shared) {
        let ConversationLink::Memory { channel, lifeline, place } = &mut self.link else { return };
        if !channel.take_ring() {
            return;
        }
        match place {
            None => lifeline.ring(),
            Some((place, byte)) if shared.windows.is_coherent(place.window) => {
                let there = WindowPlace { window: place.window, side: place.side.other() };
                let listeners = shared.windows.listeners(there, *byte);
                shared.ring(&listeners);
            }
            // On a window that is not coherent, the link rings when the stores arrive.
            Some(_) => {}
        }
    }

    /// Closes the channel in order.
    pub fn close(mut self, shared: &mut Shared, pools: &mut Pools) {
        self.report_end(shared, pools, false);
        let side = self.side;
        if let ConversationLink::Memory { channel, .. } = &mut self.link {
            if channel.is_open() {
                channel.close();
                self.log(shared).closed[side] = true;
            }
            self.ring(shared);
        }
        self.abandon(shared);
    }

    /// Marks this side as dead for the checks: its monitor, which kept the lifeline, died.
    pub fn is_lost(&self, shared: &mut Shared) {
        self.log(shared).abandoned[self.side] = true;
    }

    /// Drops the end without closing it, as the death of the process does.
    pub fn abandon(self, shared: &mut Shared) {
        let log = self.log(shared);
        log.abandoned[self.side] = true;
        log.open[self.side] = false;
        if let ConversationLink::Memory { place: Some((place, byte)), .. } = &self.link {
            shared.windows.remove_listener(*place, *byte, self.actor);
        }
    }
}

/// Returns the length of a message in bytes, at most `max_bytes`.
fn length(id: ChannelId, side: usize, number: u64, max_bytes: usize) -> usize {
    let mut random = Random::new(id.0 << 40 ^ number << 1 ^ side as u64);
    match random.below(16) {
        0 => 0,
        1 => random.between(0, max_bytes as u64) as usize,
        _ => random.between(8, 100).min(max_bytes as u64) as usize,
    }
}

/// Generates the contents of a message.
fn content(id: ChannelId, side: usize, number: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(!(id.0 << 40 ^ number << 1 ^ side as u64));
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.word().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
