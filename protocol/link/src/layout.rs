//! Layout of a channel's memory.
//!
//! ```text
//! line 0   hello of side A            written by A line 1   hello of side B            written by B line 2
//! doorbells of A             written by A: word 0 odd while it sleeps for a message, word 8 for room; words
//! 1 and 9 nonzero while it fences before it checks B's line 3   doorbells of B             written by B line
//! 4   producer line of A         written by A: word 0 closed, and after how many slots; word 8 how often it
//! rang B, on a window line 5   producer line of B         written by B line 6   credit of A
//! written by A, as the consumer of B's ring line 7   credit of B                written by B 1024     slots
//! from A to B          written by A ...      slots from B to A          written by B
//! ```
//! A line is [`LINE_BYTES`] long. A side sleeps for a message or for room and is rung only for that:
//! otherwise every message to a sender that waits for room would cost a wake-up, and so would every slot
//! returned to a side that waits for a reply. The owner of the memory zeroes it, so neither side clears
//! anything and either may come first.

use tombolo_base::{CacheMaintenance, Coherent, LINE_BYTES, OutOfRange, SharedMemory};
use tombolo_ring::{
    Consumer, LayoutError, Producer, RingConfig, RingMemory, Sleeper, SlotCount, SlotSize, Variant,
    WakeOrder, Waker,
};

/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 8 * LINE_BYTES;

/// Offset of the word that announces a sleep for room in a doorbell line, and of the word that counts rings
/// in a producer line. Lies in a cache line of its own if cache lines have 64 bytes.
const ROOM_OFFSET_BYTES: usize = 64;

/// Allocation unit of channel memory: the page size of every machine that is known to share one.
pub const PAGE_BYTES: usize = 4096;

/// Configuration of a channel's two rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelConfig {
    /// Size of a slot.
    pub slot: SlotSize,
    /// Number of slots in each ring: a power of two from 2 to 65,536.
    pub slots: u32,
    /// How slots return to the producer.
    pub variant: Variant,
}

impl ChannelConfig {
    /// Creates a configuration with `slots` slots in each ring.
    ///
    /// # Errors
    /// [`LayoutError`] unless `slots` is a power of two from 2 to 65,536.
    pub fn new(slot: SlotSize, slots: u32, variant: Variant) -> Result<Self, LayoutError> {
        SlotCount::new(slots)?;
        Ok(ChannelConfig { slot, slots, variant })
    }

    fn ring(self) -> Result<RingConfig, LayoutError> {
        Ok(RingConfig::new(self.slot, SlotCount::new(self.slots)?, self.variant))
    }
}

impl Default for ChannelConfig {
    /// Returns 64 slots of 64 bytes in each direction, two pages plus a header: enough for a steady stream
    /// and for bursts, and small enough that both rings stay in the first-level cache.
    fn default() -> Self {
        ChannelConfig { slot: SlotSize::B64, slots: 64, variant: Variant::EpochCredit }
    }
}

/// Side of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The side that connected.
    A,
    /// The side that accepted.
    B,
}

impl Side {
    /// Returns the side at the other end.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    const fn index(self) -> usize {
        match self {
            Side::A => 0,
            Side::B => 1,
        }
    }
}

/// Error of attaching to memory that cannot hold the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The memory is too small.
    #[error(transparent)]
    Memory(#[from] OutOfRange),
    /// The slot count is invalid.
    #[error(transparent)]
    Ring(#[from] LayoutError),
}

/// One side's halves of the structures in a channel's memory.
#[derive(Debug)]
pub struct Ends<C: CacheMaintenance = Coherent> {
    /// Sending end of the ring to the peer.
    pub producer: Producer<C>,
    /// Receiving end of the ring from the peer.
    pub consumer: Consumer<C>,
    /// Announces this side's sleep for a message.
    pub sleeper: Sleeper<C>,
    /// Detects the peer's sleep for a message.
    pub waker: Waker<C>,
    /// Announces this side's sleep for room.
    pub room_sleeper: Sleeper<C>,
    /// Detects the peer's sleep for room.
    pub room_waker: Waker<C>,
}

impl<C: CacheMaintenance> Ends<C> {
    /// Closes both halves, the consumer first: a peer that finds the end of the messages can rely on sending
    /// being over too, because both stores are releases.
    pub fn close(&mut self) {
        self.consumer.close();
        self.producer.close();
    }
}

/// Layout of a channel with a given configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelLayout {
    config: ChannelConfig,
}

