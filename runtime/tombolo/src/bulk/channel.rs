//! One end of a channel for bulk data: what this side says on it.

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
use super::hear::Patience;
use super::memory;
use super::options::{BulkOptions, PoolOptions};
use super::pool::{Inner, Pool};
use crate::error::BulkError;

/// How long taking back what a peer had may take at the end of a channel.
const TAKE_BACK: Duration = Duration::from_secs(5);

/// One end of a channel for bulk data.
///
/// Nothing of a buffer passes through the channel, only words about it; so a transfer takes the same time
/// whatever its size. The exception are ends that share no memory, such as two virtual machines without a
/// common window: there the content of what is moved or shared is [copied](Self::copies). What comes is read
/// with [`recv`](Self::recv); buffers that the peer gives back are free again whenever anything is done with
/// the channel.
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
    /// The socket that descriptors travel on, without trust.
    pub(super) companion: Option<OwnedFd>,
    /// The last message that found no room, so that no descriptors are sent before there is.
    pub(super) is_full: bool,
    /// What has arrived while something else was waited for, the number of its message, and its metadata.
    pub(super) arrived: VecDeque<(u32, Arrival, Vec<u8>)>,
    /// Descriptors that came ahead of what they belong to.
    pub(super) ahead: Option<(u32, Vec<OwnedFd>)>,
    pub(super) inbox: Vec<u8>,
    pub(super) outbox: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    /// The peer is gone, and what it had was taken back.
    pub(super) is_lost: bool,
}

