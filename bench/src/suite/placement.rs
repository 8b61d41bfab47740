//! Where slots and credit lie: on the side of the sender or of the receiver, for both variants of the ring.
//!
//! Each program makes a memory and touches it first, so that on a host with several memories its pages lie in that of
//! the program's processor. Across a window there is nothing to choose but the variant: it is one memory, the host's,
//! and the far side reaches no other.
//!
//! Between two programs of this host each makes a file; across a link of a machine each opens a channel, for the side
//! that opens it makes its memory.

use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_platform::memory::{check_sealed, create_sealed, map};
use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};

use super::content::{check, corrupt, fill};
use super::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};
use crate::ring::Patience;
use crate::sample::Latency;

/// What was found of one placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// The two nodes, joined by a dash.
    pub link: String,
    /// How slots come back.
    pub variant: String,
    /// Whose memory holds the slots: the sender's, the receiver's, or the window.
    pub slots: String,
    /// Whose memory holds the credit.
    pub credit: String,
    /// The bare lines, in nanoseconds.
    pub limit_ns: f64,
    /// A message of one slot there and back; absent where there is no such memory.
    pub round_trip_ns: Option<Latency>,
    /// Over the bare lines.
    pub ratio: Option<f64>,
}

impl Placed {
    /// For people.
    #[must_use]
    pub fn title(&self) -> String {
        let Placed { link, variant, slots, credit, .. } = self;
        if slots == credit {
            format!("{link}, {variant}: slots and credit {slots}")
        } else {
            format!("{link}, {variant}: slots {slots}, credit {credit}")
        }
    }
}

/// A ring each way, placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rings {
    variant: Variant,
    /// Whether the slots lie with the one who receives.
    slots_at_receiver: bool,
    credit_at_receiver: bool,
}

/// Bytes that each program gives: two rings of 32 slots.
pub(crate) const BYTES: usize = 8 << 10;
const SLOTS: u32 = 32;

impl Rings {
    /// Both variants in one memory.
    pub(crate) fn in_one_memory() -> Vec<Rings> {
        Self::all()
            .into_iter()
            .filter(|rings| !rings.slots_at_receiver && !rings.credit_at_receiver)
            .collect()
    }

    /// The `index`-th of [`all`](Self::all), and the reverse.
    pub(crate) fn at(index: u64) -> Option<Rings> {
        Self::all().into_iter().nth(usize::try_from(index).ok()?)
    }

    pub(crate) fn index(self) -> u64 {
        Self::all().iter().position(|rings| *rings == self).unwrap_or(0) as u64
    }

