//! Sending to peers: at once if there is room, otherwise from a backlog.

use crate::completion::CompletionKind;
use crate::memory::{Memory, Payload};
use crate::net::{LinkEnd, LinkId, Net, Stages};
use crate::wire::{Envelope, Head, Writer, flag, kind};

use super::peer::Staging;
use super::{Core, Engine, INJECT_BYTES, INLINE_BYTES, Op, PART_BYTES, PendingCompletion};

/// Maximum number of messages sent from a peer's queues before the next peer: as many as a link has slots.
const SEND_BATCH: usize = 256;

/// Maximum number of unanswered requests per peer.
const MAX_OUTSTANDING: u32 = 8192;

/// A backlog entry. Transfers to a peer arrive in the order in which they were posted.
#[derive(Debug)]
pub(crate) enum Pending<M> {
    /// A message. `completion` is the completion if it has not been reported yet.
    Message { envelope: Envelope, payload: Payload<M>, delivery: bool, completion: Option<PendingCompletion> },
    /// A write to the peer's memory, of which `sent` bytes have been sent.
    Write {
        key: u64,
        address: u64,
        payload: Payload<M>,
        sent: usize,
        data: Option<u64>,
        completion: PendingCompletion,
    },
    /// A read of the peer's memory.
    Read { key: u64, address: u64, length: u64, op: u64 },
    /// An atomic operation on the peer's memory.
    Atomic { head: Head, key: u64, address: u64, op: u64, operands: Box<[u8]> },
}

impl<M> Pending<M> {
    /// Returns whether this is a message with that context whose completion is still due.
    pub(super) fn is_message_of(&self, context: usize) -> bool {
        matches!(self, Pending::Message { completion: Some(completion), .. } if completion.entry.context == context)
    }

    /// Returns the completion to fail if this is never sent. Reads and atomic operations are reported through
    /// their `Op`.
    pub(super) fn into_failed_completion(self) -> Option<PendingCompletion> {
        match self {
            Pending::Message { completion, .. } => completion,
            Pending::Write { completion, .. } => Some(completion),
            Pending::Read { .. } | Pending::Atomic { .. } => None,
        }
    }
}

/// Bytes that a peer has requested.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The peer's operation.
    pub(crate) peer_op: u64,
    pub(crate) from: StreamSource,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// Source of a stream's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamSource {
    /// The message offered by this operation.
    Message(u64),
    /// Registered memory, from an offset on.
    Region { key: u64, offset: usize },
}

/// A chunk: its place, its number, and its offset in bytes.
type Chunk = (usize, u16, usize);

/// How a message can be sent now.
enum SendPath {
    Slots,
    Chunk { place: usize, chunk: u16, at: usize },
    Offer,
    Wait,
}

/// Sends a message with its bytes through ring slots.
#[inline(always)]
pub(super) fn send_in_slots<N: Net>(
    net: &mut N,
    link: LinkId,
    envelope: &Envelope,
    length: usize,
    each: impl FnOnce(&mut Writer<'_, '_>),
) -> Result<bool, LinkEnd> {
    net.send(link, envelope.bytes() + length, |draft, _| {
        let mut writer = Writer::new(draft);
        envelope.write(kind::EAGER, 0, length as u32, &mut writer);
        each(&mut writer);
    })
}

impl<V, M> Core<V, M> {
    /// Returns a free chunk for a peer, if the peer can read chunks and one is free.
    #[inline]
    fn chunk_for(&self, peer: u32) -> Option<Chunk> {
        let state = &self.peers[peer as usize];
        let place = state.place.filter(|_| state.staging == Staging::Ready)?;
        let pool = self.pools.get(place)?;
        let chunk = pool.next_free()?;
        Some((place, chunk, usize::from(chunk) * pool.chunk_bytes))
    }

    fn chunk_bytes(&self, peer: u32) -> usize {
        let state = &self.peers[peer as usize];
        match state.place.filter(|_| state.staging == Staging::Ready) {
            Some(place) => self.pools.get(place).map_or(0, |pool| pool.chunk_bytes),
            None => 0,
        }
    }

    /// Returns whether the peer holds chunks, which it frees when it makes progress.
    pub(super) fn holds_chunks(&self, peer: u32) -> bool {
        let place = self.peers[peer as usize].place;
        place.and_then(|place| self.pools.get(place)).is_some_and(|pool| pool.held_by(peer) > 0)
    }

