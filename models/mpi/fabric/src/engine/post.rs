//! Operations that a program posts to an endpoint.

use crate::atomic::{AtomicOp, Datatype};
use crate::completion::{CompletionKind, Failure, flags};
use crate::matching::{Body, Matching, Posted};
use crate::memory::{Memory, Payload};
use crate::net::Net;
use crate::wire::{Control, Envelope, Head, Status, flag, kind};

use super::outgoing::{Pending, send_in_slots};
use super::{
    CREDIT_BYTES, Engine, INLINE_BYTES, MAX_BACKLOG, MultiRecv, NO_ADDRESS, Op, PendingCompletion, PostError,
};

/// A message to send.
#[derive(Debug)]
pub struct Send<M> {
    /// Address vector index of the peer.
    pub to: u64,
    /// Tag of the message; `None` for an untagged one.
    pub tag: Option<u64>,
    /// Data for the receiver's completion.
    pub data: Option<u64>,
    /// Bytes of the message.
    pub memory: M,
    /// Context for the completion.
    pub context: usize,
    /// Whether success is reported by a completion; failure always is.
    pub report: bool,
    /// Whether the program may reuse the memory as soon as the call returns.
    pub inject: bool,
    /// Whether it completes only once the bytes have been delivered to the receiver.
    pub delivery: bool,
}

/// A receive, with the buffer for the message.
#[derive(Debug)]
pub struct Receive<M> {
    /// Address vector index of the sender, or [`NO_ADDRESS`] for any.
    pub from: u64,
    /// Tag and mask of tag bits to ignore; `None` for untagged messages.
    pub tag: Option<(u64, u64)>,
    /// Buffer for the bytes.
    pub memory: M,
    /// Context for the completion.
    pub context: usize,
    /// Whether success is reported by a completion; failure always is.
    pub report: bool,
    /// Whether the buffer takes several messages, until too little room is left.
    pub multi: bool,
    /// Whether to receive the message that a peek with this context has claimed.
    pub claimed: bool,
}

/// A peek at unexpected tagged messages.
#[derive(Clone, Copy, Debug)]
pub struct Peek {
    /// Address vector index of the sender, or [`NO_ADDRESS`] for any.
    pub from: u64,
    /// Tag to match.
    pub tag: u64,
    /// Mask of tag bits to ignore.
    pub ignore: u64,
    /// Context for the completion.
    pub context: usize,
    /// Whether to claim the message for a receive with this context.
    pub claim: bool,
    /// Whether to discard the message.
    pub discard: bool,
}

/// A write to memory that a peer has registered.
#[derive(Debug)]
pub struct Write<M> {
    /// Address vector index of the peer.
    pub to: u64,
    /// Key of the peer's memory.
    pub key: u64,
    /// Address in that memory, whose first byte has the address `base` of its [`Region`](super::Region).
    pub address: u64,
    /// Data for a completion at the peer, if there is to be one.
    pub data: Option<u64>,
    /// Bytes to write.
    pub memory: M,
    /// Context for the completion.
    pub context: usize,
    /// Whether success is reported by a completion; failure always is.
    pub report: bool,
    /// Whether the program may reuse the memory as soon as the call returns.
    pub inject: bool,
}

/// A read from memory that a peer has registered.
#[derive(Debug)]
pub struct Read<M> {
    /// Address vector index of the peer.
    pub from: u64,
    /// Key of the peer's memory.
    pub key: u64,
    /// Address in that memory, whose first byte has the address `base` of its [`Region`](super::Region).
    pub address: u64,
    /// Buffer for the bytes.
    pub memory: M,
    /// Context for the completion.
    pub context: usize,
    /// Whether success is reported by a completion; failure always is.
    pub report: bool,
}

