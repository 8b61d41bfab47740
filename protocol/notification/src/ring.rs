//! Ring of channel ids, from one sender to one receiver.
//!
//! A notification is a single word: the id of the channel and the number of the notification, by which the
//! receiver recognizes a new word. So it is never torn on any memory, and needs no flag beside it. The
//! receiver acknowledges with a flag, after each half of the ring.
//!
//! A channel that is notified twice is in the ring twice. A full ring refuses: the sender has to notify again
//! later, unless the receiver has read the message by itself meanwhile.

use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, LINE_BYTES, OutOfRange, SharedMemory};
use tombolo_onesided::{FlagReader, FlagWriter};

use crate::Broken;

/// Maximum number of notifications in a ring.
pub const MAX_ENTRIES: usize = 1 << 16;

/// Number of bits of a word that hold the channel.
const CHANNEL_BITS: u32 = 16;

/// Layout of a ring. All of it must be zero initially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    entries: usize,
}

impl Layout {
    /// Computes the layout of a ring of `entries` notifications: a multiple of 16, up to [`MAX_ENTRIES`].
    #[must_use]
    pub fn new(entries: usize) -> Option<Layout> {
        let fits = (16..=MAX_ENTRIES).contains(&entries) && entries.is_multiple_of(16);
        fits.then_some(Layout { entries })
    }

    /// Returns the total length, with the flag, in bytes.
    #[must_use]
    pub fn total_bytes(self) -> usize {
        LINE_BYTES + self.entries * 8
    }
}

/// Reason why a notification was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotifyError {
    /// The receiver has not taken enough of the earlier ones.
    #[error("the receiver's ring is full")]
    Full,
    /// The receiver violates the protocol.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Returns the word of a notification: never zero, the initial value of a ring.
fn word(position: u64, channel: u16) -> u64 {
    (position + 1) << CHANNEL_BITS | u64::from(channel)
}

/// Notifying end of a ring. There must be only one.
#[derive(Debug)]
pub struct Sender<C: CacheMaintenance> {
    words: SharedMemory<C>,
    taken: FlagReader<C>,
    entries: u64,
    position: u64,
    released: u64,
}

impl<C: CacheMaintenance> Sender<C> {
    /// Creates the notifying end of the unused ring in `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout) -> Result<Self, OutOfRange> {
        let words = memory.slice(LINE_BYTES, layout.entries * 8)?;
        let (taken, entries) = (FlagReader::new(memory, 0)?, layout.entries as u64);
        Ok(Sender { words, taken, entries, position: 0, released: 0 })
    }

    /// Notifies the receiver of a channel. Earlier writes of this side are visible when it sees the
    /// notification.
    ///
    /// # Errors
    /// [`NotifyError`]; nothing was written.
    pub fn try_notify(&mut self, channel: u16) -> Result<(), NotifyError> {
        if self.position - self.released == self.entries {
            let (taken, sent, before) = (self.taken.latest(), self.position, self.released);
            if taken < before || taken > sent {
                return Err(Broken::Taken { taken, sent, before }.into());
            }
            self.released = taken;
            if sent - taken == self.entries {
                return Err(NotifyError::Full);
            }
        }
        let index = (self.position % self.entries) as usize;
        self.words.store_through_le(index, word(self.position, channel), Ordering::Release);
        self.position += 1;
        Ok(())
    }
}

/// Notified end of a ring. There must be only one.
#[derive(Debug)]
pub struct Receiver<C: CacheMaintenance> {
    words: SharedMemory<C>,
    taken: FlagWriter<C>,
    entries: u64,
    position: u64,
}

impl<C: CacheMaintenance> Receiver<C> {
    /// Creates the notified end, like [`Sender::new`].
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory is shorter than the layout.
    pub fn new(memory: &SharedMemory<C>, layout: Layout) -> Result<Self, OutOfRange> {
        let words = memory.slice(LINE_BYTES, layout.entries * 8)?;
        let (taken, entries) = (FlagWriter::new(memory, 0)?, layout.entries as u64);
        Ok(Receiver { words, taken, entries, position: 0 })
    }

    /// Takes the channel of the next notification, if there is one.
    ///
    /// # Errors
    /// [`Broken`] when the sender violates the protocol.
    pub fn take(&mut self) -> Result<Option<u16>, Broken> {
        let index = (self.position % self.entries) as usize;
        let found = self.words.load_current_le(index, Ordering::Acquire);
        let channel = found as u16;
        if found != word(self.position, channel) {
            let ahead = (found >> CHANNEL_BITS).saturating_sub(self.position + 1);
            if ahead > 0 {
                return Err(Broken::Sent { ahead, capacity: self.entries });
            }
            self.release();
            return Ok(None);
        }
        self.position += 1;
        if self.position - self.taken.raised() >= self.entries / 2 {
            self.release();
        }
        Ok(Some(channel))
    }

    /// Acknowledges all notifications that were taken.
    fn release(&mut self) {
        let count = self.position - self.taken.raised();
        if count > 0 {
            self.taken.raise_by(count);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tombolo_base::Coherent;

    fn pair(entries: usize) -> (SharedMemory, Sender<Coherent>, Receiver<Coherent>) {
        let layout = Layout::new(entries).unwrap();
        let memory = SharedMemory::zeroed(layout.total_bytes());
        let (sender, receiver) = (Sender::new(&memory, layout), Receiver::new(&memory, layout));
        (memory, sender.unwrap(), receiver.unwrap())
    }

    #[test]
    fn notifications_arrive_in_order_and_a_full_ring_refuses() {
        let (_, mut sender, mut receiver) = pair(16);
        for round in 0..5_u16 {
            for index in 0..16 {
                sender.try_notify(round * 16 + index).unwrap();
            }
            assert_eq!(sender.try_notify(9), Err(NotifyError::Full));
            for index in 0..16 {
                assert_eq!(receiver.take(), Ok(Some(round * 16 + index)));
            }
            assert_eq!(receiver.take(), Ok(None));
        }
        assert_eq!(sender.try_notify(u16::MAX), Ok(()));
        assert_eq!(receiver.take(), Ok(Some(u16::MAX)));
    }

    #[test]
    fn invalid_peer_words_are_refused() {
        let (memory, mut sender, mut receiver) = pair(16);
        memory.words()[LINE_BYTES / 8].store(word(16, 3).to_le(), Ordering::Relaxed);
        assert_eq!(receiver.take(), Err(Broken::Sent { ahead: 16, capacity: 16 }));
        memory.words()[7].store(17_u64.to_le(), Ordering::Relaxed);
        let refused = (0..17).find_map(|_| sender.try_notify(1).err());
        assert_eq!(refused, Some(Broken::Taken { taken: 17, sent: 16, before: 0 }.into()));
        for entries in [0, 8, 17, MAX_ENTRIES + 16] {
            assert_eq!(Layout::new(entries), None);
        }
    }
}
