//! Channels whose peer writes arbitrary data into the shared memory or the stream.

use std::time::Duration;

use tombolo_base::sync::Ordering::Relaxed;
use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::{Deadline, socket};
use tombolo_ring::{Consumer, Producer, RingConfig, RingMemory, SlotCount, SlotSize, Variant};
use tombolo_transport::{EndError, StreamChannel, TransportExt};

use crate::read::Choices;

/// Uses both ends of a ring while its memory is corrupted.
pub(super) fn ring(input: &[u8]) {
    let mut choices = Choices::new(input);
    let size = SlotSize::ALL[usize::from(choices.below(3))];
    let variant = if choices.below(2) == 0 { Variant::EpochCredit } else { Variant::UsedFlag };
    let Ok(slots) = SlotCount::new(2 << choices.below(4)) else { return };
    let config = RingConfig::new(size, slots, variant);
    let memory = RingMemory {
        slots: SharedMemory::zeroed(config.slots_bytes()),
        producer_line: SharedMemory::zeroed(LINE_BYTES),
        credit_line: SharedMemory::zeroed(LINE_BYTES),
    };
    let (Ok(mut producer), Ok(mut consumer)) =
        (Producer::new(config, memory.clone()), Consumer::new(config, memory.clone()))
    else {
        return;
    };
    let max_bytes = config.max_message_bytes();
    let (mut send_failed, mut receive_failed) = (None, None);
    while !choices.is_empty() {
        match choices.below(6) {
            0 | 1 => {
                let message = vec![choices.byte(); usize::from(choices.byte()) * 4];
                let sent = producer.try_send(&message);
                if let Some(before) = send_failed {
                    assert_ne!(sent, Ok(()), "after {before:?}");
                }
                if let Err(error @ tombolo_ring::SendError::Violation(_)) = sent {
                    send_failed = Some(error);
                }
            }
            2 => match consumer.try_recv() {
                Ok(Some(message)) => {
                    assert!(message.len() <= max_bytes);
                    assert_eq!(message.to_vec().len(), message.len());
                    assert!(receive_failed.is_none(), "a message after {receive_failed:?}");
                }
                Ok(None) => {}
                Err(error) => {
                    receive_failed.get_or_insert(error);
                }
            },
            3 => {
                producer.record_credit(choices.word() as u32);
            }
            4 => {
                let words = memory.slots.words().len();
                memory.slots.store_le(choices.word() as usize % words, choices.word(), Relaxed);
            }
            _ => {
                let line = if choices.below(2) == 0 { &memory.producer_line } else { &memory.credit_line };
                line.store_le(usize::from(choices.below(2)), choices.word(), Relaxed);
            }
        }
    }
    // Without further writes the ring holds at most as many messages as slots.
    for _ in 0..=config.slot_count().get() {
        match consumer.try_recv() {
            Ok(Some(_)) => {}
            _ => return,
        }
    }
    panic!("more messages than slots");
}

pub(super) fn ring_seeds() -> Vec<Vec<u8>> {
    let traffic = [0, 7, 9, 2, 1, 8, 40, 2, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0];
    [[0, 0, 1], [1, 1, 2], [2, 0, 3]].map(|head| [&head[..], &traffic[..], &traffic[..]].concat()).into()
}

fn ours() -> Hello {
    Hello::new(ChannelConfig::default(), 0, None)
}

/// Feeds a channel the bytes of a stream peer, its hello included.
pub(super) fn stream(input: &[u8]) {
    let Ok((theirs, own)) = socket::pair(socket::SocketKind::Stream) else { return };
    if socket::send(&theirs, input, &[]).is_err() {
        return;
    }
    // The peer sends nothing more.
    if rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).is_err() {
        return;
    }
    let Ok(mut channel) = StreamChannel::open(own, ours(), Deadline::after(Duration::from_secs(10))) else {
        return;
    };
    let (max_bytes, mut buffer) = (channel.max_message_bytes(), Vec::new());
    for _ in 0..=input.len() + 1 {
        match channel.try_recv_into(&mut buffer) {
            Ok(_) => assert!(buffer.len() <= max_bytes),
            Err(error) => {
                let ended = matches!(error, EndError::Closed | EndError::PeerDied | EndError::Broken);
                assert!(ended, "{error:?}");
                return;
            }
        }
    }
    panic!("the end of the stream is not seen");
}

pub(super) fn stream_seeds() -> Vec<Vec<u8>> {
    let mut open = ours().to_bytes().to_vec();
    // The verdict, two messages, and the close marker.
    open.extend(1_u64.to_le_bytes());
    let hello_only = open.clone();
    open.extend([3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0]);
    open.extend(u32::MAX.to_le_bytes());
    vec![hello_only, open]
}