/// An atomic operation on memory that a peer has registered.
#[derive(Debug)]
pub struct Atomic<M> {
    /// Address vector index of the peer.
    pub to: u64,
    /// Key of the peer's memory.
    pub key: u64,
    /// Address in that memory, whose first byte has the address `base` of its [`Region`](super::Region).
    pub address: u64,
    /// Operation to apply.
    pub op: AtomicOp,
    /// Type of the operands.
    pub datatype: Datatype,
    /// Number of operands.
    pub count: usize,
    /// The operands; empty for a read.
    pub operands: Box<[u8]>,
    /// Values to compare with, for operations that compare.
    pub compares: Option<Box<[u8]>>,
    /// Buffer for the previous values, if they are wanted.
    pub result: Option<M>,
    /// Context for the completion.
    pub context: usize,
    /// Whether success is reported by a completion; failure always is.
    pub report: bool,
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Sends a message to a peer.
    ///
    /// # Errors
    /// [`PostError`] if nothing was sent.
    #[inline]
    pub fn send(&mut self, send: Send<M>) -> Result<(), PostError> {
        let peer = self.peer_to(send.to)?;
        let envelope = Envelope {
            tagged: send.tag.is_some(),
            has_data: send.data.is_some(),
            tag: send.tag.unwrap_or(0),
            data: send.data.unwrap_or(0),
            ack: None,
        };
        let state = &mut self.core.peers[peer as usize];
        let length = send.memory.len();
        let quick = length <= INLINE_BYTES
            && !send.delivery
            && state.backlog.is_empty()
            && state.credit_messages > 0
            && state.credit_bytes >= length as u64;
        if quick && let Some(link) = state.link {
            let sent = send_in_slots(&mut self.net, link, &envelope, length, |writer| {
                send.memory.for_each_source(0, length, |piece| writer.bytes(piece));
            });
            if let Ok(true) = sent {
                state.credit_messages -= 1;
                state.credit_bytes -= length as u64;
                self.core.counts.record(CompletionKind::Send, false);
                if send.report {
                    self.core.sent.push_back(send_completion(&send).entry);
                }
                return Ok(());
            }
        }
        self.send_or_queue(peer, envelope, send)
    }

    #[inline(never)]
    fn send_or_queue(&mut self, peer: u32, envelope: Envelope, send: Send<M>) -> Result<(), PostError> {
        let completion = Some(send_completion(&send));
        let payload =
            if send.inject { Payload::Copied(send.memory.to_boxed()) } else { Payload::Lent(send.memory) };
        let pending_completion = if send.inject { None } else { completion };
        self.submit(
            peer,
            Pending::Message {
                envelope,
                payload,
                delivery: send.delivery && !send.inject,
                completion: pending_completion,
            },
        )?;
        if send.inject
            && let Some(completion) = completion
        {
            self.core.finish(completion);
        }
        Ok(())
    }