impl ChannelLayout {
    /// Computes the layout of a channel with the configuration `config`.
    #[must_use]
    pub fn new(config: ChannelConfig) -> Self {
        ChannelLayout { config }
    }

    fn slots_bytes(&self) -> usize {
        self.config.slots as usize * self.config.slot.bytes()
    }

    /// Returns the size of the channel's memory, in bytes; a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        (HEADER_BYTES + 2 * self.slots_bytes()).next_multiple_of(PAGE_BYTES)
    }

    pub(crate) fn hello_line<C: CacheMaintenance>(
        memory: &SharedMemory<C>,
        side: Side,
    ) -> Result<SharedMemory<C>, OutOfRange> {
        memory.slice(side.index() * LINE_BYTES, LINE_BYTES)
    }

    /// Attaches to `side` of the channel in `memory`. Both sides must pass the same `order`.
    ///
    /// Call it once per side: two producers of one ring corrupt that ring, but nothing else.
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small for the configuration or the configuration is invalid.
    pub fn attach<C: CacheMaintenance>(
        &self,
        memory: &SharedMemory<C>,
        side: Side,
        order: WakeOrder,
    ) -> Result<Ends<C>, AttachError> {
        let line =
            |group: usize, side: Side| memory.slice((2 * group + side.index()) * LINE_BYTES, LINE_BYTES);
        let ring = |from: Side| {
            let offset_bytes = HEADER_BYTES + from.index() * self.slots_bytes();
            Ok::<_, AttachError>(RingMemory {
                slots: memory.slice(offset_bytes, self.slots_bytes())?,
                producer_line: line(2, from)?,
                credit_line: line(3, from.other())?,
            })
        };
        let room = |side: Side| line(1, side)?.slice(ROOM_OFFSET_BYTES, LINE_BYTES - ROOM_OFFSET_BYTES);
        let config = self.config.ring()?;
        Ok(Ends {
            producer: Producer::new(config, ring(side)?)?,
            consumer: Consumer::new(config, ring(side.other())?)?,
            sleeper: Sleeper::new(line(1, side)?, order)?.with_peer_fence_line(line(1, side.other())?)?,
            waker: Waker::new(line(1, side.other())?, order)?.with_own_fence_line(line(1, side)?)?,
            room_sleeper: Sleeper::new(room(side)?, order)?.with_peer_fence_line(room(side.other())?)?,
            room_waker: Waker::new(room(side.other())?, order)?.with_own_fence_line(room(side)?)?,
        })
    }
}

