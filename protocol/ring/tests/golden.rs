//! The exact bytes on the wire, as `docs/specs/ring.md` specifies them, on every processor.
#![cfg(not(loom))]

mod common;

use common::{config, receive, ring};
use tombolo_base::SharedMemory;
use tombolo_ring::{SlotSize, Variant};

fn bytes(memory: &SharedMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len_bytes()];
    memory.copy_out(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn epoch_credit() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    // Lap 0: five bytes, then thirty bytes in two slots, with credit 0x01020304 for the reverse ring.
    producer.try_send(b"hello").unwrap();
    producer.set_reverse_credit(0x0102_0304);
    producer.try_send(b"thirty bytes go over two slots").unwrap();
    #[rustfmt::skip]
    let lap_0 = [
        b'h', b'e', b'l', b'l', b'o', 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0x00, 0x80, 5, 0,  0, 0, 0, 0,
        b't', b'h', b'i', b'r', b't', b'y', b' ', b'b',  b'y', b't', b'e', b's', b' ', b'g', b'o', b' ',
        b'o', b'v', b'e', b'r', b' ', b't', b'w', b'o',
        0x00, 0x80, 24, 1,  4, 3, 2, 1,
        b' ', b's', b'l', b'o', b't', b's', 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0x00, 0x80, 6, 0,  4, 3, 2, 1,
        0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,  0, 0, 0, 0,
    ];
    assert_eq!(bytes(&memory.slots), lap_0);
    assert_eq!(receive(&mut consumer).unwrap(), b"hello");
    assert_eq!(consumer.reverse_credit(), 0);
    assert_eq!(receive(&mut consumer).unwrap(), b"thirty bytes go over two slots");
    assert_eq!(consumer.reverse_credit(), 0x0102_0304);
    assert_eq!(receive(&mut consumer), None);

    // An empty message, then lap 1: one byte over what "hello" left. Then the end.
    producer.try_send(b"").unwrap();
    producer.try_send(b"!").unwrap();
    #[rustfmt::skip]
    let lap_1 = [
        b'!', 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        0x01, 0x80, 1, 0,  4, 3, 2, 1,
    ];
    let after = bytes(&memory.slots);
    assert_eq!(after[..32], lap_1);
    assert_eq!(after[32..96], lap_0[32..96]);
    assert_eq!(after[96..120], [0; 24]);
    assert_eq!(after[120..], [0x00, 0x80, 0, 0, 4, 3, 2, 1]);
    assert_eq!(bytes(&memory.credit_line)[..16], [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&memory.producer_line)[..16], [0; 16]);
    producer.close();
    consumer.close();
    assert_eq!(bytes(&memory.producer_line)[..16], [6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&memory.credit_line)[..16], [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&memory.credit_line)[16..], [0; 112]);
}

#[test]
fn used_flag() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B64, 2, Variant::UsedFlag));
    for seed in 1..=3 {
        producer.try_send(&[seed; 9]).unwrap();
        assert_eq!(receive(&mut consumer).unwrap(), [seed; 9]);
    }
    producer.try_send(&[4; 56]).unwrap();
    let mut expected = [0; 128];
    // Returned: the payload stays, the control word is zero.
    expected[..9].fill(3);
    // Lap 1 of the second slot.
    expected[64..120].fill(4);
    expected[120..].copy_from_slice(&[0x01, 0x80, 56, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&memory.slots), expected);
    assert_eq!(bytes(&memory.credit_line), [0; 128]);
}

#[test]
fn slots_of_128_bytes() {
    let (memory, mut producer, _) = ring(config(SlotSize::B128, 2, Variant::EpochCredit));
    let message: Vec<u8> = (1..=121).collect();
    producer.try_send(&message).unwrap();
    let mut expected = [0; 256];
    expected[..120].copy_from_slice(&message[..120]);
    expected[120..128].copy_from_slice(&[0x00, 0x80, 120, 1, 0, 0, 0, 0]);
    expected[128] = 121;
    expected[248..].copy_from_slice(&[0x00, 0x80, 1, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(&memory.slots), expected);
}

#[test]
fn numbers_in_claims_are_little_endian() {
    let (memory, mut producer, _) = ring(config(SlotSize::B32, 2, Variant::EpochCredit));
    let mut claim = producer.claim(24).unwrap();
    claim.write_u64_le(8, 0x0102_0304_0506_0708).unwrap();
    claim.write_at(3, &[0xaa, 0xbb]).unwrap();
    claim.write_u64_le(16, 1).unwrap();
    claim.commit();
    let expected = [0, 0, 0, 0xaa, 0xbb, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes(&memory.slots)[..24], expected);
}

#[test]
fn the_sleep_line() {
    let line = SharedMemory::zeroed(16);
    let mut sleeper = tombolo_ring::Sleeper::new(line.clone(), tombolo_ring::WakeOrder::Fence).unwrap();
    let no_barrier = || Ok::<(), ()>(());
    sleeper.arm(no_barrier).unwrap();
    assert_eq!(bytes(&line)[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    sleeper.disarm();
    sleeper.arm(no_barrier).unwrap();
    assert_eq!(bytes(&line), [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}
