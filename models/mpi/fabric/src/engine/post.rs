//! What a program asks of an endpoint.

use crate::atomic::{AtomicOp, Datatype};
use crate::completion::{CompletionKind, Failure, flags};
use crate::matching::{Body, Matching, Posted};
use crate::memory::{Memory, Payload};
use crate::net::Net;
use crate::wire::{Control, Envelope, Head, Status, flag, kind};

use super::outgoing::{Pending, send_in_slots};
use super::{Busy, CREDIT_BYTES, Done, Engine, INLINE_BYTES, MAX_BACKLOG, Multi, NO_ADDRESS, Op};

/// A message to send.
#[derive(Debug)]
pub struct Send<M> {
    /// The receiver, by the index of the address vector.
    pub to: u64,
    /// Its tag, if it is tagged.
    pub tag: Option<u64>,
    /// What the receiver's completion is to have.
    pub data: Option<u64>,
    /// Its bytes.
    pub memory: M,
    /// What its completion is to have.
    pub context: usize,
    /// Whether it has one if it goes well.
    pub report: bool,
    /// The memory is the program's again when the call returns.
    pub inject: bool,
    /// It is over when the bytes are where the receiver wants them, and not before.
    pub delivery: bool,
}

/// A receive that a program posts, with where its bytes go.
#[derive(Debug)]
pub struct Receive<M> {
    /// The sender, by the index of the address vector, or [`NO_ADDRESS`].
    pub from: u64,
    /// Its tag and the bits of it that do not matter, if it is for tagged messages.
    pub tag: Option<(u64, u64)>,
    /// Where to put the bytes.
    pub memory: M,
    /// What its completion is to have.
    pub context: usize,
    /// Whether it has one if it goes well.
    pub report: bool,
    /// It is for messages until too little room is left.
    pub multi: bool,
    /// The message is the one that a peek with this context has put aside.
    pub claimed: bool,
}

/// A peek at tagged messages that no receive has matched.
#[derive(Clone, Copy, Debug)]
pub struct Peek {
    /// The sender, by the index of the address vector, or [`NO_ADDRESS`].
    pub from: u64,
    /// The tag.
    pub tag: u64,
    /// Bits of it that do not matter.
    pub ignore: u64,
    /// What its completion is to have.
    pub context: usize,
    /// Puts the message aside, for a receive with this context.
    pub claim: bool,
    /// Throws the message away.
    pub discard: bool,
}

/// Bytes to write to memory that a peer has registered.
#[derive(Debug)]
pub struct Write<M> {
    /// The receiver, by the index of the address vector.
    pub to: u64,
    /// The key of the memory.
    pub key: u64,
    /// Where in it.
    pub address: u64,
    /// What the peer's completion is to have, if it is to have one.
    pub data: Option<u64>,
    /// The bytes.
    pub memory: M,
    /// What its completion is to have.
    pub context: usize,
    /// Whether it has one if it goes well.
    pub report: bool,
    /// The memory is the program's again when the call returns.
    pub inject: bool,
}

/// Bytes to read from memory that a peer has registered.
#[derive(Debug)]
pub struct Read<M> {
    /// The sender, by the index of the address vector.
    pub from: u64,
    /// The key of the memory.
    pub key: u64,
    /// Where in it.
    pub address: u64,
    /// Where to put the bytes.
    pub memory: M,
    /// What its completion is to have.
    pub context: usize,
    /// Whether it has one if it goes well.
    pub report: bool,
}

/// Numbers to change in memory that a peer has registered.
#[derive(Debug)]
pub struct Atomic<M> {
    /// The receiver, by the index of the address vector.
    pub to: u64,
    /// The key of the memory.
    pub key: u64,
    /// Where in it.
    pub address: u64,
    /// What to do.
    pub op: AtomicOp,
    /// With numbers of which kind.
    pub datatype: Datatype,
    /// How many there are.
    pub count: usize,
    /// The operands, none for reading.
    pub operands: Box<[u8]>,
    /// What to compare with, for operations that do.
    pub compares: Option<Box<[u8]>>,
    /// Where to put what was there before.
    pub result: Option<M>,
    /// What its completion is to have.
    pub context: usize,
    /// Whether it has one if it goes well.
    pub report: bool,
}

