//! One end of a bulk channel: handles the messages of the peer.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Content, Offer, PoolIndex, Transfer, Veto};
use tombolo_bulk::{Message, Segment, SessionEvent, Trust, Verb};
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::sealed::Sealed;
use tombolo_platform::{Errno, socket};

use crate::error::Error;

use super::arrival::{Arrival, PoolOffer, Received};
use super::buffer::{Buffer, Handle, Shared};
use super::channel::{Assignment, BulkChannel, State};
use super::content::Content as BufferContent;
use super::incoming::TimeBudget;
use super::memory::{PoolMemory, veto_reason};
use super::pool::{self, Inner, Pool};
use crate::error::BulkError;

/// Timeout for sending an answer. A peer that offers pools reads the answers.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

impl BulkChannel {
    /// Waits for the next event from the peer, and stores its metadata in `metadata`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], or [`Error::WouldBlock`] if the timeout is zero. The end of the peer, after
    /// everything that it sent; the buffers of this side's pools that it held have then been reclaimed.
    /// [`Error::Violation`] if the peer broke the protocol. [`BulkError::Lost`].
    pub fn recv(&mut self, metadata: &mut Vec<u8>) -> Result<Arrival, Error> {
        let timeout = self.channel.timeout.take();
        self.next_arrival(metadata, &mut TimeBudget::of(timeout))
    }

    fn next_arrival(&mut self, metadata: &mut Vec<u8>, budget: &mut TimeBudget) -> Result<Arrival, Error> {
        loop {
            if let Some((_, arrival, with)) = self.arrived.pop_front() {
                metadata.clear();
                metadata.extend_from_slice(&with);
                return Ok(arrival);
            }
            if let Some(arrival) = self.receive_arrival(metadata, budget)? {
                return Ok(arrival);
            }
        }
    }

    /// Receives the next buffer that the peer moves here, like [`recv`](Self::recv). Other events that arrive
    /// first are handled and dropped, so use it only if no other events are of interest.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv).
    pub fn recv_moved(&mut self, metadata: &mut Vec<u8>) -> Result<Buffer, Error> {
        let timeout = self.channel.timeout.take();
        let mut budget = TimeBudget::of(timeout);
        loop {
            if let Some(handle) = self.expect(Verb::Move, metadata, timeout)? {
                return Ok(Buffer::new(handle));
            }
            if let Arrival::Moved(received) = self.next_arrival(metadata, &mut budget)? {
                return Ok(received.into_first());
            }
        }
    }

    /// Receives the next buffer that the peer shares, as [`recv_moved`](Self::recv_moved) does for moved
    /// ones.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv).
    pub fn recv_shared(&mut self, metadata: &mut Vec<u8>) -> Result<Shared, Error> {
        let timeout = self.channel.timeout.take();
        let mut budget = TimeBudget::of(timeout);
        loop {
            if let Some(handle) = self.expect(Verb::Share, metadata, timeout)? {
                return Ok(Shared::new(handle));
            }
            if let Arrival::Shared(received) = self.next_arrival(metadata, &mut budget)? {
                return Ok(received.into_first());
            }
        }
    }

    /// Waits until the other side has assigned a pool.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv).
    pub fn recv_pool(&mut self) -> Result<Pool, Error> {
        let timeout = self.channel.timeout.take();
        let mut budget = TimeBudget::of(timeout);
        let mut metadata = Vec::new();
        loop {
            if let Arrival::Pool(pool) = self.next_arrival(&mut metadata, &mut budget)? {
                return Ok(pool);
            }
        }
    }

    /// Takes a buffer of `pool` for filling, like [`Pool::take`]; if all are in use, waits for one to return
    /// over this channel. Other arrivals are queued for [`recv`](Self::recv).
    ///
    /// # Errors
    /// Same as [`Pool::take`], but with [`Error::TimedOut`], or [`Error::WouldBlock`] if the timeout is zero,
    /// instead of [`BulkError::NoBuffer`]; the end of the peer if no buffer is free either.
    pub fn take(&mut self, pool: &Pool) -> Result<Buffer, Error> {
        let timeout = self.channel.timeout.take();
        let mut budget = TimeBudget::of(timeout);
        let mut glance = Duration::ZERO;
        loop {
            // A buffer that returns now is the one that became free last. If the channel has ended, buffers
            // that are free can still be taken.
            let ended = match self.expect_return(pool, glance) {
                Ok(Some(handle)) => return Ok(Buffer::new(handle)),
                Ok(None) => None,
                Err(error) => Some(error),
            };
            if let Some(buffer) = pool.take_if_free()? {
                return Ok(buffer);
            }
            if let Some(error) = ended {
                return Err(error);
            }
            if glance == timeout {
                self.process_message(&mut budget)?;
            }
            glance = timeout;
        }
    }

