//! Buffers as parameters of an interface, transferred on a bulk channel beside the channel for typed
//! messages.
//!
//! A channel whose interface passes buffers has a bulk channel beside it. The buffer is sent on the bulk
//! channel, and the message that it belongs to carries the number of the transfer, with which the receiver
//! claims the buffer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tombolo_bulk::wire::Preface;
use tombolo_interface::Handle;

use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::interface;
use crate::options::ChannelOptions;

use super::arrival::Arrival;
use super::buffer::{Buffer, NotSent, Shared};
use super::channel::BulkChannel;
use super::incoming::TimeBudget;
use super::options::{BulkOptions, fits};
use super::pool::Pool;
use crate::error::BulkError;

/// Maximum number of unclaimed buffers per channel. Beyond it the oldest are returned to the sender.
pub const MAX_UNCLAIMED: usize = 1024;

/// Buffer that arrived and can be claimed.
#[derive(Debug)]
enum UnclaimedBuffer {
    Moved(Buffer),
    Shared(Shared),
}

/// Bulk channel and the buffers that arrived on it.
#[derive(Debug)]
pub(super) struct TransferState {
    bulk: BulkChannel,
    unclaimed: BTreeMap<u64, UnclaimedBuffer>,
    /// Keys of the unclaimed buffers in order of arrival; transfer numbers wrap around and cannot be used for
    /// that.
    arrival_order: VecDeque<u64>,
    returned: u64,
    /// Maximum number of unclaimed buffers: [`MAX_UNCLAIMED`].
    limit: usize,
    /// Number of pools that the peer has assigned.
    pools: u32,
}

/// Encodes the transfer number and the index of a piece as the value that a message carries.
fn object(number: u32, piece: usize) -> u64 {
    u64::from(number) | (piece as u64) << 32
}

impl TransferState {
    fn new(bulk: BulkChannel) -> Self {
        TransferState {
            bulk,
            unclaimed: BTreeMap::new(),
            arrival_order: VecDeque::new(),
            returned: 0,
            limit: MAX_UNCLAIMED,
            pools: 0,
        }
    }

    /// Number of the last transfer that was sent.
    fn last_sent(&self) -> u32 {
        self.bulk.session.next_number().wrapping_sub(1)
    }

    /// Sorts the arrivals into unclaimed buffers and pools.
    fn sort_arrivals(&mut self) {
        while let Some((number, arrival, _)) = self.bulk.arrived.pop_front() {
            match arrival {
                Arrival::Moved(received) => {
                    self.insert_unclaimed(number, received.into_vec(), UnclaimedBuffer::Moved);
                }
                Arrival::Shared(received) => {
                    self.insert_unclaimed(number, received.into_vec(), UnclaimedBuffer::Shared);
                }
                Arrival::Pool(_) => self.pools += 1,
                Arrival::Offered(_) | Arrival::Passed(_) | Arrival::Released(_) | Arrival::PoolGone(_) => {}
            }
        }
    }

    fn insert_unclaimed<T>(&mut self, number: u32, pieces: Vec<T>, parcel: impl Fn(T) -> UnclaimedBuffer) {
        for (piece, item) in pieces.into_iter().enumerate() {
            if self.arrival_order.len() >= self.limit
                && let Some(oldest) = self.arrival_order.pop_front()
                && self.unclaimed.remove(&oldest).is_some()
            {
                self.returned += 1;
            }
            let object = object(number, piece);
            self.unclaimed.insert(object, parcel(item));
            self.arrival_order.push_back(object);
        }
    }

    /// Handles what has arrived, without waiting, and returns dropped buffers.
    fn settle(&mut self) -> Result<(), Error> {
        let settled = self.bulk.settle();
        self.sort_arrivals();
        settled
    }

    fn claim(&mut self, object: u64, timeout: Duration) -> Result<UnclaimedBuffer, Error> {
        let mut budget = TimeBudget::of(timeout);
        let number = object as u32;
        let mut settled = self.settle();
        loop {
            if let Some(parcel) = self.unclaimed.remove(&object) {
                match self.arrival_order.front() {
                    Some(front) if *front == object => drop(self.arrival_order.pop_front()),
                    _ => self.arrival_order.retain(|other| *other != object),
                }
                return Ok(parcel);
            }
            // Serial number arithmetic: half of the numbers are ahead.
            let is_ahead = number.wrapping_sub(self.bulk.session.last_received().wrapping_add(1)) as i32 >= 0;
            if !is_ahead || timeout.is_zero() {
                settled?;
                return Err(BulkError::NoTransfer { number, piece: (object >> 32) as u32 }.into());
            }
            settled?;
            settled = self.bulk.process_message(&mut budget);
            self.sort_arrivals();
        }
    }
}

