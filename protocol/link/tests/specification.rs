//! Compares the bytes shown in `docs/specs/channel.md` with the bytes that this crate writes.
#![cfg(not(loom))]

use std::num::NonZeroU16;

use tombolo_base::{DomainId, NodeId, SharedMemory, WindowId};
use tombolo_link::window::WindowHeader;
use tombolo_link::{ChannelConfig, ChannelLayout, Handshake, Hello, Progress, Side};
use tombolo_ring::{SlotSize, Variant, WakeOrder};

const SPECIFICATION: &str = include_str!("../../../docs/specs/channel.md");

/// Returns the bytes of the dump under a heading, in a memory of `length_bytes`. Bytes that the dump omits
/// are zero.
fn dump(heading: &str, length_bytes: usize) -> Vec<u8> {
    let section = SPECIFICATION.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let dump = section.split("```").nth(1).unwrap();
    let mut bytes = vec![0; length_bytes];
    for line in dump.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let offset = usize::from_str_radix(words.next().unwrap(), 16).unwrap();
        let hex = words.map_while(|word| u8::from_str_radix(word, 16).ok()).take(16);
        hex.enumerate().for_each(|(at, byte)| bytes[offset + at] = byte);
    }
    bytes
}

#[track_caller]
fn assert_specified(memory: &SharedMemory, heading: &str) {
    let mut found = vec![0; memory.len_bytes()];
    memory.copy_out(0, &mut found).unwrap();
    let shown = dump(heading, found.len());
    for (index, (found, shown)) in found.chunks(16).zip(shown.chunks(16)).enumerate() {
        assert_eq!(found, shown, "at {:#05x}", 16 * index);
    }
}

#[test]
fn a_channel_matches_the_specification() {
    let config = ChannelConfig::new(SlotSize::B32, 4, Variant::EpochCredit).unwrap();
    let layout = ChannelLayout::new(config);
    let memory = SharedMemory::zeroed(layout.length_bytes());

    let domain = DomainId::new(NodeId(1), NonZeroU16::new(2).unwrap(), 3);
    let hash = 0x1122_3344_5566_7788;
    let hello_a = Hello { expedited_barrier: true, ..Hello::new(config, hash, Some(domain)) };
    let mut a = Handshake::start(&memory, Side::A, hello_a).unwrap();
    let mut b = Handshake::start(&memory, Side::B, Hello::new(config, hash, None)).unwrap();
    assert_eq!(a.step(), Ok(Progress::Changed));
    assert_eq!(b.step(), Ok(Progress::Changed));
    assert!(matches!((a.step(), b.step()), (Ok(Progress::Open(_)), Ok(Progress::Open(_)))));

    let ends = |side| layout.attach(&memory, side, WakeOrder::Fence).unwrap();
    let (mut a, mut b) = (ends(Side::A), ends(Side::B));
    a.producer.try_send(b"to B").unwrap();
    drop(b.consumer.try_recv().unwrap().unwrap());
    assert!(!b.consumer.poll());
    b.producer.set_reverse_credit(b.consumer.credit_to_piggyback());
    b.producer.try_send(b"from B, longer than one slot").unwrap();
    b.sleeper.arm(|| Ok::<(), ()>(())).unwrap();
    a.room_sleeper.arm(|| Ok::<(), ()>(())).unwrap();
    a.room_sleeper.disarm();
    b.producer.close();
    assert_specified(&memory, "Channel memory");
}

#[test]
fn a_window_header_matches_the_specification() {
    let window = SharedMemory::zeroed(4096);
    let generation = NonZeroU16::new(2).unwrap();
    let (window_id, node) = (WindowId(1), NodeId(1));
    WindowHeader { window: window_id, node, generation, length_bytes: 1 << 20, caches: None }.write(&window);
    assert_specified(&window, "Windows");
}
