//! Random walks of several domains that assign pools, transfer buffers, fail to, and die, over real sessions
//! and real bytes. Checked after every step: each buffer has one right to write, no domain reads a buffer
//! that another may write, the counts of lent buffers match between the two sides of a channel up to messages
//! in transit, and the receiver of a buffer with content finds the latest contents, in the same memory or in
//! a copy.

use std::collections::VecDeque;

use proptest::prelude::*;
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::wire::{Offer, PoolId, PoolIndex, Terms, Trust, Veto};
use tombolo_bulk::{Layout, Message, PoolChannel, Segment, Session, SessionEvent, Table, Verb};

const PARTIES: usize = 5;
const POOLS: usize = 3;
const BUFFERS: u32 = 4;
/// With cycles: a pool that arrives over one channel is offered over another as well, and must be refused.
const CHANNELS: [(usize, usize); 6] = [(0, 1), (1, 2), (2, 3), (1, 4), (0, 2), (3, 4)];

fn layout() -> Layout {
    Layout::new(4096, BUFFERS).unwrap()
}

/// State of a pool in one domain.
#[derive(Default)]
struct PoolState {
    table: Option<Table>,
    /// Whether it was offered with leave to assign it further.
    may_forward: bool,
    /// For each channel, its ids in the table and in the session.
    links: [Option<(PoolChannel, PoolIndex)>; CHANNELS.len()],
    /// Rights to read that it holds, with the channels that they came over.
    handles: Vec<(u32, usize)>,
    /// Index of its memory for the pool, which other domains may share.
    memory: usize,
}

struct SessionEnd {
    session: Session,
    /// Messages in transit to this end.
    inbox: VecDeque<Vec<u8>>,
    /// Whether this end was notified that the other is gone.
    loss_detected: bool,
}

struct World {
    alive: [bool; PARTIES],
    pool_states: Vec<Vec<PoolState>>,
    ends: Vec<[SessionEnd; 2]>,
    out: Vec<u8>,
    /// One number for each buffer; the memories of the homes come first.
    memories: Vec<[u64; BUFFERS as usize]>,
    /// Last number written to each buffer.
    written: [[u64; BUFFERS as usize]; POOLS],
    /// Pools that were split by cutting off a domain with memory of its own.
    is_split: [bool; POOLS],
}

/// One step, chosen by numbers.
type Step = (u8, u8, u8, u8, u8);

impl World {
    fn new() -> World {
        let terms = Terms { trust: Trust::Full, max_pools: 4, max_segments: 3, max_metadata_bytes: 16 };
        let end = |accepting| {
            let session = Session::new(accepting, terms);
            SessionEnd { session, inbox: VecDeque::new(), loss_detected: false }
        };
        let mut world = World {
            alive: [true; PARTIES],
            pool_states: (0..PARTIES).map(|_| (0..POOLS).map(|_| PoolState::default()).collect()).collect(),
            ends: CHANNELS.iter().map(|_| [end(false), end(true)]).collect(),
            out: Vec::new(),
            memories: vec![[0; BUFFERS as usize]; POOLS],
            written: [[0; BUFFERS as usize]; POOLS],
            is_split: [false; POOLS],
        };
        for pool in 0..POOLS {
            world.pool_states[pool][pool].table = Some(Table::home(layout()));
            world.pool_states[pool][pool].may_forward = true;
            world.pool_states[pool][pool].memory = pool;
        }
        for channel in 0..CHANNELS.len() {
            for side in 0..2 {
                world.send(channel, side, &Message::Terms(terms));
            }
            world.deliver(channel, 0);
            world.deliver(channel, 1);
        }
        world
    }

    fn party(channel: usize, side: usize) -> usize {
        if side == 0 { CHANNELS[channel].0 } else { CHANNELS[channel].1 }
    }

    fn send(&mut self, channel: usize, side: usize, message: &Message<'_>) -> bool {
        let mut out = std::mem::take(&mut self.out);
        let is_valid = self.ends[channel][side].session.prepare(message, &mut out).is_ok();
        if is_valid {
            self.ends[channel][side].session.record_sent(message);
            self.ends[channel][1 - side].inbox.push_back(out.clone());
        }
        self.out = out;
        is_valid
    }

    fn is_open(&self, channel: usize) -> bool {
        self.alive[CHANNELS[channel].0] && self.alive[CHANNELS[channel].1]
    }

