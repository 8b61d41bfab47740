//! Fast paths, and the counters of both ends.
#![cfg(not(loom))]

mod common;

use common::{VARIANTS, config, pattern, receive, ring};
use tombolo_base::sync::Ordering::Relaxed;
use tombolo_ring::{
    B64_PAYLOAD_BYTES, Consumer, Peek, RecvError, SendError, SlotSize, TargetTooShort, Variant,
};

/// Returns the message found by the fast path, or whether the slow path is needed.
fn recv_fast(consumer: &mut Consumer) -> (Option<Vec<u8>>, bool) {
    match consumer.peek() {
        Peek::Message(head) => {
            let message = consumer.view(&head).to_vec();
            consumer.consume(head);
            (Some(message), false)
        }
        Peek::Empty => (None, false),
        Peek::SlowPath => (None, true),
    }
}

const NOTHING: (Option<Vec<u8>>, bool) = (None, false);
const SLOW_PATH: (Option<Vec<u8>>, bool) = (None, true);

#[test]
fn the_fast_path_receives_messages_of_all_lengths() {
    for variant in VARIANTS {
        for size in SlotSize::ALL {
            let (_, mut producer, mut consumer) = ring(config(size, 4, variant));
            assert_eq!(recv_fast(&mut consumer), NOTHING);
            for len in (0..=producer.max_message_bytes()).step_by(if cfg!(miri) { 61 } else { 1 }) {
                producer.try_send(&pattern(len as u8, len)).unwrap();
                assert_eq!(recv_fast(&mut consumer), (Some(pattern(len as u8, len)), false));
                // Slots are returned, which the fast path leaves to `try_recv`.
                assert_eq!(receive(&mut consumer), None);
                assert_eq!(recv_fast(&mut consumer), NOTHING);
            }
        }
    }
}

#[test]
fn a_message_is_copied_whole_or_not_at_all() {
    for variant in VARIANTS {
        for size in SlotSize::ALL {
            let (_, mut producer, mut consumer) = ring(config(size, 4, variant));
            for len in [1, 8, size.payload_bytes(), size.payload_bytes() + 1, 2 * size.payload_bytes() + 1] {
                let sent = pattern(3, len);
                producer.try_send(&sent).unwrap();
                let message = consumer.try_recv().unwrap().unwrap();
                let mut target = vec![0xee; len + 9];
                let error = TargetTooShort { message_bytes: len, target_bytes: len - 1 };
                assert_eq!(message.copy_to(&mut target[..len - 1]), Err(error));
                assert!(target.iter().all(|byte| *byte == 0xee), "{len} bytes in {size:?}");
                assert_eq!(message.copy_to(&mut target), Ok(len));
                assert_eq!((&target[..len], &target[len..]), (&sent[..], &[0xee; 9][..]));
                drop(message);
                assert_eq!(receive(&mut consumer), None);
            }
        }
    }
}

#[test]
fn single_slot_message_is_copied_as_a_slot() {
    for size in SlotSize::ALL {
        let (_, mut producer, mut consumer) = ring(config(size, 4, Variant::EpochCredit));
        for len in [0, 1, 24, 25, 55, 56, 57, 112, 113] {
            if len > producer.max_message_bytes() {
                continue;
            }
            producer.try_send(&pattern(9, len)).unwrap();
            let Peek::Message(head) = consumer.peek() else { panic!("{len} bytes in {size:?}") };
            let mut target = [0xee; B64_PAYLOAD_BYTES];
            let copied = consumer.view(&head).copy_slot_to(&mut target);
            assert_eq!(copied, size == SlotSize::B64 && len <= 56, "{len} bytes in {size:?}");
            if copied {
                assert_eq!(target[..len], pattern(9, len));
            } else {
                assert_eq!(target, [0xee; B64_PAYLOAD_BYTES]);
            }
            consumer.consume(head);
            assert_eq!(recv_fast(&mut consumer), NOTHING);
        }
    }
}

