//! Who may do what with each buffer of a pool, as one domain knows it.
//!
//! The domains of a pool form a tree: its home, those that have it from the home over a channel, those that have it from
//! these. For each buffer there is one right to write, and every domain knows where it is: here, or beyond one of its
//! links. So a transfer over a link is believed only if the right is beyond that link, and nobody has to be asked. A
//! right to read is lent along the tree, away from the right to write, and counted on both sides of every link.
//!
//! | verb | who may | sender afterwards | receiver afterwards |
//! |---|---|---|---|
//! | move, pass | has the right to write, lent to nobody | beyond that link | here |
//! | share | has the right to write, or a right to read that it forwards | lent, read-only till all is released | one more right to read |
//! | release | has a right to read; the last one only when nothing of it is lent on | one right to read less | lent to one less |
//!
//! A transfer begins, and is then committed or aborted: in between the buffer is in flight, and what is aborted has
//! changed nothing. A copy by an engine holds a buffer in flight in the same way.

use alloc::vec;
use alloc::vec::Vec;

use crate::layout::Layout;
use crate::wire::Verb;

/// The most links of a pool in one domain.
pub const MAX_POOL_CHANNELS: usize = 33;

/// How often one buffer can be lent over one link.
pub const MAX_SHARES: u16 = u16::MAX;

const SENDING: u16 = u16::MAX;

/// Over which channel a pool is known, as a number of the pool's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolChannel(u8);

/// Why the table does not allow something. It is unchanged then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// There is no such buffer.
    #[error("there is no buffer {buffer} in a pool of {count}")]
    NoSuchBuffer {
        /// Which.
        buffer: u32,
        /// How many there are.
        count: u32,
    },
    /// The right to it is elsewhere.
    #[error("buffer {0} is not held here")]
    NotHeld(u32),
    /// It is read-only as long as somebody may read it.
    #[error("buffer {buffer} is shared {times} times: it can be moved or written when all are released")]
    Shared {
        /// Which.
        buffer: u32,
        /// How often.
        times: u32,
    },
    /// A transfer or a copy of it is under way.
    #[error("buffer {0} is in flight")]
    InFlight(u32),
    /// It came from there.
    #[error("buffer {0} was shared from there: it is known there already")]
    TowardsOwner(u32),
    /// It is shared as often as can be counted.
    #[error("buffer {0} is shared {MAX_SHARES} times over one channel, the most there can be")]
    TooManyShares(u32),
    /// The pool is on as many channels as it can be.
    #[error("a pool can be on {MAX_POOL_CHANNELS} channels")]
    TooManyLinks,
    /// Something of the pool is still out over the channel, or in use here.
    #[error("{buffers} buffers of the pool are still in use")]
    InUse {
        /// How many.
        buffers: u32,
    },
    /// The pool is assigned to further channels, and has to be taken off those first.
    #[error("the pool is assigned to {0} further channels")]
    Forwarded(u32),
    /// The channel is gone, or the pool is not on it.
    #[error("the pool is not on that channel any more")]
    NoLink,
    /// The pool was taken away.
    #[error("the pool was revoked: whoever made it took it back")]
    Revoked,
}

/// What the buffers of a pool are doing, as one domain knows it. They add up to their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Here, and ready to be taken.
    pub free: u32,
    /// Here, and in the hands of the program.
    pub held: u32,
    /// Here, and read-only, for somebody else may read them.
    pub lent: u32,
    /// Elsewhere, and may be read here.
    pub borrowed: u32,
    /// Elsewhere.
    pub away: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Right {
    Here,
    Beyond(PoolChannel),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    right: Right,
    /// In the hands of the program, not among the free ones.
    held: bool,
    /// Copies under way, or [`SENDING`].
    in_flight: u16,
    /// Rights to read that came from where the right to write is.
    borrowed: u32,
    /// Rights to read that others have from here.
    lent: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Gone,
    Live,
    /// This side asked to take the pool off: nothing new goes over it, but something may still come.
    Leaving,
    Lost,
}

