//! Pool operations of simulated programs: they create pools, assign them to bulk channels, transfer buffers
//! with every verb, read and write them, and reclaim buffers from channels that end.

use std::collections::VecDeque;

use tombolo_base::ChannelId;
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Offer, PoolId, PoolIndex, Terms, Trust, Veto};
use tombolo_bulk::{Layout, Message, PoolChannel, Segment, Session, SessionEvent, Table, Verb};

use crate::shared::Shared;

/// Number of buffers in a pool.
const BUFFERS: u32 = 4;
/// Maximum number of pools that a process creates.
const OWN_POOLS: usize = 2;
/// Number of slots that the longest message here occupies.
pub const MIN_SLOTS: u32 = 16;

const TERMS: Terms = Terms { trust: Trust::Full, max_pools: 4, max_segments: 3, max_metadata_bytes: 16 };

/// State of one end of a bulk channel, except its pools: the session, and the messages that the channel has
/// not accepted yet.
pub struct BulkEnd {
    session: Session,
    unsent: VecDeque<Vec<u8>>,
}

impl BulkEnd {
    /// Creates an end and queues the message with this side's terms.
    #[must_use]
    pub fn new(is_accepting: bool) -> Self {
        let mut end = BulkEnd { session: Session::new(is_accepting, TERMS), unsent: VecDeque::new() };
        let first = end.session.first_message();
        end.send_message(&first);
        end
    }

    /// Queues a message. Returns `false` if the session does not permit it in its state.
    fn send_message(&mut self, message: &Message<'_>) -> bool {
        let mut out = Vec::new();
        let sayable = self.session.prepare(message, &mut out).is_ok();
        if sayable {
            self.session.record_sent(message);
            self.unsent.push_back(out);
        }
        sayable
    }

    /// Returns the next message to send over the channel.
    #[must_use]
    pub fn next(&self) -> Option<&Vec<u8>> {
        self.unsent.front()
    }

    /// Removes the next message, which the channel accepted.
    pub fn accepted(&mut self) {
        self.unsent.pop_front();
    }

    /// Drops all queued messages after the end of the channel.
    pub fn clear(&mut self) {
        self.unsent.clear();
    }

    /// Returns the number of messages that the channel has not accepted yet.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.unsent.len() as u64
    }
}

/// A pool that a process created or accepted.
struct Pool {
    number: u64,
    table: Table,
    may_forward: bool,
    /// Channels that the pool is assigned to.
    links: Vec<(ChannelId, PoolChannel, PoolIndex)>,
    /// Buffers that the program holds, shared with others or not.
    held: Vec<u32>,
    /// Buffers that the program may only read, and the channel each came over.
    borrowed: Vec<(u32, ChannelId)>,
}

impl Pool {
    fn link_on(&self, channel: ChannelId) -> Option<(PoolChannel, PoolIndex)> {
        self.links.iter().find(|(on, ..)| *on == channel).map(|(_, link, pool_index)| (*link, *pool_index))
    }
}

/// A prepared transfer, which can still be aborted.
pub struct Transfer {
    /// Encoded message of the transfer.
    pub message: Vec<u8>,
    verb: Verb,
    /// Pool, buffer and pool channel of each piece.
    pieces: Vec<(u64, u32, PoolChannel)>,
}

/// All pools that a process created or accepted.
#[derive(Default)]
pub struct Pools {
    known: Vec<Pool>,
}

impl Pools {
    /// Updates the tables of pools that were revoked from this process. Must run first in each turn: the
    /// memory of a revoked pool is inaccessible.
    pub fn apply_revocations(&mut self, shared: &Shared, pid: i32) {
        for pool in &mut self.known {
            if shared.bulk.is_revoked(pool.number, pid) && !pool.table.is_revoked() {
                pool.table.revoke();
                pool.held.clear();
                pool.borrowed.clear();
            }
        }
    }

    /// Performs one random operation other than a transfer.
    pub fn act(&mut self, shared: &mut Shared, pid: i32, ends: &mut [(ChannelId, &mut BulkEnd)]) {
        let index = shared.random.below(ends.len() as u64) as usize;
        match shared.random.below(8) {
            0 => self.create(shared, pid),
            1 | 2 if index < ends.len() => self.assign(shared, pid, &mut ends[index]),
            3 if index < ends.len() => self.unassign(shared, &mut ends[index]),
            4 | 5 => {
                if let Some(pool) = self.random_pool(shared) {
                    pool.held.extend(pool.table.allocate());
                }
            }
            6 => {
                let buffer = shared.random.below(BUFFERS.into()) as u32;
                if let Some(pool) = self.random_pool(shared)
                    && pool.table.free(buffer).is_ok()
                {
                    pool.held.retain(|held| *held != buffer);
                }
            }
            _ => self.use_any(shared, pid),
        }
    }