    pub(super) fn violation(&self, what: String) -> Error {
        self.channel.violation(what)
    }

    /// Handles the message in the inbox.
    pub(super) fn handle_inbox(&mut self, metadata: &mut Vec<u8>) -> Result<Option<Arrival>, Error> {
        let inbox = std::mem::take(&mut self.inbox);
        let obeyed = self.handle_bytes(&inbox, metadata);
        self.inbox = inbox;
        obeyed
    }

    fn handle_bytes(&mut self, bytes: &[u8], metadata: &mut Vec<u8>) -> Result<Option<Arrival>, Error> {
        let event = self.session.receive(bytes).map_err(|error| self.violation(error.to_string()))?;
        match event {
            SessionEvent::Terms { agreed: Some(_), .. } => Ok(None),
            SessionEvent::Terms { agreed: None, theirs } => {
                Err(BulkError::Trust { ours: self.trust, theirs }.into())
            }
            SessionEvent::Offered(offer) => self.offered(offer),
            SessionEvent::Assigned(pool_index) => self.set_state(pool_index, State::Assigned),
            SessionEvent::Vetoed(pool_index, veto) => {
                let assigned = self.assignment_at(pool_index)?;
                assigned.state = State::Vetoed(veto);
                let (pool, link) = (Arc::clone(&assigned.pool), assigned.link);
                let _ = pool.lock().table.unassign(link);
                Ok(None)
            }
            SessionEvent::Unassign(pool_index) => self.handle_unassign_request(pool_index),
            SessionEvent::Unassigned(pool_index) => {
                let (pool, link) =
                    (Arc::clone(&self.assignment_at(pool_index)?.pool), self.assignment_at(pool_index)?.link);
                let off = pool.lock().table.unassign(link);
                off.map_err(|error| self.violation(error.to_string()))?;
                self.assigned.retain(|assigned| assigned.pool_index != pool_index);
                Ok(None)
            }
            SessionEvent::Kept(pool_index) => {
                let (pool, link) =
                    (Arc::clone(&self.assignment_at(pool_index)?.pool), self.assignment_at(pool_index)?.link);
                pool.lock().table.cancel_unassign(link);
                self.set_state(pool_index, State::Kept)
            }
            SessionEvent::Content(content) => self.store_content(&content).map(|()| None),
            SessionEvent::Transfer(transfer) => {
                metadata.clear();
                metadata.extend_from_slice(transfer.metadata);
                self.transferred(transfer)
            }
        }
    }

    fn assignment_at(&mut self, pool_index: PoolIndex) -> Result<&mut Assignment, Error> {
        match self.assigned.iter().position(|assigned| assigned.pool_index == pool_index) {
            Some(index) => Ok(&mut self.assigned[index]),
            None => Err(self.violation("something was said of a pool that is not on the channel".into())),
        }
    }

    fn set_state(&mut self, pool_index: PoolIndex, state: State) -> Result<Option<Arrival>, Error> {
        self.assignment_at(pool_index)?.state = state;
        Ok(None)
    }

    fn offered(&mut self, offer: Offer) -> Result<Option<Arrival>, Error> {
        let veto = if self.session.is_over_full() {
            Some(Veto::TooManyPools)
        } else if offer.layout.pool_bytes() > self.max_pool_bytes {
            Some(Veto::TooLarge)
        } else if pool::is_known(self.domain.id(), offer.pool) {
            Some(Veto::Known)
        } else {
            None
        };
        match veto {
            Some(veto) => {
                self.send_message(&Message::Vetoed(offer.pool_index, veto), REPLY_TIMEOUT).map(|()| None)
            }
            None if self.asks => Ok(Some(Arrival::Offered(PoolOffer { offer }))),
            // The reason for a refusal is reported to the peer, whose program has to handle it.
            None => match self.accept_pool(&offer, REPLY_TIMEOUT) {
                Ok(pool) => Ok(Some(Arrival::Pool(pool))),
                Err(error) if error.is_peer_gone() => Err(error),
                Err(_) => Ok(None),
            },
        }
    }

