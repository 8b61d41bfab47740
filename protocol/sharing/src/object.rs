//! End of a shared object at one rank.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use tombolo_base::OutOfRange;
use tombolo_directory::{Rank, Ranks};

use crate::controller::Controller;
use crate::layout::{CHUNK_BYTES, Caching, Layout};
use crate::memory::Memory;

/// Number of low bits of a lock word that hold the activity of its rank; the ticket is above them.
const KIND_BITS: u32 = 8;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

/// The rank does not need the object.
const IDLE: u64 = 0;
/// The rank is searching for the highest ticket.
const CHOOSING: u64 = 1;
/// The rank reads, or waits to read.
const READING: u64 = 2;
/// The rank waits to write.
const WRITE_PENDING: u64 = 3;
/// The rank has the object and writes.
const WRITING: u64 = 4;
/// The rank destroyed the object.
const DESTROYED: u64 = 5;

/// Maximum ticket. Tickets increase by one with each contended acquisition, so it is never reached in
/// practice.
const MAX_TICKET: u64 = u64::MAX >> KIND_BITS;

/// Version of a chunk that a rank has not fetched. No object is written that often.
const NOT_FETCHED: u64 = u64::MAX;

/// Purpose of an acquisition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Reading, together with other ranks.
    Read,
    /// Writing, exclusively.
    Write,
    /// Overwriting all of it, exclusively, after a writer died.
    Repair,
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is more to do.
    Working,
    /// Blocked by the lock word of this rank. The next step reads it again.
    Waiting(Rank),
    /// The rank has acquired the object.
    Held,
    /// These ranks died while writing, and no rank has repaired the object. The lock is still taken:
    /// [withdraw](Object::withdraw) next.
    Abandoned(Ranks),
    /// The rank does not have the object.
    Idle,
}

/// Reason why a step or an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Fault {
    /// The memory ends too early, or an access lies beyond the end of an object.
    #[error("{0}")]
    Memory(OutOfRange),
    /// The header contains impossible numbers.
    #[error("the object at offset {at_bytes} has an invalid header: a rank has overwritten it")]
    BadHeader { at_bytes: usize },
    /// There is no object, or another one.
    #[error("there is no object {id} at offset {at_bytes}: it was destroyed, or is of another job")]
    NoSuchObject { at_bytes: usize, id: u64 },
    /// The object has another type.
    #[error(
        "the object at offset {at_bytes} has data of another type, or ranks are built from other sources"
    )]
    OtherType { at_bytes: usize },
    /// The lock word is invalid.
    #[error("rank {rank} has written an invalid lock word; the object can no longer be acquired")]
    BadLock { rank: u8 },
    /// The object was destroyed.
    #[error("rank {by} has destroyed the object")]
    Destroyed { by: u8 },
    /// The rank does not have the object, or only for reading.
    #[error("the object is accessed without a guard that allows it")]
    NotHeld,
}

impl From<OutOfRange> for Fault {
    fn from(error: OutOfRange) -> Fault {
        Fault::Memory(error)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    Announce,
    Choose(usize),
    TakeTicket,
    CheckLock(usize),
    Repaired,
    Mark,
    Compare,
    RaiseFirst(usize),
    Fetch,
    Held,
    Publish,
    RaiseLast(usize),
    MarkRepaired,
    Unlock,
}

/// End of a shared object at one rank, with the controller `K`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Object<K> {
    layout: Layout,
    me: usize,
    controller: K,
    caching: Caching,
    phase: Phase,
    access: Access,
    /// Highest ticket that was seen, and afterwards the own one.
    ticket: u64,
    /// Ranks that have ended while they held the object.
    died: Ranks,
    /// Version in the controller's line when it was last read.
    version: u64,
    /// Version of the copy.
    fetched_version: Option<u64>,
    copy: Vec<u8>,
    /// Version of each chunk of the copy.
    chunks: Vec<u64>,
    dirty: Vec<bool>,
    modified: bool,
}

impl<K: Controller> Object<K> {
    /// Creates the end of rank `me`, which has no copy yet.
    ///
    /// # Panics
    /// Panics if `me` is not below the number of ranks.
    #[must_use]
    pub fn new(layout: Layout, me: Rank, controller: K, caching: Caching) -> Self {
        let me = usize::from(me.0);
        assert!(me < layout.ranks(), "rank {me} of {}", layout.ranks());
        let copied = if caching == Caching::Uncached { 0 } else { layout.length_bytes() };
        let chunks = copied.div_ceil(CHUNK_BYTES);
        Object {
            layout,
            me,
            controller,
            caching,
            phase: Phase::Idle,
            access: Access::Read,
            ticket: 0,
            died: Ranks::NONE,
            version: 0,
            fetched_version: None,
            copy: vec![0; copied],
            chunks: vec![NOT_FETCHED; chunks],
            dirty: vec![false; chunks],
            modified: false,
        }
    }

