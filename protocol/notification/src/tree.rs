//! A tree of bits, from one sender to one receiver: a bit for each channel, in leaves of 256, and a bit in
//! the root for each leaf. A notification never fails, and a channel that is notified again before it was
//! taken costs nothing more.
//!
//! Barrelfish's senders set bits and its receiver clears them, under a lock. Here each side has a tree that
//! it alone writes, and a bit is set where the two differ: the sender flips its bit, the receiver copies
//! it.
//!
//! # Why nothing is missed
//! A sender that finds a bit set already does not flip it, and relies on the receiver to look later. The
//! receiver copies the bit, fences, and then looks at what it is about; the sender writes that, fences, and
//! then loads the receiver's bit. If the sender still found it as it was, its load came before the
//! receiver's store, and so the receiver's later look finds what the sender wrote. That holds for a
//! channel's bit and its messages, and for a leaf's bit in the root and the leaf.

use alloc::vec::Vec;

use tombolo_base::sync::{Ordering, fence};
use tombolo_base::{CacheMaintenance, LINE_BYTES, OutOfRange, SharedMemory};

/// Words of a node of the tree: 256 bits.
const NODE_WORDS: usize = 4;

/// Leaves of a tree: a bit of the root is left over, as in the paper.
const LEAVES: usize = 255;

/// Channels of a tree.
pub const CHANNELS: usize = LEAVES * 256;

/// The tree of one side: the root in a line of its own, then the leaves.
const SIDE_BYTES: usize = LINE_BYTES + (LEAVES * NODE_WORDS * 8).next_multiple_of(LINE_BYTES);

/// The trees of both sides, in bytes. All of it is zero at first.
pub const TOTAL_BYTES: usize = 2 * SIDE_BYTES;

/// The tree of one side.
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

/// The side that notifies. There is one.
#[derive(Debug)]
pub struct Sender<C: CacheMaintenance> {
    own: Side<C>,
    receivers: Side<C>,
    /// What this side has written: it need not load it.
    root: [u64; NODE_WORDS],
    leaves: Vec<u64>,
}

impl<C: CacheMaintenance> Sender<C> {
    /// Of the tree in `memory`, of which nothing was used yet.
    ///
    /// # Errors
    /// [`OutOfRange`]: the memory has fewer than [`TOTAL_BYTES`].
    pub fn new(memory: &SharedMemory<C>) -> Result<Self, OutOfRange> {
        let (own, receivers) = (Side::new(memory, 0)?, Side::new(memory, 1)?);
        Ok(Sender { own, receivers, root: [0; NODE_WORDS], leaves: alloc::vec![0; LEAVES * NODE_WORDS] })
    }

    /// Notifies the receiver of a channel. Returns whether that was new, or else pending already. What this
    /// side wrote before is there when the receiver takes the channel.
    ///
    /// # Panics
    /// If there is no such channel, a mistake of the caller.
    pub fn notify(&mut self, channel: u16) -> bool {
        let channel = usize::from(channel);
        assert!(channel < CHANNELS, "channel {channel}");
        let (word, bit) = (channel / 64, 1 << (channel % 64));
        fence(Ordering::SeqCst);
        if flip(&mut self.leaves[word], bit, (&self.own.leaves, &self.receivers.leaves), word) {
            let leaf = channel / 256;
            fence(Ordering::SeqCst);
            flip(
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

/// Sets a bit: flips this side's, unless it differs from the other's already.
fn flip<C: CacheMaintenance>(
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

/// The side that is notified. There is one.
#[derive(Debug)]
pub struct Receiver<C: CacheMaintenance> {
    own: Side<C>,
    senders: Side<C>,
    root: [u64; NODE_WORDS],
    leaves: Vec<u64>,
}

impl<C: CacheMaintenance> Receiver<C> {
    /// As [`Sender::new`].
    ///
    /// # Errors
    /// [`OutOfRange`]: the memory has fewer than [`TOTAL_BYTES`].
    pub fn new(memory: &SharedMemory<C>) -> Result<Self, OutOfRange> {
        let (own, senders) = (Side::new(memory, 1)?, Side::new(memory, 0)?);
        Ok(Receiver { own, senders, root: [0; NODE_WORDS], leaves: alloc::vec![0; LEAVES * NODE_WORDS] })
    }

    /// Takes all channels that were notified, in the order of their numbers. Returns how many.
    pub fn take(&mut self, mut visit: impl FnMut(u16)) -> usize {
        let mut count = 0;
        for word in 0..NODE_WORDS {
            let mut leaves = copy(&mut self.root[word], (&self.own.root, &self.senders.root), word);
            while leaves != 0 {
                let leaf = word * 64 + leaves.trailing_zeros() as usize;
                leaves &= leaves - 1;
                // A peer may set the bit that is left over.
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
            let mut channels = copy(&mut self.leaves[word], (&self.own.leaves, &self.senders.leaves), word);
            count += channels.count_ones() as usize;
            while channels != 0 {
                visit((word * 64 + channels.trailing_zeros() as usize) as u16);
                channels &= channels - 1;
            }
        }
        count
    }
}

/// Clears bits: copies those of the other side. Returns the bits that were set.
fn copy<C: CacheMaintenance>(
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
    fn all_channels_at_once() {
        let (_, mut sender, mut receiver) = pair();
        (0..CHANNELS as u16).for_each(|channel| assert!(sender.notify(channel)));
        assert!(taken(&mut receiver).into_iter().eq(0..CHANNELS as u16));
    }

    #[test]
    fn a_peer_that_sets_any_bits_names_no_channel_that_there_is_not() {
        let (memory, _, mut receiver) = pair();
        memory.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        assert!(taken(&mut receiver).into_iter().all(|channel| usize::from(channel) < CHANNELS));
    }
}