    fn random_pool(&mut self, shared: &mut Shared) -> Option<&mut Pool> {
        let index = shared.random.below(self.known.len() as u64) as usize;
        self.known.get_mut(index)
    }

    fn create(&mut self, shared: &mut Shared, pid: i32) {
        let Ok(layout) = Layout::new(4096, BUFFERS) else { return };
        if self.known.iter().filter(|pool| pool.table.is_home()).count() < OWN_POOLS {
            let number = shared.bulk.create(pid, BUFFERS);
            let table = Table::home(layout);
            let (links, held, borrowed) = (Vec::new(), Vec::new(), Vec::new());
            self.known.push(Pool { number, table, may_forward: true, links, held, borrowed });
        }
    }

    fn assign(&mut self, shared: &mut Shared, pid: i32, (channel, end): &mut (ChannelId, &mut BulkEnd)) {
        let may_forward = shared.random.chance(600);
        let Some(pool) = self.random_pool(shared) else { return };
        let Ok(pool_index) = end.session.free_pool_index() else { return };
        if pool.link_on(*channel).is_some() || !pool.may_forward {
            return;
        }
        let Ok(link) = pool.table.assign(may_forward) else { return };
        let id = PoolId { domain: 0, number: pool.number };
        let layout = pool.table.layout();
        let offer = Offer { pool_index, pool: id, layout, capability: 1, offset_bytes: 0, may_forward };
        if end.send_message(&Message::Assign(offer)) {
            pool.links.push((*channel, link, pool_index));
            shared.bulk.offered(pool.number, *channel, pid);
        } else {
            shared.audit.fail(format!("{channel}: a pool at a free place cannot be assigned"));
        }
    }

    fn unassign(&mut self, shared: &mut Shared, (channel, end): &mut (ChannelId, &mut BulkEnd)) {
        let Some(pool) = self.random_pool(shared) else { return };
        let Some((link, pool_index)) = pool.link_on(*channel) else { return };
        if pool.table.start_unassign(link).is_ok() && !end.send_message(&Message::Unassign(pool_index)) {
            // The other side has not accepted the pool yet.
            pool.table.cancel_unassign(link);
        }
    }

    /// Reads or writes a buffer that the program holds, if the table allows it.
    fn use_any(&mut self, shared: &mut Shared, pid: i32) {
        let buffer = shared.random.below(BUFFERS.into()) as u32;
        let writes = shared.random.chance(500);
        let Some(pool) = self.random_pool(shared) else { return };
        let reads = !writes && pool.borrowed.iter().any(|(borrowed, _)| *borrowed == buffer);
        if !reads && !pool.held.contains(&buffer) {
            return;
        }
        if pool.table.is_revoked() || pool.table.pin(buffer, writes).is_err() {
            return;
        }
        let number = pool.number;
        pool.table.unpin(buffer);
        shared.bulk.used(&mut shared.audit, (number, buffer), pid, writes);
    }

    /// Prepares a transfer of up to three buffers with a random verb. Returns `None` if nothing can be
    /// transferred.
    pub fn begin(&mut self, shared: &mut Shared, channel: ChannelId, end: &BulkEnd) -> Option<Transfer> {
        let verb = *shared.random.pick(&Verb::ALL)?;
        let (mut segments, mut pieces) = (Vec::new(), Vec::new());
        let mut here: Vec<&mut Pool> =
            self.known.iter_mut().filter(|pool| pool.link_on(channel).is_some()).collect();
        for _ in 0..shared.random.between(1, 3) {
            let index = shared.random.below(here.len() as u64) as usize;
            let Some(pool) = here.get_mut(index) else { break };
            let Some((link, pool_index)) = pool.link_on(channel) else { continue };
            // Sometimes a buffer that the program does not hold, which the table must refuse.
            let drawn = shared.random.below(u64::from(BUFFERS) + 1) as u32;
            let mine: Vec<u32> = match verb {
                Verb::Release => pool.borrowed.iter().map(|(buffer, _)| *buffer).collect(),
                _ => pool.held.clone(),
            };
            let buffer = match shared.random.pick(&mine) {
                Some(buffer) if shared.random.chance(900) => *buffer,
                _ => drawn,
            };
            if verb == Verb::Release && !pool.borrowed.contains(&(buffer, channel)) {
                continue;
            }
            if !pool.table.is_revoked() && pool.table.begin(verb, buffer, link).is_ok() {
                segments.push(Segment { pool_index, buffer, offset_bytes: 64, length_bytes: 64 });
                pieces.push((pool.number, buffer, link));
            }
        }
        let mut transfer = Transfer { message: Vec::new(), verb, pieces };
        // Control messages go first: a transfer that waits behind them would be a right without a holder.
        let prepared = end.session.prepare_transfer(verb, &segments, b"meta", &mut transfer.message);
        if prepared.is_err() || end.unsent() > 0 {
            self.abort(&transfer);
            return None;
        }
        Some(transfer)
    }