    /// Returns the memory layout of the object.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the method by which its data is accessed.
    #[must_use]
    pub fn caching(&self) -> Caching {
        self.caching
    }

    /// Returns the purpose for which the rank has the object, if it has it.
    #[must_use]
    pub fn held(&self) -> Option<Access> {
        (self.phase == Phase::Held).then_some(self.access)
    }

    /// Returns the access that excludes other ranks: writers if this rank reads, and all if it writes. For
    /// checks of the protocol.
    #[doc(hidden)]
    #[must_use]
    pub fn excludes(&self) -> Option<Access> {
        use Phase::{Announce, CheckLock, Choose, Idle, TakeTicket};
        let is_outside = matches!(self.phase, Idle | Announce | Choose(_) | TakeTicket | CheckLock(_));
        (!is_outside).then_some(self.access)
    }

    /// Starts to acquire the object, which the rank must not have. [Steps](Self::step) must follow.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] when it already has it, or is acquiring it.
    pub fn acquire(&mut self, access: Access) -> Result<(), Fault> {
        if self.phase != Phase::Idle {
            return Err(Fault::NotHeld);
        }
        (self.access, self.phase) = (access, Phase::Announce);
        (self.ticket, self.died, self.modified) = (0, Ranks::NONE, false);
        Ok(())
    }

    /// Starts to release the object. [Steps](Self::step) must follow, until the last.
    ///
    /// # Errors
    /// [`Fault::NotHeld`].
    pub fn release(&mut self) -> Result<(), Fault> {
        if self.phase != Phase::Held {
            return Err(Fault::NotHeld);
        }
        if self.access == Access::Repair {
            self.dirty.fill(true);
            self.modified = true;
        }
        self.phase = if self.access == Access::Read { Phase::Unlock } else { Phase::Publish };
        Ok(())
    }

    /// Abandons an acquisition whose deadline passed, one of an abandoned object, or writes to the copy that
    /// were not published yet. Other ranks see nothing of them, unless they were written through.
    ///
    /// # Errors
    /// [`Fault::Memory`].
    pub fn withdraw(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        if self.dirty.contains(&true) {
            // Only the copy contains it.
            self.chunks.fill(NOT_FETCHED);
            self.fetched_version = None;
            self.dirty.fill(false);
        }
        if self.phase != Phase::Idle {
            self.phase = Phase::Unlock;
            self.step(memory, Ranks::NONE)?;
        }
        Ok(())
    }

    /// Destroys the object, which the rank must have for writing: no rank can acquire it from now on. Its
    /// lines remain in use; the memory of its data is free.
    ///
    /// # Errors
    /// [`Fault::NotHeld`], [`Fault::Memory`].
    pub fn destroy(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        if self.phase != Phase::Held || self.access == Access::Read {
            return Err(Fault::NotHeld);
        }
        self.phase = Phase::Idle;
        Ok(memory.store(self.lock(self.me), DESTROYED)?)
    }

    fn lock(&self, rank: usize) -> usize {
        self.layout.line(self.layout.lock(rank))
    }

