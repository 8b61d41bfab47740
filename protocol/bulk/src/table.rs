//! Rights to each buffer of a pool, as known to one domain.
//!
//! The domains of a pool form a tree: its home, the domains that got it from the home over a channel, those
//! that got it from these, and so on. For each buffer there is one right to write, and every domain knows
//! where it is: here, or beyond one of its channels. So a transfer over a channel is accepted only if the
//! right is beyond that channel, without asking any other domain. Rights to read are lent along the tree,
//! away from the right to write, and counted on both sides of every channel.
//!
//! | verb | sender needs | sender afterwards | receiver afterwards |
//! |---|---|---|---|
//! | move, pass | right to write, not lent | beyond that channel | here |
//! | share | right to write, or a right to read | lent; read-only until released | one more right to read |
//! | release | right to read; the last only if not lent on | one right to read less | one less lent |
//!
//! A transfer is started, and then committed or aborted. In between the buffer is in flight; an aborted
//! transfer changes nothing. A copy by an engine keeps a buffer in flight in the same way.

use alloc::vec;
use alloc::vec::Vec;

use crate::layout::Layout;
use crate::wire::Verb;

/// Maximum number of channels of a pool in one domain.
pub const MAX_POOL_CHANNELS: usize = 33;

/// Maximum number of times that one buffer can be lent over one channel.
pub const MAX_SHARES: u16 = u16::MAX;

const SENDING: u16 = u16::MAX;

/// Channel over which a pool is known, as a number private to the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolChannel(u8);

/// Error of a refused operation on the table, which is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TableError {
    /// The buffer does not exist.
    #[error("buffer {buffer} does not exist in a pool of {count}")]
    NoSuchBuffer { buffer: u32, count: u32 },
    /// The right to the buffer is elsewhere.
    #[error("buffer {0} is not held here")]
    NotHeld(u32),
    /// The buffer is read-only while another domain may read it.
    #[error(
        "buffer {buffer} is shared (read rights elsewhere: {times}); it can be moved or written when all are released"
    )]
    Shared { buffer: u32, times: u32 },
    /// A transfer or copy of the buffer is in progress.
    #[error("buffer {0} is in flight")]
    InFlight(u32),
    /// The buffer was shared by that channel.
    #[error("buffer {0} was shared over that channel by the other side")]
    TowardsOwner(u32),
    /// The share count of the buffer would overflow.
    #[error("buffer {0} is shared {MAX_SHARES} times over one channel, the limit")]
    TooManyShares(u32),
    /// The pool is already on the maximum number of channels.
    #[error("the pool is on {MAX_POOL_CHANNELS} channels, the limit")]
    TooManyChannels,
    /// Buffers of the pool are still beyond the channel, or in use here.
    #[error("{buffers} buffers of the pool are still in use")]
    InUse { buffers: u32 },
    /// The pool is assigned to further channels, and must be taken off those first.
    #[error("the pool is assigned to {0} further channels; take it off those first")]
    Forwarded(u32),
    /// The channel has ended, or the pool is not on it.
    #[error("the pool is no longer on that channel")]
    NotOnChannel,
    /// The pool was revoked.
    #[error("the pool was revoked by the domain that created it")]
    Revoked,
}