#[derive(Clone, Debug)]
struct LinkEntry {
    state: State,
    may_forward: bool,
    /// Buffers whose right to write is beyond it.
    beyond: u32,
    /// By buffer, how often it is lent over it.
    lent: Vec<u16>,
    /// Their sum.
    lent_total: u64,
}

/// The state of one pool in one domain.
#[derive(Clone, Debug)]
pub struct Table {
    layout: Layout,
    is_home: bool,
    revoked: bool,
    entries: Vec<Entry>,
    links: Vec<LinkEntry>,
    /// Here and with nobody. The last to come is the first to go: it is the one that is still in a cache.
    free: Vec<u32>,
}

/// The link to where a pool came from.
pub const UPSTREAM: PoolChannel = PoolChannel(0);

impl Table {
    /// That of the domain that made the pool: all buffers are here and free.
    #[must_use]
    pub fn home(layout: Layout) -> Self {
        let entry = Entry { right: Right::Here, held: false, in_flight: 0, borrowed: 0, lent: 0 };
        Table {
            layout,
            is_home: true,
            revoked: false,
            entries: vec![entry; layout.count() as usize],
            // Lower numbers first.
            free: (0..layout.count()).rev().collect(),
            links: Vec::new(),
        }
    }

    /// That of a domain to which the pool was assigned, over [`UPSTREAM`]: all buffers are there.
    #[must_use]
    pub fn assigned(layout: Layout) -> Self {
        let right = Right::Beyond(UPSTREAM);
        let entry = Entry { right, held: false, in_flight: 0, borrowed: 0, lent: 0 };
        let mut upstream = LinkEntry::new(layout, true);
        upstream.beyond = layout.count();
        Table {
            layout,
            is_home: false,
            revoked: false,
            entries: vec![entry; layout.count() as usize],
            links: vec![upstream],
            free: Vec::with_capacity(layout.count() as usize),
        }
    }

    /// The pool's shape.
    #[must_use]
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether this is the domain that made it.
    #[must_use]
    pub fn is_home(&self) -> bool {
        self.is_home
    }

    /// Whether the pool was taken away.
    #[must_use]
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Assigns the pool to one more channel; the far side may assign it further if `may_forward`.
    ///
    /// # Errors
    /// [`TableError::TooManyLinks`], [`TableError::Revoked`].
    pub fn assign(&mut self, may_forward: bool) -> Result<PoolChannel, TableError> {
        self.unrevoked()?;
        if self.links.first().is_some_and(|upstream| upstream.state == State::Leaving) {
            return Err(TableError::NoLink);
        }
        // The first place is that of upstream, also where there is none.
        if self.links.is_empty() {
            self.links.push(LinkEntry { state: State::Gone, ..LinkEntry::new(self.layout, false) });
        }
        let gone = self.links[1..].iter().position(|link| link.state == State::Gone);
        let index = gone.map_or(self.links.len(), |index| index + 1);
        if index >= MAX_POOL_CHANNELS {
            return Err(TableError::TooManyLinks);
        }
        let entry = LinkEntry::new(self.layout, may_forward);
        match self.links.get_mut(index) {
            Some(link) => *link = entry,
            None => self.links.push(entry),
        }
        Ok(PoolChannel(index as u8))
    }

    /// Begins to take the pool off a channel: nothing goes over it any more, until it is [off](Self::unassign) or
    /// [stays](Self::stay).
    ///
    /// # Errors
    /// As [`unassign`](Self::unassign); [`TableError::NoLink`] also when it is being taken off already.
    pub fn leave(&mut self, link: PoolChannel) -> Result<(), TableError> {
        self.may_unassign(link)?;
        match &mut self.links[usize::from(link.0)].state {
            state @ State::Live => {
                *state = State::Leaving;
                Ok(())
            }
            _ => Err(TableError::NoLink),
        }
    }