/// Handle in a message that refers to a buffer.
pub trait Parcelled: sealed::Parcelled {
    /// Type that the handle is claimed as.
    type Claimed;
    #[doc(hidden)]
    fn claim(self, transfers: &Transfers, timeout: Duration) -> Result<Self::Claimed, Error>;
}

mod sealed {
    pub trait Parcelled {}
    impl<const MOVED: bool> Parcelled for tombolo_interface::Buffer<MOVED> {}
}

impl Parcelled for interface::Buffer<true> {
    type Claimed = Buffer;

    fn claim(self, transfers: &Transfers, timeout: Duration) -> Result<Buffer, Error> {
        match transfers.with(|transfer_state| transfer_state.claim(self.object, timeout))? {
            UnclaimedBuffer::Moved(buffer) => Ok(buffer),
            UnclaimedBuffer::Shared(_) => Err(BulkError::OtherVerb.into()),
        }
    }
}

impl Parcelled for interface::Buffer<false> {
    type Claimed = Shared;

    fn claim(self, transfers: &Transfers, timeout: Duration) -> Result<Shared, Error> {
        match transfers.with(|transfer_state| transfer_state.claim(self.object, timeout))? {
            UnclaimedBuffer::Shared(shared) => Ok(shared),
            UnclaimedBuffer::Moved(_) => Err(BulkError::OtherVerb.into()),
        }
    }
}

/// Bulk channel beside a channel for typed messages. Clones refer to the same bulk channel: a client or
/// server owns the channel, and the code around it uses this handle.
///
/// [`move_to`](Self::move_to) returns the value of a parameter `move buffer`, [`share`](Self::share) that of
/// a parameter `copy buffer`. The other end [claims](Self::claim) it, once. Claimed buffers are returned as
/// soon as they are dropped.
///
/// ```no_run
/// # use tombolo::{BulkOptions, ChannelOptions, Domain, PoolOptions};
/// # use tombolo_stubs::rights::{Buffers, BuffersClient, BuffersPassRequest};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let domain = Domain::attach()?;
/// let mut channel = ChannelOptions::default().interface_hash(Buffers::HASH).connect(&domain, "adder")?;
/// let pool = domain.create_pool(&PoolOptions::new(1 << 20, 8))?;
/// let transfers = channel.open_bulk(&domain, &BulkOptions::default(), std::slice::from_ref(&pool))?;
/// let mut client = BuffersClient::bind(channel, ())?;
/// let mut buffer = pool.take()?;
/// buffer.write(0, b"a megabyte, not copied")?;
/// let given = [transfers.move_to(buffer)?];
/// let request = BuffersPassRequest { given: &given, lent: None };
/// let sum = client.pass(&request)?.sum()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Transfers {
    joint: Arc<SharedTransfers>,
    timeout: Duration,
}

/// State shared by the clones.
#[derive(Debug)]
struct SharedTransfers {
    transfer_state: Mutex<TransferState>,
    /// Whether a buffer was dropped that has to be returned over this channel.
    dropped: AtomicBool,
}

impl SharedTransfers {
    fn with<R>(&self, with: impl FnOnce(&mut TransferState) -> R) -> R {
        let result = with(&mut self.transfer_state.lock().unwrap_or_else(PoisonError::into_inner));
        fence(Ordering::SeqCst);
        self.give_back_dropped();
        result
    }

    /// If another thread holds the lock, that thread returns the buffers: it checks `dropped` after releasing
    /// the lock, and the thread that found the lock taken set `dropped` before trying it.
    fn give_back_dropped(&self) {
        while self.dropped.load(Ordering::Relaxed) {
            let Ok(mut transfer_state) = self.transfer_state.try_lock() else { return };
            self.dropped.store(false, Ordering::Relaxed);
            // Returns that find no room are sent with the next operation.
            let _ = transfer_state.bulk.give_back();
            drop(transfer_state);
            fence(Ordering::SeqCst);
        }
    }
}

/// Returns dropped buffers immediately instead of with the next operation.
#[derive(Clone, Debug)]
pub(super) struct ImmediateReturn(Weak<SharedTransfers>);