    /// Performs the next step. `gone` are the ranks that are known to have ended and must not be waited for.
    ///
    /// # Errors
    /// [`Fault`]; the caller must [withdraw](Self::withdraw).
    pub fn step(&mut self, memory: &dyn Memory, gone: Ranks) -> Result<Step, Fault> {
        self.phase = match self.phase {
            Phase::Idle => return Ok(Step::Idle),
            Phase::Announce => {
                memory.store(self.lock(self.me), CHOOSING)?;
                Phase::Choose(0)
            }
            Phase::Choose(rank) if rank < self.layout.ranks() => {
                let ticket = memory.load(self.lock(rank))? >> KIND_BITS;
                self.ticket = self.ticket.max(ticket);
                if self.ticket == MAX_TICKET {
                    return Err(Fault::BadLock { rank: rank as u8 });
                }
                Phase::Choose(rank + 1)
            }
            Phase::Choose(_) => Phase::TakeTicket,
            Phase::TakeTicket => {
                self.ticket += 1;
                let kind = if self.access == Access::Read { READING } else { WRITE_PENDING };
                memory.store(self.lock(self.me), self.ticket << KIND_BITS | kind)?;
                Phase::CheckLock(0)
            }
            Phase::CheckLock(rank) if rank < self.layout.ranks() => {
                if self.is_blocked_by(memory, rank, gone)? {
                    return Ok(Step::Waiting(Rank(rank as u8)));
                }
                Phase::CheckLock(rank + 1)
            }
            Phase::CheckLock(_) if !self.died.is_empty() => Phase::Repaired,
            Phase::CheckLock(_) => Phase::Mark,
            Phase::Repaired => {
                let repaired = Ranks(memory.load(self.layout.line(self.layout.state()) + 8)?);
                let died = Ranks(self.died.0 & !repaired.0);
                if !died.is_empty() && self.access != Access::Repair {
                    return Ok(Step::Abandoned(died));
                }
                self.died = self.died.union(repaired);
                Phase::Mark
            }
            Phase::Mark => {
                if self.access != Access::Read {
                    memory.store(self.lock(self.me), self.ticket << KIND_BITS | WRITING)?;
                }
                if self.caching == Caching::Uncached { Phase::Held } else { Phase::Compare }
            }
            Phase::Compare => {
                let line = self.controller.version_line(&self.layout, self.me);
                self.version = memory.load(self.layout.line(line))?;
                self.phase_after_first_raise(0)
            }
            Phase::RaiseFirst(index) => {
                let lines = self.controller.raised_at_acquire(&self.layout);
                self.raise(memory, lines, index)?;
                self.phase_after_first_raise(index + 1)
            }
            Phase::Fetch => {
                self.fetch(memory)?;
                Phase::Held
            }
            Phase::Held => return Ok(Step::Held),
            Phase::Publish => {
                self.publish(memory)?;
                self.phase_after_last_raise(0)
            }
            Phase::RaiseLast(index) => {
                let lines = self.controller.raised_at_release(&self.layout, self.modified);
                self.raise(memory, lines, index)?;
                self.phase_after_last_raise(index + 1)
            }
            Phase::MarkRepaired => {
                memory.store(self.layout.line(self.layout.state()) + 8, self.died.0)?;
                Phase::Unlock
            }
            Phase::Unlock => {
                memory.store(self.lock(self.me), IDLE)?;
                self.phase = Phase::Idle;
                return Ok(Step::Idle);
            }
        };
        Ok(if self.phase == Phase::Held { Step::Held } else { Step::Working })
    }

    /// Whether `rank` has the object, or comes first. Records writers that have died.
    fn is_blocked_by(&mut self, memory: &dyn Memory, rank: usize, gone: Ranks) -> Result<bool, Fault> {
        if rank == self.me {
            return Ok(false);
        }
        let word = memory.load(self.lock(rank))?;
        let (ticket, kind) = (word >> KIND_BITS, word & KIND_MASK);
        let is_gone = gone.contains(Rank(rank as u8));
        let comes_first = (ticket, rank) < (self.ticket, self.me);
        Ok(match kind {
            IDLE => false,
            WRITING if is_gone => {
                self.died.add(Rank(rank as u8));
                false
            }
            WRITING => true,
            CHOOSING => !is_gone,
            READING => !is_gone && comes_first && self.access != Access::Read,
            WRITE_PENDING => !is_gone && comes_first,
            DESTROYED => return Err(Fault::Destroyed { by: rank as u8 }),
            _ => return Err(Fault::BadLock { rank: rank as u8 }),
        })
    }

    /// Returns the version that this acquisition writes.
    fn next_version(&self) -> u64 {
        self.version.saturating_add(1)
    }

    fn raise(&self, memory: &dyn Memory, lines: Range<usize>, index: usize) -> Result<(), Fault> {
        Ok(memory.store(self.layout.line(lines.start + index), self.next_version())?)
    }

    /// Returns the next phase of an acquisition after `raised` lines were raised.
    fn phase_after_first_raise(&mut self, raised: usize) -> Phase {
        let lines = self.controller.raised_at_acquire(&self.layout);
        if self.access != Access::Read && raised < lines.len() {
            return Phase::RaiseFirst(raised);
        }
        if self.fetched_version == Some(self.version) && self.access != Access::Repair {
            return Phase::Held;
        }
        Phase::Fetch
    }

    /// Returns the next phase of a release after `raised` lines were raised.
    fn phase_after_last_raise(&mut self, raised: usize) -> Phase {
        let last = self.controller.raised_at_release(&self.layout, self.modified);
        if self.caching != Caching::Uncached && raised < last.len() {
            return Phase::RaiseLast(raised);
        }
        let first = self.controller.raised_at_acquire(&self.layout);
        if !last.is_empty() || !first.is_empty() {
            self.fetched_version = Some(self.next_version());
        }
        if self.access == Access::Repair { Phase::MarkRepaired } else { Phase::Unlock }
    }

