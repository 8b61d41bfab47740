//! Pools: equal buffers that are taken, sent and come back.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tombolo_base::coherence::Flushed;
use tombolo_base::{DomainId, SharedMemory};
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Offer, PoolId};
use tombolo_bulk::{Counts, Layout, PoolChannel, Table, TableError, Trust, Verb};
use tombolo_platform::sealed::Fresh;
use tombolo_platform::{Errno, OsError};

use crate::domain::Domain;
use crate::error::Error;
use crate::region::Capability;

use super::buffer::{Buffer, Handle};
use super::content::Content;
use super::memory::PoolMemory;
use super::open::OpenMemories;
use super::options::PoolOptions;
use super::transfers::Nudge;
use crate::error::BulkError;

/// Pools, by who knows them here.
type Known = HashMap<(DomainId, PoolId), Weak<Inner>>;

/// Pools of this process: a domain knows a pool over one channel, or made it.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Equal buffers whose rights travel. Cloning names the same pool; threads may share it.
///
/// It is there until the last clone, the last of its buffers and the last channel that it is on are gone.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(super) inner: Arc<Inner>,
}

/// What all that belongs to a pool share.
#[derive(Debug)]
pub(super) struct Inner {
    owner: DomainId,
    pub(super) id: PoolId,
    pub(super) layout: Layout,
    pub(super) trust: Trust,
    pub(super) may_forward: bool,
    /// With full trust; otherwise each buffer is memory of its own.
    pub(super) memory: Option<PoolMemory>,
    state: Mutex<State>,
    /// How many returns wait, so that a channel that has none need not look.
    returning: AtomicU32,
    /// What gives back at once what is dropped, of a pool of the other end of a channel beside typed
    /// messages.
    nudge: OnceLock<Nudge>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) table: Table,
    /// Buffers that were dropped here and go back over the channel that they came from.
    pub(super) returns: Vec<Return>,
    /// With half trust, what this domain has of the buffers' memory.
    pub(super) open: OpenMemories,
}

/// A buffer that goes back with the next operation of its channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Return {
    pub(super) verb: Verb,
    pub(super) buffer: u32,
    pub(super) link: PoolChannel,
}

impl Inner {
    /// The state; of a pool whose memory was taken away nothing is left.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.table.is_revoked() && self.memory.as_ref().is_some_and(PoolMemory::is_revoked) {
            state.table.revoke();
        }
        state
    }

    /// The view of a memory that is not coherent, and the words of a buffer in it. All of them: this side may
    /// store where nothing is sent, and a line goes back to memory whole.
    #[inline]
    fn flushed(&self, buffer: u32) -> Option<(&SharedMemory<Flushed>, Range<usize>)> {
        let view = self.memory.as_ref()?.view()?;
        let start = (self.layout.offset_bytes(buffer)? / 8) as usize;
        Some((view, start..start + (self.layout.buffer_bytes() / 8) as usize))
    }

    /// Makes visible what this domain stored to a buffer, before the right to it goes to another.
    #[inline]
    pub(super) fn write_back(&self, buffer: u32) {
        if let Some((view, words)) = self.flushed(buffer) {
            view.write_back(words);
        }
    }

    /// Makes later loads see what others stored to a buffer, after the right to it came.
    #[inline]
    pub(super) fn invalidate(&self, buffer: u32) {
        if let Some((view, words)) = self.flushed(buffer) {
            view.invalidate(words);
        }
    }

    /// Lets a buffer go back with the next operation of its channel.
    pub(super) fn return_later(&self, state: &mut State, back: Return) {
        self.write_back(back.buffer);
        state.returns.push(back);
        self.returning.store(state.returns.len() as u32, Ordering::Release);
    }

    /// Whether anything waits to go back. Another thread's is seen at the next look, at the latest.
    pub(super) fn has_returns(&self) -> bool {
        self.returning.load(Ordering::Acquire) > 0
    }

    /// Has what is dropped given back at once, where it goes back to the domain that assigned the pool.
    pub(super) fn give_back_by(&self, nudge: &Nudge) {
        if !self.lock().table.is_home() {
            let _ = self.nudge.set(nudge.clone());
        }
    }

    /// Something was dropped. Not while the state is locked.
    pub(super) fn dropped(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge.nudge();
        }
    }

    /// Takes note of how many wait.
    pub(super) fn recount(&self, state: &State) {
        self.returning.store(state.returns.len() as u32, Ordering::Release);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut()
            && known.get(&(self.owner, self.id)).is_some_and(|known| known.strong_count() == 0)
        {
            known.remove(&(self.owner, self.id));
        }
    }
}

