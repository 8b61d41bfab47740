//! Buffers in the hands of the program.

use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::{PoolChannel, TableError, Verb};
use tombolo_platform::copy::{self, Loop};

use crate::error::Error;

use super::content::Content;
use super::pool::{Inner, Pool, Return};
use crate::error::BulkError;

/// A buffer, or a right to read one, and which part of it is meant.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) pool: Arc<Inner>,
    pub(super) buffer: u32,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u64,
    pub(super) content: Content,
    /// Over which link it came, if it came.
    pub(super) from: Option<PoolChannel>,
    /// Whether this is a right to read that was lent to this domain.
    pub(super) is_borrowed: bool,
    /// Its right went over, so that nothing is to be done when it is dropped.
    pub(super) is_spent: bool,
}

impl Handle {
    pub(super) fn whole(pool: Arc<Inner>, buffer: u32, content: Content) -> Handle {
        let length_bytes = pool.layout.buffer_bytes();
        Handle {
            pool,
            buffer,
            offset_bytes: 0,
            length_bytes,
            content,
            from: None,
            is_borrowed: false,
            is_spent: false,
        }
    }

    pub(super) fn range(&self, offset_bytes: u64, length_bytes: usize) -> Result<usize, BulkError> {
        let length_bytes = length_bytes as u64;
        match offset_bytes.checked_add(length_bytes) {
            // What lies within a buffer that is mapped has an address.
            Some(end) if end <= self.length_bytes => Ok((self.offset_bytes + offset_bytes) as usize),
            _ => {
                let available_bytes = self.length_bytes;
                Err(BulkError::Range { offset_bytes, length_bytes, available_bytes })
            }
        }
    }

    /// Where the buffer begins in memory that others map, and that memory.
    pub(super) fn mapped(&self) -> Option<(&SharedMemory, usize)> {
        match &self.content {
            Content::Pool => {
                let memory = self.pool.memory.as_ref()?.memory();
                Some((memory, self.pool.layout.offset_bytes(self.buffer)? as usize))
            }
            Content::Open(open) => Some((open.memory(), 0)),
            _ => None,
        }
    }

    pub(super) fn read(&self, offset_bytes: u64, target: &mut [u8]) -> Result<(), Error> {
        let from = self.range(offset_bytes, target.len())?;
        match self.mapped() {
            Some((memory, start)) => {
                copy::read(Loop::Best, memory, start + from, target).map_err(BulkError::from)?;
                self.check()
            }
            None => {
                target.copy_from_slice(&self.content.bytes()?[from..][..target.len()]);
                Ok(())
            }
        }
    }

    fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
        let to = self.range(offset_bytes, source.len())?;
        match self.mapped() {
            Some((memory, start)) => {
                copy::write(Loop::Best, memory, start + to, source).map_err(BulkError::from)?;
                self.check()
            }
            None => {
                self.content.bytes_mut()?[to..][..source.len()].copy_from_slice(source);
                Ok(())
            }
        }
    }

    /// That the pool's memory was not taken away: what was read was the buffer's.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.pool.memory.as_ref().map_or(Ok(()), super::memory::PoolMemory::check)
    }

    pub(super) fn bytes(&self) -> Result<&[u8], Error> {
        let (from, to) = (self.offset_bytes as usize, (self.offset_bytes + self.length_bytes) as usize);
        Ok(&self.content.bytes()?[from..to])
    }

    pub(super) fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        let (from, to) = (self.offset_bytes as usize, (self.offset_bytes + self.length_bytes) as usize);
        Ok(&mut self.content.bytes_mut()?[from..to])
    }

    fn memory(&self) -> Option<SharedMemory> {
        let (memory, start) = self.mapped()?;
        // Buffers are of whole words. What does not begin at one cannot be had in words.
        let length_bytes = (self.length_bytes as usize).next_multiple_of(8);
        memory.slice(start + self.offset_bytes as usize, length_bytes).ok()
    }

    fn address(&self) -> Result<*const u8, Error> {
        match self.mapped() {
            Some((memory, start)) => {
                let first = memory.words().as_ptr().cast::<u8>();
                Ok(first.wrapping_add(start + self.offset_bytes as usize))
            }
            None => Ok(self.bytes()?.as_ptr()),
        }
    }

    fn address_mut(&mut self) -> Result<*mut u8, Error> {
        match &self.content {
            Content::Pool | Content::Open(_) => Ok(self.address()?.cast_mut()),
            _ => Ok(self.bytes_mut()?.as_mut_ptr()),
        }
    }

    fn narrow(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Error> {
        let available_bytes = self.pool.layout.buffer_bytes();
        if !self.pool.layout.holds(offset_bytes, length_bytes) {
            return Err(BulkError::Range { offset_bytes, length_bytes, available_bytes }.into());
        }
        (self.offset_bytes, self.length_bytes) = (offset_bytes, length_bytes);
        Ok(())
    }
}