impl<N: Net, M: Memory> Engine<N, M> {
    /// Sends a message to a peer.
    ///
    /// # Errors
    /// [`Busy`]; nothing was sent.
    #[inline]
    pub fn send(&mut self, send: Send<M>) -> Result<(), Busy> {
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
                send.memory.each_source(0, length, |piece| writer.bytes(piece));
            });
            if let Ok(true) = sent {
                state.credit_messages -= 1;
                state.credit_bytes -= length as u64;
                self.core.counts.note(CompletionKind::Send, false);
                if send.report {
                    self.core.sent.push_back(done_of_send(&send).completion);
                }
                return Ok(());
            }
        }
        self.send_later(peer, envelope, send)
    }

    #[inline(never)]
    fn send_later(&mut self, peer: u32, envelope: Envelope, send: Send<M>) -> Result<(), Busy> {
        let done = Some(done_of_send(&send));
        let payload =
            if send.inject { Payload::Copied(send.memory.to_boxed()) } else { Payload::Lent(send.memory) };
        let told = if send.inject { None } else { done };
        self.begin(
            peer,
            Pending::Message { envelope, payload, delivery: send.delivery && !send.inject, done: told },
        )?;
        if send.inject
            && let Some(done) = done
        {
            self.core.finish(done);
        }
        Ok(())
    }

    /// Sends something now, or when what was asked for before has been sent.
    fn begin(&mut self, peer: u32, mut pending: Pending<M>) -> Result<(), Busy> {
        let state = &self.core.peers[peer as usize];
        if let Some(failure) = state.gone {
            if failure == Failure::Unreachable {
                self.net.lament(state.address);
            }
            return Err(Busy::Failed(failure));
        }
        if state.severed && state.link.is_none() {
            return Err(Busy::Failed(state.leaving.unwrap_or(Failure::PeerClosed)));
        }
        if state.backlog.len() >= MAX_BACKLOG {
            return Err(Busy::Again);
        }
        match state.link {
            Some(link) if state.backlog.is_empty() => match self.transmit(peer, link, &mut pending) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(end) => {
                    self.sever(link, end);
                    return Err(Busy::Failed(
                        self.core.peers[peer as usize].gone.unwrap_or(Failure::PeerClosed),
                    ));
                }
            },
            Some(_) => {}
            None => self.want_link(peer),
        }
        self.core.peers[peer as usize].backlog.push_back(pending);
        self.core.activate(peer);
        Ok(())
    }

    /// Posts a receive. What has come already is taken at once.
    ///
    /// # Errors
    /// [`Busy::Failed`] with [`Failure::NoMessage`] for one that is claimed and was not put aside.
    #[inline]
    pub fn receive(&mut self, receive: Receive<M>) -> Result<(), Busy> {
        let from = if self.core.directed { receive.from } else { NO_ADDRESS };
        let (tag, ignore) = receive.tag.unwrap_or((0, u64::MAX));
        let tagged = receive.tag.is_some();
        let multi = receive.multi.then(|| self.core.multis.insert(Multi { coming: 0, full: false }));
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
            let Some(message) = claimed else { return Err(Busy::Failed(Failure::NoMessage)) };
            self.core.deliver_kept(posted, message);
            return Ok(());
        }
        if self.core.matching(tagged).has_unexpected() {
            self.core.receive_kept(tagged, posted);
        } else {
            self.core.matching(tagged).post(posted);
        }
        Ok(())
    }

    /// Looks for a tagged message that has come and that no receive has matched; a completion tells what was
    /// found.
    pub fn peek(&mut self, peek: Peek) {
        let from = if self.core.directed { peek.from } else { NO_ADDRESS };
        let mut done = Done::new(CompletionKind::Receive, true, peek.context, flags::TAGGED | flags::RECV);
        done.completion.tag = peek.tag;
        let mut found = self.core.find_kept(true, peek.tag, peek.ignore, from);
        if found.is_none() {
            // A program that peeks repeatedly in vain may make no other progress.
            self.look_aside();
            self.progress();
            found = self.core.find_kept(true, peek.tag, peek.ignore, from);
        }
        let Some(index) = found else {
            // A peek that finds nothing does not count as a failed receive.
            done.completion.failure = Some(Failure::NoMessage);
            self.core.received.push_back(done.completion);
            return;
        };
        if let Some(message) = self.core.tagged.look(index) {
            done.completion.length = message.length;
            done.completion.tag = message.envelope.tag;
            done.completion.source = self.core.peers[message.peer as usize].source;
            if message.envelope.has_data {
                done.completion.data = message.envelope.data;
                done.completion.flags |= flags::REMOTE_CQ_DATA;
            }
        }
        if peek.discard {
            if let Some(message) = self.core.tagged.take(index) {
                self.core.discard(message);
            }
        } else if peek.claim {
            self.core.tagged.claim(peek.context, index);
        }
        self.core.received.push_back(done.completion);
    }

    /// Throws away what a peek with this context has put aside. Whether there was something.
    pub fn discard_claimed(&mut self, context: usize) -> bool {
        let Some(message) = self.core.tagged.take_claimed(context) else { return false };
        let mut done = Done::new(CompletionKind::Receive, true, context, flags::TAGGED | flags::RECV);
        done.completion.tag = message.envelope.tag;
        self.core.discard(message);
        self.core.finish(done);
        true
    }

    /// Takes back the receive with that context, if no message has come for it, or else the send with that
    /// context, if its message has not been received. Whether there was one; a completion tells, as ever,
    /// what became of it.
    pub fn cancel(&mut self, context: usize) -> bool {
        self.cancel_receive(context) || self.core.cancel_send(context)
    }

    fn cancel_receive(&mut self, context: usize) -> bool {
        let tagged = self.core.tagged.cancel(context).map(|posted| (posted, flags::TAGGED));
        let found = tagged.or_else(|| self.core.untagged.cancel(context).map(|posted| (posted, flags::MSG)));
        let Some((posted, flag)) = found else { return false };
        let mut done = Done::new(CompletionKind::Receive, true, context, flag | flags::RECV);
        done.completion.tag = posted.tag;
        if posted.multi.is_some() {
            done.completion.flags |= flags::MULTI_RECV;
        }
        self.core.fail(done, Failure::Canceled);
        true
    }

    /// Writes to memory of a peer. It is over when the bytes are there.
    ///
    /// # Errors
    /// [`Busy`]; nothing was written.
    pub fn write(&mut self, write: Write<M>) -> Result<(), Busy> {
        let peer = self.peer_to(write.to)?;
        let done = Done::new(CompletionKind::Write, write.report, write.context, flags::RMA | flags::WRITE);
        if write.data.is_none() && self.write_directly(peer, write.key, write.address, &write.memory) {
            self.core.finish(done);
            return Ok(());
        }
        let payload =
            if write.inject { Payload::Copied(write.memory.to_boxed()) } else { Payload::Lent(write.memory) };
        let Write { key, address, data, .. } = write;
        self.begin(peer, Pending::Write { key, address, payload, sent: 0, data, done })
    }

    /// Reads memory of a peer.
    ///
    /// # Errors
    /// [`Busy`]; nothing is read.
    pub fn read(&mut self, mut read: Read<M>) -> Result<(), Busy> {
        let peer = self.peer_to(read.from)?;
        let done = Done::new(CompletionKind::Read, read.report, read.context, flags::RMA | flags::READ);
        if self.read_directly(peer, read.key, read.address, &mut read.memory) {
            self.core.finish(done);
            return Ok(());
        }
        let length = read.memory.len() as u64;
        let op = self.core.ops.insert(Op::Fetching { peer, arrived: 0, memory: read.memory, done });
        self.begin_op(peer, op, Pending::Read { key: read.key, address: read.address, length, op })
    }

    fn begin_op(&mut self, peer: u32, op: u64, pending: Pending<M>) -> Result<(), Busy> {
        self.begin(peer, pending).inspect_err(|_| {
            self.core.ops.remove(op);
        })
    }

    /// Changes numbers in memory of a peer, one operation after another.
    ///
    /// # Errors
    /// [`Busy`]; nothing is changed. [`Failure::NoSuchOperation`].
    pub fn atomic(&mut self, atomic: Atomic<M>) -> Result<(), Busy> {
        let peer = self.peer_to(atomic.to)?;
        let Atomic { op, datatype, count, .. } = atomic;
        let length = count * datatype.bytes();
        if !op.takes(datatype) || count == 0 || length > super::MAX_ATOMIC_BYTES {
            return Err(Busy::Failed(Failure::NoSuchOperation));
        }
        let fetches = atomic.result.is_some();
        let (kind_of, flag_of) =
            if fetches { (CompletionKind::Read, flags::READ) } else { (CompletionKind::Write, flags::WRITE) };
        let done = Done::new(kind_of, atomic.report, atomic.context, flags::ATOMIC | flag_of);
        let id = self.core.ops.insert(match atomic.result {
            Some(memory) => Op::Fetching { peer, arrived: 0, memory, done },
            None => Op::Asked { peer, done },
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
        self.begin_op(peer, id, pending)
    }
}

fn done_of_send<M>(send: &Send<M>) -> Done {
    let flag = if send.tag.is_some() { flags::TAGGED } else { flags::MSG };
    Done::new(CompletionKind::Send, send.report, send.context, flag | flags::SEND)
}

impl<V, M: Memory> super::Core<V, M> {
    pub(super) fn matching(&mut self, tagged: bool) -> &mut Matching<M> {
        if tagged { &mut self.tagged } else { &mut self.untagged }
    }

    fn find_kept(&self, tagged: bool, tag: u64, ignore: u64, source: u64) -> Option<usize> {
        let matching = if tagged { &self.tagged } else { &self.untagged };
        matching.find(tag, ignore, source, |peer| self.peers[peer as usize].source)
    }

    /// Gives a receive what has come already, and posts it if it takes more.
    #[inline(never)]
    pub(super) fn receive_kept(&mut self, tagged: bool, posted: Posted<M>) {
        let mut left = Some(posted);
        while let Some(posted) = left.take() {
            match self.find_kept(tagged, posted.tag, posted.ignore, posted.source) {
                Some(index) => {
                    if let Some(message) = self.matching(tagged).take(index) {
                        left = self.deliver_kept(posted, message);
                    }
                }
                None => {
                    self.matching(tagged).post(posted);
                    return;
                }
            }
        }
    }

    /// Tells the sender that what it sent is not kept any more.
    pub(super) fn note_taken(&mut self, message: &crate::matching::Unexpected) {
        let here = matches!(message.body, Body::Here(_));
        let bytes = if here { message.length as u64 } else { 0 };
        let state = &mut self.peers[message.peer as usize];
        state.kept_bytes = state.kept_bytes.saturating_sub(bytes);
        state.kept_messages = state.kept_messages.saturating_sub(1);
        self.return_credit(message.peer, bytes);
    }

    /// Gives a receive a message that has been kept. Returns the receive if it takes more.
    pub(super) fn deliver_kept(
        &mut self,
        posted: Posted<M>,
        message: crate::matching::Unexpected,
    ) -> Option<Posted<M>> {
        self.note_taken(&message);
        let (peer, envelope) = (message.peer, message.envelope);
        match message.body {
            Body::Here(bytes) => self.deliver(posted, peer, &envelope, bytes.len(), |memory, at, length| {
                memory.put(at, &bytes[..length]);
                true
            }),
            Body::There(theirs) => self.accept_offer(posted, peer, &envelope, theirs, message.length),
        }
    }

    fn discard(&mut self, message: crate::matching::Unexpected) {
        self.note_taken(&message);
        if let Body::There(theirs) = message.body {
            self.tell(message.peer, Control::Done { theirs, status: Status::Discarded });
        }
    }

    /// Notes that a message of a peer is kept no longer, and tells it when that has come to something.
    #[inline]
    pub(super) fn return_credit(&mut self, peer: u32, bytes: u64) {
        let state = &mut self.peers[peer as usize];
        state.taken_bytes += bytes;
        state.taken_messages += 1;
        if state.taken_bytes >= CREDIT_BYTES / 4 || state.taken_messages >= super::CREDIT_MESSAGES / 4 {
            let (bytes, messages) =
                (std::mem::take(&mut state.taken_bytes), std::mem::take(&mut state.taken_messages));
            self.tell(peer, Control::Credit { bytes, messages });
        }
    }
}