    /// Sends at once if possible, otherwise appends to the backlog.
    fn submit(&mut self, peer: u32, mut pending: Pending<M>) -> Result<(), PostError> {
        let state = &self.core.peers[peer as usize];
        if let Some(failure) = state.lost {
            if failure == Failure::Unreachable {
                self.net.warn_unreachable(state.address);
            }
            return Err(PostError::Failed(failure));
        }
        if state.send_ended && state.link.is_none() {
            return Err(PostError::Failed(state.leaving.unwrap_or(Failure::PeerClosed)));
        }
        if state.backlog.len() >= MAX_BACKLOG {
            return Err(PostError::Again);
        }
        match state.link {
            Some(link) if state.backlog.is_empty() => match self.transmit(peer, link, &mut pending) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(end) => {
                    self.stop_sending(link, end);
                    return Err(PostError::Failed(
                        self.core.peers[peer as usize].lost.unwrap_or(Failure::PeerClosed),
                    ));
                }
            },
            Some(_) => {}
            None => self.request_link(peer),
        }
        self.core.peers[peer as usize].backlog.push_back(pending);
        self.core.activate(peer);
        Ok(())
    }

    /// Posts a receive. Matches messages that have arrived already at once.
    ///
    /// # Errors
    /// [`PostError::Failed`] with [`Failure::NoMessage`] if `claimed` is set and no peek has claimed a
    /// message.
    #[inline]
    pub fn receive(&mut self, receive: Receive<M>) -> Result<(), PostError> {
        let from = if self.core.directed { receive.from } else { NO_ADDRESS };
        let (tag, ignore) = receive.tag.unwrap_or((0, u64::MAX));
        let tagged = receive.tag.is_some();
        let multi =
            receive.multi.then(|| self.core.multi_recvs.insert(MultiRecv { arriving: 0, full: false }));
        let posted = Posted {
            tag,
            ignore,
            source: from,
            context: receive.context,
            report: receive.report,
            used: 0,
            multi,
            memory: receive.memory,
        };
        if receive.claimed {
            let claimed = self.core.matching(tagged).take_claimed(receive.context);
            let Some(message) = claimed else { return Err(PostError::Failed(Failure::NoMessage)) };
            self.core.deliver_unexpected(posted, message);
            return Ok(());
        }
        if self.core.matching(tagged).has_unexpected() {
            self.core.receive_unexpected(tagged, posted);
        } else {
            self.core.matching(tagged).post(posted);
        }
        Ok(())
    }

    /// Looks for an unexpected tagged message. The result is reported by a completion.
    pub fn peek(&mut self, peek: Peek) {
        let from = if self.core.directed { peek.from } else { NO_ADDRESS };
        let mut completion =
            PendingCompletion::new(CompletionKind::Receive, true, peek.context, flags::TAGGED | flags::RECV);
        completion.entry.tag = peek.tag;
        let mut found = self.core.find_unexpected(true, peek.tag, peek.ignore, from);
        if found.is_none() {
            // A program that peeks in a loop may make no other progress.
            self.process_events();
            self.progress();
            found = self.core.find_unexpected(true, peek.tag, peek.ignore, from);
        }
        let Some(index) = found else {
            // A peek that finds nothing does not count as a failed receive.
            completion.entry.failure = Some(Failure::NoMessage);
            self.core.received.push_back(completion.entry);
            return;
        };
        if let Some(message) = self.core.tagged.peek_unexpected(index) {
            completion.entry.length = message.length;
            completion.entry.tag = message.envelope.tag;
            completion.entry.source = self.core.peers[message.peer as usize].source;
            if message.envelope.has_data {
                completion.entry.data = message.envelope.data;
                completion.entry.flags |= flags::REMOTE_CQ_DATA;
            }
        }
        if peek.discard {
            if let Some(message) = self.core.tagged.take_unexpected(index) {
                self.core.discard(message);
            }
        } else if peek.claim {
            self.core.tagged.claim(peek.context, index);
        }
        self.core.received.push_back(completion.entry);
    }

    /// Discards the message that a peek with this context has claimed. Returns whether there was one.
    pub fn discard_claimed(&mut self, context: usize) -> bool {
        let Some(message) = self.core.tagged.take_claimed(context) else { return false };
        let mut completion =
            PendingCompletion::new(CompletionKind::Receive, true, context, flags::TAGGED | flags::RECV);
        completion.entry.tag = message.envelope.tag;
        self.core.discard(message);
        self.core.finish(completion);
        true
    }

    /// Cancels the receive with that context if no message has matched it, or else the send with that context
    /// if its message has not been received. Returns whether there was one; a completion reports the result.
    pub fn cancel(&mut self, context: usize) -> bool {
        self.cancel_receive(context) || self.core.cancel_send(context)
    }

    fn cancel_receive(&mut self, context: usize) -> bool {
        let tagged = self.core.tagged.cancel(context).map(|posted| (posted, flags::TAGGED));
        let found = tagged.or_else(|| self.core.untagged.cancel(context).map(|posted| (posted, flags::MSG)));
        let Some((posted, flag)) = found else { return false };
        let mut completion =
            PendingCompletion::new(CompletionKind::Receive, true, context, flag | flags::RECV);
        completion.entry.tag = posted.tag;
        if posted.multi.is_some() {
            completion.entry.flags |= flags::MULTI_RECV;
        }
        self.core.fail(completion, Failure::Canceled);
        true
    }

    /// Writes to memory of a peer. Completes when the bytes are in that memory.
    ///
    /// # Errors
    /// [`PostError`] if nothing was written.
    pub fn write(&mut self, write: Write<M>) -> Result<(), PostError> {
        let peer = self.peer_to(write.to)?;
        let completion = PendingCompletion::new(
            CompletionKind::Write,
            write.report,
            write.context,
            flags::RMA | flags::WRITE,
        );
        if write.data.is_none() && self.write_directly(peer, write.key, write.address, &write.memory) {
            self.core.finish(completion);
            return Ok(());
        }
        let payload =
            if write.inject { Payload::Copied(write.memory.to_boxed()) } else { Payload::Lent(write.memory) };
        let Write { key, address, data, .. } = write;
        self.submit(peer, Pending::Write { key, address, payload, sent: 0, data, completion })
    }

    /// Reads memory of a peer.
    ///
    /// # Errors
    /// [`PostError`] if nothing is read.
    pub fn read(&mut self, mut read: Read<M>) -> Result<(), PostError> {
        let peer = self.peer_to(read.from)?;
        let completion =
            PendingCompletion::new(CompletionKind::Read, read.report, read.context, flags::RMA | flags::READ);
        if self.read_directly(peer, read.key, read.address, &mut read.memory) {
            self.core.finish(completion);
            return Ok(());
        }
        let length = read.memory.len() as u64;
        let op = self.core.ops.insert(Op::Fetching { peer, arrived: 0, memory: read.memory, completion });
        self.submit_op(peer, op, Pending::Read { key: read.key, address: read.address, length, op })
    }

    fn submit_op(&mut self, peer: u32, op: u64, pending: Pending<M>) -> Result<(), PostError> {
        self.submit(peer, pending).inspect_err(|_| {
            self.core.ops.remove(op);
        })
    }

    /// Applies an atomic operation to numbers in memory of a peer.
    ///
    /// # Errors
    /// [`PostError`] if nothing is changed; with [`Failure::NoSuchOperation`] for an unsupported combination.
    pub fn atomic(&mut self, atomic: Atomic<M>) -> Result<(), PostError> {
        let peer = self.peer_to(atomic.to)?;
        let Atomic { op, datatype, count, .. } = atomic;
        let length = count * datatype.bytes();
        if !op.supports(datatype) || count == 0 || length > super::MAX_ATOMIC_BYTES {
            return Err(PostError::Failed(Failure::NoSuchOperation));
        }
        let fetches = atomic.result.is_some();
        let (kind_of, flag_of) =
            if fetches { (CompletionKind::Read, flags::READ) } else { (CompletionKind::Write, flags::WRITE) };
        let completion =
            PendingCompletion::new(kind_of, atomic.report, atomic.context, flags::ATOMIC | flag_of);
        let id = self.core.ops.insert(match atomic.result {
            Some(memory) => Op::Fetching { peer, arrived: 0, memory, completion },
            None => Op::AwaitingReply { peer, completion },
        });
        let compares = atomic.compares.unwrap_or_default();
        let flags =
            if fetches { flag::FETCH } else { 0 } | if compares.is_empty() { 0 } else { flag::COMPARE };
        let head = Head {
            kind: kind::ATOMIC,
            flags,
            small: u16::from(op as u8) | u16::from(datatype as u8) << 8,
            length: count as u32,
        };
        let operands = [&atomic.operands[..], &compares[..]].concat().into();
        let pending = Pending::Atomic { head, key: atomic.key, address: atomic.address, op: id, operands };
        self.submit_op(peer, id, pending)
    }
}

