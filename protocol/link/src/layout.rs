//! Where everything of a channel lies in its memory.
//!
//! ```text
//! line 0   hello of side A            written by A
//! line 1   hello of side B            written by B
//! line 2   doorbell of A              written by A: odd while it sleeps
//! line 3   doorbell of B              written by B
//! line 4   producer line of A         written by A: closed after so many slots
//! line 5   producer line of B         written by B
//! line 6   credit of A                written by A, as the consumer of B's ring
//! line 7   credit of B                written by B
//! 1024     slots from A to B          written by A
//! ...      slots from B to A          written by B
//! ```
//! A line is [`LINE_BYTES`] long. The memory arrives zeroed from whoever owns it, so neither side has anything
//! to clear and either may come first.

use tombolo_base::{LINE_BYTES, OutOfRange, SharedMemory};
use tombolo_ring::{
    Consumer, LayoutError, Producer, RingConfig, RingMemory, Sleeper, SlotCount, SlotSize, Variant,
    WakeOrder, Waker,
};

/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 8 * LINE_BYTES;

/// Channel memory is handed out in multiples of this, the page of every machine we know to share one.
pub const PAGE_BYTES: usize = 4096;

/// The shape of a channel's two rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelConfig {
    /// Size of a slot.
    pub slot: SlotSize,
    /// Slots of each ring: a power of two from 2 to 65,536.
    pub slots: u32,
    /// How slots come back.
    pub variant: Variant,
}

impl ChannelConfig {
    /// A shape.
    ///
    /// # Errors
    /// [`LayoutError`] when `slots` is no power of two from 2 to 65,536.
    pub fn new(slot: SlotSize, slots: u32, variant: Variant) -> Result<Self, LayoutError> {
        SlotCount::new(slots)?;
        Ok(ChannelConfig { slot, slots, variant })
    }

    fn ring(self) -> Result<RingConfig, LayoutError> {
        Ok(RingConfig::new(self.slot, SlotCount::new(self.slots)?, self.variant))
    }
}

impl Default for ChannelConfig {
    /// 256 slots of 64 bytes each way: 33 KiB a channel, and deep enough that neither side waits for credit
    /// in a steady stream.
    fn default() -> Self {
        ChannelConfig { slot: SlotSize::B64, slots: 256, variant: Variant::EpochCredit }
    }
}

/// Which of a channel's two sides. The one that connected is A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The side that connected.
    A,
    /// The side that accepted.
    B,
}

impl Side {
    /// The other one.
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

/// The memory does not hold a channel of that shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// It is too small.
    #[error(transparent)]
    Memory(#[from] OutOfRange),
    /// The shape is none.
    #[error(transparent)]
    Ring(#[from] LayoutError),
}

/// One side's halves of everything in a channel's memory.
#[derive(Debug)]
pub struct Ends {
    /// Where it sends.
    pub producer: Producer,
    /// Where it receives.
    pub consumer: Consumer,
    /// Where it says that it sleeps.
    pub sleeper: Sleeper,
    /// Where it sees that its peer sleeps.
    pub waker: Waker,
}

/// The layout of a channel of one shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelLayout {
    config: ChannelConfig,
}

impl ChannelLayout {
    /// The layout for a shape.
    #[must_use]
    pub fn new(config: ChannelConfig) -> Self {
        ChannelLayout { config }
    }

    fn slots_bytes(&self) -> usize {
        self.config.slots as usize * self.config.slot.bytes()
    }

    /// How much memory a channel takes, in whole pages.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        (HEADER_BYTES + 2 * self.slots_bytes()).next_multiple_of(PAGE_BYTES)
    }

    pub(crate) fn hello_line(memory: &SharedMemory, side: Side) -> Result<SharedMemory, OutOfRange> {
        memory.slice(side.index() * LINE_BYTES, LINE_BYTES)
    }

    /// Takes up one side of the channel in `memory`. Both sides must pass the same `order`.
    ///
    /// Call it once a side: two producers of one ring corrupt it (never anything else).
    ///
    /// # Errors
    /// [`AttachError`] when the memory is too small for the shape.
    pub fn attach(&self, memory: &SharedMemory, side: Side, order: WakeOrder) -> Result<Ends, AttachError> {
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
        let config = self.config.ring()?;
        Ok(Ends {
            producer: Producer::new(config, ring(side)?)?,
            consumer: Consumer::new(config, ring(side.other())?)?,
            sleeper: Sleeper::new(line(1, side)?, order)?,
            waker: Waker::new(line(1, side.other())?, order)?,
        })
    }
}
