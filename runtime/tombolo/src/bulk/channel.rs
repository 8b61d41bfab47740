//! One end of a bulk channel: the operations that this side initiates.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tombolo_bulk::session::BulkSendError;
use tombolo_bulk::wire::{Offer, PoolIndex, Veto};
use tombolo_bulk::{Message, PoolChannel, Segment, Session, TableError, Terms, Trust};
use tombolo_link::TransportKind;

use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::nodes::NodeInfo;
use crate::region::Capability;

use super::arrival::{Arrival, PoolOffer};
use super::incoming::TimeBudget;
use super::memory;
use super::options::{BulkOptions, PoolOptions};
use super::pool::{Inner, Pool};
use crate::error::BulkError;

/// Timeout for revoking the peer's access when the channel ends.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// One end of a channel for bulk data.
///
/// Only rights to buffers travel over the channel, never their contents, so a transfer takes the same time
/// for any buffer size. The exception is two ends that share no memory, such as two virtual machines without
/// a common window: the contents of moved and shared buffers are then [copied](Self::copies) through the
/// channel. Incoming events are read with [`recv`](Self::recv). Buffers that the peer returns become free
/// during any operation on the channel.
///
/// ```no_run
/// use tombolo::{Domain, Error, PoolOptions};
///
/// # fn main() -> Result<(), Error> {
/// let mut bulk = Domain::attach()?.connect_bulk("frames")?;
/// let pool = bulk.create_pool(&PoolOptions::new(1 << 20, 8))?;
/// let mut frame = pool.take()?;
/// frame.write(0, b"a frame of up to a megabyte")?;
/// bulk.move_to(frame, b"number 1")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BulkChannel {
    pub(super) channel: Channel,
    pub(super) domain: Domain,
    pub(super) session: Session,
    pub(super) trust: Trust,
    pub(super) max_pool_bytes: u64,
    pub(super) asks: bool,
    pub(super) assigned: Vec<Assignment>,
    /// Socket for passing descriptors, without full trust.
    pub(super) companion: Option<OwnedFd>,
    /// Whether the last message found no room: descriptors are then not sent until there is room.
    pub(super) is_full: bool,
    /// Arrivals received while waiting for something else, each with its message number and metadata.
    pub(super) arrived: VecDeque<(u32, Arrival, Vec<u8>)>,
    /// Descriptors that arrived ahead of their message, with its number.
    pub(super) ahead: Option<(u32, Vec<OwnedFd>)>,
    pub(super) inbox: Vec<u8>,
    pub(super) outbox: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    /// Whether the peer is gone and the buffers that it held were reclaimed.
    pub(super) is_lost: bool,
}

/// Pool that is assigned to a channel, or offered.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) pool: Arc<Inner>,
    pub(super) link: PoolChannel,
    pub(super) pool_index: PoolIndex,
    pub(super) state: State,
    /// Whether the peer may assign it to further channels.
    pub(super) may_forward: bool,
    /// Capability lent to the peer; revoking it ends the peer's access.
    pub(super) lent: Option<Capability>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Offered by this side; the answer is pending.
    Offered,
    Assigned,
    /// Offered by this side and refused.
    Vetoed(Veto),
    /// This side asked to remove it; the answer is pending.
    Leaving,
    /// The peer refused to remove it because it still uses it.
    Kept,
}

impl BulkChannel {
    pub(super) fn open(
        domain: &Domain,
        mut channel: Channel,
        options: &BulkOptions,
        terms: Terms,
        timeout: Duration,
    ) -> Result<BulkChannel, Error> {
        let companion = channel.take_companion();
        let trust = terms.trust;
        if trust.has_own_memory() && companion.is_none() && channel.transport() != TransportKind::Shm {
            return Err(BulkError::NotOneKernel(channel.transport()).into());
        }
        let mut bulk = BulkChannel {
            session: Session::new(channel.is_accepting(), terms),
            channel,
            domain: domain.clone(),
            trust,
            max_pool_bytes: options.max_pool_bytes,
            asks: options.asks,
            assigned: Vec::new(),
            companion,
            is_full: false,
            arrived: VecDeque::new(),
            ahead: None,
            inbox: Vec::new(),
            outbox: Vec::new(),
            segments: Vec::new(),
            is_lost: false,
        };
        let mut budget = TimeBudget::of(timeout);
        bulk.send_message(&bulk.session.first_message(), timeout)?;
        while bulk.session.terms().is_none() {
            bulk.process_message(&mut budget)?;
        }
        if trust.has_own_memory() && bulk.companion.is_none() {
            return Err(BulkError::NotOneKernel(bulk.channel.transport()).into());
        }
        Ok(bulk)
    }