    fn assign(&mut self, channel: usize, side: usize, pool: usize, may_forward: bool, is_copied: bool) {
        let party = Self::party(channel, side);
        let pool_state = &mut self.pool_states[party][pool];
        let Ok(pool_index) = self.ends[channel][side].session.free_pool_index() else { return };
        if !pool_state.may_forward || pool_state.links[channel].is_some() {
            return;
        }
        let Some(table) = pool_state.table.as_mut() else { return };
        let Ok(link) = table.assign(may_forward) else { return };
        pool_state.links[channel] = Some((link, pool_index));
        let pool = PoolId { domain: 7, number: pool as u64 };
        let (layout, capability, offset_bytes) = (layout(), u64::from(!is_copied), 0);
        let offer = Offer { pool_index, pool, layout, capability, offset_bytes, may_forward };
        assert!(self.send(channel, side, &Message::Assign(offer)));
    }

    fn unassign(&mut self, channel: usize, side: usize, pool: usize) {
        let party = Self::party(channel, side);
        let Some((link, pool_index)) = self.pool_states[party][pool].links[channel] else { return };
        if let Some(table) = &mut self.pool_states[party][pool].table
            && table.start_unassign(link).is_ok()
            && !self.send(channel, side, &Message::Unassign(pool_index))
            && let Some(table) = &mut self.pool_states[party][pool].table
        {
            table.cancel_unassign(link);
        }
    }

    /// Tries a transfer of up to three buffers, of any pools; all or none are transferred.
    fn transfer(&mut self, channel: usize, side: usize, verb: Verb, choice: [u8; 2], fails: bool) {
        let party = Self::party(channel, side);
        let mut segments = Vec::new();
        let mut begun = Vec::new();
        for index in 0..=usize::from(choice[0] % 3) {
            let pool = (usize::from(choice[0] / 3) + index) % POOLS;
            let buffer = (u32::from(choice[1]) + index as u32) % (BUFFERS + 1);
            let pool_state = &mut self.pool_states[party][pool];
            let (Some((link, pool_index)), Some(table)) =
                (pool_state.links[channel], pool_state.table.as_mut())
            else {
                continue;
            };
            if verb == Verb::Release && !pool_state.handles.contains(&(buffer, channel)) {
                continue;
            }
            let before = table.clone();
            match table.begin(verb, buffer, link) {
                Ok(()) => {
                    begun.push((pool, buffer, link));
                    segments.push(Segment { pool_index, buffer, offset_bytes: 64, length_bytes: 64 });
                }
                Err(_) => {
                    assert_eq!(format!("{before:?}"), format!("{table:?}"), "a refusal changed something");
                }
            }
        }
        if verb.carries_content() {
            begun
                .iter()
                .zip(&segments)
                .for_each(|((pool, ..), segment)| self.copy(channel, side, *pool, *segment));
        }
        let mut out = std::mem::take(&mut self.out);
        let end = &mut self.ends[channel][side];
        let can = end.session.prepare_transfer(verb, &segments, b"meta", &mut out).is_ok() && !fails;
        for (pool, buffer, link) in begun {
            let pool_state = &mut self.pool_states[party][pool];
            let table = pool_state.table.as_mut().unwrap();
            if can {
                table.commit(verb, buffer, link);
                if verb == Verb::Release {
                    let at =
                        pool_state.handles.iter().position(|handle| *handle == (buffer, channel)).unwrap();
                    pool_state.handles.swap_remove(at);
                }
            } else {
                table.abort(buffer);
            }
        }
        if can {
            end.session.record_transfer_sent();
            self.ends[channel][1 - side].inbox.push_back(out.clone());
        }
        self.out = out;
    }