/// Number of buffers in each state, as known to one domain. The sum is the total number of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Here and free to take.
    pub free: u32,
    /// Here and held by the program.
    pub held: u32,
    /// Here and read-only, because another domain may read them.
    pub lent: u32,
    /// Elsewhere, with a right to read here.
    pub borrowed: u32,
    /// Elsewhere, without rights here.
    pub away: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Right {
    Local,
    Remote(PoolChannel),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    right: Right,
    /// Whether the program holds it, so that it is not free.
    held: bool,
    /// Number of copies in progress, or [`SENDING`].
    in_flight: u16,
    /// Rights to read received from the direction of the right to write.
    borrowed: u32,
    /// Number of rights to read lent from here.
    lent: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChannelState {
    Unused,
    Live,
    /// This side asked to take the pool off: nothing new is sent, but messages may still arrive.
    Unassigning,
    Lost,
}

#[derive(Clone, Debug)]
struct ChannelEntry {
    state: ChannelState,
    may_forward: bool,
    /// Number of buffers whose right to write is beyond the channel.
    remote_buffers: u32,
    /// For each buffer, how often it is lent over the channel.
    lent: Vec<u16>,
    /// Sum of all entries of `lent`.
    lent_total: u64,
}

/// State of one pool in one domain.
#[derive(Clone, Debug)]
pub struct Table {
    layout: Layout,
    is_home: bool,
    revoked: bool,
    entries: Vec<Entry>,
    channels: Vec<ChannelEntry>,
    /// Free buffers here, used last in, first out: the last one is most likely still in a cache.
    free: Vec<u32>,
}

/// Channel over which this domain got the pool.
pub const UPSTREAM: PoolChannel = PoolChannel(0);

impl Table {
    /// Creates the table of the home domain: all buffers are here and free.
    #[must_use]
    pub fn home(layout: Layout) -> Self {
        let entry = Entry { right: Right::Local, held: false, in_flight: 0, borrowed: 0, lent: 0 };
        Table {
            layout,
            is_home: true,
            revoked: false,
            entries: vec![entry; layout.count() as usize],
            // Takes lower numbers first.
            free: (0..layout.count()).rev().collect(),
            channels: Vec::new(),
        }
    }

    /// Creates the table of a domain to which the pool was assigned over [`UPSTREAM`]: all buffers are there.
    #[must_use]
    pub fn assigned(layout: Layout) -> Self {
        let right = Right::Remote(UPSTREAM);
        let entry = Entry { right, held: false, in_flight: 0, borrowed: 0, lent: 0 };
        let mut upstream = ChannelEntry::new(layout, true);
        upstream.remote_buffers = layout.count();
        Table {
            layout,
            is_home: false,
            revoked: false,
            entries: vec![entry; layout.count() as usize],
            channels: vec![upstream],
            free: Vec::with_capacity(layout.count() as usize),
        }
    }

    /// Returns the number and size of the buffers.
    #[must_use]
    #[inline]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether this domain created the pool.
    #[must_use]
    pub fn is_home(&self) -> bool {
        self.is_home
    }

    /// Whether the pool was revoked.
    #[must_use]
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// Assigns the pool to one more channel. The far side may assign it further if `may_forward`.
    ///
    /// # Errors
    /// [`TableError::TooManyChannels`], [`TableError::Revoked`].
    pub fn assign(&mut self, may_forward: bool) -> Result<PoolChannel, TableError> {
        self.check_not_revoked()?;
        if self.channels.first().is_some_and(|upstream| upstream.state == ChannelState::Unassigning) {
            return Err(TableError::NotOnChannel);
        }
        // Index 0 is reserved for upstream, even if there is none.
        if self.channels.is_empty() {
            self.channels
                .push(ChannelEntry { state: ChannelState::Unused, ..ChannelEntry::new(self.layout, false) });
        }
        let unused = self.channels[1..].iter().position(|channel| channel.state == ChannelState::Unused);
        let index = unused.map_or(self.channels.len(), |index| index + 1);
        if index >= MAX_POOL_CHANNELS {
            return Err(TableError::TooManyChannels);
        }
        let entry = ChannelEntry::new(self.layout, may_forward);
        match self.channels.get_mut(index) {
            Some(channel) => *channel = entry,
            None => self.channels.push(entry),
        }
        Ok(PoolChannel(index as u8))
    }

    /// Starts to take the pool off a channel: nothing is sent over it until it is [off](Self::unassign) or
    /// [stays](Self::cancel_unassign).
    ///
    /// # Errors
    /// Same as [`unassign`](Self::unassign). [`TableError::NotOnChannel`] also if it is already being taken
    /// off.
    pub fn start_unassign(&mut self, channel: PoolChannel) -> Result<(), TableError> {
        self.may_unassign(channel)?;
        match &mut self.channels[usize::from(channel.0)].state {
            state @ ChannelState::Live => {
                *state = ChannelState::Unassigning;
                Ok(())
            }
            _ => Err(TableError::NotOnChannel),
        }
    }

    /// Abandons an attempt to take the pool off, because the other side still uses it.
    pub fn cancel_unassign(&mut self, channel: PoolChannel) {
        if let Some(entry) = self.channels.get_mut(usize::from(channel.0))
            && entry.state == ChannelState::Unassigning
        {
            entry.state = ChannelState::Live;
        }
    }

    /// Takes the pool off a channel.
    ///
    /// # Errors
    /// [`TableError::InUse`] when a buffer is still beyond it, or here from it; [`TableError::Forwarded`].
    pub fn unassign(&mut self, channel: PoolChannel) -> Result<(), TableError> {
        self.may_unassign(channel)?;
        self.channels[usize::from(channel.0)].state = ChannelState::Unused;
        if channel == UPSTREAM {
            self.revoke();
        }
        Ok(())
    }

    /// Checks whether [`unassign`](Self::unassign) would succeed.
    ///
    /// # Errors
    /// Same as [`unassign`](Self::unassign).
    pub fn may_unassign(&self, channel: PoolChannel) -> Result<(), TableError> {
        let entry =
            self.channels.get(usize::from(channel.0)).filter(|entry| entry.state != ChannelState::Unused);
        let entry = entry.ok_or(TableError::NotOnChannel)?;
        if self.revoked {
            return Ok(());
        }
        if channel == UPSTREAM {
            let further =
                self.channels[1..].iter().filter(|channel| channel.state != ChannelState::Unused).count();
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
        match entry.remote_buffers + lent {
            0 => Ok(()),
            buffers => Err(TableError::InUse { buffers }),
        }
    }

    /// Takes the free buffer that was freed last.
    #[inline]
    pub fn allocate(&mut self) -> Option<u32> {
        let buffer = self.free.pop()?;
        self.entries[buffer as usize].held = true;
        Some(buffer)
    }

    /// Frees a buffer that the program no longer needs. A lent buffer becomes free when all shares are
    /// released.
    ///
    /// # Errors
    /// [`TableError::NotHeld`]; [`TableError::InFlight`].
    #[inline]
    pub fn free(&mut self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        if entry.right != Right::Local || !entry.held {
            return Err(TableError::NotHeld(buffer));
        }
        if entry.in_flight != 0 {
            return Err(TableError::InFlight(buffer));
        }
        self.entries[buffer as usize].held = false;
        self.free_if_idle(buffer);
        Ok(())
    }

    /// Checks whether the buffer may be written here.
    ///
    /// # Errors
    /// [`TableError::Shared`], [`TableError::NotHeld`], or [`TableError::InFlight`] if it is being sent.
    pub fn may_write(&self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        match entry.right {
            _ if entry.in_flight == SENDING => Err(TableError::InFlight(buffer)),
            Right::Local if entry.lent > 0 => Err(TableError::Shared { buffer, times: entry.lent }),
            Right::Local => Ok(()),
            Right::Remote(_) => Err(TableError::NotHeld(buffer)),
        }
    }

    /// Checks whether the buffer may be read here.
    ///
    /// # Errors
    /// [`TableError::NotHeld`].
    pub fn may_read(&self, buffer: u32) -> Result<(), TableError> {
        let entry = self.entry(buffer)?;
        if entry.right == Right::Local || entry.borrowed > 0 {
            Ok(())
        } else {
            Err(TableError::NotHeld(buffer))
        }
    }

    /// Starts a copy from or to the buffer: its right stays here until [`unpin`](Self::unpin).
    ///
    /// # Errors
    /// Same as [`may_read`](Self::may_read), or with `to_write` as [`may_write`](Self::may_write).
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

    /// Ends a copy, completed or not.
    pub fn unpin(&mut self, buffer: u32) {
        if let Some(entry) = self.entries.get_mut(buffer as usize)
            && entry.in_flight != SENDING
        {
            entry.in_flight = entry.in_flight.saturating_sub(1);
        }
    }

    /// Starts a transfer over a channel: the buffer is in flight until [`commit`](Self::commit) or
    /// [`abort`](Self::abort).
    ///
    /// # Errors
    /// [`TableError`] if the buffer's state does not permit it.
    #[inline]
    pub fn begin(&mut self, verb: Verb, buffer: u32, channel: PoolChannel) -> Result<(), TableError> {
        self.check_live(channel)?;
        let entry = self.entry(buffer)?;
        if entry.in_flight != 0 {
            return Err(TableError::InFlight(buffer));
        }
        match (verb, entry.right) {
            (Verb::Move | Verb::Pass, Right::Local)
                if entry.lent > 0 && !tombolo_base::canary!("bulk moves what is shared") =>
            {
                return Err(TableError::Shared { buffer, times: entry.lent });
            }
            (Verb::Move | Verb::Pass, Right::Local) if !entry.held => {
                return Err(TableError::NotHeld(buffer));
            }
            (Verb::Move | Verb::Pass, Right::Local) => {}
            (Verb::Share, Right::Remote(owner)) if owner == channel => {
                return Err(TableError::TowardsOwner(buffer));
            }
            (Verb::Share, Right::Local) if !entry.held => return Err(TableError::NotHeld(buffer)),
            (Verb::Share, right) if right == Right::Local || entry.borrowed > 0 => {
                if self.channels[usize::from(channel.0)].lent[buffer as usize] == MAX_SHARES {
                    return Err(TableError::TooManyShares(buffer));
                }
            }
            (Verb::Release, Right::Remote(owner)) if owner == channel && entry.borrowed > 0 => {
                if entry.borrowed == 1 && entry.lent > 0 {
                    return Err(TableError::Shared { buffer, times: entry.lent });
                }
            }
            _ => return Err(TableError::NotHeld(buffer)),
        }
        self.entries[buffer as usize].in_flight = SENDING;
        Ok(())
    }

    /// Completes a transfer that the channel accepted: the right has moved.
    #[inline]
    pub fn commit(&mut self, verb: Verb, buffer: u32, channel: PoolChannel) {
        let Some(entry) = self.entries.get_mut(buffer as usize) else { return };
        entry.in_flight = 0;
        let Some(channel_entry) = self.channels.get_mut(usize::from(channel.0)) else { return };
        match verb {
            Verb::Move | Verb::Pass => {
                entry.right = Right::Remote(channel);
                entry.held = false;
                channel_entry.remote_buffers += 1;
            }
            Verb::Share => {
                entry.lent += 1;
                channel_entry.lent[buffer as usize] += 1;
                channel_entry.lent_total += 1;
            }
            Verb::Release => entry.borrowed -= 1,
        }
    }

    /// Aborts a transfer that the channel did not accept. The state is the same as before.
    #[inline]
    pub fn abort(&mut self, buffer: u32) {
        if let Some(entry) = self.entries.get_mut(buffer as usize) {
            entry.in_flight = 0;
        }
    }

    /// Checks whether a peer's transfer is possible. Accepts only transfers that this side's own table
    /// confirms.
    ///
    /// # Errors
    /// [`TableError`] with the reason; the peer violated the protocol.
    #[inline]
    pub fn may_receive(&self, verb: Verb, buffer: u32, channel: PoolChannel) -> Result<(), TableError> {
        self.check_attached(channel)?;
        let entry = self.entry(buffer)?;
        match (verb, entry.right) {
            (Verb::Move | Verb::Pass, Right::Remote(owner)) if owner == channel => match entry.borrowed {
                0 => Ok(()),
                times => Err(TableError::Shared { buffer, times }),
            },
            (Verb::Share, Right::Remote(owner)) if owner == channel => {
                if entry.borrowed < u32::from(MAX_SHARES) {
                    Ok(())
                } else {
                    Err(TableError::TooManyShares(buffer))
                }
            }
            (Verb::Release, _) if self.channels[usize::from(channel.0)].lent[buffer as usize] > 0 => Ok(()),
            _ => Err(TableError::NotHeld(buffer)),
        }
    }

    /// Applies a peer's transfer if [`may_receive`](Self::may_receive) permits it. The program then holds a
    /// moved buffer; a passed one is free.
    ///
    /// # Errors
    /// Same as [`may_receive`](Self::may_receive).
    #[inline]
    pub fn receive(&mut self, verb: Verb, buffer: u32, channel: PoolChannel) -> Result<(), TableError> {
        self.may_receive(verb, buffer, channel)?;
        let entry = &mut self.entries[buffer as usize];
        let channel_entry = &mut self.channels[usize::from(channel.0)];
        match verb {
            Verb::Move | Verb::Pass => {
                entry.right = Right::Local;
                entry.held = verb == Verb::Move;
                channel_entry.remote_buffers -= 1;
            }
            Verb::Share => entry.borrowed += 1,
            Verb::Release => {
                entry.lent -= 1;
                channel_entry.lent[buffer as usize] -= 1;
                channel_entry.lent_total -= 1;
            }
        }
        if matches!(verb, Verb::Pass | Verb::Release) {
            self.free_if_idle(buffer);
        }
        Ok(())
    }

    /// Drops a right to read that came over a channel that has since ended, without a release.
    ///
    /// # Errors
    /// [`TableError::NotHeld`], or [`TableError::Shared`] when it is the last one and lent on.
    pub fn drop_borrowed(&mut self, buffer: u32) -> Result<(), TableError> {
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

    /// Records that a channel has ended; `dead` if the domain beyond it died. Returns true if the buffers
    /// beyond it can be [reclaimed](Self::reclaim), but only once no domain there can reach the memory any
    /// more. Returns false if nothing is left to do.
    pub fn mark_lost(&mut self, channel: PoolChannel, dead: bool) -> bool {
        let Some(entry) = self.channels.get_mut(usize::from(channel.0)) else { return false };
        if matches!(entry.state, ChannelState::Unused | ChannelState::Lost) {
            return entry.state == ChannelState::Lost && channel != UPSTREAM;
        }
        entry.state = ChannelState::Lost;
        if channel == UPSTREAM {
            // Buffers that are here stay; buffers beyond are permanently unreachable.
            return false;
        }
        let is_out = entry.remote_buffers > 0 || entry.lent_total > 0;
        // A dead domain reaches nothing, but domains to which it assigned the pool might.
        let reachable = (!dead || entry.may_forward) && !tombolo_base::canary!("bulk takes back at once");
        if is_out && reachable {
            return true;
        }
        self.reclaim(channel);
        false
    }

    /// Takes back all buffers beyond a [lost](Self::mark_lost) channel, and takes the pool off it. Returns
    /// the number of buffers. Their contents are undefined.
    pub fn reclaim(&mut self, channel: PoolChannel) -> u32 {
        let index = usize::from(channel.0);
        if channel == UPSTREAM
            || self.channels.get(index).is_none_or(|channel| channel.state != ChannelState::Lost)
        {
            return 0;
        }
        let lent = core::mem::take(&mut self.channels[index].lent);
        self.channels[index] =
            ChannelEntry { state: ChannelState::Unused, ..ChannelEntry::new(self.layout, false) };
        let mut returned = 0;
        for (buffer, times) in (0..self.layout.count()).zip(lent) {
            let entry = &mut self.entries[buffer as usize];
            entry.lent -= u32::from(times);
            let is_remote_over = entry.right == Right::Remote(channel);
            if is_remote_over && !tombolo_base::canary!("bulk leaves buffers with the dead") {
                // The program may still hold a right to read borrowed from there. The buffer becomes free
                // when that is forgotten.
                (entry.right, entry.held) = (Right::Local, false);
            } else if times == 0 {
                continue;
            }
            self.free_if_idle(buffer);
            returned += 1;
        }
        returned
    }

    /// Records that the pool's memory was revoked: there are no buffers here any more.
    pub fn revoke(&mut self) {
        self.revoked = true;
        self.free.clear();
    }

    /// Whether a channel is in use.
    #[must_use]
    pub fn is_live(&self, channel: PoolChannel) -> bool {
        self.check_live(channel).is_ok()
    }

    /// Returns how often a buffer is lent, over all channels.
    #[must_use]
    pub fn lent(&self, buffer: u32) -> u32 {
        self.entries.get(buffer as usize).map_or(0, |entry| entry.lent)
    }

    /// Returns how often a buffer is lent over one channel.
    #[must_use]
    pub fn lent_over(&self, buffer: u32, channel: PoolChannel) -> u32 {
        let channel = self.channels.get(usize::from(channel.0));
        channel.and_then(|channel| channel.lent.get(buffer as usize)).copied().map_or(0, u32::from)
    }

    /// Returns the number of rights to read a buffer that are here.
    #[must_use]
    pub fn borrowed(&self, buffer: u32) -> u32 {
        self.entries.get(buffer as usize).map_or(0, |entry| entry.borrowed)
    }

    /// Whether the right to write a buffer is here, lent or not.
    #[must_use]
    pub fn is_local(&self, buffer: u32) -> bool {
        !self.revoked && self.entries.get(buffer as usize).is_some_and(|entry| entry.right == Right::Local)
    }

    /// Whether the right to write a buffer is beyond a channel.
    #[must_use]
    pub fn is_remote_over(&self, buffer: u32, channel: PoolChannel) -> bool {
        self.entries.get(buffer as usize).is_some_and(|entry| entry.right == Right::Remote(channel))
    }

    /// Counts the buffers in each state, in time proportional to their number.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { free: self.free.len() as u32, ..Counts::default() };
        if self.revoked {
            counts.away = self.layout.count();
            return counts;
        }
        for entry in &self.entries {
            match entry.right {
                Right::Local if entry.lent > 0 || entry.borrowed > 0 => counts.lent += 1,
                Right::Local if entry.held => counts.held += 1,
                Right::Local => {}
                Right::Remote(_) if entry.borrowed > 0 => counts.borrowed += 1,
                Right::Remote(_) => counts.away += 1,
            }
        }
        counts
    }

    fn check_not_revoked(&self) -> Result<(), TableError> {
        if self.revoked { Err(TableError::Revoked) } else { Ok(()) }
    }

    #[inline]
    fn check_live(&self, channel: PoolChannel) -> Result<(), TableError> {
        self.check_not_revoked()?;
        match self.channels.get(usize::from(channel.0)) {
            Some(entry) if entry.state == ChannelState::Live => Ok(()),
            _ => Err(TableError::NotOnChannel),
        }
    }

    #[inline]
    fn check_attached(&self, channel: PoolChannel) -> Result<(), TableError> {
        self.check_not_revoked()?;
        match self.channels.get(usize::from(channel.0)) {
            Some(entry) if matches!(entry.state, ChannelState::Live | ChannelState::Unassigning) => Ok(()),
            _ => Err(TableError::NotOnChannel),
        }
    }

    #[inline]
    fn entry(&self, buffer: u32) -> Result<&Entry, TableError> {
        self.check_not_revoked()?;
        let count = self.layout.count();
        self.entries.get(buffer as usize).ok_or(TableError::NoSuchBuffer { buffer, count })
    }

    #[inline]
    fn free_if_idle(&mut self, buffer: u32) {
        let entry = &self.entries[buffer as usize];
        if entry.right == Right::Local && !entry.held && (entry.lent, entry.borrowed) == (0, 0) {
            self.free.push(buffer);
        }
    }
}

impl ChannelEntry {
    fn new(layout: Layout, may_forward: bool) -> Self {
        let lent = vec![0; layout.count() as usize];
        ChannelEntry { state: ChannelState::Live, may_forward, remote_buffers: 0, lent, lent_total: 0 }
    }
}