/// A pool on a channel.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) pool: Arc<Inner>,
    pub(super) link: PoolChannel,
    pub(super) place: PoolIndex,
    pub(super) state: State,
    /// Whether the other side may assign it further.
    pub(super) may_forward: bool,
    /// What takes the peer's right back.
    pub(super) lent: Option<Capability>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Offered by this side; no answer yet.
    Offered,
    Assigned,
    /// Offered by this side, and not taken.
    Vetoed(Veto),
    /// This side wants it off; no answer yet.
    Leaving,
    /// The other side still needs it.
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
        if trust.brings_memory() && companion.is_none() && channel.transport() != TransportKind::Shm {
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
        let mut patience = Patience::of(timeout);
        bulk.say(&bulk.session.first(), timeout)?;
        while bulk.session.terms().is_none() {
            bulk.hear(&mut patience)?;
        }
        if trust.brings_memory() && bulk.companion.is_none() {
            return Err(BulkError::NotOneKernel(bulk.channel.transport()).into());
        }
        Ok(bulk)
    }

    /// Has the next operation that waits do so up to `timeout`; with a timeout of zero it is tried once.
    #[inline]
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut BulkChannel {
        self.channel.timeout.set_once(timeout);
        self
    }

    /// Says anything but a transfer.
    pub(super) fn say(&mut self, message: &Message<'_>, timeout: Duration) -> Result<(), Error> {
        let mut outbox = std::mem::take(&mut self.outbox);
        let prepared =
            self.session.prepare(message, &mut outbox).map_err(|error| BulkError::from(error).into());
        let sent = prepared.and_then(|()| match timeout {
            Duration::ZERO => self.channel.try_send(&outbox),
            timeout => self.channel.within(timeout).send(&outbox),
        });
        self.outbox = outbox;
        sent?;
        self.session.sent(message);
        Ok(())
    }

    /// Who is at the other end, and what carries the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether something has arrived while something else was awaited, and waits for [`recv`](Self::recv): of
    /// that no waitset tells.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// What both sides agreed to.
    #[must_use]
    pub fn terms(&self) -> Option<Terms> {
        self.session.terms()
    }

    /// Whether the content of buffers of the pool is copied through the channel, because its ends share no
    /// memory: a transfer takes time then, and returns once the other side has taken most of the content.
    #[must_use]
    pub fn copies(&self, pool: &Pool) -> bool {
        self.position(&pool.inner).is_some_and(|at| self.session.is_copied(self.assigned[at].place))
    }

    /// The pools that are on the channel, assigned by either end.
    pub fn pools(&self) -> impl Iterator<Item = Pool> + '_ {
        let assigned = self.assigned.iter().filter(|assigned| assigned.state != State::Offered);
        assigned.map(|assigned| Pool { inner: Arc::clone(&assigned.pool) })
    }

    pub(super) fn position(&self, pool: &Arc<Inner>) -> Option<usize> {
        self.assigned.iter().position(|assigned| Arc::ptr_eq(&assigned.pool, pool))
    }

    /// Makes a pool in memory that both ends reach, and assigns it to the channel.
    ///
    /// # Errors
    /// As [`Domain::create_pool`] and [`assign`](Self::assign).
    pub fn create_pool(&mut self, options: &PoolOptions) -> Result<Pool, Error> {
        let timeout = self.channel.timeout.take();
        let pool = self.create_unassigned_pool(options)?;
        self.within(timeout).assign(&pool)?;
        Ok(pool)
    }

    /// As [`create_pool`](Self::create_pool), without assigning it: that is left to
    /// [`assign_here_only`](Self::assign_here_only).
    ///
    /// # Errors
    /// As [`Domain::create_pool`].
    pub fn create_unassigned_pool(&self, options: &PoolOptions) -> Result<Pool, Error> {
        let trust = self.trust;
        let is_direct = self.channel.via().next().is_none();
        if options.node.is_some() || !is_direct || self.channel.transport() != TransportKind::Window {
            return self.domain.create_pool(&options.clone().trust(trust));
        }
        // What lies behind a window reaches nothing else. Between two nodes that share one, the peer's name
        // means that one.
        let peer = self.channel.peer_node();
        let is_behind = |node: &NodeInfo| node.name == peer && node.window_bytes.1 > 0;
        let is_peer = self.domain.nodes()?.iter().any(is_behind);
        let node = if is_peer { peer } else { self.domain.node_name() };
        self.domain.create_pool(&options.clone().trust(trust).reachable_from(node))
    }

    /// Assigns a pool to the channel: the other side may get buffers of it from now on, and assign it
    /// further. If it does not reach the memory of the pool, it gets memory of its own, and content is
    /// [copied](Self::copies).
    ///
    /// # Errors
    /// [`BulkError::Vetoed`] says why the other side does not take it; [`BulkError::Trust`];
    /// [`BulkError::OnChannel`]; [`Error::TimedOut`] when there is no answer: then asking again waits on for
    /// it.
    pub fn assign(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.assign_with(pool, true, timeout)
    }

    /// As [`assign`](Self::assign), but the other side may not assign it further. What it has comes back at
    /// once when it dies, where otherwise it is taken from everybody who got it from there first.
    ///
    /// # Errors
    /// As [`assign`](Self::assign).
    pub fn assign_here_only(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.assign_with(pool, false, timeout)
    }

    fn assign_with(&mut self, pool: &Pool, may_forward: bool, timeout: Duration) -> Result<(), Error> {
        let mut patience = Patience::of(timeout);
        self.begin_assign(pool, may_forward, timeout)?;
        self.finish_assign(pool, &mut patience)
    }

    /// Offers the pool, unless that was done before.
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

    /// Waits for the answer to an offer.
    pub(super) fn finish_assign(&mut self, pool: &Pool, patience: &mut Patience) -> Result<(), Error> {
        loop {
            let at = self.position(&pool.inner).ok_or(BulkError::NotOnChannel)?;
            match self.assigned[at].state {
                State::Offered => self.hear(patience)?,
                State::Vetoed(veto) => {
                    let Assignment { may_forward, place, .. } = self.assigned[at];
                    if veto != Veto::Unreachable || self.session.is_copied(place) {
                        self.assigned.swap_remove(at);
                        return Err(BulkError::Vetoed(veto).into());
                    }
                    // The veto stays until the next offer is sent: a wait that was cut short goes on here.
                    self.offer(pool, may_forward, true, patience.remaining())?;
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
        let place = self.session.free_place().map_err(BulkError::from)?;
        let link = inner.lock().table.assign(may_forward).map_err(BulkError::from)?;
        let offered = self.offer_at(inner, place, may_forward, is_copied, timeout);
        match offered {
            Ok(lent) => {
                let (pool, state) = (Arc::clone(inner), State::Offered);
                self.assigned.push(Assignment { pool, link, place, state, may_forward, lent });
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
        place: PoolIndex,
        may_forward: bool,
        is_copied: bool,
        timeout: Duration,
    ) -> Result<Option<Capability>, Error> {
        let peer = self.channel.peer();
        let mapped = pool.memory.as_ref().filter(|_| !is_copied);
        let lent = mapped.map(|memory| memory.lend(peer, may_forward)).transpose()?;
        let (capability, lent) = lent.unzip();
        let offer = Offer {
            place,
            pool: pool.id,
            layout: pool.layout,
            capability: capability.unwrap_or(0),
            offset_bytes: 0,
            may_forward,
        };
        self.say(&Message::Assign(offer), timeout)?;
        Ok(lent)
    }

    /// Takes a pool off the channel.
    ///
    /// # Errors
    /// [`TableError::InUse`] when buffers of it are out over the channel, or here from it;
    /// [`BulkError::Kept`] when the other side has assigned it further; [`Error::TimedOut`] when there is no
    /// answer: then asking again waits on for it.
    pub fn unassign(&mut self, pool: &Pool) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        let mut patience = Patience::of(timeout);
        self.begin_unassign(pool, timeout)?;
        self.finish_unassign(pool, &mut patience)
    }

    /// Asks for the pool to leave, unless that was done before.
    pub(super) fn begin_unassign(&mut self, pool: &Pool, timeout: Duration) -> Result<(), Error> {
        self.settle()?;
        let at = self.position(&pool.inner).ok_or(BulkError::NotOnChannel)?;
        let Assignment { link, place, state, .. } = self.assigned[at];
        if state == State::Leaving {
            return Ok(());
        }
        pool.inner.lock().table.leave(link).map_err(BulkError::from)?;
        if let Err(error) = self.say(&Message::Unassign(place), timeout) {
            pool.inner.lock().table.stay(link);
            return Err(error);
        }
        self.assigned[at].state = State::Leaving;
        Ok(())
    }

    /// Waits for the answer to that.
    pub(super) fn finish_unassign(&mut self, pool: &Pool, patience: &mut Patience) -> Result<(), Error> {
        loop {
            match self.position(&pool.inner).map(|at| (at, self.assigned[at].state)) {
                None => return Ok(()),
                Some((at, State::Kept)) => {
                    self.assigned[at].state = State::Assigned;
                    return Err(BulkError::Kept.into());
                }
                Some(_) => self.hear(patience)?,
            }
        }
    }

    /// Takes a pool that is [offered](Arrival::Offered).
    ///
    /// # Errors
    /// What it could not be mapped for, which the other side is told; or its end.
    pub fn take_pool(&mut self, offer: PoolOffer) -> Result<Pool, Error> {
        let timeout = self.channel.timeout.take();
        self.take_up(&offer.offer, timeout)
    }

    /// Declines a pool that is [offered](Arrival::Offered).
    ///
    /// # Errors
    /// The end of the peer.
    pub fn decline_pool(&mut self, offer: PoolOffer) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.say(&Message::Vetoed(offer.offer.place, Veto::Declined), timeout)
    }

    /// Gives back what was dropped here and came over this channel, as far as there is room now.
    pub(super) fn give_back(&mut self) -> Result<(), Error> {
        for at in 0..self.assigned.len() {
            if self.assigned[at].pool.has_returns() {
                self.give_back_of(at)?;
            }
        }
        Ok(())
    }

    fn give_back_of(&mut self, at: usize) -> Result<(), Error> {
        let Assignment { pool, link, place, .. } = &self.assigned[at];
        let (pool, link, place) = (Arc::clone(pool), *link, *place);
        let mut state = pool.lock();
        let mut index = 0;
        while let Some(back) = state.returns.get(index).copied() {
            if back.link != link {
                index += 1;
                continue;
            }
            match state.table.begin(back.verb, back.buffer, link) {
                Ok(()) => {}
                // Lent on: it goes back after the last who has it from here.
                Err(TableError::Shared { .. }) => {
                    index += 1;
                    continue;
                }
                Err(_) => {
                    state.returns.swap_remove(index);
                    continue;
                }
            }
            let segment = Segment { place, buffer: back.buffer, offset_bytes: 0, length_bytes: 0 };
            let prepared = self.session.prepare_transfer(back.verb, &[segment], &[], &mut self.outbox);
            let sent = match prepared {
                Ok(()) => self.channel.try_send(&self.outbox),
                Err(error) => Err(BulkError::Send(error).into()),
            };
            match sent {
                Ok(()) => {
                    state.table.commit(back.verb, back.buffer, link);
                    state.returns.swap_remove(index);
                    self.session.transferred();
                }
                Err(error) => {
                    state.table.abort(back.buffer);
                    pool.recount(&state);
                    let later = matches!(
                        error,
                        Error::WouldBlock | Error::Bulk(BulkError::Send(BulkSendError::NoSuchPool))
                    );
                    return if later { Ok(()) } else { Err(error) };
                }
            }
        }
        pool.recount(&state);
        Ok(())
    }

    /// Gives back what was dropped here, and takes note of what the other side gave back. What else has
    /// arrived waits for [`recv`](Self::recv).
    ///
    /// # Errors
    /// The end of the peer.
    pub fn settle(&mut self) -> Result<(), Error> {
        while self.hear_one()? {}
        Ok(())
    }

    /// The channel has ended, `dead` if with the domain at its other end: what that had comes back.
    pub(super) fn lose(&mut self, dead: bool) {
        if std::mem::replace(&mut self.is_lost, true) {
            return;
        }
        for assigned in &mut self.assigned {
            let Assignment { pool, link, lent, .. } = assigned;
            let mut state = pool.lock();
            state.returns.retain(|back| back.link != *link);
            pool.recount(&state);
            if !state.table.lose(*link, dead) {
                continue;
            }
            drop(state);
            // The buffers are free only once the peer cannot reach them. If taking back fails they stay out.
            let taken = match lent {
                Some(lent) => memory::take_back(lent, TAKE_BACK),
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
        // The last chance for what was dropped here.
        let _ = self.give_back();
        self.lose(false);
    }
}