impl ImmediateReturn {
    pub(super) fn immediate_return(&self) {
        if let Some(joint) = self.0.upgrade() {
            joint.dropped.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            joint.give_back_dropped();
        }
    }
}

impl Transfers {
    fn of(transfer_state: TransferState) -> Transfers {
        let timeout = transfer_state.bulk.channel.timeout();
        let joint = SharedTransfers { transfer_state: Mutex::new(transfer_state), dropped: false.into() };
        let transfers = Transfers { joint: Arc::new(joint), timeout };
        let immediate_return = ImmediateReturn(Arc::downgrade(&transfers.joint));
        transfers.pools().into_iter().for_each(|pool| pool.inner.give_back_by(&immediate_return));
        transfers
    }

    fn with<R>(&self, with: impl FnOnce(&mut TransferState) -> R) -> R {
        self.joint.with(with)
    }

    /// Returns a handle for the same bulk channel, whose operations wait up to `timeout`.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Transfers {
        Transfers { joint: Arc::clone(&self.joint), timeout }
    }

    /// Moves a buffer to the other end, for a parameter `move buffer`.
    ///
    /// # Errors
    /// Same as [`BulkChannel::move_to`].
    pub fn move_to(&self, buffer: Buffer) -> Result<interface::Buffer<true>, Box<NotSent<Buffer>>> {
        let timeout = self.timeout;
        self.with(|transfer_state| {
            // The end of the peer is reported by the move below.
            let _ = transfer_state.settle();
            transfer_state.bulk.within(timeout).move_to(buffer, &[])?;
            Ok(Handle { object: object(transfer_state.last_sent(), 0) })
        })
    }

    /// Moves several buffers, or their selected parts, in one transfer, all or none, for a list of `move
    /// buffer`.
    ///
    /// # Errors
    /// Same as [`BulkChannel::move_all`].
    pub fn move_all(
        &self,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<interface::Buffer<true>>, Box<NotSent<Vec<Buffer>>>> {
        let timeout = self.timeout;
        let pieces = buffers.len();
        self.with(|transfer_state| {
            let _ = transfer_state.settle();
            transfer_state.bulk.within(timeout).move_all(buffers, &[])?;
            let number = transfer_state.last_sent();
            Ok((0..pieces).map(|piece| Handle { object: object(number, piece) }).collect())
        })
    }

    /// Shares a buffer with the other end. Returns the value of a parameter `copy buffer`, and the read right
    /// that this side keeps.
    ///
    /// # Errors
    /// Same as [`BulkChannel::share`].
    pub fn share(&self, buffer: Buffer) -> Result<(interface::Buffer<false>, Shared), Box<NotSent<Buffer>>> {
        let timeout = self.timeout;
        self.with(|transfer_state| {
            let _ = transfer_state.settle();
            let shared = transfer_state.bulk.within(timeout).share(buffer, &[])?;
            Ok((Handle { object: object(transfer_state.last_sent(), 0) }, shared))
        })
    }

    /// Claims the buffer that a message refers to, once: a [`Buffer`] if it was moved, a [`Shared`] if it was
    /// shared. Usually the buffer arrives before the message; on some channels it may arrive later, and this
    /// waits for it.
    ///
    /// [`BulkError::NoTransfer`]: no transfer has this number, the buffer was claimed before, or it was
    /// returned because too many others were unclaimed. [`BulkError::OtherVerb`]: it was moved and is claimed
    /// as shared, or the reverse. The end of the peer. In the handler of a server, `?` turns each of these
    /// into the answer of the call.
    pub fn claim<H: Parcelled>(&self, handle: H) -> Result<H::Claimed, Error> {
        let timeout = self.timeout;
        handle.claim(self, timeout)
    }

    /// Handles what has arrived, without waiting, and returns dropped buffers. For programs that wait for
    /// buffers of a pool to come back.
    ///
    /// # Errors
    /// The end of the peer.
    pub fn settle(&self) -> Result<(), Error> {
        self.with(TransferState::settle)
    }

    /// Waits until the bulk channel detects the end of the peer, and reclaims the buffers that it held. For
    /// use when the channel for messages of a client or server has ended: the two channels detect a death
    /// independently.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if the peer is still alive.
    pub fn recover(&self) -> Result<(), Error> {
        let timeout = self.timeout;
        let mut budget = TimeBudget::of(timeout);
        self.with(|transfer_state| {
            loop {
                let heard = transfer_state.bulk.process_message(&mut budget);
                transfer_state.sort_arrivals();
                match heard {
                    Err(error) if error.is_peer_gone() => return Ok(()),
                    heard => heard?,
                }
            }
        })
    }

    /// Returns the pools on the channel, assigned by either end.
    #[must_use]
    pub fn pools(&self) -> Vec<Pool> {
        self.with(|transfer_state| transfer_state.bulk.pools().collect())
    }

    /// Returns the number of buffers waiting to be claimed, and the number returned unclaimed because there
    /// were more than [`MAX_UNCLAIMED`].
    #[must_use]
    pub fn unclaimed(&self) -> (usize, u64) {
        self.with(|transfer_state| (transfer_state.unclaimed.len(), transfer_state.returned))
    }
}