    /// Aborts a transfer that the channel did not accept.
    pub fn abort(&mut self, transfer: &Transfer) {
        for (number, buffer, _) in &transfer.pieces {
            if let Some(pool) = self.known.iter_mut().find(|pool| pool.number == *number) {
                pool.table.abort(*buffer);
            }
        }
    }

    /// Commits a transfer that the channel accepted for side `to`.
    pub fn commit(
        &mut self,
        shared: &mut Shared,
        pid: i32,
        (channel, to): (ChannelId, usize),
        end: &mut BulkEnd,
        transfer: &Transfer,
    ) {
        end.session.record_transfer_sent();
        for (number, buffer, link) in &transfer.pieces {
            let Some(pool) = self.known.iter_mut().find(|pool| pool.number == *number) else { continue };
            pool.table.commit(transfer.verb, *buffer, *link);
            if matches!(transfer.verb, Verb::Move | Verb::Pass) {
                pool.held.retain(|held| held != buffer);
            }
            if transfer.verb == Verb::Release
                && let Some(at) = pool.borrowed.iter().position(|borrowed| *borrowed == (*buffer, channel))
            {
                pool.borrowed.swap_remove(at);
            }
            let piece = (*number, *buffer);
            shared.bulk.sent(&mut shared.audit, piece, transfer.verb, pid, (channel, to));
        }
    }

    /// Handles a received message.
    pub fn handle_message(
        &mut self,
        shared: &mut Shared,
        pid: i32,
        (channel, side): (ChannelId, usize),
        end: &mut BulkEnd,
        bytes: &[u8],
    ) {
        let event = end.session.receive(bytes);
        match event {
            Err(error) => {
                let what = format!("{channel}: a session says what another refuses: {error}");
                shared.audit.fail(what);
            }
            Ok(SessionEvent::Terms { agreed, .. }) if agreed.is_none() => {
                shared.audit.fail(format!("{channel}: two equal ends do not agree"));
            }
            Ok(SessionEvent::Terms { .. } | SessionEvent::Assigned(_)) => {}
            Ok(SessionEvent::Offered(offer)) => self.offered(shared, pid, channel, end, &offer),
            Ok(SessionEvent::Vetoed(pool_index, _) | SessionEvent::Unassigned(pool_index)) => {
                self.off(shared, channel, pool_index);
            }
            Ok(SessionEvent::Kept(pool_index)) => {
                if let Some((at, link)) = self.at(channel, pool_index) {
                    self.known[at].table.cancel_unassign(link);
                }
            }
            Ok(SessionEvent::Unassign(pool_index)) => {
                let Some((at, link)) = self.at(channel, pool_index) else {
                    return shared.audit.fail(format!("{channel}: no pool is at {pool_index:?}"));
                };
                let is_free = self.known[at].table.may_unassign(link).is_ok();
                end.send_message(&if is_free {
                    Message::Unassigned(pool_index)
                } else {
                    Message::Kept(pool_index)
                });
                if is_free {
                    self.off(shared, channel, pool_index);
                }
            }
            Ok(SessionEvent::Content(_)) => {
                shared.audit.fail(format!("{channel}: content is copied, but all reach every pool"));
            }
            Ok(SessionEvent::Transfer(transfer)) => {
                for segment in transfer.segments() {
                    let Some((at, link)) = self.at(channel, segment.pool_index) else {
                        return shared
                            .audit
                            .fail(format!("{channel}: no pool is at {:?}", segment.pool_index));
                    };
                    self.receive(shared, pid, (channel, side), (at, link), transfer.verb, segment.buffer);
                }
            }
        }
    }

    fn at(&self, channel: ChannelId, pool_index: PoolIndex) -> Option<(usize, PoolChannel)> {
        self.known.iter().enumerate().find_map(|(index, pool)| {
            let (link, at) = pool.link_on(channel)?;
            (at == pool_index).then_some((index, link))
        })
    }

