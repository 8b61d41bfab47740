//! Pools: buffers of equal size that are taken, sent and returned.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tombolo_base::coherence::Flushed;
use tombolo_base::{DomainId, SharedMemory};
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Offer, PoolId};
use tombolo_bulk::{Counts, Layout, PoolChannel, Table, TableError, Trust, Verb};
use tombolo_platform::sealed::Unsealed;
use tombolo_platform::{Errno, OsError};

use crate::domain::Domain;
use crate::error::Error;
use crate::region::Capability;

use super::buffer::{Buffer, Handle};
use super::content::Content;
use super::memory::PoolMemory;
use super::open::OpenMemoryList;
use super::options::PoolOptions;
use super::transfers::ImmediateReturn;
use crate::error::BulkError;

/// Pools by the domain of this process that has them, and their id.
type PoolMap = HashMap<(DomainId, PoolId), Weak<Inner>>;

/// Pools of this process. A domain receives a pool over one channel, or created it.
static POOLS: Mutex<Option<PoolMap>> = Mutex::new(None);

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Set of buffers of equal size, whose rights are transferred over bulk channels. Clones refer to the same
/// pool; threads may share it.
///
/// The pool exists until its last clone, its last buffer and the last channel that it is assigned to are
/// dropped.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(super) inner: Arc<Inner>,
}

/// State shared by the clones of a pool and its buffers.
#[derive(Debug)]
pub(super) struct Inner {
    owner: DomainId,
    pub(super) id: PoolId,
    pub(super) layout: Layout,
    pub(super) trust: Trust,
    pub(super) may_forward: bool,
    /// Present with full trust; otherwise each buffer has memory of its own.
    pub(super) memory: Option<PoolMemory>,
    state: Mutex<State>,
    /// Number of queued returns, so that a channel can skip the check without locking.
    returning: AtomicU32,
    /// Returns dropped buffers immediately; set for a pool of the peer on the bulk channel beside typed
    /// messages.
    immediate_return: OnceLock<ImmediateReturn>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) table: Table,
    /// Buffers dropped here that are to be returned over the channel that they came from.
    pub(super) returns: Vec<PendingReturn>,
    /// Memory of the buffers that this domain has mapped, with half trust.
    pub(super) open: OpenMemoryList,
}

/// Buffer that is returned with the next operation on its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingReturn {
    pub(super) verb: Verb,
    pub(super) buffer: u32,
    pub(super) link: PoolChannel,
}

impl Inner {
    /// Locks the state; marks all buffers as revoked if the pool's memory was revoked.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.table.is_revoked() && self.memory.as_ref().is_some_and(PoolMemory::is_revoked) {
            state.table.revoke();
        }
        state
    }

    /// Returns the view of non-coherent memory and the words of a buffer in it. Always the whole buffer: this
    /// side may store outside the part that is sent, and cache lines are written back whole.
    #[inline]
    fn flushed(&self, buffer: u32) -> Option<(&SharedMemory<Flushed>, Range<usize>)> {
        let view = self.memory.as_ref()?.view()?;
        let start = (self.layout.offset_bytes(buffer)? / 8) as usize;
        Some((view, start..start + (self.layout.buffer_bytes() / 8) as usize))
    }

    /// Writes this domain's stores to a buffer back to memory, before the right to it is transferred.
    #[inline]
    pub(super) fn write_back(&self, buffer: u32) {
        if let Some((view, words)) = self.flushed(buffer) {
            view.write_back(words);
        }
    }

    /// Invalidates the cache lines of a buffer, so that loads see the sender's stores, after the right
    /// arrived.
    #[inline]
    pub(super) fn invalidate(&self, buffer: u32) {
        if let Some((view, words)) = self.flushed(buffer) {
            view.invalidate(words);
        }
    }

    /// Queues a buffer to be returned with the next operation on its channel.
    pub(super) fn return_later(&self, state: &mut State, back: PendingReturn) {
        self.write_back(back.buffer);
        state.returns.push(back);
        self.returning.store(state.returns.len() as u32, Ordering::Release);
    }

    /// Whether any returns are queued. A return queued by another thread is seen at the next call at the
    /// latest.
    pub(super) fn has_returns(&self) -> bool {
        self.returning.load(Ordering::Acquire) > 0
    }

    /// Arranges for dropped buffers to be returned immediately, if they go back to the domain that assigned
    /// the pool.
    pub(super) fn give_back_by(&self, immediate_return: &ImmediateReturn) {
        if !self.lock().table.is_home() {
            let _ = self.immediate_return.set(immediate_return.clone());
        }
    }

    /// Signals that a buffer was dropped. Must not be called with the state locked.
    pub(super) fn dropped(&self) {
        if let Some(immediate_return) = self.immediate_return.get() {
            immediate_return.immediate_return();
        }
    }

    /// Updates the count of queued returns.
    pub(super) fn update_return_count(&self, state: &State) {
        self.returning.store(state.returns.len() as u32, Ordering::Release);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut known = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut()
            && known.get(&(self.owner, self.id)).is_some_and(|known| known.strong_count() == 0)
        {
            known.remove(&(self.owner, self.id));
        }
    }
}

/// Whether this domain already has the pool.
pub(super) fn is_known(owner: DomainId, id: PoolId) -> bool {
    let known = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.as_ref().and_then(|known| known.get(&(owner, id))).and_then(Weak::upgrade);
    // A pool that is no longer assigned by its upstream domain has only buffers left, which no message refers
    // to again.
    found.is_some_and(|found| {
        let state = found.lock();
        state.table.is_home() || state.table.is_live(UPSTREAM)
    })
}