    /// Every placement of both variants.
    pub(crate) fn all() -> Vec<Rings> {
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

    pub(crate) fn placed(
        self,
        link: &str,
        limit_ns: f64,
        round_trip_ns: Option<Latency>,
        ratio: f64,
    ) -> Placed {
        let place = |at_receiver| if at_receiver { "at the receiver" } else { "at the sender" };
        Placed {
            link: link.to_owned(),
            variant: match self.variant {
                Variant::EpochCredit => "epoch+credit",
                Variant::UsedFlag => "used flag",
            }
            .into(),
            slots: place(self.slots_at_receiver).into(),
            credit: place(self.credit_at_receiver).into(),
            limit_ns,
            round_trip_ns,
            ratio: Some(ratio),
        }
    }

    /// An end of a ring each way; `memories` are the near side's and the far side's, zero at first.
    pub(crate) fn end(self, side: Side, memories: &[SharedMemory; 2]) -> Result<RingsEnd, Error> {
        let ring_error = |error| Error::of_peer("placement", error);
        let there = if side == Side::Near { Side::Far } else { Side::Near };
        let config = self.config()?;
        let producer = Producer::new(config, self.ring(side, memories)?).map_err(ring_error)?;
        let consumer = Consumer::new(config, self.ring(there, memories)?).map_err(ring_error)?;
        Ok(RingsEnd { producer, consumer })
    }

    /// The ring that `sender` sends on; `memories` are the near side's and the far side's.
    fn ring(self, sender: Side, memories: &[SharedMemory; 2]) -> Result<RingMemory, Error> {
        let of = |at_receiver: bool| &memories[usize::from((sender == Side::Far) != at_receiver)];
        // Where in a memory the two rings lie, whichever of their parts are there.
        let base = if sender == Side::Near { 0 } else { BYTES / 2 };
        let part = |at_receiver, offset, length| {
            of(at_receiver).slice(base + offset, length).map_err(|error| Error::of_peer("placement", error))
        };
        let config = self.config()?;
        Ok(RingMemory {
            slots: part(self.slots_at_receiver, 2 * LINE_BYTES, config.slots_bytes())?,
            producer_line: part(self.slots_at_receiver, 0, LINE_BYTES)?,
            credit_line: part(self.credit_at_receiver, LINE_BYTES, LINE_BYTES)?,
        })
    }

    fn config(self) -> Result<RingConfig, Error> {
        let slots = SlotCount::new(SLOTS).map_err(|error| Error::of_peer("placement", error))?;
        Ok(RingConfig::new(SlotSize::B64, slots, self.variant))
    }
}

impl Peer for Rings {
    fn name(&self) -> &'static str {
        match (self.variant, self.slots_at_receiver, self.credit_at_receiver) {
            (Variant::EpochCredit, false, false) => "placement e00",
            (Variant::EpochCredit, false, true) => "placement e01",
            (Variant::EpochCredit, true, false) => "placement e10",
            (Variant::EpochCredit, true, true) => "placement e11",
            (Variant::UsedFlag, false, false) => "placement u00",
            (Variant::UsedFlag, false, true) => "placement u01",
            (Variant::UsedFlag, true, false) => "placement u10",
            (Variant::UsedFlag, true, true) => "placement u11",
        }
    }

    fn about(&self) -> String {
        "a ring each way without a channel around it".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let file = create_sealed("tombolo-bench-placement", BYTES as u64)?;
        let own = map(&file, 0, BYTES)?;
        own.clear();
        // Given before taken, on both sides: the line keeps what was not taken yet.
        meeting.line.give_fds(&[file.as_fd()])?;
        let [other] = meeting.line.take_fds()?;
        check_sealed(&other, BYTES as u64)?;
        let other = map(&other, 0, BYTES)?;
        let memories = if meeting.side == Side::Near { [own, other] } else { [other, own] };
        Ok(AnyEnd::new(self.end(meeting.side, &memories)?))
    }
}

/// One end of placed rings.
pub(crate) struct RingsEnd {
    pub(crate) producer: Producer,
    pub(crate) consumer: Consumer,
}

impl End for RingsEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = [0; N];
        fill(&mut message, sequence);
        let mut patience = Patience::default();
        loop {
            match self.producer.try_send(&message) {
                Ok(()) => return Ok(()),
                Err(tombolo_ring::SendError::Full) => patience.wait()?,
                Err(error) => return Err(Error::of_peer("placement", error)),
            }
        }
    }

    #[inline(always)]
    fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut patience = Patience::default();
        while sequence < end {
            let before = sequence;
            let mut batch = self.producer.batch();
            let mut message = [0; N];
            while sequence < end {
                fill(&mut message, sequence);
                match batch.push(&message) {
                    Ok(()) => sequence += 1,
                    Err(tombolo_ring::SendError::Full) => break,
                    Err(error) => return Err(Error::of_peer("placement", error)),
                }
            }
            batch.commit();
            if sequence == before {
                patience.wait()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut patience = Patience::default();
        let mut buffer = [0; N];
        loop {
            match self.consumer.try_recv() {
                Ok(Some(message)) => {
                    let length = message.copy_to(&mut buffer).map_err(|_| corrupt(sequence))?;
                    return check::<N>(&buffer[..length], sequence);
                }
                Ok(None) => patience.wait()?,
                Err(error) => return Err(Error::of_peer("placement", error)),
            }
        }
    }
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
        let titles: std::collections::BTreeSet<String> =
            Rings::all().iter().map(|rings| rings.placed("host-host", 1.0, None, 1.0).title()).collect();
        assert_eq!(titles.len(), 8);
        assert_eq!((Rings::in_one_memory().len(), Rings::at(8)), (2, None));
    }
}