fn send_completion<M>(send: &Send<M>) -> PendingCompletion {
    let flag = if send.tag.is_some() { flags::TAGGED } else { flags::MSG };
    PendingCompletion::new(CompletionKind::Send, send.report, send.context, flag | flags::SEND)
}

impl<V, M: Memory> super::Core<V, M> {
    pub(super) fn matching(&mut self, tagged: bool) -> &mut Matching<M> {
        if tagged { &mut self.tagged } else { &mut self.untagged }
    }

    fn find_unexpected(&self, tagged: bool, tag: u64, ignore: u64, source: u64) -> Option<usize> {
        let matching = if tagged { &self.tagged } else { &self.untagged };
        matching.find(tag, ignore, source, |peer| self.peers[peer as usize].source)
    }

    /// Matches a receive with unexpected messages, and posts it if it still has room.
    #[inline(never)]
    pub(super) fn receive_unexpected(&mut self, tagged: bool, posted: Posted<M>) {
        let mut left = Some(posted);
        while let Some(posted) = left.take() {
            match self.find_unexpected(tagged, posted.tag, posted.ignore, posted.source) {
                Some(index) => {
                    if let Some(message) = self.matching(tagged).take_unexpected(index) {
                        left = self.deliver_unexpected(posted, message);
                    }
                }
                None => {
                    self.matching(tagged).post(posted);
                    return;
                }
            }
        }
    }

    /// Returns the credit of an unexpected message to its sender.
    pub(super) fn return_unexpected_credit(&mut self, message: &crate::matching::Unexpected) {
        let here = matches!(message.body, Body::Buffered(_));
        let bytes = if here { message.length as u64 } else { 0 };
        let state = &mut self.peers[message.peer as usize];
        state.unexpected_bytes = state.unexpected_bytes.saturating_sub(bytes);
        state.unexpected_messages = state.unexpected_messages.saturating_sub(1);
        self.return_credit(message.peer, bytes);
    }

    /// Delivers an unexpected message to a receive. Returns the receive if it still has room.
    pub(super) fn deliver_unexpected(
        &mut self,
        posted: Posted<M>,
        message: crate::matching::Unexpected,
    ) -> Option<Posted<M>> {
        self.return_unexpected_credit(&message);
        let (peer, envelope) = (message.peer, message.envelope);
        match message.body {
            Body::Buffered(bytes) => {
                self.deliver(posted, peer, &envelope, bytes.len(), |memory, at, length| {
                    memory.put(at, &bytes[..length]);
                    true
                })
            }
            Body::AtSender(peer_op) => self.accept_offer(posted, peer, &envelope, peer_op, message.length),
        }
    }

    fn discard(&mut self, message: crate::matching::Unexpected) {
        self.return_unexpected_credit(&message);
        if let Body::AtSender(peer_op) = message.body {
            self.send_control(message.peer, Control::Done { peer_op, status: Status::Discarded });
        }
    }

    /// Accounts for a message of a peer that is no longer buffered, and returns credit in batches.
    #[inline]
    pub(super) fn return_credit(&mut self, peer: u32, bytes: u64) {
        let state = &mut self.peers[peer as usize];
        state.unreturned_bytes += bytes;
        state.unreturned_messages += 1;
        if state.unreturned_bytes >= CREDIT_BYTES / 4
            || state.unreturned_messages >= super::CREDIT_MESSAGES / 4
        {
            let (bytes, messages) =
                (std::mem::take(&mut state.unreturned_bytes), std::mem::take(&mut state.unreturned_messages));
            self.send_control(peer, Control::Credit { bytes, messages });
        }
    }
}