impl Channel {
    /// Opens a bulk channel beside this one, so that interfaces that pass buffers can be bound to it. Both
    /// ends must call this before they send anything. `pools` are assigned to it; when this returns, the
    /// pools of both ends are available.
    ///
    /// The accepting side listens on an endpoint, sends it over this channel, and accepts only this channel's
    /// peer.
    ///
    /// Same as [`Domain::connect_bulk`] and [`BulkChannel::assign`]; [`Error::TimedOut`] if the other end
    /// does not call it; [`Error::Violation`] if the other end sends anything else.
    pub fn open_bulk(
        &mut self,
        domain: &Domain,
        options: &BulkOptions,
        pools: &[Pool],
    ) -> Result<Transfers, Error> {
        let mut budget = TimeBudget::of(self.timeout.take());
        let (bulk, theirs) = if self.is_accepting() {
            self.accept_transfer_channel(domain, options, pools.len(), &mut budget)?
        } else {
            self.connect_transfer_channel(domain, options, pools.len(), &mut budget)?
        };
        let mut transfer_state = TransferState::new(bulk);
        for pool in pools {
            transfer_state.bulk.within(budget.remaining()).assign(pool)?;
        }
        transfer_state.sort_arrivals();
        while transfer_state.pools < theirs {
            transfer_state.bulk.process_message(&mut budget)?;
            transfer_state.sort_arrivals();
        }
        self.has_bulk = true;
        Ok(Transfers::of(transfer_state))
    }

    fn accept_transfer_channel(
        &mut self,
        domain: &Domain,
        options: &BulkOptions,
        pools: usize,
        budget: &mut TimeBudget,
    ) -> Result<(BulkChannel, u32), Error> {
        let listener = options.underneath().listen(domain)?;
        let endpoint = listener.endpoint().map_or(0, |endpoint| endpoint.to_copy().object);
        self.within(budget.remaining()).send(&Preface { endpoint, pools: pools as u32 }.encode())?;
        let theirs = self.recv_preface(budget)?;
        loop {
            let channel = listener.within(budget.remaining()).accept()?;
            // Only the peer was sent the endpoint, but any domain can list names and connect.
            if channel.peer() == self.peer() {
                let terms = fits(&channel, options.terms);
                let bulk = BulkChannel::open(domain, channel, options, terms, budget.remaining())?;
                return Ok((bulk, theirs.pools));
            }
        }
    }

    fn connect_transfer_channel(
        &mut self,
        domain: &Domain,
        options: &BulkOptions,
        pools: usize,
        budget: &mut TimeBudget,
    ) -> Result<(BulkChannel, u32), Error> {
        let theirs = self.recv_preface(budget)?;
        self.within(budget.remaining()).send(&Preface { endpoint: 0, pools: pools as u32 }.encode())?;
        let endpoint = domain.accept(&*self, Handle::<1, false> { object: theirs.endpoint })?;
        let underneath: ChannelOptions = options.underneath();
        let channel = underneath.connect(&domain.within(budget.remaining()), endpoint)?;
        if channel.peer() != self.peer() {
            let what = format!("its bulk channel leads to domain {}", channel.peer());
            return Err(self.violation(what));
        }
        let terms = fits(&channel, options.terms);
        let bulk = BulkChannel::open(domain, channel, options, terms, budget.remaining())?;
        Ok((bulk, theirs.pools))
    }

