//! Placement of slots and credit: in memory of the sender or of the receiver, for both ring variants.

use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_link::layout::HEADER_BYTES;
use tombolo_ring::{
    Batch, Consumer, Producer, RingConfig, RingMemory, SendError, SlotCount, SlotSize, Variant, View,
};

use crate::content::{Aligned, check, corrupt, fill, word, wrong_words};
use crate::ring::command::COMMAND_BYTES;
use crate::ring::end::{End, Ends};
use crate::{Error, Side, SpinTimeout};

/// Length of the messages across a link, in bytes: one slot.
pub const MESSAGE_BYTES: usize = 56;

/// Placement of one ring per direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rings {
    /// Variant of the ring, by which slots are returned.
    pub variant: Variant,
    /// Whether the slots lie at the receiver.
    pub slots_at_receiver: bool,
    /// Whether the credit lies at the receiver.
    pub credit_at_receiver: bool,
}

/// Memory of each program, in bytes: two rings of 32 slots.
pub const BYTES: usize = 8 << 10;
const SLOTS: u32 = 32;

impl Rings {
    /// Returns both variants in a single memory.
    #[must_use]
    pub fn in_one_memory() -> Vec<Rings> {
        Self::all()
            .into_iter()
            .filter(|rings| !rings.slots_at_receiver && !rings.credit_at_receiver)
            .collect()
    }

    /// Returns the `index`-th element of [`all`](Self::all).
    #[must_use]
    pub fn at(index: u64) -> Option<Rings> {
        Self::all().into_iter().nth(usize::try_from(index).ok()?)
    }

    /// Returns the index of these rings in [`all`](Self::all).
    #[must_use]
    pub fn index(self) -> u64 {
        Self::all().iter().position(|rings| *rings == self).unwrap_or(0) as u64
    }

    /// Returns every placement of both variants.
    #[must_use]
    pub fn all() -> Vec<Rings> {
        let variants = [Variant::EpochCredit, Variant::UsedFlag];
        let places = [(false, false), (false, true), (true, false), (true, true)];
        let of = |variant| {
            places.map(|(slots_at_receiver, credit_at_receiver)| Rings {
                variant,
                slots_at_receiver,
                credit_at_receiver,
            })
        };
        variants.into_iter().flat_map(of).collect()
    }

    /// Creates an end of one ring per direction; `memories` are the near side's and the far side's, initially
    /// zero.
    ///
    /// # Errors
    /// [`Error::Placement`].
    pub fn end(self, side: Side, memories: &[SharedMemory; 2]) -> Result<RingsEnd, Error> {
        let ring_error = |error| Error::of_placement(error);
        let there = if side == Side::Near { Side::Far } else { Side::Near };
        let config = self.config()?;
        let producer = Producer::new(config, self.ring(side, memories)?).map_err(ring_error)?;
        let consumer = Consumer::new(config, self.ring(there, memories)?).map_err(ring_error)?;
        Ok(RingsEnd { producer, consumer })
    }

    /// Creates the ring on which `sender` sends; `memories` are the near side's and the far side's.
    fn ring(self, sender: Side, memories: &[SharedMemory; 2]) -> Result<RingMemory, Error> {
        let of = |at_receiver: bool| &memories[usize::from((sender == Side::Far) != at_receiver)];
        // Offset of the ring in each memory, fixed regardless of which of its parts lie there.
        let base = if sender == Side::Near { 0 } else { BYTES / 2 };
        let part = |at_receiver, offset, length| {
            of(at_receiver).slice(base + offset, length).map_err(Error::of_placement)
        };
        let config = self.config()?;
        Ok(RingMemory {
            slots: part(self.slots_at_receiver, 2 * LINE_BYTES, config.slots_bytes())?,
            producer_line: part(self.slots_at_receiver, 0, LINE_BYTES)?,
            credit_line: part(self.credit_at_receiver, LINE_BYTES, LINE_BYTES)?,
        })
    }

    fn config(self) -> Result<RingConfig, Error> {
        let slots = SlotCount::new(SLOTS).map_err(Error::of_placement)?;
        Ok(RingConfig::new(SlotSize::B64, slots, self.variant))
    }
}

/// One end of placed rings.
#[derive(Debug)]
pub struct RingsEnd {
    /// Producer of the ring to the other side.
    pub producer: Producer,
    /// Consumer of the ring from the other side.
    pub consumer: Consumer,
}