    fn send_path(&self, peer: u32, length: usize) -> SendPath {
        let state = &self.peers[peer as usize];
        if state.credit_messages == 0 {
            return SendPath::Wait;
        }
        if length as u64 > state.credit_bytes {
            return SendPath::Offer;
        }
        if length <= INLINE_BYTES {
            return SendPath::Slots;
        }
        let chunk_bytes = self.chunk_bytes(peer);
        if chunk_bytes == 0 {
            return if length <= INJECT_BYTES { SendPath::Slots } else { SendPath::Offer };
        }
        if length > chunk_bytes {
            return SendPath::Offer;
        }
        match self.chunk_for(peer) {
            Some((place, chunk, at)) => SendPath::Chunk { place, chunk, at },
            None if self.holds_chunks(peer) => SendPath::Wait,
            None => SendPath::Offer,
        }
    }
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Sends what is queued for a peer. Returns whether something is left to send when there is room.
    pub(super) fn pump(&mut self, peer: u32) -> bool {
        let state = &self.core.peers[peer as usize];
        let Some(link) = state.link else {
            if !state.backlog.is_empty() || !state.control.is_empty() {
                self.request_link(peer);
            }
            return false;
        };
        if state.connecting {
            self.cancel_connect(peer);
        }
        match self.pump_link(peer, link) {
            Ok(left) => left,
            Err(end) => {
                self.stop_sending(link, end);
                false
            }
        }
    }

    fn pump_link(&mut self, peer: u32, link: LinkId) -> Result<bool, LinkEnd> {
        let at = peer as usize;
        while let Some(control) = self.core.peers[at].control.front() {
            if !self.net.send(link, control.bytes(), |draft, _| control.write(draft))? {
                return Ok(true);
            }
            self.core.peers[at].control.pop_front();
        }
        for _ in 0..SEND_BATCH {
            let Some(mut pending) = self.core.peers[at].backlog.pop_front() else { break };
            if !self.transmit(peer, link, &mut pending)? {
                self.core.peers[at].backlog.push_front(pending);
                break;
            }
        }
        for _ in 0..SEND_BATCH {
            let Some(mut stream) = self.core.peers[at].streams.pop_front() else { break };
            let sent = self.send_part(peer, link, &mut stream)?;
            let left = stream.offset < stream.length;
            if left {
                // One stream after another, so that the first completes early.
                self.core.peers[at].streams.push_front(stream);
            }
            if !sent {
                break;
            }
        }
        let state = &self.core.peers[at];
        Ok(!(state.backlog.is_empty() && state.streams.is_empty() && state.control.is_empty()))
    }

    /// Sends a backlog entry or a part of it. Returns whether all of it was sent.
    pub(super) fn transmit(
        &mut self,
        peer: u32,
        link: LinkId,
        pending: &mut Pending<M>,
    ) -> Result<bool, LinkEnd> {
        if let Pending::Message { envelope, payload, delivery, completion } = pending {
            return self.transmit_message(peer, link, *envelope, payload, *delivery, completion);
        }
        // The limit also bounds the number of replies.
        if self.core.peers[peer as usize].outstanding >= MAX_OUTSTANDING {
            return Ok(false);
        }
        let sent = self.transmit_request(peer, link, pending)?;
        if sent {
            self.core.peers[peer as usize].outstanding += 1;
        }
        Ok(sent)
    }

    fn transmit_request(
        &mut self,
        peer: u32,
        link: LinkId,
        pending: &mut Pending<M>,
    ) -> Result<bool, LinkEnd> {
        match pending {
            Pending::Message { .. } => Ok(false),
            Pending::Write { key, address, payload, sent, data, completion } => loop {
                let last = self.write_part(peer, link, (*key, *address), payload, sent, *data, completion)?;
                match last {
                    Some(true) => return Ok(true),
                    Some(false) => {}
                    None => return Ok(false),
                }
            },
            Pending::Read { key, address, length, op } => {
                let words = [Head::new(kind::READ).word(), *key, *address, *op, *length];
                self.net.send(link, 40, |draft, _| {
                    let mut writer = Writer::new(draft);
                    words.into_iter().for_each(|word| writer.word(word));
                })
            }
            Pending::Atomic { head, key, address, op, operands } => {
                let words = [head.word(), *key, *address, *op];
                self.net.send(link, 32 + operands.len(), |draft, _| {
                    let mut writer = Writer::new(draft);
                    words.into_iter().for_each(|word| writer.word(word));
                    writer.bytes(operands);
                })
            }
        }
    }