/// Sends three messages of numbers from 1 on in one batch, and receives them as bytes and as numbers.
fn words_arrive<const N: usize>() {
    for variant in VARIANTS {
        for size in SlotSize::ALL {
            let (_, mut producer, mut consumer) = ring(config(size, 16, variant));
            let mut read_as_words = false;
            for lap in 0..3 {
                let numbers: [u64; N] = std::array::from_fn(|index| index as u64 + 1 + (lap << 56));
                let mut batch = producer.batch();
                batch.push_words(numbers).unwrap();
                let opposite = numbers.map(|number| !number);
                let second = batch.push_words(opposite).is_ok();
                let other = numbers.map(|number| number << 8);
                let third = second && batch.push_words(other).is_ok();
                batch.commit();
                let bytes = |numbers: [u64; N]| Some(numbers.map(u64::to_le_bytes).concat());
                assert_eq!(receive(&mut consumer), bytes(numbers), "{N} words in {size:?}, {variant:?}");
                if second {
                    assert_eq!(receive(&mut consumer), bytes(opposite));
                }
                if third {
                    let message = consumer.try_recv().unwrap().unwrap();
                    assert_eq!(message.view().to_words(), Some(other), "{N} words in {size:?}");
                    assert_eq!(message.view().to_words::<20>(), None);
                }
                read_as_words |= third;
                assert_eq!(receive(&mut consumer), None);
            }
            assert!(read_as_words, "{N} words in {size:?}");
            assert_eq!(producer.counters().messages, consumer.counters().messages);
            assert_eq!(producer.counters().bytes, consumer.counters().messages * 8 * N as u64);
        }
    }
}

#[test]
fn messages_of_words_arrive_as_their_bytes() {
    words_arrive::<0>();
    words_arrive::<1>();
    words_arrive::<2>();
    words_arrive::<6>();
    words_arrive::<7>();
    words_arrive::<8>();
    words_arrive::<9>();
    words_arrive::<14>();
    words_arrive::<15>();
}

#[test]
fn empty_peek_returns_slots_once() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, Variant::EpochCredit));
    producer.try_send(&[1]).unwrap();
    assert_eq!(recv_fast(&mut consumer), (Some(vec![1]), false));
    assert_eq!(memory.credit_line.load_le(0, Relaxed), 0);
    for _ in 0..2 {
        assert_eq!(recv_fast(&mut consumer), NOTHING);
        assert_eq!(memory.credit_line.load_le(0, Relaxed), 1);
        assert_eq!(consumer.counters().credit_stores, 1);
    }
}

#[test]
fn peek_defers_closes_and_violations_to_try_recv() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        producer.try_send(&[1]).unwrap();
        producer.close();
        assert_eq!(recv_fast(&mut consumer), (Some(vec![1]), false));
        assert_eq!(recv_fast(&mut consumer), SLOW_PATH);
        assert_eq!(consumer.try_recv().err(), Some(RecvError::Closed));
        assert_eq!(recv_fast(&mut consumer), SLOW_PATH);

        // A tag of another lap, an overfull single slot, and a message that is cut off.
        for word in [0x8001, 0x8000 | 25 << 16, 0x8000 | 24 << 16 | 1 << 24] {
            let (memory, _, mut consumer) = ring(config(SlotSize::B32, 4, variant));
            memory.slots.store_le(3, word, Relaxed);
            assert_eq!(recv_fast(&mut consumer), SLOW_PATH, "{word:#x}");
            assert!(matches!(consumer.try_recv(), Err(RecvError::Violation(_))), "{word:#x}");
            assert_eq!(recv_fast(&mut consumer), SLOW_PATH);
        }
    }
}

#[test]
fn short_sends_use_one_or_two_known_free_slots() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        for (len, sent) in [(24, true), (25, true), (48, false), (49, false), (24, true), (0, false)] {
            assert_eq!(producer.try_send_short(&pattern(7, len)), sent, "{len} bytes");
        }
        assert_eq!(producer.counters().credit_loads, 0);
        assert_eq!(producer.counters().refused_full, 0, "try_send_short must not count as a refused send");
        for len in [24, 25, 24] {
            assert_eq!(receive(&mut consumer), Some(pattern(7, len)));
        }
        assert_eq!(receive(&mut consumer), None);
        // There is room again, but no send has looked for it.
        assert!(!producer.try_send_short(&[1]));
        producer.try_send(&[1]).unwrap();
        assert!(producer.try_send_short(&[2]));
        assert_eq!((producer.messages(), consumer.counters().messages), (5, 3));
    }
    let limited = config(SlotSize::B32, 4, Variant::EpochCredit).with_max_message_bytes(30);
    let (_, mut producer, _) = ring(limited);
    assert!(!producer.try_send_short(&[0; 31]));
    assert!(producer.try_send_short(&[0; 30]));
}

