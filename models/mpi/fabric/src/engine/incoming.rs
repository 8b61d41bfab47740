//! Handling of incoming messages. All of them are validated; an invalid message ends its link.

use crate::address::Address;
use crate::completion::{CompletionKind, Failure, flags};
use crate::matching::{Body, Posted, Unexpected};
use crate::memory::Memory;
use crate::net::{LinkId, Net};
use crate::wire::{Control, Envelope, Head, Malformed, Reader, Status, flag, kind};
use tombolo::Message;

use super::outgoing::{Stream, StreamSource};
use super::peer::Staging;
use super::{CREDIT_BYTES, CREDIT_MESSAGES, Core, MatchCriteria, Op, PendingCompletion};

/// Maximum number of replies queued for a peer. A peer that follows the protocol stays far below.
const MAX_QUEUED_REPLIES: usize = 1 << 16;

/// Maximum length of a peer's chunk memory that is mapped, in bytes.
const MAX_VIEW_BYTES: u64 = 1 << 30;

/// Location of a part's bytes: behind the words of the message, or in a chunk.
#[derive(Clone, Copy)]
enum Part {
    Inline(usize),
    Chunk { number: u16, at: usize, length: usize },
}

impl Part {
    fn length(self) -> usize {
        match self {
            Part::Inline(length) | Part::Chunk { length, .. } => length,
        }
    }
}

impl<V, M: Memory> Core<V, M> {
    /// Handles a message.
    #[inline]
    pub(super) fn handle<N: Net<View = V>>(
        &mut self,
        link: LinkId,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(message);
        let head = Head::from_word(reader.word()?);
        let Some(peer) = self.peer_of(link) else { return self.handle_hello(link, head, &mut reader) };
        if head.kind == kind::EAGER {
            let envelope = Envelope::read(head, &mut reader)?;
            let length = reader.remaining();
            return self.handle_eager(peer, &envelope, length, |target, at| {
                reader.copy(at, target);
                true
            });
        }
        self.handle_other::<N>(peer, link, head, &mut reader)
    }

    /// Handles a message that brings its bytes: delivers it to a matching receive or buffers it. `copy`
    /// returns whether the bytes were available.
    #[inline(always)]
    fn handle_eager(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        length: usize,
        copy: impl Fn(&mut [u8], usize) -> bool,
    ) -> Result<(), Malformed> {
        let sender = self.peers[peer as usize].source;
        let matching = if envelope.tagged { &mut self.tagged } else { &mut self.untagged };
        let Some(posted) = matching.take_posted(envelope.tag, sender) else {
            let mut bytes = vec![0; length].into_boxed_slice();
            if !copy(&mut bytes, 0) {
                return Err(Malformed);
            }
            return self.buffer_unexpected(peer, envelope, length, Body::Buffered(bytes));
        };
        self.return_credit(peer, length as u64);
        let left = self.deliver(posted, peer, envelope, length, |memory, at, length| {
            let (mut from, mut valid) = (0, true);
            memory.for_each_target(at, length, |piece| {
                valid &= copy(piece, from);
                from += piece.len();
            });
            valid
        });
        if let Some(left) = left {
            self.matching(envelope.tagged).post_first(left);
        }
        if let Some(peer_op) = envelope.ack {
            self.send_control(peer, Control::Done { peer_op, status: Status::Done });
        }
        Ok(())
    }

    fn buffer_unexpected(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        length: usize,
        body: Body,
    ) -> Result<(), Malformed> {
        let state = &mut self.peers[peer as usize];
        if matches!(body, Body::Buffered(_)) {
            state.unexpected_bytes += length as u64;
        }
        state.unexpected_messages += 1;
        if state.unexpected_bytes > CREDIT_BYTES || state.unexpected_messages > CREDIT_MESSAGES {
            return Err(Malformed);
        }
        // Delivery is confirmed: that does not require a matching receive.
        if let Some(peer_op) = envelope.ack {
            self.send_control(peer, Control::Done { peer_op, status: Status::Done });
        }
        self.matching(envelope.tagged).push_unexpected(Unexpected {
            peer,
            envelope: *envelope,
            length,
            body,
        });
        Ok(())
    }

