//! Two rings without a channel around them: a message in each direction.

use std::os::fd::AsFd;

use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_bench_far::placement::RingsEnd;
use tombolo_platform::memory::{check_sealed, create_sealed, map};
use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};

use super::slots;
use crate::suite::{AnyEnd, Error, Meeting, Metric, Peer};

/// Name in tables and plots.
pub const RINGS: &str = "bare rings";

/// Two rings, each in memory of its sending side.
#[derive(Debug)]
pub(super) struct Rings;

impl Peer for Rings {
    fn name(&self) -> &'static str {
        RINGS
    }

    fn about(&self) -> String {
        "a ring each way, polled, of slots of 64 bytes; no channel, no call: a message there and one back"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::CALLS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let ring_error = |error: &dyn std::fmt::Display| Error::of_peer(RINGS, error);
        let slots = SlotCount::new(slots(metric)).map_err(|error| ring_error(&error))?;
        let config = RingConfig::new(SlotSize::B64, slots, Variant::EpochCredit);
        let bytes = 2 * LINE_BYTES + config.slots_bytes();
        let file = create_sealed("tombolo-bench-rpc", bytes as u64)?;
        let own = map(&file, 0, bytes)?;
        // Both sides send before they receive: the line buffers the descriptors.
        meeting.line.give_fds(&[file.as_fd()])?;
        let [other] = meeting.line.take_fds()?;
        check_sealed(&other, bytes as u64)?;
        let other = map(&other, 0, bytes)?;
        let ring = |memory: &SharedMemory| {
            let part = |offset, length| memory.slice(offset, length).map_err(|error| ring_error(&error));
            Ok::<_, Error>(RingMemory {
                producer_line: part(0, LINE_BYTES)?,
                credit_line: part(LINE_BYTES, LINE_BYTES)?,
                slots: part(2 * LINE_BYTES, config.slots_bytes())?,
            })
        };
        let producer = Producer::new(config, ring(&own)?).map_err(|error| ring_error(&error))?;
        let consumer = Consumer::new(config, ring(&other)?).map_err(|error| ring_error(&error))?;
        Ok(AnyEnd::new(RingsEnd { producer, consumer }))
    }
}