#[test]
fn room_is_counted_to_the_slot() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, variant));
        assert_eq!(producer.known_free_slots(), 8);
        for sent in 1..=8 {
            producer.try_send(&[sent]).unwrap();
            assert_eq!(producer.free_slots().unwrap_or(99), if sent == 8 { 0 } else { 8 - u64::from(sent) });
            assert_eq!(producer.known_free_slots(), 8 - u64::from(sent));
        }
        assert_eq!(producer.try_send(&[0; 50]), Err(SendError::Full));
        assert_eq!(producer.refused_bytes(), 50);
        for _ in 0..2 {
            assert!(receive(&mut consumer).is_some());
        }
        assert!(consumer.poll(), "six messages are left");
        assert_eq!(producer.known_free_slots(), 0, "the producer has not looked for credit");
        let credited = if variant == Variant::EpochCredit { 0 } else { 2 };
        // With used flags the producer looks at most half a ring ahead, which the consumer has not reached
        // yet.
        assert_eq!(producer.free_slots(), Ok(credited.min(1)));
        for _ in 0..6 {
            assert!(receive(&mut consumer).is_some());
        }
        assert_eq!(receive(&mut consumer), None);
        producer.try_send(&[0; 192]).unwrap();
        assert_eq!(producer.known_free_slots(), 0);
    }
}

#[test]
fn search_for_room_costs_one_counted_load() {
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    for round in 1..=3 {
        while producer.try_send_short(&[0]) {}
        assert_eq!(producer.try_send(&[0]), Err(SendError::Full));
        assert_eq!(producer.counters().refused_full, round);
        while receive(&mut consumer).is_some() {}
        assert!(!producer.is_full().unwrap());
        assert_eq!(producer.counters().credit_loads, 2 * round);
    }
}

#[test]
fn with_used_flags_one_load_covers_half_a_ring() {
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, Variant::UsedFlag));
    for expected in [0, 2, 4] {
        for _ in 0..8 {
            producer.try_send(&[0]).unwrap();
            assert!(receive(&mut consumer).is_some());
        }
        assert_eq!(producer.counters().credit_loads, expected);
    }
}

#[test]
fn message_that_exactly_fits_needs_no_load() {
    for variant in VARIANTS {
        let (_, mut producer, _) = ring(config(SlotSize::B32, 4, variant));
        producer.try_send(&pattern(1, 24)).unwrap();
        producer.try_send(&pattern(1, 72)).unwrap();
        assert_eq!((producer.counters().credit_loads, producer.known_free_slots()), (0, 0));
    }
}

#[test]
fn numbers_are_read_in_every_slot_of_a_message() {
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, Variant::EpochCredit));
    for _ in 0..3 {
        let mut claim = producer.claim(72).unwrap();
        for number in 0..9 {
            claim.write_u64_le(8 * number, 100 + number as u64).unwrap();
        }
        claim.commit();
        let message = consumer.try_recv().unwrap().unwrap();
        let numbers: Vec<u64> = (0..9).map(|number| message.read_u64_le(8 * number).unwrap()).collect();
        assert_eq!(numbers, (100..109).collect::<Vec<u64>>());
        drop(message);
        assert_eq!(receive(&mut consumer), None);
    }
}