/// Whether this domain has the pool already.
pub(super) fn is_known(owner: DomainId, id: PoolId) -> bool {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.as_ref().and_then(|known| known.get(&(owner, id))).and_then(Weak::upgrade);
    // Of one that is not on a channel from upstream any more only buffers are left, which no message mentions
    // again.
    found.is_some_and(|found| {
        let state = found.lock();
        state.table.is_home() || state.table.is_live(UPSTREAM)
    })
}

impl Pool {
    fn register(inner: Inner) -> Pool {
        let inner = Arc::new(inner);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
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
        let open = OpenMemories::new(if trust == Trust::Half { layout.count() } else { 0 });
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
            nudge: OnceLock::new(),
        })
    }

    /// A pool that a peer offered.
    pub(super) fn of_offer(owner: DomainId, offer: &Offer, trust: Trust, memory: Option<PoolMemory>) -> Pool {
        let table = Table::assigned(offer.layout);
        Self::new(owner, (offer.pool, trust, offer.may_forward), table, memory)
    }

    /// Takes a buffer to fill: of those that are here and free the one that became so last, for it is the one
    /// that is still in a cache.
    ///
    /// # Errors
    /// [`BulkError::NoBuffer`] when all are in use; without full trust also what the kernel refused.
    pub fn take(&self) -> Result<Buffer, Error> {
        self.take_if_free()?.ok_or_else(|| BulkError::NoBuffer { count: self.count() }.into())
    }

    /// As [`take`](Self::take); `None` when all are in use.
    #[inline]
    pub(super) fn take_if_free(&self) -> Result<Option<Buffer>, Error> {
        let taken = {
            let mut state = self.inner.lock();
            if state.table.is_revoked() {
                return Err(BulkError::State(TableError::Revoked).into());
            }
            state.table.take()
        };
        let Some(buffer) = taken else { return Ok(None) };
        let length_bytes = usize::try_from(self.inner.layout.buffer_bytes()).unwrap_or(usize::MAX);
        let content = match self.inner.trust {
            Trust::Full => Ok(Content::Pool),
            Trust::Half => self.inner.lock().open.take(buffer, length_bytes).map(Content::Open),
            Trust::None => Fresh::new("tombolo-buffer", length_bytes).map(Content::Fresh),
        };
        match content {
            Ok(content) => Ok(Some(Buffer::new(Handle::whole(Arc::clone(&self.inner), buffer, content)))),
            Err(error) => {
                let _ = self.inner.lock().table.put(buffer);
                Err(error.into())
            }
        }
    }

    /// Bytes of each buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.inner.layout.buffer_bytes()
    }

    /// How many buffers there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.inner.layout.count()
    }

    /// How far those who have it trust each other.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.inner.trust
    }

    /// What the buffers are doing, as this domain knows it: they add up to their number.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.lock().table.counts()
    }

    /// Whether the domain that made it took it back: its buffers cannot be used any more.
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
    /// Makes a pool. All its buffers are here. [`BulkChannel::create_pool`](super::BulkChannel::create_pool)
    /// makes one where the other end of a channel reaches it.
    ///
    /// # Errors
    /// [`BulkError::Layout`]; [`Error::Monitor`] when there is no room for it: a window may be smaller than
    /// the pool.
    pub fn create_pool(&self, options: &PoolOptions) -> Result<Pool, Error> {
        let layout = Layout::new(options.buffer_bytes, options.count).map_err(BulkError::from)?;
        let memory = match options.trust {
            Trust::Full => Some(PoolMemory::create(self, options, layout)?),
            Trust::Half | Trust::None => None,
        };
        Ok(self.new_pool(options.trust, layout, memory))
    }

    /// Makes a pool in memory that this program has a capability to: from its start on, with the rights to
    /// read and write, and with that to grant if others are to get the pool. Best in a part of the kind
    /// [`Kind::Pool`](crate::region::Kind::Pool), in which no program maps anything else.
    ///
    /// # Errors
    /// [`BulkError::Layout`]; [`Error::Monitor`] when the capability does not give that, or the memory is not
    /// reachable from this node; [`Error::Os`] when it is shorter than the pool, or the pool is to be without
    /// full trust and so would not use it.
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