    /// The other side still needs the pool.
    pub fn stay(&mut self, link: PoolChannel) {
        if let Some(entry) = self.links.get_mut(usize::from(link.0))
            && entry.state == State::Leaving
        {
            entry.state = State::Live;
        }
    }

    /// Takes the pool off a channel, in order.
    ///
    /// # Errors
    /// [`TableError::InUse`] when something is still out over it, or here from it; [`TableError::Forwarded`].
    pub fn unassign(&mut self, link: PoolChannel) -> Result<(), TableError> {
        self.may_unassign(link)?;
        self.links[usize::from(link.0)].state = State::Gone;
        if link == UPSTREAM {
            self.revoke();
        }
        Ok(())
    }

    /// Whether [`unassign`](Self::unassign) would do it.
    ///
    /// # Errors
    /// As there.
    pub fn may_unassign(&self, link: PoolChannel) -> Result<(), TableError> {
        let entry = self.links.get(usize::from(link.0)).filter(|entry| entry.state != State::Gone);
        let entry = entry.ok_or(TableError::NoLink)?;
        if self.revoked {
            return Ok(());
        }
        if link == UPSTREAM {
            let further = self.links[1..].iter().filter(|link| link.state != State::Gone).count();
            if further > 0 {
                return Err(TableError::Forwarded(further as u32));
            }
            let counts = self.counts();
            return match counts.held + counts.lent + counts.free + counts.borrowed {
                0 => Ok(()),
                buffers => Err(TableError::InUse { buffers }),
            };
        }
        let lent = entry.lent.iter().filter(|times| **times > 0).count() as u32;
        match entry.beyond + lent {
            0 => Ok(()),
            buffers => Err(TableError::InUse { buffers }),
        }
    }