/// Returns the words in which `side` counts its rings: beside the end of its messages, in a cache line of
/// their own if cache lines have 64 bytes.
pub(crate) fn rung_line<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    side: Side,
) -> Result<SharedMemory<C>, OutOfRange> {
    let line = (4 + side.index()) * LINE_BYTES;
    memory.slice(line + ROOM_OFFSET_BYTES, LINE_BYTES - ROOM_OFFSET_BYTES)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tombolo_base::sync::Ordering;
    use tombolo_ring::SendError;

    fn both(config: ChannelConfig) -> (SharedMemory, Ends, Ends) {
        let layout = ChannelLayout::new(config);
        let memory = SharedMemory::zeroed(layout.length_bytes());
        let ends = |side| layout.attach(&memory, side, WakeOrder::Fence).unwrap();
        let (a, b) = (ends(Side::A), ends(Side::B));
        (memory, a, b)
    }

    /// Returns all nonzero words: offset in bytes, and the eight bytes there.
    fn written(memory: &SharedMemory) -> std::vec::Vec<(usize, [u8; 8])> {
        let word = |index| memory.load_le(index, Ordering::Relaxed).to_le_bytes();
        (0..memory.len_bytes() / 8)
            .map(|index| (8 * index, word(index)))
            .filter(|(_, w)| *w != [0; 8])
            .collect()
    }

    fn arm(sleeper: &mut Sleeper) {
        sleeper.arm(|| Ok::<(), ()>(())).unwrap();
    }

    #[test]
    fn lengths_are_whole_pages() {
        for (slot, slots, length_bytes) in [
            (SlotSize::B32, 2, 4096),
            (SlotSize::B64, 256, 36_864),
            (SlotSize::B128, 2048, 528_384),
            (SlotSize::B128, 65_536, 16_781_312),
        ] {
            let config = ChannelConfig::new(slot, slots, Variant::EpochCredit).unwrap();
            assert_eq!(ChannelLayout::new(config).length_bytes(), length_bytes);
        }
    }

    #[test]
    fn words_of_each_side_are_golden() {
        let config = ChannelConfig::new(SlotSize::B32, 4, Variant::EpochCredit).unwrap();
        let (memory, mut a, mut b) = both(config);
        a.producer.try_send(b"to B").unwrap();
        b.producer.try_send(b"to A").unwrap();
        arm(&mut a.sleeper);
        arm(&mut b.sleeper);
        arm(&mut a.room_sleeper);
        arm(&mut b.room_sleeper);
        let one = [1, 0, 0, 0, 0, 0, 0, 0];
        let control = [0, 0x80, 4, 0, 0, 0, 0, 0];
        let mut expected = std::vec![
            (256, one),
            (320, one),
            (384, one),
            (448, one),
            (1024, *b"to B\0\0\0\0"),
            (1048, control),
            (1152, *b"to A\0\0\0\0"),
            (1176, control),
        ];
        assert_eq!(written(&memory), expected);

        drop(b.consumer.try_recv().unwrap().unwrap());
        assert!(!b.consumer.poll(), "an empty poll gives credit back");
        a.producer.close();
        a.consumer.close();
        // A closed after one slot, and its consumer closed. B consumed one slot.
        expected.splice(4..4, [(512, [2, 0, 0, 0, 0, 0, 0, 0]), (776, one), (896, one)]);
        let found = written(&memory);
        assert_eq!(found, expected);
    }

    #[test]
    fn doorbell_rings_only_for_its_own_sleep() {
        let small = ChannelConfig::new(SlotSize::B32, 2, Variant::EpochCredit).unwrap();
        let (_memory, mut a, mut b) = both(small);
        arm(&mut a.room_sleeper);
        assert!(!b.waker.must_ring());
        assert!(b.room_waker.must_ring());
        assert!(!b.room_waker.must_ring(), "once for each sleep");
        arm(&mut a.sleeper);
        assert!(b.waker.must_ring());
        a.sleeper.disarm();
        a.room_sleeper.disarm();
        assert!(!b.waker.must_ring() && !b.room_waker.must_ring());
    }

    #[test]
    fn memory_that_is_too_small_is_refused() {
        let layout = ChannelLayout::new(ChannelConfig::new(SlotSize::B32, 2, Variant::UsedFlag).unwrap());
        let rings_bytes = HEADER_BYTES + 2 * 2 * 32;
        let memory = SharedMemory::zeroed(rings_bytes);
        for (length_bytes, fits) in
            [(0, false), (HEADER_BYTES, false), (rings_bytes - 8, false), (rings_bytes, true)]
        {
            let part = memory.slice(0, length_bytes).unwrap();
            // The last byte is in B's ring, where A receives.
            assert_eq!(layout.attach(&part, Side::A, WakeOrder::Fence).is_ok(), fits, "{length_bytes}");
        }
        let no_shape = ChannelConfig { slots: 3, ..ChannelConfig::default() };
        let error = ChannelLayout::new(no_shape).attach(&memory, Side::A, WakeOrder::Fence).unwrap_err();
        assert_eq!(error, AttachError::Ring(LayoutError::SlotCount { slots: 3 }));
    }

    #[test]
    fn the_two_directions_share_nothing() {
        for (slot, variant) in
            SlotSize::ALL.into_iter().zip([Variant::UsedFlag, Variant::EpochCredit, Variant::UsedFlag])
        {
            let (_memory, mut a, mut b) = both(ChannelConfig::new(slot, 2, variant).unwrap());
            let fill = |producer: &mut Producer, byte| {
                while producer.try_send(&[byte]).is_ok() {}
                assert_eq!(producer.try_send(&[byte]), Err(SendError::Full));
            };
            fill(&mut a.producer, 1);
            fill(&mut b.producer, 2);
            for (consumer, byte) in [(&mut b.consumer, 1), (&mut a.consumer, 2)] {
                for _ in 0..2 {
                    let mut target = [0];
                    consumer.try_recv().unwrap().unwrap().copy_to(&mut target).unwrap();
                    assert_eq!(target, [byte]);
                }
                assert!(!consumer.poll());
            }
        }
    }
}
