//! Tree of bits, from one sender to one receiver: a bit for each channel, in leaves of 256, and a bit in the
//! root for each leaf. A notification never fails, and a channel that is notified again before it was taken
//! costs nothing more.
//!
//! Barrelfish's senders set bits and its receiver clears them, under a lock. Here each side has a tree that
//! only it writes, and a bit is set where the two differ: the sender flips its bit, the receiver copies it.
//!
//! # Why nothing is missed
//! A sender that finds a bit already set does not flip it, and relies on the receiver to look later. The
//! receiver copies the bit, fences, and then reads the data; the sender writes the data, fences, and then
//! loads the receiver's bit. If the sender found the receiver's bit unchanged, its load came before the
//! receiver's store, and so the receiver's later read finds the data. That holds for a channel's bit and its
//! messages, and for a leaf's bit in the root and the leaf.

use alloc::vec::Vec;

use tombolo_base::sync::{Ordering, fence};
use tombolo_base::{CacheMaintenance, LINE_BYTES, OutOfRange, SharedMemory};

/// Number of words of a tree node: 256 bits.
const NODE_WORDS: usize = 4;

/// Number of leaves of a tree. As in the paper, one bit of the root is unused.
const LEAVES: usize = 255;

/// Number of channels of a tree.
pub const CHANNELS: usize = LEAVES * 256;

/// Size of one side's tree, in bytes: the root in a line of its own, then the leaves.
const SIDE_BYTES: usize = LINE_BYTES + (LEAVES * NODE_WORDS * 8).next_multiple_of(LINE_BYTES);

/// Size of the trees of both sides, in bytes. All of it must be zero initially.
pub const TOTAL_BYTES: usize = 2 * SIDE_BYTES;

/// Tree of one side.
#[derive(Debug)]
struct Side<C: CacheMaintenance> {
    root: SharedMemory<C>,
    leaves: SharedMemory<C>,
}

impl<C: CacheMaintenance> Side<C> {
    fn new(memory: &SharedMemory<C>, side: usize) -> Result<Self, OutOfRange> {
        let root = memory.slice(side * SIDE_BYTES, NODE_WORDS * 8)?;
        let leaves = memory.slice(side * SIDE_BYTES + LINE_BYTES, LEAVES * NODE_WORDS * 8)?;
        Ok(Side { root, leaves })
    }
}

/// Notifying side. There must be only one.
#[derive(Debug)]
pub struct Sender<C: CacheMaintenance> {
    own: Side<C>,
    receivers: Side<C>,
    /// Copy of what this side has written, which saves loading it.
    root: [u64; NODE_WORDS],
    leaves: Vec<u64>,
}

impl<C: CacheMaintenance> Sender<C> {
    /// Creates the notifying side of the unused tree in `memory`.
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory has fewer than [`TOTAL_BYTES`].
    pub fn new(memory: &SharedMemory<C>) -> Result<Self, OutOfRange> {
        let (own, receivers) = (Side::new(memory, 0)?, Side::new(memory, 1)?);
        Ok(Sender { own, receivers, root: [0; NODE_WORDS], leaves: alloc::vec![0; LEAVES * NODE_WORDS] })
    }

    /// Notifies the receiver of a channel. Returns whether the notification is new, rather than already
    /// pending. Earlier writes of this side are visible when the receiver takes the channel.
    ///
    /// # Panics
    /// Panics if `channel` is not below [`CHANNELS`].
    pub fn notify(&mut self, channel: u16) -> bool {
        let channel = usize::from(channel);
        assert!(channel < CHANNELS, "channel {channel}");
        let (word, bit) = (channel / 64, 1 << (channel % 64));
        fence(Ordering::SeqCst);
        if set_bit(&mut self.leaves[word], bit, (&self.own.leaves, &self.receivers.leaves), word) {
            let leaf = channel / 256;
            fence(Ordering::SeqCst);
            set_bit(
                &mut self.root[leaf / 64],
                1 << (leaf % 64),
                (&self.own.root, &self.receivers.root),
                leaf / 64,
            );
            return true;
        }
        false
    }
}

/// Sets a bit: flips this side's bit, unless it already differs from the other side's.
fn set_bit<C: CacheMaintenance>(
    current: &mut u64,
    bit: u64,
    (own, others): (&SharedMemory<C>, &SharedMemory<C>),
    word: usize,
) -> bool {
    let is_clear = (*current ^ others.load_current_le(word, Ordering::Acquire)) & bit == 0;
    if is_clear {
        *current ^= bit;
        own.store_through_le(word, *current, Ordering::Release);
    }
    is_clear
}

