//! Handshakes of links and channels, and the allocator of windows.

use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering::Relaxed;
use tombolo_link::handshake::Progress;
use tombolo_link::hello::{HELLO_BYTES, words_from_bytes};
use tombolo_link::layout::{HEADER_BYTES, PAGE_BYTES};
use tombolo_link::streams::{Streams, WINDOW_BYTES};
use tombolo_link::window::{WindowAllocator, WindowHeader, WindowRange};
use tombolo_link::{ChannelConfig, ChannelLayout, Handshake, Hello, Side};
use tombolo_ring::WakeOrder;

use crate::read::Choices;

fn ours() -> Hello {
    Hello::new(ChannelConfig::default(), 0x1234, None)
}

pub(super) fn hello(input: &[u8]) {
    let mut bytes = [0; HELLO_BYTES];
    let length = input.len().min(HELLO_BYTES);
    bytes[..length].copy_from_slice(&input[..length]);
    let theirs = words_from_bytes(&bytes);
    if let Ok(agreed) = ours().agree(&theirs) {
        assert_eq!(Hello::proposed_config(&theirs), Some(ours().config), "{agreed:?}");
    }
    if let Some(config) = Hello::proposed_config(&theirs) {
        // Every proposed configuration has a valid layout of bounded size.
        assert!(ChannelLayout::new(config).length_bytes() <= 64 << 20);
    }
}

pub(super) fn hello_seeds() -> Vec<Vec<u8>> {
    vec![ours().to_bytes().to_vec(), Hello::new(ChannelConfig::default(), 0, None).to_bytes().to_vec()]
}

/// Feeds the host the bytes that a virtual machine without a window writes to its port.
pub(super) fn streams(input: &[u8]) {
    let mut side = Streams::new();
    side.open(1);
    for (piece, takes) in input.chunks(61).zip([true, false].into_iter().cycle()) {
        if let Err(error) = side.receive(piece) {
            assert!(!error.to_string().is_empty());
            return;
        }
        let length = side.pending(1).len();
        assert!(length <= WINDOW_BYTES as usize);
        if takes {
            side.consume_pending(1, length);
        }
    }
}

pub(super) fn streams_seeds() -> Vec<Vec<u8>> {
    let mut far = Streams::new();
    far.open(1);
    let mut near = Streams::new();
    near.open(1);
    let opened = near.outgoing().to_vec();
    let _ = far.receive(&opened);
    far.send(1, b"some bytes");
    far.end(1);
    far.end(2);
    vec![far.outgoing().to_vec()]
}

/// Writes the shared header word by word between the steps of this side's handshake.
pub(super) fn handshake(input: &[u8]) {
    let memory = SharedMemory::zeroed(ChannelLayout::new(ours().config).length_bytes());
    let Ok(mut handshake) = Handshake::start(&memory, Side::B, ours()) else { return };
    let mut choices = Choices::new(input);
    while !choices.is_empty() {
        let index = usize::from(choices.byte()) % (HEADER_BYTES / 8);
        memory.store_le(index, choices.word(), Relaxed);
        match handshake.step() {
            Ok(Progress::Open(agreed)) => {
                let order = if agreed.expedited_barrier { WakeOrder::Asymmetric } else { WakeOrder::Fence };
                let attached = ChannelLayout::new(ours().config).attach(&memory, Side::B, order);
                assert!(attached.is_ok(), "it was agreed upon");
                return;
            }
            Ok(_) => {}
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}

pub(super) fn handshake_seeds() -> Vec<Vec<u8>> {
    // The hello of side A, word by word, then its verdict.
    let mut seed = Vec::new();
    let mut words: Vec<(u8, u64)> = (0..8).zip(ours().to_words()).collect();
    words.push((7, 1));
    words.push((8, 1));
    for (index, word) in words {
        seed.push(index);
        seed.extend(word.to_le_bytes());
    }
    vec![seed]
}

pub(super) fn window_header(input: &[u8]) {
    let memory = SharedMemory::zeroed(2 * PAGE_BYTES);
    let length = input.len().min(memory.len_bytes());
    if memory.copy_in(0, &input[..length]).is_ok()
        && let Ok(header) = WindowHeader::read(&memory)
    {
        assert_eq!(header.length_bytes, memory.len_bytes() as u64, "a window as long as it is");
    }
}

pub(super) fn window_header_seeds() -> Vec<Vec<u8>> {
    let memory = SharedMemory::zeroed(2 * PAGE_BYTES);
    let header = WindowHeader {
        window: tombolo_base::WindowId(1),
        node: tombolo_base::NodeId(1),
        generation: std::num::NonZeroU16::MIN,
        length_bytes: memory.len_bytes() as u64,
        caches: None,
    };
    header.write(&memory);
    let mut bytes = vec![0; 256];
    let _ = memory.copy_out(0, &mut bytes);
    vec![bytes]
}

/// Checks that lent ranges do not overlap, lie inside the window, and can be returned exactly once.
pub(super) fn allocator(input: &[u8]) {
    const START: u64 = 3 * PAGE_BYTES as u64;
    const END: u64 = 40 * PAGE_BYTES as u64;
    let mut allocator = WindowAllocator::new(START, END);
    let mut lent: Vec<WindowRange> = Vec::new();
    let mut choices = Choices::new(input);
    while !choices.is_empty() {
        match choices.below(4) {
            0 | 1 => {
                let wanted = match choices.below(3) {
                    0 => u64::from(choices.byte()) * 64,
                    1 => choices.word() % END,
                    _ => choices.word(),
                };
                if let Ok(range) = allocator.allocate(wanted) {
                    assert!(range.length_bytes >= wanted && range.offset_bytes >= START);
                    assert!(range.offset_bytes + range.length_bytes <= END);
                    let apart = |other: &WindowRange| {
                        other.offset_bytes + other.length_bytes <= range.offset_bytes
                            || range.offset_bytes + range.length_bytes <= other.offset_bytes
                    };
                    assert!(lent.iter().all(apart), "{range:?} overlaps one of {lent:?}");
                    lent.push(range);
                }
            }
            2 if !lent.is_empty() => {
                let range = lent.swap_remove(usize::from(choices.byte()) % lent.len());
                assert!(allocator.free(range));
                assert!(!allocator.free(range), "twice");
            }
            _ => {
                let range = WindowRange { offset_bytes: choices.word(), length_bytes: choices.word() };
                assert_eq!(allocator.free(range), lent.contains(&range));
                lent.retain(|other| *other != range);
            }
        }
        assert_eq!(allocator.allocated_bytes(), lent.iter().map(|range| range.length_bytes).sum::<u64>());
    }
    lent.into_iter().for_each(|range| assert!(allocator.free(range)));
    assert!(allocator.allocate(END - START).is_ok(), "all came back and grew together");
}

pub(super) fn allocator_seeds() -> Vec<Vec<u8>> {
    vec![vec![0, 0, 10, 1, 0, 200, 0, 0, 64, 2, 1, 2, 0, 0, 0, 5, 2, 0], (0..=255).collect()]
}