    fn transmit_message(
        &mut self,
        peer: u32,
        link: LinkId,
        mut envelope: Envelope,
        payload: &mut Payload<M>,
        delivery: bool,
        completion: &mut Option<PendingCompletion>,
    ) -> Result<bool, LinkEnd> {
        let length = payload.len();
        if length > INLINE_BYTES {
            self.request_staging(peer, link);
        }
        let send_path = self.core.send_path(peer, length);
        if matches!(send_path, SendPath::Wait) {
            return Ok(false);
        }
        let offered = matches!(send_path, SendPath::Offer);
        let op_completion =
            completion.unwrap_or_else(|| PendingCompletion::new(CompletionKind::Send, false, 0, 0));
        let op = (delivery || offered).then(|| {
            self.core.ops.insert(Op::Sending { peer, payload: None, delivery, completion: op_completion })
        });
        envelope.ack = op.filter(|_| !offered);
        let sent = match send_path {
            SendPath::Slots => send_in_slots(&mut self.net, link, &envelope, length, |writer| {
                payload.for_each(0, length, |piece| writer.bytes(piece));
            }),
            SendPath::Chunk { place, chunk, at } => self.net.send(link, envelope.bytes(), |draft, stages| {
                let mut end = at;
                payload.for_each(0, length, |piece| {
                    stages.write(place, end, piece);
                    end += piece.len();
                });
                envelope.write(kind::STAGED, chunk, length as u32, &mut Writer::new(draft));
            }),
            SendPath::Offer => self.net.send(link, envelope.bytes() + 16, |draft, _| {
                let mut writer = Writer::new(draft);
                envelope.write(kind::OFFER, 0, 0, &mut writer);
                writer.word(op.unwrap_or(0));
                writer.word(length as u64);
            }),
            SendPath::Wait => Ok(false),
        };
        if !matches!(sent, Ok(true)) {
            op.and_then(|op| self.core.ops.remove(op));
            return sent;
        }
        let state = &mut self.core.peers[peer as usize];
        state.credit_messages -= 1;
        if !offered {
            state.credit_bytes -= length as u64;
        }
        if let SendPath::Chunk { place, .. } = send_path {
            self.core.pools[place].assign_next(peer);
        }
        match op.and_then(|op| self.core.ops.get_mut(op)) {
            Some(Op::Sending { payload: kept, .. }) if offered => {
                *kept = Some(std::mem::replace(payload, Payload::Copied(Box::default())));
            }
            Some(_) => {}
            None => {
                if let Some(completion) = completion.take() {
                    self.core.finish(completion);
                }
            }
        }
        Ok(true)
    }

    /// Returns how many bytes fit into the next message to a peer, and the chunk to use, if any. `None` if it
    /// has to wait for chunks.
    fn next_part(&mut self, peer: u32, link: LinkId, left: usize) -> Option<(usize, Option<Chunk>)> {
        if left > INLINE_BYTES {
            self.request_staging(peer, link);
            let chunk_bytes = self.core.chunk_bytes(peer);
            if chunk_bytes > 0 {
                match self.core.chunk_for(peer) {
                    Some(chunk) => return Some((left.min(chunk_bytes), Some(chunk))),
                    None if self.core.holds_chunks(peer) => return None,
                    None => {}
                }
            }
        }
        Some((left.min(PART_BYTES), None))
    }