    fn recv_preface(&mut self, budget: &mut TimeBudget) -> Result<Preface, Error> {
        let mut message = Vec::new();
        self.within(budget.remaining())
            .recv_into(&mut message)
            .map_err(|error| budget.with_total_timeout(error))?;
        Preface::decode(&message)
            .ok_or_else(|| self.violation("it does not open a bulk channel beside this one".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assign, pair, pool};
    use super::*;

    /// Creates two ends of a bulk channel; the pool belongs to the left one.
    fn transfer_state(count: u32) -> (Transfers, Transfers, Pool) {
        let (mut left, mut right) = pair();
        let pool = pool(count);
        assign(&mut left, &mut right, &pool);
        (Transfers::of(TransferState::new(left)), Transfers::of(TransferState::new(right)), pool)
    }

    fn filled(pool: &Pool, with: u8) -> Buffer {
        let mut buffer = pool.take().unwrap();
        buffer.write(0, &[with; 8]).unwrap();
        buffer
    }

    fn starts_with(buffer: &Buffer) -> u8 {
        let mut found = [0; 8];
        buffer.read(0, &mut found).unwrap();
        found[0]
    }

    fn fault<T>(result: Result<T, Error>) -> BulkError {
        match result {
            Err(Error::Bulk(fault)) => fault,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was there"),
        }
    }

    #[test]
    fn buffers_are_claimed_by_their_numbers_in_any_order_and_once() {
        let (left, right, pool) = transfer_state(5);
        let first = left.move_to(filled(&pool, 1)).unwrap();
        let several = left.move_all(vec![filled(&pool, 2), filled(&pool, 3)]).unwrap();
        let (lent, kept) = left.share(filled(&pool, 4)).unwrap();
        let numbers: Vec<u8> =
            [several[1], first, several[0]].map(|handle| starts_with(&right.claim(handle).unwrap())).to_vec();
        assert_eq!(numbers, [3, 1, 2]);
        let shared = right.claim(lent).unwrap();
        let mut found = [0; 8];
        shared.read(0, &mut found).unwrap();
        assert_eq!(found, [4; 8]);
        let again = fault(right.claim(first));
        assert!(matches!(again, BulkError::NoTransfer { piece: 0, .. }), "{again}");
        drop((shared, kept));
        left.settle().unwrap();
        assert_eq!(pool.counts().free, 5, "what was dropped there came back without anybody asking for it");
    }

    #[test]
    fn wrong_numbers_and_verbs_fail_alone() {
        let (left, right, pool) = transfer_state(2);
        let moved = left.move_to(filled(&pool, 1)).unwrap();
        let (lent, _kept) = left.share(filled(&pool, 2)).unwrap();
        for object in [moved.object + 2, u64::MAX, moved.object | 1 << 32, u64::from(u32::MAX), 0] {
            let lie = interface::Buffer::<true> { object };
            let none = fault(right.within(Duration::ZERO).claim(lie));
            assert!(matches!(none, BulkError::NoTransfer { .. }), "{object:x}: {none}");
        }
        let ahead = interface::Buffer::<true> { object: lent.object + 1 };
        let late = right.within(Duration::from_millis(1)).claim(ahead);
        assert!(
            matches!(late, Err(Error::TimedOut { .. })),
            "each waits as long as its own timeout: {late:?}"
        );
        assert_eq!(starts_with(&right.claim(moved).unwrap()), 1);
        let as_moved = interface::Buffer::<true> { object: lent.object };
        assert_eq!(fault(right.claim(as_moved)), BulkError::OtherVerb);
        left.settle().unwrap();
        assert_eq!(
            pool.counts().free,
            1,
            "what was lent and asked for as moved went back; one right stays here"
        );
    }

    #[test]
    fn excess_unclaimed_buffers_are_returned() {
        let (left, right, pool) = transfer_state(4);
        right.with(|transfer_state| transfer_state.limit = 3);
        let handles: Vec<_> = (0..4).map(|with| left.move_to(filled(&pool, with)).unwrap()).collect();
        right.settle().unwrap();
        assert_eq!(right.unclaimed(), (3, 1));
        let oldest = fault(right.claim(handles[0]));
        assert!(matches!(oldest, BulkError::NoTransfer { .. }), "{oldest}");
        assert_eq!(starts_with(&right.claim(handles[1]).unwrap()), 1);
        left.settle().unwrap();
        assert_eq!(pool.counts().free, 2);
        drop(right);
        assert!(left.settle().is_err(), "the other end is gone");
    }
}