impl RingsEnd {
    /// Sends message `sequence`, polling for room.
    ///
    /// # Errors
    /// The other side stalls.
    #[inline(always)]
    pub fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.producer.try_send(&message.0) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => spin_timeout.wait()?,
                Err(error) => return Err(Error::of_placement(error)),
            }
        }
    }

    /// Sends `count` messages, in batches as large as there is room for.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline(always)]
    pub fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut spin_timeout = SpinTimeout::default();
        while sequence < end {
            let before = sequence;
            let mut batch = self.producer.batch();
            while sequence < end {
                match push::<N>(&mut batch, sequence) {
                    Ok(()) => sequence += 1,
                    Err(SendError::Full) => break,
                    Err(error) => return Err(Error::of_placement(error)),
                }
            }
            batch.commit();
            if sequence == before {
                spin_timeout.wait()?;
            }
        }
        Ok(())
    }

    /// Receives message `sequence`, polling, and checks all of it.
    ///
    /// # Errors
    /// The other side stalls, or a wrong message arrives.
    #[inline(always)]
    pub fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.consumer.try_recv() {
                Ok(Some(message)) => {
                    let wrong = wrong::<N>(message.view(), sequence);
                    return if wrong == 0 { Ok(()) } else { Err(corrupt(sequence)) };
                }
                Ok(None) => spin_timeout.wait_for_reply()?,
                Err(error) => return Err(Error::of_placement(error)),
            }
        }
    }
}

/// Adds a message to a batch. Lengths that are compared with the ring in C are passed as numbers.
#[inline(always)]
fn push<const N: usize>(batch: &mut Batch<'_>, sequence: u64) -> Result<(), SendError> {
    let word = |index| word(sequence, index);
    match N {
        48 => batch.push_words([word(0), word(1), word(2), word(3), word(4), word(5)]),
        64 => batch.push_words([word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)]),
        _ => {
            let mut message = [0; N];
            fill(&mut message, sequence);
            batch.push(&message)
        }
    }
}

/// Returns zero if every byte is correct; compares numbers for the lengths for which [`push`] passes them.
#[inline(always)]
fn wrong<const N: usize>(message: View<'_>, sequence: u64) -> u64 {
    match N {
        48 => wrong_words(message.to_words::<6>(), sequence),
        64 => wrong_words(message.to_words::<8>(), sequence),
        _ => {
            let mut bytes = [0; N];
            let copied = message.copy_to(&mut bytes) == Ok(N);
            u64::from(!copied || check::<N>(&bytes, sequence).is_err())
        }
    }
}

/// Creates the error of a link without shared memory.
#[must_use]
pub fn no_memory() -> Error {
    Error::TooSmall { have_bytes: 0, need_bytes: BYTES }
}

/// Returns the memory of both sides, after the part that the channel itself needs to close.
///
/// # Errors
/// [`Error::TooSmall`], also if no memory is shared.
pub fn memories<E: End>(ends: &Ends<E>) -> Result<[SharedMemory; 2], Error> {
    let far = &ends.raw.as_ref().ok_or_else(no_memory)?.memory;
    let near = ends.own.as_ref().map_or(far, |own| &own.memory);
    let part = |memory: &SharedMemory| {
        memory.slice(HEADER_BYTES, BYTES).map_err(|_| Error::TooSmall {
            have_bytes: memory.words().len() * 8,
            need_bytes: HEADER_BYTES + BYTES,
        })
    };
    Ok([part(near)?, part(far)?])
}

/// Creates an end of placed rings in the memory of the link.
///
/// # Errors
/// As [`memories`]; [`Error::Unexpected`] for an invalid placement.
pub fn end<E: End>(ends: &Ends<E>, side: Side, rings: u64) -> Result<RingsEnd, Error> {
    let rings = Rings::at(rings).ok_or(Error::Unexpected { length_bytes: COMMAND_BYTES })?;
    rings.end(side, &memories(ends)?)
}

/// Returns `rounds` messages.
///
/// # Errors
/// The other side stalls, or a wrong message arrives.
pub fn serve(end: &mut RingsEnd, rounds: u64) -> Result<(), Error> {
    (0..rounds).try_for_each(|sequence| {
        end.recv::<MESSAGE_BYTES>(sequence)?;
        end.send::<MESSAGE_BYTES>(sequence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_is_a_ring_of_its_own() {
        let memories = [SharedMemory::zeroed(BYTES), SharedMemory::zeroed(BYTES)];
        for rings in Rings::all() {
            memories.iter().for_each(SharedMemory::clear);
            let mut ends = [Side::Near, Side::Far].map(|side| rings.end(side, &memories).expect("it fits"));
            assert_eq!(Rings::at(rings.index()), Some(rings));
            for sequence in 0..3 * u64::from(SLOTS) {
                let [near, far] = &mut ends;
                near.send::<56>(sequence).expect("room");
                far.recv::<56>(sequence).expect("a message");
                far.send::<56>(sequence).expect("room");
                near.recv::<56>(sequence).expect("a message");
            }
        }
        assert_eq!((Rings::in_one_memory().len(), Rings::at(8)), (2, None));
    }
}