/// Gives the buffer back to where it came from.
impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_spent {
            return;
        }
        let mut state = self.pool.lock();
        let buffer = self.buffer;
        let back = match (self.is_borrowed, self.from) {
            (true, Some(link)) if state.table.is_live(link) => Some((Verb::Release, link)),
            (true, _) => {
                // Lent on, it is forgotten with the last that comes back; no operation waits for it.
                let _ = state.table.forget(buffer);
                None
            }
            // What came from where the pool did is needed there.
            (false, Some(UPSTREAM)) if state.table.is_live(UPSTREAM) => Some((Verb::Pass, UPSTREAM)),
            (false, _) => {
                let _ = state.table.put(buffer);
                None
            }
        };
        if let Some((verb, link)) = back {
            self.pool.return_later(&mut state, Return { verb, buffer, link });
            drop(state);
            self.pool.dropped();
        }
    }
}

/// A buffer to read and write. No other domain has it.
///
/// One that is dropped is free again: at once where it was taken, and where it came from over a channel, with
/// the next operation on that channel.
#[derive(Debug)]
pub struct Buffer {
    pub(super) handle: Handle,
}

/// A buffer to read. Other domains may read it too, and none writes to it.
///
/// One that came over a channel is released when it is dropped, with the next operation on that channel. A
/// domain that shared a buffer of its own can [take it back](Self::reclaim) when all others have released it;
/// if it drops this, the buffer is free then.
#[derive(Debug)]
pub struct Shared {
    pub(super) handle: Handle,
}

/// An operation that did not happen, and what was to be sent or added.
pub struct NotSent<T> {
    /// Why not.
    pub error: Error,
    /// What is still this program's, unchanged.
    pub kept: T,
}

impl<T> NotSent<T> {
    pub(crate) fn new(error: Error, kept: T) -> Box<Self> {
        Box::new(NotSent { error, kept })
    }
}

impl<T> std::fmt::Debug for NotSent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NotSent").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> std::fmt::Display for NotSent<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for NotSent<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<T> From<Box<NotSent<T>>> for Error {
    fn from(not_sent: Box<NotSent<T>>) -> Error {
        not_sent.error
    }
}

impl<E, T> From<Box<NotSent<T>>> for tombolo_interface::Decline<E> {
    fn from(not_sent: Box<NotSent<T>>) -> Self {
        not_sent.error.into()
    }
}