    /// Sends the contents of a buffer ahead of its transfer, if the ends have separate memory.
    fn copy(&mut self, channel: usize, side: usize, pool: usize, segment: Segment) {
        let end = &mut self.ends[channel][side];
        if !end.session.is_copied(segment.pool_index) {
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        if let Ok(bytes) = end.session.prepare_content(Segment { length_bytes: 8, ..segment }, &mut out) {
            let memory = self.pool_states[Self::party(channel, side)][pool].memory;
            bytes.copy_from_slice(&self.memories[memory][segment.buffer as usize].to_le_bytes());
            end.session.record_transfer_sent();
            self.ends[channel][1 - side].inbox.push_back(out.clone());
        }
        self.out = out;
    }

    /// Writes a fresh number to a buffer that the domain may write.
    fn write(&mut self, party: usize, pool: usize, buffer: u32) {
        if self.live_table(party, pool).is_some_and(|table| table.may_write(buffer).is_ok()) {
            let memory = self.pool_states[party][pool].memory;
            let last = self.written.as_flattened().iter().copied().max().unwrap_or(0);
            self.memories[memory][buffer as usize] = last + 1;
            self.written[pool][buffer as usize] = last + 1;
        }
    }

    /// Delivers the next message to one end.
    fn deliver(&mut self, channel: usize, side: usize) {
        let party = Self::party(channel, side);
        let Some(bytes) = self.ends[channel][side].inbox.pop_front() else { return };
        let event =
            self.ends[channel][side].session.receive(&bytes).expect("what a session says it can hear");
        match event {
            SessionEvent::Terms { agreed, .. } => assert!(agreed.is_some()),
            SessionEvent::Offered(offer) => {
                let pool = offer.pool.number as usize;
                let offering = &self.pool_states[Self::party(channel, 1 - side)][pool];
                let their_memory = offering.memory;
                let dead = offering.table.as_ref().is_none_or(Table::is_revoked) || !self.is_open(channel);
                let pool_state = &mut self.pool_states[party][pool];
                let veto = match pool_state.table {
                    _ if dead => Some(Veto::Unreachable),
                    Some(_) => Some(Veto::Known),
                    None if self.ends[channel][side].session.is_over_full() => Some(Veto::TooManyPools),
                    None => None,
                };
                let answer = match veto {
                    Some(veto) => Message::Vetoed(offer.pool_index, veto),
                    None => {
                        pool_state.table = Some(Table::assigned(offer.layout));
                        pool_state.may_forward = offer.may_forward;
                        pool_state.links[channel] = Some((UPSTREAM, offer.pool_index));
                        if offer.capability == 0 {
                            pool_state.memory = self.memories.len();
                            self.memories.push([0; BUFFERS as usize]);
                        } else {
                            pool_state.memory = their_memory;
                        }
                        Message::Assigned(offer.pool_index)
                    }
                };
                assert!(self.send(channel, side, &answer));
            }
            SessionEvent::Assigned(_) => {}
            SessionEvent::Kept(pool_index) => {
                let pool = self.pool_at(channel, side, pool_index);
                let pool_state = &mut self.pool_states[party][pool];
                let (link, _) = pool_state.links[channel].unwrap();
                pool_state.table.as_mut().unwrap().cancel_unassign(link);
            }
            SessionEvent::Vetoed(pool_index, _) | SessionEvent::Unassigned(pool_index) => {
                self.drop_link(channel, side, pool_index);
            }
            SessionEvent::Unassign(pool_index) => {
                let pool = self.pool_at(channel, side, pool_index);
                let pool_state = &self.pool_states[party][pool];
                let (link, _) = pool_state.links[channel].unwrap();
                let free = pool_state.table.as_ref().is_none_or(|table| table.may_unassign(link).is_ok());
                let answer = if free { Message::Unassigned(pool_index) } else { Message::Kept(pool_index) };
                assert!(self.send(channel, side, &answer));
                if free {
                    self.drop_link(channel, side, pool_index);
                }
            }
            SessionEvent::Content(content) => {
                let pool = self.pool_at(channel, side, content.pool_index);
                let pool_state = &self.pool_states[party][pool];
                let (link, _) = pool_state.links[channel].unwrap();
                let table = pool_state.table.as_ref().unwrap();
                if !table.is_revoked() {
                    table.may_receive(Verb::Share, content.buffer, link).expect("it is the other side's");
                    let number = u64::from_le_bytes(content.bytes.try_into().unwrap());
                    self.memories[pool_state.memory][content.buffer as usize] = number;
                }
            }
            SessionEvent::Transfer(transfer) => {
                for segment in transfer.segments() {
                    let pool = self.pool_at(channel, side, segment.pool_index);
                    let pool_state = &mut self.pool_states[party][pool];
                    let (link, _) = pool_state.links[channel].unwrap();
                    let table = pool_state.table.as_mut().unwrap();
                    if table.is_revoked() {
                        continue;
                    }
                    table
                        .receive(transfer.verb, segment.buffer, link)
                        .expect("what one table sends another takes");
                    let buffer = segment.buffer as usize;
                    if transfer.verb.carries_content() && !self.is_split[pool] {
                        let (found, expected) =
                            (self.memories[pool_state.memory][buffer], self.written[pool][buffer]);
                        assert_eq!(found, expected, "buffer {buffer} of pool {pool} at {party}");
                    }
                    if transfer.verb == Verb::Share {
                        pool_state.handles.push((segment.buffer, channel));
                    }
                }
            }
        }
    }

    fn pool_at(&self, channel: usize, side: usize, pool_index: PoolIndex) -> usize {
        let pool_state = &self.pool_states[Self::party(channel, side)];
        pool_state
            .iter()
            .position(|pool_state| pool_state.links[channel].is_some_and(|(_, at)| at == pool_index))
            .unwrap()
    }

    fn drop_link(&mut self, channel: usize, side: usize, pool_index: PoolIndex) {
        let party = Self::party(channel, side);
        let pool = self.pool_at(channel, side, pool_index);
        let pool_state = &mut self.pool_states[party][pool];
        let (link, _) = pool_state.links[channel].take().unwrap();
        if let Some(table) = &mut pool_state.table {
            table.unassign(link).expect("nothing is in use");
        }
        if link == UPSTREAM {
            *pool_state = PoolState::default();
        }
    }

    /// Notifies one end that the other is gone, after everything in transit has arrived.
    fn detect_loss(&mut self, channel: usize, side: usize) {
        let party = Self::party(channel, side);
        if self.is_open(channel) || !self.alive[party] || self.ends[channel][side].loss_detected {
            return;
        }
        while !self.ends[channel][side].inbox.is_empty() {
            self.deliver(channel, side);
        }
        self.ends[channel][side].loss_detected = true;
        for pool in 0..POOLS {
            let pool_state = &mut self.pool_states[party][pool];
            let (Some((link, _)), Some(table)) = (pool_state.links[channel], pool_state.table.as_mut())
            else {
                continue;
            };
            if table.mark_lost(link, true) {
                // The monitors first revoke the memory from every domain beyond. Only then does it belong to
                // this domain again.
                self.revoke_beyond(pool, party, channel);
                self.pool_states[party][pool].table.as_mut().unwrap().reclaim(link);
            }
            let pool_state = &mut self.pool_states[party][pool];
            if link != UPSTREAM {
                pool_state.links[channel] = None;
            }
            // No domain waits for a release any more.
            let table = pool_state.table.as_mut().unwrap();
            let handles = std::mem::take(&mut pool_state.handles);
            pool_state.handles = handles
                .into_iter()
                .filter(|(buffer, from)| *from != channel || table.drop_borrowed(*buffer).is_err())
                .collect();
        }
    }

    fn revoke_beyond(&mut self, pool: usize, party: usize, channel: usize) {
        let side = usize::from(Self::party(channel, 0) == party);
        let child = Self::party(channel, side);
        if self.pool_states[child][pool].links[channel].is_none_or(|(link, _)| link != UPSTREAM) {
            return;
        }
        if self.pool_states[child][pool].memory != self.pool_states[party][pool].memory {
            self.is_split[pool] = true;
            return;
        }
        if let Some(table) = &mut self.pool_states[child][pool].table {
            table.revoke();
        }
        for further in (0..CHANNELS.len()).filter(|further| *further != channel) {
            if CHANNELS[further].0 == child || CHANNELS[further].1 == child {
                self.revoke_beyond(pool, child, further);
            }
        }
    }

    fn step(&mut self, (what, channel, side, a, b): Step) {
        let (channel, side) = (usize::from(channel) % CHANNELS.len(), usize::from(side) % 2);
        let pool = usize::from(a) % POOLS;
        let party = Self::party(channel, side);
        match what % 32 {
            0..=3 if self.is_open(channel) => self.assign(channel, side, pool, b % 2 == 0, b % 4 > 1),
            4 if self.is_open(channel) => self.unassign(channel, side, pool),
            5..=16 if self.is_open(channel) => {
                let verb = Verb::ALL[usize::from(what % 4)];
                self.transfer(channel, side, verb, [a, b], a % 5 == 0);
            }
            17..=26 if self.alive[party] => self.deliver(channel, side),
            27 | 28 if self.alive[party] => {
                let taken = self.pool_states[party][pool].table.as_mut().and_then(Table::allocate);
                if let Some(buffer) = taken {
                    self.write(party, pool, buffer);
                }
            }
            29 if self.alive[party] => {
                if let Some(table) = &mut self.pool_states[party][pool].table {
                    let _ = table.free(u32::from(b) % BUFFERS);
                }
            }
            30 => self.detect_loss(channel, side),
            31 if b % 8 == 0 => self.alive[party] = false,
            _ => {}
        }
    }

    /// The number of transfers of these verbs and this buffer in transit to one end.
    fn in_transit(&self, channel: usize, to: usize, pool: usize, buffer: u32, verbs: &[Verb]) -> u32 {
        let pool_state = &self.pool_states[Self::party(channel, to)][pool];
        let Some((_, pool_index)) = pool_state.links[channel] else { return 0 };
        let mut found = 0;
        for bytes in &self.ends[channel][to].inbox {
            if let Ok((Message::Transfer(transfer), _)) = tombolo_bulk::wire::decode(bytes)
                && verbs.contains(&transfer.verb)
            {
                found += transfer
                    .segments()
                    .filter(|at| (at.pool_index, at.buffer) == (pool_index, buffer))
                    .count() as u32;
            }
        }
        found
    }

    fn live_table(&self, party: usize, pool: usize) -> Option<&Table> {
        self.pool_states[party][pool].table.as_ref().filter(|table| self.alive[party] && !table.is_revoked())
    }

    fn check(&self) {
        let settled = (0..CHANNELS.len()).all(|channel| {
            self.is_open(channel)
                || (0..2).all(|side| {
                    !self.alive[Self::party(channel, side)] || self.ends[channel][side].loss_detected
                })
        });
        for pool in 0..POOLS {
            for party in 0..PARTIES {
                if let Some(table) = self.live_table(party, pool) {
                    let counts = table.counts();
                    let sum = counts.free + counts.held + counts.lent + counts.borrowed + counts.away;
                    assert_eq!(sum, BUFFERS, "{counts:?}");
                }
            }
            for buffer in 0..BUFFERS {
                self.check_rights(pool, buffer, settled);
                self.check_counts(pool, buffer);
            }
        }
    }

    fn check_rights(&self, pool: usize, buffer: u32, settled: bool) {
        if self.is_split[pool] {
            return;
        }
        let here: Vec<usize> = (0..PARTIES)
            .filter(|party| self.live_table(*party, pool).is_some_and(|table| table.is_local(buffer)))
            .collect();
        let mut rights = here.len() as u32;
        for channel in 0..CHANNELS.len() {
            for to in 0..2 {
                if self.live_table(Self::party(channel, to), pool).is_some() {
                    rights += self.in_transit(channel, to, pool, buffer, &[Verb::Move, Verb::Pass]);
                }
            }
        }
        assert!(rights <= 1, "buffer {buffer} of pool {pool} has {rights} rights to write, {here:?}");
        if settled && self.alive[pool] {
            assert_eq!(rights, 1, "buffer {buffer} of pool {pool} is lost");
        }
        if let [owner] = here[..]
            && self.live_table(owner, pool).is_some_and(|table| table.may_write(buffer).is_ok())
        {
            for party in (0..PARTIES).filter(|party| *party != owner) {
                if let Some(table) = self.live_table(party, pool) {
                    assert_eq!(table.borrowed(buffer), 0, "{party} reads what {owner} may write");
                }
            }
        }
    }

    fn check_counts(&self, pool: usize, buffer: u32) {
        for channel in (0..CHANNELS.len()).filter(|channel| self.is_open(*channel)) {
            for from in 0..2 {
                let lender = Self::party(channel, from);
                let borrower = Self::party(channel, 1 - from);
                let (Some(lending), Some(borrowing)) =
                    (self.live_table(lender, pool), self.live_table(borrower, pool))
                else {
                    continue;
                };
                let links = (
                    self.pool_states[lender][pool].links[channel],
                    self.pool_states[borrower][pool].links[channel],
                );
                let (Some((link, _)), Some((back, _))) = links else { continue };
                let borrowed =
                    if borrowing.is_remote_over(buffer, back) { borrowing.borrowed(buffer) } else { 0 };
                let shares = self.in_transit(channel, 1 - from, pool, buffer, &[Verb::Share]);
                let releases = self.in_transit(channel, from, pool, buffer, &[Verb::Release]);
                assert_eq!(lending.lent_over(buffer, link), borrowed + shares + releases);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.min(96),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rights_and_counts_are_conserved(steps in proptest::collection::vec(any::<Step>(), 1..600)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
    }
}