/// Notified side. There must be only one.
#[derive(Debug)]
pub struct Receiver<C: CacheMaintenance> {
    own: Side<C>,
    senders: Side<C>,
    root: [u64; NODE_WORDS],
    leaves: Vec<u64>,
}

impl<C: CacheMaintenance> Receiver<C> {
    /// Creates the notified side, like [`Sender::new`].
    ///
    /// # Errors
    /// [`OutOfRange`] when the memory has fewer than [`TOTAL_BYTES`].
    pub fn new(memory: &SharedMemory<C>) -> Result<Self, OutOfRange> {
        let (own, senders) = (Side::new(memory, 1)?, Side::new(memory, 0)?);
        Ok(Receiver { own, senders, root: [0; NODE_WORDS], leaves: alloc::vec![0; LEAVES * NODE_WORDS] })
    }

    /// Takes all notified channels, in the order of their numbers. Returns their number.
    pub fn take(&mut self, mut visit: impl FnMut(u16)) -> usize {
        let mut count = 0;
        for word in 0..NODE_WORDS {
            let mut leaves = take_bits(&mut self.root[word], (&self.own.root, &self.senders.root), word);
            while leaves != 0 {
                let leaf = word * 64 + leaves.trailing_zeros() as usize;
                leaves &= leaves - 1;
                // A peer may set the unused bit.
                if leaf < LEAVES {
                    count += self.take_leaf(leaf, &mut visit);
                }
            }
        }
        count
    }

    fn take_leaf(&mut self, leaf: usize, visit: &mut impl FnMut(u16)) -> usize {
        let mut count = 0;
        for word in leaf * NODE_WORDS..(leaf + 1) * NODE_WORDS {
            let mut channels =
                take_bits(&mut self.leaves[word], (&self.own.leaves, &self.senders.leaves), word);
            count += channels.count_ones() as usize;
            while channels != 0 {
                visit((word * 64 + channels.trailing_zeros() as usize) as u16);
                channels &= channels - 1;
            }
        }
        count
    }
}

/// Clears bits by copying those of the other side. Returns the bits that were set.
fn take_bits<C: CacheMaintenance>(
    current: &mut u64,
    (own, others): (&SharedMemory<C>, &SharedMemory<C>),
    word: usize,
) -> u64 {
    let theirs = others.load_current_le(word, Ordering::Acquire);
    let set = *current ^ theirs;
    if set != 0 {
        *current = theirs;
        own.store_through_le(word, theirs, Ordering::Release);
        fence(Ordering::SeqCst);
    }
    set
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tombolo_base::Coherent;

    fn pair() -> (SharedMemory, Sender<Coherent>, Receiver<Coherent>) {
        let memory = SharedMemory::zeroed(TOTAL_BYTES);
        let (sender, receiver) = (Sender::new(&memory).unwrap(), Receiver::new(&memory).unwrap());
        (memory, sender, receiver)
    }

    fn taken(receiver: &mut Receiver<Coherent>) -> Vec<u16> {
        let mut all = Vec::new();
        let count = receiver.take(|channel| all.push(channel));
        assert_eq!(count, all.len());
        all
    }

    #[test]
    fn channels_are_taken_once_however_often_they_were_notified() {
        let (_, mut sender, mut receiver) = pair();
        for round in 0..3 {
            for channel in [65_279, 0, 255, 256, 300] {
                assert!(sender.notify(channel), "{round}");
                assert!(!sender.notify(channel));
            }
            assert_eq!(taken(&mut receiver), [0, 255, 256, 300, 65_279]);
            assert_eq!(taken(&mut receiver), []);
        }
    }

    #[test]
    fn all_channels_can_be_pending_at_once() {
        let (_, mut sender, mut receiver) = pair();
        (0..CHANNELS as u16).for_each(|channel| assert!(sender.notify(channel)));
        assert!(taken(&mut receiver).into_iter().eq(0..CHANNELS as u16));
    }

    #[test]
    fn arbitrary_bits_yield_only_existing_channels() {
        let (memory, _, mut receiver) = pair();
        memory.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        assert!(taken(&mut receiver).into_iter().all(|channel| usize::from(channel) < CHANNELS));
    }
}