macro_rules! reading {
    () => {
        /// How long the part that is meant is, in bytes: all of a buffer that was taken, what was sent of one
        /// that came.
        #[must_use]
        pub fn len_bytes(&self) -> u64 {
            self.handle.length_bytes
        }

        /// The pool that the buffer belongs to.
        #[must_use]
        pub fn pool(&self) -> Pool {
            Pool { inner: Arc::clone(&self.handle.pool) }
        }

        /// Which buffer of the pool it is, from 0.
        #[must_use]
        pub fn number(&self) -> u32 {
            self.handle.buffer
        }

        /// Copies bytes out, from `offset_bytes` of the part that is meant on.
        ///
        /// # Errors
        /// [`BulkError::Range`]; [`Error::Revoked`] when the pool was taken away: what `target` holds then
        /// means nothing.
        pub fn read(&self, offset_bytes: u64, target: &mut [u8]) -> Result<(), Error> {
            self.handle.read(offset_bytes, target)
        }

        /// The bytes themselves, of a pool without trust: the kernel keeps others from changing them.
        ///
        /// # Errors
        /// [`BulkError::Mapped`] for a pool with trust, whose memory others map.
        pub fn bytes(&self) -> Result<&[u8], Error> {
            self.handle.bytes()
        }

        /// The memory itself, of a pool with trust, to be read where it lies, in words, of which the last may
        /// reach beyond the part that is meant. None without trust, or where the part does not begin at a
        /// multiple of 8 bytes.
        ///
        /// It can be used for as long as it is kept, and means this buffer only until this is sent or
        /// dropped: that it is left alone from then on is what the ends of the channel trust each other with.
        #[must_use]
        pub fn memory(&self) -> Option<SharedMemory> {
            self.handle.memory()
        }

        /// Where the part that is meant is, to be read there, for code that takes addresses: until this is
        /// sent or dropped, and without trust until it is first written to. With trust others map it, and may
        /// write there at any time.
        ///
        /// # Errors
        /// Its memory was lost.
        pub fn as_ptr(&self) -> Result<*const u8, Error> {
            self.handle.address()
        }
    };
}

impl Buffer {
    pub(super) fn new(handle: Handle) -> Buffer {
        Buffer { handle }
    }

    reading!();

    /// Copies bytes in, from `offset_bytes` of the part that is meant on.
    ///
    /// # Errors
    /// [`BulkError::Range`]; [`Error::Revoked`]; without trust also what the kernel refused.
    pub fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
        self.handle.write(offset_bytes, source)
    }

    /// The bytes themselves, of a pool without trust: no other domain maps them.
    ///
    /// # Errors
    /// [`BulkError::Mapped`] for a pool with trust; what the kernel refused.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        self.handle.bytes_mut()
    }

    /// As [`as_ptr`](Self::as_ptr), to be written there too.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn as_mut_ptr(&mut self) -> Result<*mut u8, Error> {
        self.handle.address_mut()
    }

    /// Means this part of the buffer, from its beginning: what is read and written here from now on, and
    /// sent.
    ///
    /// # Errors
    /// [`BulkError::Range`].
    pub fn set_part(&mut self, offset_bytes: u64, length_bytes: u64) -> Result<(), Error> {
        self.handle.narrow(offset_bytes, length_bytes)
    }
}

impl Shared {
    pub(super) fn new(handle: Handle) -> Shared {
        Shared { handle }
    }

    reading!();

    /// Whether the buffer is of this domain, which shared it, and not of another, which shared it with this.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.handle.is_borrowed
    }

    /// How many others have not released it yet.
    #[must_use]
    pub fn shares(&self) -> u32 {
        self.handle.pool.lock().table.lent(self.handle.buffer)
    }

    /// The buffer to read and write again, when all others have released it.
    ///
    /// # Errors
    /// [`TableError::Shared`] while some have not, [`TableError::NotHeld`] if it is another domain's. What
    /// was shared comes back.
    pub fn reclaim(self) -> Result<Buffer, Box<NotSent<Shared>>> {
        let allowed = if self.handle.is_borrowed {
            Err(TableError::NotHeld(self.handle.buffer))
        } else {
            self.handle.pool.lock().table.may_write(self.handle.buffer)
        };
        match allowed {
            Ok(()) => {
                let mut buffer = Buffer::new(self.handle);
                // All of it is this domain's again.
                let whole = buffer.handle.pool.layout.buffer_bytes();
                (buffer.handle.offset_bytes, buffer.handle.length_bytes) = (0, whole);
                Ok(buffer)
            }
            Err(error) => Err(NotSent::new(BulkError::State(error).into(), self)),
        }
    }
}