    /// Sets the timeout of the next operation that waits; a timeout of zero makes a single attempt.
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut BulkChannel {
        self.channel.timeout.set_once(timeout);
        self
    }

    /// Sends any message other than a transfer.
    pub(super) fn send_message(&mut self, message: &Message<'_>, timeout: Duration) -> Result<(), Error> {
        let mut outbox = std::mem::take(&mut self.outbox);
        let prepared =
            self.session.prepare(message, &mut outbox).map_err(|error| BulkError::from(error).into());
        let sent = prepared.and_then(|()| match timeout {
            Duration::ZERO => self.channel.try_send(&outbox),
            timeout => self.channel.within(timeout).send(&outbox),
        });
        self.outbox = outbox;
        sent?;
        self.session.record_sent(message);
        Ok(())
    }

    /// The underlying channel, with its peer and transport.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether an arrival was queued while waiting for something else and is ready for [`recv`](Self::recv).
    /// A waitset does not report these.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Returns the terms that both sides agreed on.
    #[must_use]
    pub fn terms(&self) -> Option<Terms> {
        self.session.terms()
    }

    /// Whether the contents of this pool's buffers are copied through the channel because its ends share no
    /// memory. A transfer then takes time proportional to the size, and returns once the peer has consumed
    /// most of the contents.
    #[must_use]
    pub fn copies(&self, pool: &Pool) -> bool {
        self.position(&pool.inner).is_some_and(|at| self.session.is_copied(self.assigned[at].pool_index))
    }