    /// Accepts an offered pool, or sends the reason for refusing it.
    pub(super) fn accept_pool(&mut self, offer: &Offer, timeout: Duration) -> Result<Pool, Error> {
        let memory = match self.trust {
            Trust::Full if self.session.is_copied(offer.pool_index) => {
                PoolMemory::create_for_copies(&self.domain, offer.layout).map(Some)
            }
            Trust::Full => PoolMemory::map_offered(&self.domain, self.channel.peer(), offer).map(Some),
            Trust::Half | Trust::None => Ok(None),
        };
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                self.send_message(&Message::Vetoed(offer.pool_index, veto_reason(&error)), timeout)?;
                return Err(error);
            }
        };
        self.send_message(&Message::Assigned(offer.pool_index), timeout)?;
        let pool = Pool::of_offer(self.domain.id(), offer, self.trust, memory);
        let (link, pool_index) = (UPSTREAM, offer.pool_index);
        let (inner, state) = (Arc::clone(&pool.inner), State::Assigned);
        let (may_forward, lent) = (offer.may_forward, None);
        self.assigned.push(Assignment { pool: inner, link, pool_index, state, may_forward, lent });
        Ok(pool)
    }

    fn handle_unassign_request(&mut self, pool_index: PoolIndex) -> Result<Option<Arrival>, Error> {
        let (pool, link) =
            (Arc::clone(&self.assignment_at(pool_index)?.pool), self.assignment_at(pool_index)?.link);
        let off = pool.lock().table.unassign(link).is_ok();
        let answer = if off { Message::Unassigned(pool_index) } else { Message::Kept(pool_index) };
        self.send_message(&answer, REPLY_TIMEOUT)?;
        if !off {
            return Ok(None);
        }
        self.assigned.retain(|assigned| assigned.pool_index != pool_index);
        Ok(Some(Arrival::PoolGone(Pool { inner: pool })))
    }

    /// Stores bytes of a buffer whose right arrives next. Until then the peer has the right to write it.
    fn store_content(&mut self, content: &Content<'_>) -> Result<(), Error> {
        let Content { pool_index, buffer, offset_bytes, bytes } = *content;
        let (pool, link) =
            (Arc::clone(&self.assignment_at(pool_index)?.pool), self.assignment_at(pool_index)?.link);
        let state = pool.lock();
        if state.table.is_revoked() {
            // The pool was revoked after the peer sent the message.
            return Ok(());
        }
        let allowed = state.table.may_receive(Verb::Share, buffer, link);
        drop(state);
        allowed.map_err(|error| self.violation(format!("content: {error}")))?;
        let (Some(memory), Some(start)) = (&pool.memory, pool.layout.offset_bytes(buffer)) else {
            return Err(self.violation("content of a pool without memory".into()));
        };
        let to = start.saturating_add(offset_bytes) as usize;
        copy::write(CopyLoop::Best, memory.memory(), to, bytes).map_err(|error| BulkError::from(error).into())
    }

    /// Handles a transfer of rights. All of them are validated before any is applied.
    fn transferred(&mut self, transfer: Transfer<'_>) -> Result<Option<Arrival>, Error> {
        let verb = transfer.verb;
        for segment in transfer.segments() {
            let (pool, link) = (
                Arc::clone(&self.assignment_at(segment.pool_index)?.pool),
                self.assignment_at(segment.pool_index)?.link,
            );
            let state = pool.lock();
            if state.table.is_revoked() {
                // The pool was revoked after the peer sent the message.
                return Ok(None);
            }
            let known = state.table.may_receive(verb, segment.buffer, link);
            drop(state);
            known.map_err(|error| self.violation(format!("{verb}: {error}")))?;
        }
        let contents = self.contents_of(&transfer)?;
        let has_words = !transfer.metadata.is_empty();
        match verb {
            Verb::Move => Ok(self.receive_all(&transfer, contents, Buffer::new)?.map(Arrival::Moved)),
            Verb::Share => Ok(self.receive_all(&transfer, contents, Shared::new)?.map(Arrival::Shared)),
            Verb::Pass | Verb::Release => {
                for segment in transfer.segments() {
                    self.receive_one(verb, segment)?;
                }
                let arrival = if verb == Verb::Pass { Arrival::Passed } else { Arrival::Released };
                Ok(has_words.then(|| arrival(transfer.len())))
            }
        }
    }

    fn receive_one(
        &mut self,
        verb: Verb,
        segment: Segment,
    ) -> Result<(Arc<Inner>, tombolo_bulk::PoolChannel), Error> {
        let (pool, link) = (
            Arc::clone(&self.assignment_at(segment.pool_index)?.pool),
            self.assignment_at(segment.pool_index)?.link,
        );
        let received = pool.lock().table.receive(verb, segment.buffer, link);
        received.map_err(|error| self.violation(format!("{verb}: {error}")))?;
        pool.invalidate(segment.buffer);
        Ok((pool, link))
    }

    /// Receives the rights of a transfer and converts each with `make` into the type that the program gets.
    fn receive_all<T>(
        &mut self,
        transfer: &Transfer<'_>,
        contents: Contents,
        make: impl Fn(Handle) -> T,
    ) -> Result<Option<Received<T>>, Error> {
        let mut contents = contents;
        let mut first = None;
        let mut rest = Vec::new();
        for segment in transfer.segments() {
            let (pool, link) = self.receive_one(transfer.verb, segment)?;
            let Segment { buffer, offset_bytes, length_bytes, .. } = segment;
            let mut handle = Handle::whole(pool, buffer, contents.next());
            (handle.offset_bytes, handle.length_bytes) = (offset_bytes, length_bytes);
            (handle.from, handle.is_borrowed) = (Some(link), transfer.verb == Verb::Share);
            if first.is_none() { first = Some(make(handle)) } else { rest.push(make(handle)) }
        }
        if contents.is_lost {
            // The handles return their buffers when they are dropped here; the error informs the program.
            return Err(BulkError::Lost { buffers: transfer.len() }.into());
        }
        Ok(first.map(|first| Received::new(first, rest)))
    }

    /// Returns the memory that arrived with a transfer.
    fn contents_of(&mut self, transfer: &Transfer<'_>) -> Result<Contents, Error> {
        if self.trust == Trust::Full || !transfer.verb.carries_content() {
            return Ok(Contents {
                memory: Vec::new().into_iter(),
                is_mapped: self.trust == Trust::Full,
                is_lost: false,
            });
        }
        let number = self.session.last_received();
        let Some(fds) = self.descriptors(number)? else {
            return Ok(Contents { memory: Vec::new().into_iter(), is_mapped: false, is_lost: true });
        };
        if fds.len() != transfer.len() {
            let what = format!("{} pieces came with {} descriptors", transfer.len(), fds.len());
            return Err(self.violation(what));
        }
        let mut memory = Vec::with_capacity(fds.len());
        for (segment, fd) in transfer.segments().zip(fds) {
            let pool = Arc::clone(&self.assignment_at(segment.pool_index)?.pool);
            let length_bytes = usize::try_from(pool.layout.buffer_bytes()).unwrap_or(usize::MAX);
            let came = match self.trust {
                Trust::Half => {
                    pool.lock().open.receive(segment.buffer, fd, length_bytes).map(BufferContent::Open)
                }
                _ => Sealed::receive(fd, length_bytes).map(BufferContent::Sealed),
            };
            match came {
                Ok(content) => memory.push(content),
                Err(error) if matches!(error.errno, Errno::PERM | Errno::OVERFLOW) => {
                    return Err(self.violation(error.to_string()));
                }
                Err(_) => {
                    return Ok(Contents { memory: Vec::new().into_iter(), is_mapped: false, is_lost: true });
                }
            }
        }
        Ok(Contents { memory: memory.into_iter(), is_mapped: false, is_lost: false })
    }

    /// Returns the descriptors that were sent ahead of message `number`; `None` if this process had no room
    /// for them. Drops the descriptors of messages that never arrived.
    fn descriptors(&mut self, number: u32) -> Result<Option<Vec<OwnedFd>>, Error> {
        let mut found = None;
        loop {
            let next = match self.ahead.take() {
                Some(next) => Some(next),
                None => self.next_descriptors()?,
            };
            let Some((next_number, fds)) = next else { break };
            // Serial number arithmetic: half of the numbers are ahead.
            if next_number.wrapping_sub(number) as i32 > 0 {
                self.ahead = Some((next_number, fds));
                break;
            }
            if next_number == number {
                found = Some(fds);
            }
        }
        match found {
            Some(fds) if fds.is_empty() => Ok(None),
            Some(fds) => Ok(Some(fds)),
            None => Err(self.violation("buffers came without their memory".into())),
        }
    }

    fn next_descriptors(&mut self) -> Result<Option<(u32, Vec<OwnedFd>)>, Error> {
        let Some(companion) = &self.companion else { return Ok(None) };
        let mut number = [0; 4];
        match socket::receive(companion, &mut number) {
            Ok(received) if received.length == 4 => {
                // The kernel drops descriptors that exceed the process's limit.
                let fds = if received.truncated { Vec::new() } else { received.fds };
                Ok(Some((u32::from_le_bytes(number), fds)))
            }
            Ok(received) if received.length > 0 => {
                Err(self.violation(format!("descriptors with {} bytes", received.length)))
            }
            Ok(_) | Err(_) => Ok(None),
        }
    }
}

/// Memory that arrived with a transfer, piece by piece.
struct Contents {
    memory: std::vec::IntoIter<BufferContent>,
    is_mapped: bool,
    is_lost: bool,
}

impl Contents {
    fn next(&mut self) -> BufferContent {
        if self.is_mapped { BufferContent::Pool } else { self.memory.next().unwrap_or(BufferContent::Gone) }
    }
}
