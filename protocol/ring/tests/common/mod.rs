//! Ring in memory of this process.
#![allow(dead_code, reason = "each test binary uses its part")]

#[cfg(not(loom))]
use proptest::prelude::ProptestConfig;
use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};

pub(crate) const VARIANTS: [Variant; 2] = [Variant::EpochCredit, Variant::UsedFlag];

pub(crate) fn config(size: SlotSize, slots: u32, variant: Variant) -> RingConfig {
    RingConfig::new(size, SlotCount::new(slots).unwrap(), variant)
}

pub(crate) fn memory(config: &RingConfig) -> RingMemory {
    RingMemory {
        slots: SharedMemory::zeroed(config.slots_bytes()),
        producer_line: SharedMemory::zeroed(LINE_BYTES),
        credit_line: SharedMemory::zeroed(LINE_BYTES),
    }
}

pub(crate) fn ring(config: RingConfig) -> (RingMemory, Producer, Consumer) {
    let memory = memory(&config);
    let producer = Producer::new(config, memory.clone()).unwrap();
    let consumer = Consumer::new(config, memory.clone()).unwrap();
    (memory, producer, consumer)
}

/// Number of cases for a property: `PROPTEST_CASES` if it is set, as under miri and emulators, otherwise
/// `here`.
#[cfg(not(loom))]
pub(crate) fn cases(here: u32) -> ProptestConfig {
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default().cases,
        None => here,
    };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn receive(consumer: &mut Consumer) -> Option<Vec<u8>> {
    consumer.try_recv().unwrap().map(|message| message.to_vec())
}

/// Repeated bytes of messages, so that 256 bytes follow every position in the first half.
const PATTERN: [u8; 512] = {
    let mut bytes = [0; 512];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = (index as u8).wrapping_mul(31);
        index += 1;
    }
    bytes
};

/// Returns a message of `len` bytes, different in every byte for each seed. It is copied in stretches: byte
/// by byte, miri takes longer to create a message than to send it.
pub(crate) fn pattern(seed: u8, len: usize) -> Vec<u8> {
    let begin = usize::from(seed);
    let mut message = Vec::with_capacity(len);
    while message.len() < len {
        let stretch = (len - message.len()).min(256);
        message.extend_from_slice(&PATTERN[begin..begin + stretch]);
    }
    message
}