    /// Takes a free buffer: the one that became free last.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        let buffer = self.free.pop()?;
        self.entries[buffer as usize].held = true;
        Some(buffer)
    }

    /// Puts back a buffer that the program does not want any more. One that is lent becomes free with the last release.
    ///
    /// # Errors
    /// [`TableError::NotHeld`]; [`TableError::InFlight`].
    #[inline]
    pub fn put(&mut self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        if entry.right != Right::Here || !entry.held {
            return Err(TableError::NotHeld(buffer));
        }
        if entry.in_flight != 0 {
            return Err(TableError::InFlight(buffer));
        }
        self.entries[buffer as usize].held = false;
        self.free_if_idle(buffer);
        Ok(())
    }

    /// Whether the buffer may be written here.
    ///
    /// # Errors
    /// [`TableError::Shared`], [`TableError::NotHeld`], [`TableError::InFlight`] for one that is being sent.
    pub fn may_write(&self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        match entry.right {
            _ if entry.in_flight == SENDING => Err(TableError::InFlight(buffer)),
            Right::Here if entry.lent > 0 => Err(TableError::Shared { buffer, times: entry.lent }),
            Right::Here => Ok(()),
            Right::Beyond(_) => Err(TableError::NotHeld(buffer)),
        }
    }

    /// Whether the buffer may be read here.
    ///
    /// # Errors
    /// [`TableError::NotHeld`].
    pub fn may_read(&self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        if entry.right == Right::Here || entry.borrowed > 0 {
            Ok(())
        } else {
            Err(TableError::NotHeld(buffer))
        }
    }

    /// A copy from or to the buffer begins: its right stays here until [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// As [`may_read`](Self::may_read), or with `to_write` as [`may_write`](Self::may_write).
    pub fn pin(&mut self, buffer: u32, to_write: bool) -> Result<(), TableError> {
        self.may_read(buffer)?;
        if to_write {
            self.may_write(buffer)?;
        }
        let entry = &mut self.entries[buffer as usize];
        if entry.in_flight >= SENDING - 1 {
            return Err(TableError::InFlight(buffer));
        }
        entry.in_flight += 1;
        Ok(())
    }

    /// The copy is over, or was given up.
    pub fn unpin(&mut self, buffer: u32) {
        if let Some(entry) = self.entries.get_mut(buffer as usize)
            && entry.in_flight != SENDING
        {
            entry.in_flight = entry.in_flight.saturating_sub(1);
        }
    }

    /// A transfer over a link begins: the buffer is in flight until [`commit`](Self::commit) or [`abort`](Self::abort).
    ///
    /// # Errors
    /// What the buffer's state does not allow.
    #[inline]
    pub fn begin(&mut self, verb: Verb, buffer: u32, link: PoolChannel) -> Result<(), TableError> {
        self.live(link)?;
        let entry = self.entry(buffer)?;
        if entry.in_flight != 0 {
            return Err(TableError::InFlight(buffer));
        }
        match (verb, entry.right) {
            (Verb::Move | Verb::Pass, Right::Here)
                if entry.lent > 0 && !tombolo_base::canary!("bulk moves what is shared") =>
            {
                return Err(TableError::Shared { buffer, times: entry.lent });
            }
            (Verb::Move | Verb::Pass, Right::Here) if !entry.held => return Err(TableError::NotHeld(buffer)),
            (Verb::Move | Verb::Pass, Right::Here) => {}
            (Verb::Share, Right::Beyond(owner)) if owner == link => {
                return Err(TableError::TowardsOwner(buffer));
            }
            (Verb::Share, Right::Here) if !entry.held => return Err(TableError::NotHeld(buffer)),
            (Verb::Share, right) if right == Right::Here || entry.borrowed > 0 => {
                if self.links[usize::from(link.0)].lent[buffer as usize] == MAX_SHARES {
                    return Err(TableError::TooManyShares(buffer));
                }
            }
            (Verb::Release, Right::Beyond(owner)) if owner == link && entry.borrowed > 0 => {
                if entry.borrowed == 1 && entry.lent > 0 {
                    return Err(TableError::Shared { buffer, times: entry.lent });
                }
            }
            _ => return Err(TableError::NotHeld(buffer)),
        }
        self.entries[buffer as usize].in_flight = SENDING;
        Ok(())
    }

    /// The transfer was accepted by the channel: the right has gone over.
    #[inline]
    pub fn commit(&mut self, verb: Verb, buffer: u32, link: PoolChannel) {
        let Some(entry) = self.entries.get_mut(buffer as usize) else { return };
        entry.in_flight = 0;
        let Some(over) = self.links.get_mut(usize::from(link.0)) else { return };
        match verb {
            Verb::Move | Verb::Pass => {
                entry.right = Right::Beyond(link);
                entry.held = false;
                over.beyond += 1;
            }
            Verb::Share => {
                entry.lent += 1;
                over.lent[buffer as usize] += 1;
                over.lent_total += 1;
            }
            Verb::Release => entry.borrowed -= 1,
        }
    }

    /// The transfer was not accepted: everything is as it was before it began.
    #[inline]
    pub fn abort(&mut self, buffer: u32) {
        if let Some(entry) = self.entries.get_mut(buffer as usize) {
            entry.in_flight = 0;
        }
    }

    /// Whether what a peer says about a buffer can be. Nothing is believed that this side's own table does not bear out.
    ///
    /// # Errors
    /// Why it cannot: the peer broke the protocol.
    #[inline]
    pub fn may_receive(&self, verb: Verb, buffer: u32, link: PoolChannel) -> Result<(), TableError> {
        self.known(link)?;
        let entry = self.entry(buffer)?;
        match (verb, entry.right) {
            (Verb::Move | Verb::Pass, Right::Beyond(owner)) if owner == link => match entry.borrowed {
                0 => Ok(()),
                times => Err(TableError::Shared { buffer, times }),
            },
            (Verb::Share, Right::Beyond(owner)) if owner == link => {
                if entry.borrowed < u32::from(MAX_SHARES) {
                    Ok(())
                } else {
                    Err(TableError::TooManyShares(buffer))
                }
            }
            (Verb::Release, _) if self.links[usize::from(link.0)].lent[buffer as usize] > 0 => Ok(()),
            _ => Err(TableError::NotHeld(buffer)),
        }
    }

    /// Takes what a peer said, where [`may_receive`](Self::may_receive) allows it. What was moved is in the hands of
    /// the program then, what was passed is free.
    ///
    /// # Errors
    /// As [`may_receive`](Self::may_receive).
    #[inline]
    pub fn receive(&mut self, verb: Verb, buffer: u32, link: PoolChannel) -> Result<(), TableError> {
        self.may_receive(verb, buffer, link)?;
        let entry = &mut self.entries[buffer as usize];
        let over = &mut self.links[usize::from(link.0)];
        match verb {
            Verb::Move | Verb::Pass => {
                entry.right = Right::Here;
                entry.held = verb == Verb::Move;
                over.beyond -= 1;
            }
            Verb::Share => entry.borrowed += 1,
            Verb::Release => {
                entry.lent -= 1;
                over.lent[buffer as usize] -= 1;
                over.lent_total -= 1;
            }
        }
        if matches!(verb, Verb::Pass | Verb::Release) {
            self.free_if_idle(buffer);
        }
        Ok(())
    }

    /// A right to read came over a link that is gone: nobody waits for it any more.
    ///
    /// # Errors
    /// [`TableError::NotHeld`], or [`TableError::Shared`] when it is the last one and lent on.
    pub fn forget(&mut self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        match (entry.borrowed, entry.lent) {
            (0, _) => Err(TableError::NotHeld(buffer)),
            (1, times) if times > 0 => Err(TableError::Shared { buffer, times }),
            _ => {
                self.entries[buffer as usize].borrowed -= 1;
                self.free_if_idle(buffer);
                Ok(())
            }
        }
    }

    /// Nothing goes over a link any more: its channel has ended, `dead` if with the domain beyond it. True: what is beyond
    /// it can be [reclaimed](Self::reclaim) once nobody there can reach the memory any more, and not before. False:
    /// nothing is left to do.
    pub fn lose(&mut self, link: PoolChannel, dead: bool) -> bool {
        let Some(entry) = self.links.get_mut(usize::from(link.0)) else { return false };
        if matches!(entry.state, State::Gone | State::Lost) {
            return entry.state == State::Lost && link != UPSTREAM;
        }
        entry.state = State::Lost;
        if link == UPSTREAM {
            // What is here stays; what is there is out of reach for good.
            return false;
        }
        let is_out = entry.beyond > 0 || entry.lent_total > 0;
        // A dead domain reaches nothing, but those to whom it assigned the pool do.
        let reachable = (!dead || entry.may_forward) && !tombolo_base::canary!("bulk takes back at once");
        if is_out && reachable {
            return true;
        }
        self.reclaim(link);
        false
    }

    /// Takes back everything that is beyond a link that is [lost](Self::lose), and the link off the pool. Says how many
    /// buffers came back. Their content means nothing.
    pub fn reclaim(&mut self, link: PoolChannel) -> u32 {
        let index = usize::from(link.0);
        if link == UPSTREAM || self.links.get(index).is_none_or(|link| link.state != State::Lost) {
            return 0;
        }
        let lent = core::mem::take(&mut self.links[index].lent);
        self.links[index] = LinkEntry { state: State::Gone, ..LinkEntry::new(self.layout, false) };
        let mut returned = 0;
        for (buffer, times) in (0..self.layout.count()).zip(lent) {
            let entry = &mut self.entries[buffer as usize];
            entry.lent -= u32::from(times);
            let is_beyond = entry.right == Right::Beyond(link);
            if is_beyond && !tombolo_base::canary!("bulk leaves buffers with the dead") {
                // What was borrowed from there may still be in the hands of the program: free when it is forgotten.
                (entry.right, entry.held) = (Right::Here, false);
            } else if times == 0 {
                continue;
            }
            self.free_if_idle(buffer);
            returned += 1;
        }
        returned
    }

    /// The pool's memory was taken away: nothing of it is here any more.
    pub fn revoke(&mut self) {
        self.revoked = true;
        self.free.clear();
    }

    /// Whether a link is in use.
    #[must_use]
    pub fn is_live(&self, link: PoolChannel) -> bool {
        self.live(link).is_ok()
    }

    /// How often a buffer is lent, over all links.
    #[must_use]
    pub fn lent(&self, buffer: u32) -> u32 {
        self.entries.get(buffer as usize).map_or(0, |entry| entry.lent)
    }

    /// How often a buffer is lent over one link.
    #[must_use]
    pub fn lent_over(&self, buffer: u32, link: PoolChannel) -> u32 {
        let link = self.links.get(usize::from(link.0));
        link.and_then(|link| link.lent.get(buffer as usize)).copied().map_or(0, u32::from)
    }

    /// How many rights to read a buffer are here.
    #[must_use]
    pub fn borrowed(&self, buffer: u32) -> u32 {
        self.entries.get(buffer as usize).map_or(0, |entry| entry.borrowed)
    }

    /// Whether the right to write a buffer is here, lent or not.
    #[must_use]
    pub fn is_here(&self, buffer: u32) -> bool {
        !self.revoked && self.entries.get(buffer as usize).is_some_and(|entry| entry.right == Right::Here)
    }

    /// Whether the right to write a buffer is beyond a link.
    #[must_use]
    pub fn is_beyond(&self, buffer: u32, link: PoolChannel) -> bool {
        self.entries.get(buffer as usize).is_some_and(|entry| entry.right == Right::Beyond(link))
    }

    /// What the buffers are doing. Takes time in proportion to their number.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { free: self.free.len() as u32, ..Counts::default() };
        if self.revoked {
            counts.away = self.layout.count();
            return counts;
        }
        for entry in &self.entries {
            match entry.right {
                Right::Here if entry.lent > 0 || entry.borrowed > 0 => counts.lent += 1,
                Right::Here if entry.held => counts.held += 1,
                Right::Here => {}
                Right::Beyond(_) if entry.borrowed > 0 => counts.borrowed += 1,
                Right::Beyond(_) => counts.away += 1,
            }
        }
        counts
    }

    fn unrevoked(&self) -> Result<(), TableError> {
        if self.revoked { Err(TableError::Revoked) } else { Ok(()) }
    }

    #[inline]
    fn live(&self, link: PoolChannel) -> Result<(), TableError> {
        self.unrevoked()?;
        match self.links.get(usize::from(link.0)) {
            Some(entry) if entry.state == State::Live => Ok(()),
            _ => Err(TableError::NoLink),
        }
    }

    #[inline]
    fn known(&self, link: PoolChannel) -> Result<(), TableError> {
        self.unrevoked()?;
        match self.links.get(usize::from(link.0)) {
            Some(entry) if matches!(entry.state, State::Live | State::Leaving) => Ok(()),
            _ => Err(TableError::NoLink),
        }
    }

    #[inline]
    fn entry(&self, buffer: u32) -> Result<&Entry, TableError> {
        self.unrevoked()?;
        let count = self.layout.count();
        self.entries.get(buffer as usize).ok_or(TableError::NoSuchBuffer { buffer, count })
    }

    #[inline]
    fn free_if_idle(&mut self, buffer: u32) {
        let entry = &self.entries[buffer as usize];
        if entry.right == Right::Here && !entry.held && (entry.lent, entry.borrowed) == (0, 0) {
            self.free.push(buffer);
        }
    }
}

impl LinkEntry {
    fn new(layout: Layout, may_forward: bool) -> Self {
        let lent = vec![0; layout.count() as usize];
        LinkEntry { state: State::Live, may_forward, beyond: 0, lent, lent_total: 0 }
    }
}