impl Pool {
    fn register(inner: Inner) -> Pool {
        let inner = Arc::new(inner);
        let mut known = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert((inner.owner, inner.id), Arc::downgrade(&inner));
        Pool { inner }
    }

    fn new(
        owner: DomainId,
        (id, trust, may_forward): (PoolId, Trust, bool),
        table: Table,
        memory: Option<PoolMemory>,
    ) -> Pool {
        let layout = table.layout();
        let returns = Vec::with_capacity(layout.count() as usize);
        let open = OpenMemoryList::new(if trust == Trust::Half { layout.count() } else { 0 });
        let state = Mutex::new(State { table, returns, open });
        Self::register(Inner {
            owner,
            id,
            layout,
            trust,
            may_forward,
            memory,
            state,
            returning: 0.into(),
            immediate_return: OnceLock::new(),
        })
    }

    /// Creates this domain's side of a pool that a peer offered.
    pub(super) fn of_offer(owner: DomainId, offer: &Offer, trust: Trust, memory: Option<PoolMemory>) -> Pool {
        let table = Table::assigned(offer.layout);
        Self::new(owner, (offer.pool, trust, offer.may_forward), table, memory)
    }

    /// Takes a free buffer for filling: the one freed most recently, because it is most likely still in a
    /// cache.
    ///
    /// [`BulkError::NoBuffer`] if all are in use; without full trust also errors of the kernel.
    pub fn take(&self) -> Result<Buffer, Error> {
        self.take_if_free()?.ok_or_else(|| BulkError::NoBuffer { count: self.count() }.into())
    }

    /// Like [`take`](Self::take); returns `None` if all are in use.
    #[inline]
    pub(super) fn take_if_free(&self) -> Result<Option<Buffer>, Error> {
        let taken = {
            let mut state = self.inner.lock();
            if state.table.is_revoked() {
                return Err(BulkError::State(TableError::Revoked).into());
            }
            state.table.allocate()
        };
        let Some(buffer) = taken else { return Ok(None) };
        let length_bytes = usize::try_from(self.inner.layout.buffer_bytes()).unwrap_or(usize::MAX);
        let content = match self.inner.trust {
            Trust::Full => Ok(Content::Pool),
            Trust::Half => self.inner.lock().open.take(buffer, length_bytes).map(Content::Open),
            Trust::None => Unsealed::new("tombolo-buffer", length_bytes).map(Content::Unsealed),
        };
        match content {
            Ok(content) => Ok(Some(Buffer::new(Handle::whole(Arc::clone(&self.inner), buffer, content)))),
            Err(error) => {
                let _ = self.inner.lock().table.free(buffer);
                Err(error.into())
            }
        }
    }

    /// Size of each buffer, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.inner.layout.buffer_bytes()
    }

    /// Number of buffers in the pool.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.layout.count()
    }

    /// How far the domains that have the pool trust each other.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.inner.trust
    }

    /// Returns the number of buffers in each state, as known to this domain; they add up to
    /// [`count`](Self::count).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.lock().table.counts()
    }

    /// Whether the domain that created the pool revoked it: its buffers cannot be used any more.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.inner.lock().table.is_revoked()
    }
}

impl PartialEq for Pool {
    fn eq(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Pool {}

impl Domain {
    /// Creates a pool whose buffers are all free in this domain.
    /// [`BulkChannel::create_pool`](super::BulkChannel::create_pool) creates one in memory that the other end
    /// of a channel can reach.
    ///
    /// # Errors
    /// [`BulkError::Layout`]; [`Error::Monitor`] if there is not enough memory: a window may be smaller than
    /// the pool.
    pub fn create_pool(&self, options: &PoolOptions) -> Result<Pool, Error> {
        let layout = Layout::new(options.buffer_bytes, options.count).map_err(BulkError::from)?;
        let memory = match options.trust {
            Trust::Full => Some(PoolMemory::create(self, options, layout)?),
            Trust::Half | Trust::None => None,
        };
        Ok(self.new_pool(options.trust, layout, memory))
    }

    /// Creates a pool at the start of the memory that a capability refers to. The capability needs the rights
    /// to read and write, and to grant if other domains are to receive the pool. A part of the kind
    /// [`Kind::Pool`](crate::region::Kind::Pool) is best, because programs map nothing else in it.
    ///
    /// [`BulkError::Layout`]; [`Error::Monitor`] if the capability lacks a right or its memory is not
    /// reachable from this node; [`Error::Os`] if the memory is shorter than the pool, or the pool is to have
    /// less than full trust and so would not use it.
    pub fn create_pool_in(&self, memory: &Capability, options: &PoolOptions) -> Result<Pool, Error> {
        let layout = Layout::new(options.buffer_bytes, options.count).map_err(BulkError::from)?;
        if options.trust != Trust::Full {
            let what = "make a pool without full trust in memory that is given: each of its buffers is memory of its own";
            return Err(OsError::new(what, Errno::INVAL).into());
        }
        let memory = PoolMemory::map(memory.clone(), layout)?;
        Ok(self.new_pool(options.trust, layout, Some(memory)))
    }

    fn new_pool(&self, trust: Trust, layout: Layout, memory: Option<PoolMemory>) -> Pool {
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        let id = PoolId { domain: self.id().to_bits(), number };
        Pool::new(self.id(), (id, trust, true), Table::home(layout), memory)
    }
}