    /// Iterates over the pools on the channel, assigned by either end.
    pub fn pools(&self) -> impl Iterator<Item = Pool> + '_ {
        let assigned = self.assigned.iter().filter(|assigned| assigned.state != State::Offered);
        assigned.map(|assigned| Pool { inner: Arc::clone(&assigned.pool) })
    }

    pub(super) fn position(&self, pool: &Arc<Inner>) -> Option<usize> {
        self.assigned.iter().position(|assigned| Arc::ptr_eq(&assigned.pool, pool))
    }

    /// Creates a pool in memory that both ends can reach, and assigns it to the channel.
    ///
    /// # Errors
    /// Same as [`Domain::create_pool`] and [`assign`](Self::assign).
    pub fn create_pool(&mut self, options: &PoolOptions) -> Result<Pool, Error> {
        let timeout = self.channel.timeout.take();
        let pool = self.create_unassigned_pool(options)?;
        self.within(timeout).assign(&pool)?;
        Ok(pool)
    }

    /// Creates a pool like [`create_pool`](Self::create_pool) without assigning it, for use with
    /// [`assign_here_only`](Self::assign_here_only).
    ///
    /// # Errors
    /// [`BulkError::Trust`] if the options name another trust than the channel's, unless it is full trust,
    /// the default; and the errors of [`Domain::create_pool`].
    pub fn create_unassigned_pool(&self, options: &PoolOptions) -> Result<Pool, Error> {
        let trust = self.trust;
        if options.trust != Trust::Full && options.trust != trust {
            return Err(BulkError::Trust { ours: trust, theirs: options.trust }.into());
        }
        let is_direct = self.channel.via().next().is_none();
        if options.node.is_some() || !is_direct || self.channel.transport() != TransportKind::Window {
            return self.domain.create_pool(&options.clone().trust(trust));
        }
        // A node behind a window can reach only that window. If the peer's node has one, the pool goes there,
        // otherwise into this node's window.
        let peer = self.channel.peer_node();
        let is_behind = |node: &NodeInfo| node.name == peer && node.window_bytes.1 > 0;
        let is_peer = self.domain.nodes()?.iter().any(is_behind);
        let node = if is_peer { peer } else { self.domain.node_name() };
        self.domain.create_pool(&options.clone().trust(trust).reachable_from(node))
    }

    /// Assigns a pool to the channel: the peer can receive its buffers from then on, and assign the pool to
    /// further channels. If the peer cannot reach the pool's memory, it allocates memory of its own and
    /// contents are [copied](Self::copies).
    ///
    /// # Errors
    /// [`BulkError::Vetoed`] with the peer's reason for refusing; [`BulkError::Trust`];
    /// [`BulkError::OnChannel`]; [`Error::TimedOut`] if the peer does not answer: calling again resumes the
    /// wait for its answer.
    pub fn assign(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.assign_with(pool, true, timeout)
    }

    /// Like [`assign`](Self::assign), but the peer may not assign the pool to further channels. If the peer
    /// dies, its buffers are reclaimed immediately. With [`assign`](Self::assign), the pool must first be
    /// revoked from every domain that got it through the peer.
    ///
    /// # Errors
    /// Same as [`assign`](Self::assign).
    pub fn assign_here_only(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.assign_with(pool, false, timeout)
    }

    fn assign_with(&mut self, pool: &Pool, may_forward: bool, timeout: Duration) -> Result<(), Error> {
        let mut budget = TimeBudget::of(timeout);
        self.begin_assign(pool, may_forward, timeout)?;
        self.finish_assign(pool, &mut budget)
    }

    /// Offers the pool, unless an offer is already pending.
    pub(super) fn begin_assign(
        &mut self,
        pool: &Pool,
        may_forward: bool,
        timeout: Duration,
    ) -> Result<(), Error> {
        match self.position(&pool.inner).map(|at| self.assigned[at].state) {
            None => self.offer(pool, may_forward, false, timeout),
            Some(State::Offered) => Ok(()),
            Some(_) => Err(BulkError::OnChannel.into()),
        }
    }

    /// Waits for the answer to the offer.
    pub(super) fn finish_assign(&mut self, pool: &Pool, budget: &mut TimeBudget) -> Result<(), Error> {
        loop {
            let at = self.position(&pool.inner).ok_or(BulkError::NotOnChannel)?;
            match self.assigned[at].state {
                State::Offered => self.process_message(budget)?,
                State::Vetoed(veto) => {
                    let Assignment { may_forward, pool_index, .. } = self.assigned[at];
                    if veto != Veto::Unreachable || self.session.is_copied(pool_index) {
                        self.assigned.swap_remove(at);
                        return Err(BulkError::Vetoed(veto).into());
                    }
                    // The veto stays until the next offer is sent, so an interrupted wait resumes here.
                    self.offer(pool, may_forward, true, budget.remaining())?;
                    self.assigned.swap_remove(at);
                }
                _ => return Ok(()),
            }
        }
    }

    fn offer(
        &mut self,
        pool: &Pool,
        may_forward: bool,
        is_copied: bool,
        timeout: Duration,
    ) -> Result<(), Error> {
        let inner = &pool.inner;
        if inner.trust != self.trust {
            return Err(BulkError::Trust { ours: self.trust, theirs: inner.trust }.into());
        }
        if !inner.may_forward {
            return Err(BulkError::MayNotForward.into());
        }
        let pool_index = self.session.free_pool_index().map_err(BulkError::from)?;
        let link = inner.lock().table.assign(may_forward).map_err(BulkError::from)?;
        let offered = self.offer_at(inner, pool_index, may_forward, is_copied, timeout);
        match offered {
            Ok(lent) => {
                let (pool, state) = (Arc::clone(inner), State::Offered);
                self.assigned.push(Assignment { pool, link, pool_index, state, may_forward, lent });
                Ok(())
            }
            Err(error) => {
                let _ = inner.lock().table.unassign(link);
                Err(error)
            }
        }
    }

    fn offer_at(
        &mut self,
        pool: &Arc<Inner>,
        pool_index: PoolIndex,
        may_forward: bool,
        is_copied: bool,
        timeout: Duration,
    ) -> Result<Option<Capability>, Error> {
        let peer = self.channel.peer();
        let mapped = pool.memory.as_ref().filter(|_| !is_copied);
        let lent = mapped.map(|memory| memory.lend(peer, may_forward)).transpose()?;
        let (capability, lent) = lent.unzip();
        let offer = Offer {
            pool_index,
            pool: pool.id,
            layout: pool.layout,
            capability: capability.unwrap_or(0),
            offset_bytes: 0,
            may_forward,
        };
        self.send_message(&Message::Assign(offer), timeout)?;
        Ok(lent)
    }

    /// Removes a pool from the channel.
    ///
    /// # Errors
    /// [`TableError::InUse`] while buffers are lent over this channel, or held here from it;
    /// [`BulkError::Kept`] if the peer has assigned the pool further; [`Error::TimedOut`] if the peer does
    /// not answer: calling again resumes the wait for its answer.
    pub fn unassign(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        let mut budget = TimeBudget::of(timeout);
        self.begin_unassign(pool, timeout)?;
        self.finish_unassign(pool, &mut budget)
    }

    /// Requests removal of the pool, unless a request is already pending.
    pub(super) fn begin_unassign(&mut self, pool: &Pool, timeout: Duration) -> Result<(), Error> {
        self.settle()?;
        let at = self.position(&pool.inner).ok_or(BulkError::NotOnChannel)?;
        let Assignment { link, pool_index, state, .. } = self.assigned[at];
        if state == State::Leaving {
            return Ok(());
        }
        pool.inner.lock().table.start_unassign(link).map_err(BulkError::from)?;
        if let Err(error) = self.send_message(&Message::Unassign(pool_index), timeout) {
            pool.inner.lock().table.cancel_unassign(link);
            return Err(error);
        }
        self.assigned[at].state = State::Leaving;
        Ok(())
    }

    /// Waits for the answer to the removal request.
    pub(super) fn finish_unassign(&mut self, pool: &Pool, budget: &mut TimeBudget) -> Result<(), Error> {
        loop {
            match self.position(&pool.inner).map(|at| (at, self.assigned[at].state)) {
                None => return Ok(()),
                Some((at, State::Kept)) => {
                    self.assigned[at].state = State::Assigned;
                    return Err(BulkError::Kept.into());
                }
                Some(_) => self.process_message(budget)?,
            }
        }
    }

    /// Accepts a pool that the peer [offered](Arrival::Offered).
    ///
    /// # Errors
    /// The error that prevented mapping it, which is also reported to the peer; or the end of the peer.
    pub fn take_pool(&mut self, offer: PoolOffer) -> Result<Pool, Error> {
        let timeout = self.channel.timeout.take();
        self.accept_pool(&offer.offer, timeout)
    }

    /// Declines a pool that the peer [offered](Arrival::Offered).
    ///
    /// # Errors
    /// The end of the peer.
    pub fn decline_pool(&mut self, offer: PoolOffer) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.send_message(&Message::Vetoed(offer.offer.pool_index, Veto::Declined), timeout)
    }

    /// Returns dropped buffers that came over this channel, as far as there is room for the messages.
    pub(super) fn give_back(&mut self) -> Result<(), Error> {
        for at in 0..self.assigned.len() {
            if self.assigned[at].pool.has_returns() {
                self.give_back_of(at)?;
            }
        }
        Ok(())
    }

    fn give_back_of(&mut self, at: usize) -> Result<(), Error> {
        let Assignment { pool, link, pool_index, .. } = &self.assigned[at];
        let (pool, link, pool_index) = (Arc::clone(pool), *link, *pool_index);
        let mut state = pool.lock();
        let mut index = 0;
        while let Some(back) = state.returns.get(index).copied() {
            if back.link != link {
                index += 1;
                continue;
            }
            match state.table.begin(back.verb, back.buffer, link) {
                Ok(()) => {}
                // Shared further: it is returned once the last of these shares is released.
                Err(TableError::Shared { .. }) => {
                    index += 1;
                    continue;
                }
                Err(_) => {
                    state.returns.swap_remove(index);
                    continue;
                }
            }
            let segment = Segment { pool_index, buffer: back.buffer, offset_bytes: 0, length_bytes: 0 };
            let prepared = self.session.prepare_transfer(back.verb, &[segment], &[], &mut self.outbox);
            let sent = match prepared {
                Ok(()) => self.channel.try_send(&self.outbox),
                Err(error) => Err(BulkError::Send(error).into()),
            };
            match sent {
                Ok(()) => {
                    state.table.commit(back.verb, back.buffer, link);
                    state.returns.swap_remove(index);
                    self.session.record_transfer_sent();
                }
                Err(error) => {
                    state.table.abort(back.buffer);
                    pool.update_return_count(&state);
                    let later = matches!(
                        error,
                        Error::WouldBlock | Error::Bulk(BulkError::Send(BulkSendError::NoSuchPool))
                    );
                    return if later { Ok(()) } else { Err(error) };
                }
            }
        }
        pool.update_return_count(&state);
        Ok(())
    }

    /// Returns dropped buffers, and handles incoming messages without waiting. Arrivals are queued for
    /// [`recv`](Self::recv).
    ///
    /// # Errors
    /// The end of the peer.
    pub fn settle(&mut self) -> Result<(), Error> {
        while self.try_process_message()? {}
        Ok(())
    }

    /// Handles the end of the channel and reclaims the buffers that the peer held; `dead` if the peer's
    /// domain died.
    pub(super) fn on_channel_end(&mut self, dead: bool) {
        if std::mem::replace(&mut self.is_lost, true) {
            return;
        }
        for assigned in &mut self.assigned {
            let Assignment { pool, link, lent, .. } = assigned;
            let mut state = pool.lock();
            state.returns.retain(|back| back.link != *link);
            pool.update_return_count(&state);
            if !state.table.mark_lost(*link, dead) {
                continue;
            }
            drop(state);
            // The buffers are free only once the peer cannot reach them. If the revocation fails, they stay
            // lent.
            let taken = match lent {
                Some(lent) => memory::take_back(lent, REVOKE_TIMEOUT),
                None => Ok(()),
            };
            if taken.is_ok() {
                pool.lock().table.reclaim(*link);
            }
        }
    }
}

impl Drop for BulkChannel {
    fn drop(&mut self) {
        // Last opportunity to return dropped buffers.
        let _ = self.give_back();
        self.on_channel_end(false);
    }
}
