//! Accesses of the protocol to memory.

use tombolo_base::sync::{Ordering, fence};
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};
use tombolo_onesided::{get, put};

/// Memory that several ranks map, as seen by one of them. Offsets are in bytes, multiples of eight.
pub trait Memory {
    /// Returns the total length, in bytes.
    fn len_bytes(&self) -> usize;

    /// Loads a word, as other ranks last wrote it back. No earlier store of this rank is ordered after it.
    ///
    /// # Errors
    /// [`OutOfRange`].
    fn load(&self, offset_bytes: usize) -> Result<u64, OutOfRange>;

    /// Stores a word, after everything that this rank stored before. The rest of its line is unchanged for
    /// other ranks.
    ///
    /// # Errors
    /// [`OutOfRange`].
    fn store(&self, offset_bytes: usize, value: u64) -> Result<(), OutOfRange>;

    /// Same as [`tombolo_onesided::get`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    fn get(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange>;

    /// Same as [`tombolo_onesided::put`].
    ///
    /// # Errors
    /// [`OutOfRange`].
    fn put(&self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange>;
}

impl<C: CacheMaintenance> Memory for SharedMemory<C> {
    fn len_bytes(&self) -> usize {
        SharedMemory::len_bytes(self)
    }

    fn load(&self, offset_bytes: usize) -> Result<u64, OutOfRange> {
        let word = self.slice(offset_bytes, 8)?;
        Ok(word.load_current_le(0, Ordering::SeqCst))
    }

    fn store(&self, offset_bytes: usize, value: u64) -> Result<(), OutOfRange> {
        let word = self.slice(offset_bytes, 8)?;
        // Ranks take turns at writing some lines, and a line is written back whole.
        word.invalidate(0..1);
        word.store_through_le(0, value, Ordering::SeqCst);
        // The bakery stores its own word and then loads those of others.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn get(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange> {
        get(self, offset_bytes, target)
    }

    fn put(&self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange> {
        put(self, offset_bytes, source)
    }
}
