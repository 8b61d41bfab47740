//! Buffers owned by the program, and shared ones.

use std::sync::Arc;

use tombolo_base::SharedMemory;
use tombolo_bulk::table::UPSTREAM;
use tombolo_bulk::{PoolChannel, TableError, Verb};
use tombolo_platform::copy::{self, CopyLoop};

use crate::error::Error;

use super::content::Content;
use super::pool::{Inner, PendingReturn, Pool};
use crate::error::BulkError;

/// Right to a buffer (to read and write, or only to read) and the selected part of it.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) pool: Arc<Inner>,
    pub(super) buffer: u32,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u64,
    pub(super) content: Content,
    /// Link over which the right arrived, if it came from a peer.
    pub(super) from: Option<PoolChannel>,
    /// Whether this is a read right that another domain shared.
    pub(super) is_borrowed: bool,
    /// Set once the right was transferred: drop then does nothing.
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
            // Offsets within a mapped buffer fit an address.
            Some(end) if end <= self.length_bytes => Ok((self.offset_bytes + offset_bytes) as usize),
            _ => {
                let available_bytes = self.length_bytes;
                Err(BulkError::Range { offset_bytes, length_bytes, available_bytes })
            }
        }
    }

    /// Returns the shared memory that holds the buffer and the buffer's offset in it.
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
                copy::read(CopyLoop::Best, memory, start + from, target).map_err(BulkError::from)?;
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
                copy::write(CopyLoop::Best, memory, start + to, source).map_err(BulkError::from)?;
                self.check()
            }
            None => {
                self.content.bytes_mut()?[to..][..source.len()].copy_from_slice(source);
                Ok(())
            }
        }
    }

    /// Fails if the pool's memory was revoked: the bytes just read are then not the buffer's.
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
        // A buffer is a whole number of words; a part that does not begin at a word has no word view.
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

/// Returns the buffer to the domain that it came from.
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
                // If it was shared further, the entry is dropped when the last of these shares is released.
                let _ = state.table.drop_borrowed(buffer);
                None
            }
            // A buffer that came from the domain that assigned the pool goes back there.
            (false, Some(UPSTREAM)) if state.table.is_live(UPSTREAM) => Some((Verb::Pass, UPSTREAM)),
            (false, _) => {
                let _ = state.table.free(buffer);
                None
            }
        };
        if let Some((verb, link)) = back {
            self.pool.return_later(&mut state, PendingReturn { verb, buffer, link });
            drop(state);
            self.pool.dropped();
        }
    }
}

/// Buffer that this domain alone may read and write.
///
/// Dropping it frees it: immediately in the domain that took it from the pool, and with the next operation on
/// the channel if it arrived over one.
#[derive(Debug)]
pub struct Buffer {
    pub(super) handle: Handle,
}

/// Read-only buffer. Other domains may read it as well; none can write to it.
///
/// Dropping one that arrived over a channel releases it with the next operation on that channel. A domain
/// that shared its own buffer can [reclaim](Self::reclaim) it once all others have released it; if it drops
/// this handle instead, the buffer becomes free at that point.
#[derive(Debug)]
pub struct Shared {
    pub(super) handle: Handle,
}

/// Error of an operation that was not performed; returns the value that was to be sent or added.
pub struct NotSent<T> {
    /// Reason for the failure.
    pub error: Error,
    /// The value, unchanged and still owned by the caller.
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
        /// Length of the selected part, in bytes: the whole buffer after a take, the part that was sent for a
        /// buffer that arrived.
        #[must_use]
        pub fn len_bytes(&self) -> u64 {
            self.handle.length_bytes
        }

        /// Returns the pool that the buffer belongs to.
        #[must_use]
        pub fn pool(&self) -> Pool {
            Pool { inner: Arc::clone(&self.handle.pool) }
        }

        /// Index of the buffer in its pool, from 0.
        #[must_use]
        pub fn number(&self) -> u32 {
            self.handle.buffer
        }

        /// Copies bytes from `offset_bytes` within the selected part into `target`.
        ///
        /// # Errors
        /// [`BulkError::Range`]; [`Error::Revoked`] if the pool was revoked: the contents of `target` are
        /// then undefined.
        pub fn read(&self, offset_bytes: u64, target: &mut [u8]) -> Result<(), Error> {
            self.handle.read(offset_bytes, target)
        }

        /// Returns the bytes in place, for a pool without trust: the kernel prevents other domains from
        /// changing them.
        ///
        /// # Errors
        /// [`BulkError::Mapped`] for a pool with trust, whose memory other domains map.
        pub fn bytes(&self) -> Result<&[u8], Error> {
            self.handle.bytes()
        }

        /// Returns the memory of the selected part, for a pool with trust, to be read in place as words; the
        /// last word may extend past the part. Returns `None` without trust, or if the part does not begin at
        /// a multiple of 8 bytes.
        ///
        /// The memory stays mapped while the returned value exists, but belongs to this buffer only until the
        /// buffer is sent or dropped. The ends of the channel trust each other not to access it after that.
        #[must_use]
        pub fn memory(&self) -> Option<SharedMemory> {
            self.handle.memory()
        }

        /// Returns the address of the selected part, for reading, for code that takes addresses. It is valid
        /// until the buffer is sent or dropped, and without trust only until the first write to the buffer.
        /// With trust other domains map the memory and may write to it at any time.
        ///
        /// # Errors
        /// An error if the memory of the buffer was lost.
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

    /// Copies `source` into the buffer at `offset_bytes` within the selected part.
    ///
    /// # Errors
    /// [`BulkError::Range`]; [`Error::Revoked`]; without trust also errors of the kernel.
    pub fn write(&mut self, offset_bytes: u64, source: &[u8]) -> Result<(), Error> {
        self.handle.write(offset_bytes, source)
    }

    /// Returns the bytes in place for writing, for a pool without trust: no other domain maps them.
    ///
    /// # Errors
    /// [`BulkError::Mapped`] for a pool with trust; errors of the kernel.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        self.handle.bytes_mut()
    }

    /// Like [`as_ptr`](Self::as_ptr), for writing as well.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn as_mut_ptr(&mut self) -> Result<*mut u8, Error> {
        self.handle.address_mut()
    }

    /// Selects a part of the buffer, with the offset counted from the beginning of the buffer. Subsequent
    /// reads, writes and sends apply to this part.
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

    /// Whether this domain shared the buffer, rather than another domain with this one.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.handle.is_borrowed
    }

    /// Number of domains that have not released the buffer yet.
    #[must_use]
    pub fn shares(&self) -> u32 {
        self.handle.pool.lock().table.lent(self.handle.buffer)
    }

    /// Turns the shared buffer back into a writable one, once all others have released it.
    ///
    /// # Errors
    /// [`TableError::Shared`] while others still hold it, [`TableError::NotHeld`] if it belongs to another
    /// domain. The shared buffer is returned with the error.
    pub fn reclaim(self) -> Result<Buffer, Box<NotSent<Shared>>> {
        let allowed = if self.handle.is_borrowed {
            Err(TableError::NotHeld(self.handle.buffer))
        } else {
            self.handle.pool.lock().table.may_write(self.handle.buffer)
        };
        match allowed {
            Ok(()) => {
                let mut buffer = Buffer::new(self.handle);
                // The whole buffer is selected again.
                let whole = buffer.handle.pool.layout.buffer_bytes();
                (buffer.handle.offset_bytes, buffer.handle.length_bytes) = (0, whole);
                Ok(buffer)
            }
            Err(error) => Err(NotSent::new(BulkError::State(error).into(), self)),
        }
    }
}