    /// Returns the completion of a receive.
    #[inline(always)]
    fn receive_completion(
        &self,
        posted: &Posted<M>,
        peer: u32,
        envelope: &Envelope,
        length: usize,
    ) -> PendingCompletion {
        let if_set = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flags::RECV
            | if_set(envelope.tagged, flags::TAGGED)
            | if_set(!envelope.tagged, flags::MSG)
            | if_set(envelope.has_data, flags::REMOTE_CQ_DATA);
        let mut completion =
            PendingCompletion::new(CompletionKind::Receive, posted.report, posted.context, flags);
        let room = posted.memory.len() - posted.used;
        let entry = &mut completion.entry;
        entry.length = length.min(room);
        entry.buffer = posted.memory.address().wrapping_add(posted.used);
        entry.data = envelope.data;
        entry.tag = envelope.tag;
        entry.source = self.peers[peer as usize].source;
        if length > room {
            entry.failure = Some(Failure::Truncated { missing_bytes: length - room });
        }
        completion
    }

    /// Copies a message into the buffer of a receive with `put`, which returns whether the bytes were
    /// available. Returns the receive if it still has room.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        mut posted: Posted<M>,
        peer: u32,
        envelope: &Envelope,
        length: usize,
        put: impl FnOnce(&mut M, usize, usize) -> bool,
    ) -> Option<Posted<M>> {
        let mut completion = self.receive_completion(&posted, peer, envelope, length);
        let taken = completion.entry.length;
        if !put(&mut posted.memory, posted.used, taken) {
            // The peer died and its chunk is gone.
            completion.entry.failure = Some(Failure::PeerDied);
        }
        let left = if posted.multi.is_some() {
            self.advance_multi_recv(posted, taken, &mut completion)
        } else {
            None
        };
        self.finish(completion);
        left
    }

    /// Advances a buffer for several messages. Returns it if it still has room.
    #[inline(never)]
    fn advance_multi_recv(
        &mut self,
        mut posted: Posted<M>,
        taken: usize,
        completion: &mut PendingCompletion,
    ) -> Option<Posted<M>> {
        posted.used += taken;
        if posted.memory.len() - posted.used >= self.min_multi_bytes {
            return Some(posted);
        }
        let id = posted.multi?;
        let multi = self.multi_recvs.get_mut(id)?;
        multi.full = true;
        if multi.arriving == 0 {
            self.multi_recvs.remove(id);
            completion.entry.flags |= flags::MULTI_RECV;
            completion.report = true;
        }
        None
    }

    /// Notes that a message has fully arrived in a buffer for several messages.
    pub(super) fn complete_multi_recv(&mut self, multi: Option<u64>, completion: &mut PendingCompletion) {
        let Some(id) = multi else { return };
        let Some(multi) = self.multi_recvs.get_mut(id) else { return };
        multi.arriving -= 1;
        if multi.full && multi.arriving == 0 {
            self.multi_recvs.remove(id);
            completion.entry.flags |= flags::MULTI_RECV;
            completion.report = true;
        }
    }

    /// Requests the bytes of an offered message. Returns the receive if it still has room.
    pub(super) fn accept_offer(
        &mut self,
        posted: Posted<M>,
        peer: u32,
        envelope: &Envelope,
        peer_op: u64,
        length: usize,
    ) -> Option<Posted<M>> {
        let mut completion = self.receive_completion(&posted, peer, envelope, length);
        let expected = completion.entry.length;
        if let Some(failure) = self.peers[peer as usize].lost {
            self.fail(completion, failure);
            return None;
        }
        let multi = posted.multi;
        let criteria = MatchCriteria { tag: posted.tag, ignore: posted.ignore, source: posted.source };
        let (memory, left) = match multi {
            Some(id) => {
                let memory = posted.memory.part(posted.used, expected);
                if let Some(multi) = self.multi_recvs.get_mut(id).filter(|_| expected > 0) {
                    multi.arriving += 1;
                }
                (memory, self.advance_multi_recv(posted, expected, &mut completion))
            }
            // The whole buffer: if the message is withdrawn, the receive waits for another one.
            None => (posted.memory, None),
        };
        if expected == 0 {
            self.finish(completion);
            self.send_control(peer, Control::Done { peer_op, status: Status::Done });
        } else {
            let op =
                Op::Receiving { peer, peer_op, expected, arrived: 0, memory, multi, completion, criteria };
            let own_op = self.ops.insert(op);
            self.send_control(peer, Control::Accept { peer_op, own_op, length: expected as u64 });
        }
        left
    }

    /// Handles the first message of a peer that connected.
    fn handle_hello(
        &mut self,
        link: LinkId,
        head: Head,
        reader: &mut Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        let Control::Hello { endpoint, domain } = Control::read(head, reader)? else { return Err(Malformed) };
        // A domain may have any number of endpoints, but only its own.
        if self.unidentified.remove(&link) != Some(domain) {
            return Err(Malformed);
        }
        let peer = self.peer_at(Address { endpoint, domain });
        match self.peers[peer as usize].lost {
            // It may have connected by itself and closed before it could be connected to. What it sent is
            // still received.
            Some(Failure::Unreachable) => self.peers[peer as usize].lost = None,
            Some(_) => return Err(Malformed),
            None => {}
        }
        self.add_link(peer, link);
        Ok(())
    }

    #[inline(never)]
    fn handle_other<N: Net<View = V>>(
        &mut self,
        peer: u32,
        link: LinkId,
        head: Head,
        reader: &mut Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        match head.kind {
            kind::STAGED => {
                let envelope = Envelope::read(head, reader)?;
                let part = self.locate_part(peer, head, reader, true)?;
                self.handle_staged::<N>(peer, &envelope, part)
            }
            kind::OFFER => {
                let envelope = Envelope::read(head, reader)?;
                let peer_op = reader.word()?;
                let length = usize::try_from(reader.word()?).map_err(|_| Malformed)?;
                self.handle_offer(peer, &envelope, peer_op, length)
            }
            kind::DATA | kind::DATA_STAGED => {
                let (op, offset) = (reader.word()?, reader.word()?);
                let part = self.locate_part(peer, head, reader, head.kind == kind::DATA_STAGED)?;
                self.handle_data::<N>(peer, head, (op, offset), part, reader)
            }
            kind::WRITE | kind::WRITE_STAGED => {
                let (key, address, op) = (reader.word()?, reader.word()?, reader.word()?);
                let data = if head.has(flag::DATA) { Some(reader.word()?) } else { None };
                let part = self.locate_part(peer, head, reader, head.kind == kind::WRITE_STAGED)?;
                self.handle_write::<N>(peer, head, (key, address, op), data, part, reader)
            }
            kind::READ => {
                let (key, address, op) = (reader.word()?, reader.word()?, reader.word()?);
                let length = usize::try_from(reader.word()?).map_err(|_| Malformed)?;
                self.handle_read(peer, key, address, op, length)
            }
            kind::ATOMIC => {
                let (key, address, op) = (reader.word()?, reader.word()?, reader.word()?);
                self.handle_atomic(peer, head, key, address, op, reader)
            }
            _ => {
                let control = Control::read(head, reader)?;
                self.handle_control(peer, link, control)
            }
        }
    }

    /// Locates the bytes of a message, after validation.
    fn locate_part(
        &self,
        peer: u32,
        head: Head,
        reader: &Reader<'_, '_>,
        staged: bool,
    ) -> Result<Part, Malformed> {
        let length = head.length as usize;
        if !staged {
            return if reader.remaining() == length || head.kind == kind::DATA {
                Ok(Part::Inline(reader.remaining()))
            } else {
                Err(Malformed)
            };
        }
        let state = &self.peers[peer as usize];
        let (chunks, chunk_bytes) = state.view_chunks;
        if state.view.is_none()
            || head.small >= chunks
            || head.length > chunk_bytes
            || reader.remaining() != 0
        {
            return Err(Malformed);
        }
        let at = usize::from(head.small) * chunk_bytes as usize;
        Ok(Part::Chunk { number: head.small, at, length })
    }

    fn handle_staged<N: Net<View = V>>(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        part: Part,
    ) -> Result<(), Malformed> {
        let Part::Chunk { number, at, length } = part else { return Err(Malformed) };
        // Moved out because delivery needs access to the peer.
        let view = self.peers[peer as usize].view.take().ok_or(Malformed)?;
        let result =
            self.handle_eager(peer, envelope, length, |target, from| N::read_view(&view, at + from, target));
        self.peers[peer as usize].view = Some(view);
        self.send_control(peer, Control::Free { chunk: number });
        result
    }

    fn handle_offer(
        &mut self,
        peer: u32,
        envelope: &Envelope,
        peer_op: u64,
        length: usize,
    ) -> Result<(), Malformed> {
        if envelope.ack.is_some() {
            return Err(Malformed);
        }
        let sender = self.peers[peer as usize].source;
        match self.matching(envelope.tagged).take_posted(envelope.tag, sender) {
            Some(posted) => {
                self.return_credit(peer, 0);
                if let Some(left) = self.accept_offer(posted, peer, envelope, peer_op, length) {
                    self.matching(envelope.tagged).post_first(left);
                }
                Ok(())
            }
            None => self.buffer_unexpected(peer, envelope, length, Body::AtSender(peer_op)),
        }
    }

    /// Copies a part of an expected transfer to its place. Fails if the part is in a chunk that is gone.
    fn copy_part<N: Net<View = V>>(
        view: Option<&V>,
        memory: &mut M,
        offset: usize,
        part: Part,
        reader: &Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        let (mut from, mut valid) = (0, true);
        memory.for_each_target(offset, part.length(), |piece| {
            match (part, view) {
                (Part::Inline(_), _) => reader.copy(from, piece),
                (Part::Chunk { at, .. }, Some(view)) => valid &= N::read_view(view, at + from, piece),
                (Part::Chunk { .. }, None) => valid = false,
            }
            from += piece.len();
        });
        if valid { Ok(()) } else { Err(Malformed) }
    }

    fn handle_data<N: Net<View = V>>(
        &mut self,
        peer: u32,
        head: Head,
        (id, offset): (u64, u64),
        part: Part,
        reader: &Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        let length = part.length();
        let offset = usize::try_from(offset).map_err(|_| Malformed)?;
        let end = offset.checked_add(length).ok_or(Malformed)?;
        let Core { peers, ops, .. } = self;
        let view = peers[peer as usize].view.as_ref();
        let complete = match ops.get_mut(id) {
            Some(Op::Receiving { peer: from, expected, arrived, memory, .. }) if *from == peer => {
                if end > *expected {
                    return Err(Malformed);
                }
                Self::copy_part::<N>(view, memory, offset, part, reader)?;
                *arrived += length;
                *arrived >= *expected
            }
            Some(Op::Fetching { peer: from, arrived, memory, .. }) if *from == peer => {
                if end > memory.len() {
                    return Err(Malformed);
                }
                Self::copy_part::<N>(view, memory, offset, part, reader)?;
                *arrived += length;
                *arrived >= memory.len()
            }
            _ => return Err(Malformed),
        };
        if let Part::Chunk { number, .. } = part {
            self.send_control(peer, Control::Free { chunk: number });
        }
        if complete {
            match self.ops.remove(id) {
                Some(Op::Receiving { peer_op, multi, mut completion, .. }) => {
                    if head.has(flag::ACK) {
                        self.send_control(peer, Control::Done { peer_op, status: Status::Done });
                    }
                    self.complete_multi_recv(multi, &mut completion);
                    self.finish(completion);
                }
                Some(Op::Fetching { completion, .. }) => {
                    self.on_answer(peer);
                    self.finish(completion);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes that a peer has answered a request.
    fn on_answer(&mut self, peer: u32) {
        let state = &mut self.peers[peer as usize];
        state.outstanding = state.outstanding.saturating_sub(1);
    }

    fn handle_write<N: Net<View = V>>(
        &mut self,
        peer: u32,
        head: Head,
        (key, address, peer_op): (u64, u64, u64),
        data: Option<u64>,
        part: Part,
        reader: &Reader<'_, '_>,
    ) -> Result<(), Malformed> {
        let located = self.locate(key, address, part.length(), true);
        let Core { peers, regions, .. } = self;
        let state = &mut peers[peer as usize];
        let failed = match (state.write_failed, located) {
            (Some(status), _) | (None, Err(status)) => Some(status),
            (None, Ok(offset)) => {
                if let Some(region) = regions.get_mut(&key) {
                    Self::copy_part::<N>(state.view.as_ref(), &mut region.memory, offset, part, reader)?;
                }
                None
            }
        };
        state.write_failed = failed.filter(|_| !head.has(flag::LAST));
        if let Part::Chunk { number, .. } = part {
            self.send_control(peer, Control::Free { chunk: number });
        }
        if head.has(flag::LAST) {
            self.send_control(peer, Control::Done { peer_op, status: failed.unwrap_or(Status::Done) });
            if failed.is_none() {
                self.complete_remote_write(peer, data);
            }
        }
        Ok(())
    }

    /// Returns whether more than [`MAX_QUEUED_REPLIES`] replies are queued for a peer, so it cannot be
    /// receiving them.
    pub(super) fn is_reply_queue_full(&self, peer: u32) -> bool {
        let state = &self.peers[peer as usize];
        state.control.len() + state.streams.len() > MAX_QUEUED_REPLIES
    }

    fn handle_control(&mut self, peer: u32, link: LinkId, control: Control) -> Result<(), Malformed> {
        let at = peer as usize;
        match control {
            Control::Accept { peer_op: op, own_op: peer_op, length } => {
                if self.refuse_withdrawn(peer, op, peer_op) {
                    return Ok(());
                }
                let Some(Op::Sending { peer: to, payload: Some(payload), .. }) = self.ops.get_mut(op) else {
                    return Err(Malformed);
                };
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if *to != peer || length == 0 || length > payload.len() || self.is_reply_queue_full(peer) {
                    return Err(Malformed);
                }
                let stream = Stream { peer_op, from: StreamSource::Message(op), offset: 0, length };
                self.peers[at].streams.push_back(stream);
                self.activate(peer);
            }
            Control::Free { chunk } => {
                let place = self.peers[at].place.ok_or(Malformed)?;
                let pool = self.pools.get_mut(place).ok_or(Malformed)?;
                if !pool.free(chunk, peer) {
                    return Err(Malformed);
                }
            }
            Control::Done { peer_op: op, status } => {
                match self.ops.get_mut(op) {
                    Some(asked) if asked.peer() != peer => return Err(Malformed),
                    Some(Op::Receiving { arrived: 0, .. }) if status == Status::Withdrawn => {
                        self.repost_receive(op);
                        return Ok(());
                    }
                    Some(Op::Receiving { .. }) | None => return Err(Malformed),
                    Some(_) => {}
                }
                self.complete_op(peer, op, status);
            }
            Control::Withdraw { own_op: peer_op } => self.handle_withdraw(peer, peer_op),
            Control::Credit { bytes, messages } => {
                let state = &mut self.peers[at];
                state.credit_bytes = state.credit_bytes.saturating_add(bytes);
                state.credit_messages = state.credit_messages.saturating_add(messages);
                if state.credit_bytes > CREDIT_BYTES || state.credit_messages > CREDIT_MESSAGES {
                    return Err(Malformed);
                }
            }
            Control::Stage { capability, chunk_bytes, chunks } => {
                let length = u64::from(chunk_bytes) * u64::from(chunks);
                let state = &mut self.peers[at];
                if state.view_chunks != (0, 0) || length == 0 || length > MAX_VIEW_BYTES {
                    return Err(Malformed);
                }
                state.view_chunks = (chunks, chunk_bytes);
                self.to_map.push((link, capability, length));
                self.activate(peer);
            }
            Control::StageReady { ready } => {
                let state = &mut self.peers[at];
                if state.staging != Staging::InProgress {
                    return Err(Malformed);
                }
                state.staging = if ready { Staging::Ready } else { Staging::Unavailable };
            }
            Control::DirectRequest { key } => self.handle_direct_request(peer, link, key)?,
            Control::DirectReply { key, at } => self.handle_direct_reply(peer, link, key, at)?,
            Control::Hello { .. } | Control::Result { .. } => return Err(Malformed),
        }
        Ok(())
    }

    /// Completes an operation whose status the peer has reported.
    fn complete_op(&mut self, peer: u32, op: u64, status: Status) {
        let failure = match status {
            Status::Done | Status::Discarded => None,
            Status::NoKey => Some(Failure::NoKey),
            Status::NoAccess => Some(Failure::NoAccess),
            Status::NoSuchOperation => Some(Failure::NoSuchOperation),
            Status::Withdrawn => Some(Failure::Canceled),
        };
        let completion = match self.ops.remove(op) {
            Some(Op::Sending { completion, .. }) => completion,
            Some(Op::Fetching { completion, .. } | Op::AwaitingReply { completion, .. }) => {
                self.on_answer(peer);
                completion
            }
            Some(Op::Receiving { .. } | Op::Withdrawn { .. }) | None => return,
        };
        match failure {
            None => self.finish(completion),
            Some(failure) => self.fail(completion, failure),
        }
    }
}