    fn receive(
        &mut self,
        shared: &mut Shared,
        pid: i32,
        (channel, side): (ChannelId, usize),
        (at, link): (usize, PoolChannel),
        verb: Verb,
        buffer: u32,
    ) {
        let pool = &mut self.known[at];
        if pool.table.is_revoked() {
            // The sender had the right when it sent this; the revocation came later.
            return;
        }
        if let Err(error) = pool.table.receive(verb, buffer, link) {
            let number = pool.number;
            let what = format!("{channel}: {verb} of buffer {buffer} of pool {number} is refused: {error}");
            return shared.audit.fail(what);
        }
        match verb {
            Verb::Move => pool.held.push(buffer),
            Verb::Share => pool.borrowed.push((buffer, channel)),
            Verb::Pass | Verb::Release => {}
        }
        shared.bulk.received(&mut shared.audit, (pool.number, buffer), verb, pid, (channel, side));
    }

    fn offered(
        &mut self,
        shared: &mut Shared,
        pid: i32,
        channel: ChannelId,
        end: &mut BulkEnd,
        offer: &Offer,
    ) {
        let number = offer.pool.number;
        // A revoked pool that is on no channel may be offered again.
        self.known.retain(|pool| pool.number != number || !pool.table.is_revoked() || !pool.links.is_empty());
        let veto = if self.known.iter().any(|pool| pool.number == number) {
            Some(Veto::Known)
        } else if end.session.is_over_full() {
            Some(Veto::TooManyPools)
        } else if shared.random.chance(50) {
            Some(Veto::Declined)
        } else if !shared.bulk.take_up(number, channel, pid) {
            Some(Veto::Unreachable)
        } else {
            None
        };
        let answer = match veto {
            Some(veto) => Message::Vetoed(offer.pool_index, veto),
            None => {
                let table = Table::assigned(offer.layout);
                let links = vec![(channel, UPSTREAM, offer.pool_index)];
                let (may_forward, held, borrowed) = (offer.may_forward, Vec::new(), Vec::new());
                self.known.push(Pool { number, table, may_forward, links, held, borrowed });
                Message::Assigned(offer.pool_index)
            }
        };
        if !end.send_message(&answer) {
            shared.audit.fail(format!("{channel}: an offer cannot be answered"));
        }
    }

    /// Removes a pool from a channel after an orderly unassignment or a veto.
    fn off(&mut self, shared: &mut Shared, channel: ChannelId, pool_index: PoolIndex) {
        let Some((at, link)) = self.at(channel, pool_index) else {
            return shared.audit.fail(format!("{channel}: no pool is at {pool_index:?}"));
        };
        let pool = &mut self.known[at];
        if let Err(error) = pool.table.unassign(link) {
            let number = pool.number;
            shared.audit.fail(format!("{channel}: pool {number} leaves in order, but {error}"));
        }
        pool.links.retain(|(on, ..)| *on != channel);
        let number = pool.number;
        if link != UPSTREAM {
            shared.bulk.off(number, channel);
        } else if pool.links.is_empty() {
            self.known.remove(at);
        }
    }

    /// Handles the end of a channel and reclaims the buffers beyond it. `dead` if the program at the other
    /// end died.
    pub fn on_channel_end(&mut self, shared: &mut Shared, pid: i32, channel: ChannelId, dead: bool) {
        for pool in &mut self.known {
            let Some((link, _)) = pool.link_on(channel) else { continue };
            pool.links.retain(|(on, ..)| *on != channel);
            let beyond: Vec<u32> =
                (0..BUFFERS).filter(|buffer| pool.table.is_remote_over(*buffer, link)).collect();
            let must_revoke = pool.table.mark_lost(link, dead);
            if must_revoke {
                shared.bulk.revoke_beyond(pool.number, channel);
                pool.table.reclaim(link);
            }
            if link != UPSTREAM {
                shared.bulk.lost(pool.number, channel);
                for buffer in beyond.into_iter().filter(|buffer| pool.table.is_local(*buffer)) {
                    shared.bulk.reclaimed(&mut shared.audit, pool.number, buffer, pid);
                }
            }
            pool.drop_borrowed(shared, pid, channel);
        }
    }
}

impl Pool {
    /// Drops the read rights received over a closed channel, where no release is expected any more.
    fn drop_borrowed(&mut self, shared: &mut Shared, pid: i32, channel: ChannelId) {
        let Pool { number, table, borrowed, .. } = self;
        borrowed.retain(|(buffer, from)| {
            let forgotten = *from == channel && table.drop_borrowed(*buffer).is_ok();
            if forgotten {
                shared.bulk.forgot(*number, *buffer, pid);
            }
            !forgotten
        });
    }
}