#[test]
fn slots_are_returned_every_half_ring_wherever_the_lap_ends() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, Variant::EpochCredit));
    let mut pass = || {
        producer.try_send(&[1]).unwrap();
        assert!(receive(&mut consumer).is_some());
        memory.credit_line.load_le(0, Relaxed)
    };
    let given: Vec<u64> = (0..6).map(|_| pass()).collect();
    assert_eq!(given, [0, 0, 0, 4, 4, 4]);
    assert_eq!(receive(&mut consumer), None);
    let mut pass = || {
        producer.try_send(&[1]).unwrap();
        assert!(receive(&mut consumer).is_some());
        memory.credit_line.load_le(0, Relaxed)
    };
    // Six were returned by the idle poll; the lap ends at eight.
    let given: Vec<u64> = (0..5).map(|_| pass()).collect();
    assert_eq!(given, [6, 6, 6, 10, 10]);
}

#[test]
fn abandoned_consumer_neither_receives_nor_notifies() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        producer.try_send(&[1]).unwrap();
        consumer.abandon();
        assert_eq!(consumer.try_recv().err(), Some(RecvError::Closed));
        assert!(!producer.peer_closed());
        assert_eq!(producer.try_send(&[2]), Ok(()));
    }
}

#[test]
fn empty_messages_are_received() {
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    for len in [0, 1] {
        let mut claim = producer.claim(1).unwrap();
        assert!(!claim.is_empty());
        claim.truncate(len);
        assert_eq!((claim.len(), claim.is_empty()), (len, len == 0));
        claim.commit();
        let message = consumer.try_recv().unwrap().unwrap();
        assert_eq!((message.len(), message.is_empty()), (len, len == 0));
    }
    let mut batch = producer.batch();
    assert!(batch.is_empty());
    assert_eq!(batch.len(), 0);
    batch.push(&[]).unwrap();
    assert!(!batch.is_empty());
    batch.push(&[0; 30]).unwrap();
    assert_eq!(batch.len(), 2);
}

#[test]
fn both_ends_count_messages_and_bytes() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, variant));
        for len in [0, 24, 25, 90] {
            producer.try_send(&pattern(1, len)).unwrap();
            assert_eq!(receive(&mut consumer), Some(pattern(1, len)));
            assert_eq!(receive(&mut consumer), None);
        }
        assert_eq!(
            (producer.counters().messages, producer.messages(), producer.counters().bytes),
            (4, 4, 139)
        );
        assert_eq!((consumer.counters().messages, consumer.counters().bytes), (4, 139));
        assert_eq!(consumer.credit_to_piggyback(), 8, "slots");
        assert_eq!(consumer.credit_stores(), 4);
        assert_eq!(consumer.counters().credit_stores, 4);
    }
}

#[test]
fn end_reports_its_config_and_position() {
    let shape = config(SlotSize::B32, 4, Variant::EpochCredit).with_max_message_bytes(50);
    let (_, mut producer, mut consumer) = ring(shape);
    assert_eq!((producer.config(), consumer.config()), (&shape, &shape));
    assert_eq!(producer.max_message_bytes(), 50);
    producer.try_send(&[0; 40]).unwrap();
    assert!(format!("{producer:?}").contains("position: 2, limit: 4"), "{producer:?}");
    let message = consumer.try_recv().unwrap().unwrap();
    assert_eq!(format!("{message:?}"), "Message(40 bytes in 2 slots)");
    drop(message);
    consumer.close();
    assert!(
        format!("{consumer:?}").contains("position: 2, credited: 2, ended: Some(Closed)"),
        "{consumer:?}"
    );
}

#[test]
fn peek_accepts_a_full_slot_and_nothing_beyond_the_limit() {
    for limit in [0, 10, 24] {
        for variant in VARIANTS {
            let shape = config(SlotSize::B32, 4, variant).with_max_message_bytes(limit);
            let (memory, _, mut consumer) = ring(shape);
            memory.slots.store_le(3, 0x8000 | (limit as u64 + 1) << 16, Relaxed);
            assert!(matches!(consumer.try_recv(), Err(RecvError::Violation(_))), "limit {limit}");
            let (memory, _, mut consumer) = ring(shape);
            memory.slots.store_le(3, 0x8000 | (limit as u64) << 16, Relaxed);
            assert_eq!(receive(&mut consumer).map(|message| message.len()), Some(limit));
        }
    }
}