    /// Fetches the chunks whose version differs from that of the copy.
    fn fetch(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        let mut versions = vec![0; self.chunks.len() * 8];
        memory.get(self.layout.versions(), &mut versions)?;
        let data = self.layout.data();
        for (index, version) in versions.as_chunks::<8>().0.iter().enumerate() {
            let version = u64::from_le_bytes(*version);
            if version != self.chunks[index] || self.access == Access::Repair {
                let range = chunk(index, self.copy.len());
                memory.get(data + range.start, &mut self.copy[range])?;
                self.chunks[index] = version;
            }
        }
        self.fetched_version = Some(self.version);
        Ok(())
    }

    /// Publishes the written chunks, unless they were written through, and their versions.
    fn publish(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        let version = self.next_version();
        for index in (0..self.dirty.len()).filter(|index| self.dirty[*index]) {
            if self.caching == Caching::Cached || self.access == Access::Repair {
                let range = chunk(index, self.copy.len());
                memory.put(self.layout.data() + range.start, &self.copy[range])?;
            }
            memory.store(self.layout.versions() + 8 * index, version)?;
            self.chunks[index] = version;
        }
        self.dirty.fill(false);
        Ok(())
    }

    /// Returns the copy of the data, if the rank has the object and its data is copied.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        (self.phase == Phase::Held && self.caching != Caching::Uncached).then_some(&*self.copy)
    }

    /// Reads bytes of the object from `offset_bytes` on.
    ///
    /// # Errors
    /// [`Fault::NotHeld`], or [`Fault::Memory`] when the bytes lie beyond its end.
    #[inline]
    pub fn read(&self, memory: &dyn Memory, offset_bytes: usize, target: &mut [u8]) -> Result<(), Fault> {
        if self.phase != Phase::Held {
            return Err(Fault::NotHeld);
        }
        let range = self.range(offset_bytes, target.len())?;
        if self.caching != Caching::Uncached {
            target.copy_from_slice(&self.copy[range]);
            return Ok(());
        }
        let (start, words) = self.words(&range);
        with_buffer(words, |room| {
            memory.get(start, room)?;
            let skipped = self.layout.data() + range.start - start;
            target.copy_from_slice(&room[skipped..skipped + target.len()]);
            Ok(())
        })
    }

    /// Writes bytes of the object from `offset_bytes` on.
    ///
    /// # Errors
    /// Same as [`read`](Self::read), or [`Fault::NotHeld`] if the rank has it only for reading.
    #[inline]
    pub fn write(&mut self, memory: &dyn Memory, offset_bytes: usize, source: &[u8]) -> Result<(), Fault> {
        if self.phase != Phase::Held || self.access == Access::Read {
            return Err(Fault::NotHeld);
        }
        let range = self.range(offset_bytes, source.len())?;
        self.modified = true;
        if self.caching != Caching::Uncached && !source.is_empty() {
            self.copy[range.clone()].copy_from_slice(source);
            self.dirty[range.start / CHUNK_BYTES..=(range.end - 1) / CHUNK_BYTES].fill(true);
        }
        if self.caching == Caching::Cached {
            return Ok(());
        }
        let (start, words) = self.words(&range);
        with_buffer(words, |room| {
            if room.len() != source.len() {
                memory.get(start, room)?;
            }
            let skipped = self.layout.data() + range.start - start;
            room[skipped..skipped + source.len()].copy_from_slice(source);
            Ok(memory.put(start, room)?)
        })
    }

    fn range(&self, offset_bytes: usize, length_bytes: usize) -> Result<Range<usize>, Fault> {
        let available_bytes = self.layout.length_bytes();
        let end = offset_bytes.checked_add(length_bytes).filter(|end| *end <= available_bytes);
        let end = end.ok_or(OutOfRange { offset_bytes, length_bytes, available_bytes })?;
        Ok(offset_bytes..end)
    }

    /// Returns the whole words in memory that contain a range of the data: offset and length in bytes.
    fn words(&self, range: &Range<usize>) -> (usize, usize) {
        let start = range.start - range.start % 8;
        (self.layout.data() + start, range.end.next_multiple_of(8) - start)
    }
}

/// Returns the byte range of a chunk.
fn chunk(index: usize, length_bytes: usize) -> Range<usize> {
    index * CHUNK_BYTES..((index + 1) * CHUNK_BYTES).min(length_bytes)
}

/// Provides a buffer of `length_bytes`, on the stack for single values.
fn with_buffer<R>(length_bytes: usize, action: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut small = [0; 64];
    match small.get_mut(..length_bytes) {
        Some(room) => action(room),
        None => action(&mut vec![0; length_bytes]),
    }
}