    /// Sends the next part of a write. Returns whether it was the last; `None` if there was no room.
    #[allow(clippy::too_many_arguments, reason = "the fields of what waits")]
    fn write_part(
        &mut self,
        peer: u32,
        link: LinkId,
        (key, address): (u64, u64),
        payload: &Payload<M>,
        sent: &mut usize,
        data: Option<u64>,
        completion: &PendingCompletion,
    ) -> Result<Option<bool>, LinkEnd> {
        let left = payload.len() - *sent;
        let Some((length, chunk)) = self.next_part(peer, link, left) else { return Ok(None) };
        let last = length == left;
        let op =
            if last { self.core.ops.insert(Op::AwaitingReply { peer, completion: *completion }) } else { 0 };
        let flags = if last { flag::LAST | if data.is_some() { flag::DATA } else { 0 } } else { 0 };
        let (kind, small) = match chunk {
            Some((_, chunk, _)) => (kind::WRITE_STAGED, chunk),
            None => (kind::WRITE, 0),
        };
        let head = Head { kind, flags, small, length: length as u32 };
        let has_data = last && data.is_some();
        let head_bytes = 32 + 8 * usize::from(has_data);
        let message_bytes = head_bytes + if chunk.is_some() { 0 } else { length };
        let transmitted = self.net.send(link, message_bytes, |draft, stages| {
            let mut writer = Writer::new(draft);
            let words = [head.word(), key, address.wrapping_add(*sent as u64), op];
            words.into_iter().for_each(|word| writer.word(word));
            writer.word_if(has_data, data.unwrap_or(0));
            match chunk {
                Some((place, _, mut at)) => payload.for_each(*sent, length, |piece| {
                    stages.write(place, at, piece);
                    at += piece.len();
                }),
                None => payload.for_each(*sent, length, |piece| writer.bytes(piece)),
            }
        });
        if !matches!(transmitted, Ok(true)) {
            if last {
                self.core.ops.remove(op);
            }
            return transmitted.map(|_| None);
        }
        if let Some((place, ..)) = chunk {
            self.core.pools[place].assign_next(peer);
        }
        *sent += length;
        Ok(Some(last))
    }

    /// Sends the next part of a stream. Returns whether there was room.
    fn send_part(&mut self, peer: u32, link: LinkId, stream: &mut Stream) -> Result<bool, LinkEnd> {
        let left = stream.length - stream.offset;
        let Some((length, chunk)) = self.next_part(peer, link, left) else { return Ok(false) };
        let last = length == left;
        let Stream { peer_op, from, offset, .. } = *stream;
        let mut flags = 0;
        // Find the source. If it is gone, the stream ends.
        let (message, region) = match from {
            StreamSource::Message(op) => match self.core.ops.get_mut(op) {
                Some(Op::Sending { payload: Some(payload), delivery, .. }) => {
                    if last && *delivery {
                        flags = flag::ACK;
                    }
                    (Some(&*payload), None)
                }
                _ => {
                    stream.offset = stream.length;
                    return Ok(true);
                }
            },
            StreamSource::Region { key, offset: start } => match self.core.regions.get(&key) {
                Some(region) if start + stream.length <= region.memory.len() => {
                    (None, Some((&region.memory, start)))
                }
                _ => {
                    stream.offset = stream.length;
                    let status = crate::wire::Status::NoKey;
                    self.core.send_control(peer, crate::wire::Control::Done { peer_op, status });
                    return Ok(true);
                }
            },
        };
        let each = |take: &mut dyn FnMut(&[u8])| match (message, region) {
            (Some(payload), _) => payload.for_each(offset, length, take),
            (None, Some((memory, start))) => memory.for_each_source(start + offset, length, take),
            (None, None) => {}
        };
        let (kind, small) = match chunk {
            Some((_, chunk, _)) => (kind::DATA_STAGED, chunk),
            None => (kind::DATA, 0),
        };
        let head = Head { kind, flags, small, length: length as u32 };
        let message_bytes = 24 + if chunk.is_some() { 0 } else { length };
        let sent = self.net.send(link, message_bytes, |draft, stages| {
            let mut writer = Writer::new(draft);
            [head.word(), peer_op, offset as u64].into_iter().for_each(|word| writer.word(word));
            match chunk {
                Some((place, _, mut at)) => each(&mut |piece| {
                    stages.write(place, at, piece);
                    at += piece.len();
                }),
                None => each(&mut |piece| writer.bytes(piece)),
            }
        })?;
        if !sent {
            return Ok(false);
        }
        if let Some((place, ..)) = chunk {
            self.core.pools[place].assign_next(peer);
        }
        stream.offset += length;
        if last && let StreamSource::Message(op) = from {
            self.on_payload_sent(op);
        }
        Ok(true)
    }

    /// Notes that the last byte of an offered message was sent.
    fn on_payload_sent(&mut self, op: u64) {
        if let Some(Op::Sending { payload, delivery, .. }) = self.core.ops.get_mut(op) {
            *payload = None;
            if *delivery {
                return;
            }
        }
        if let Some(Op::Sending { completion, .. }) = self.core.ops.remove(op) {
            self.core.finish(completion);
        }
    }
}
