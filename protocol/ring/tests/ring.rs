//! Guarantees of the two ends, one per test.
#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "a guard that is leaked must do no harm")]

mod common;

use common::{VARIANTS, config, memory, pattern, receive, ring};
use tombolo_base::sync::Ordering::Relaxed;
use tombolo_ring::{Producer, RecvError, SendError, SlotSize, TargetTooShort, Variant};

/// Repetitions of operations that cycle through the ring: a few laps under miri.
const ROUNDS: u8 = if cfg!(miri) { 5 } else { 20 };

#[test]
fn every_length_arrives_in_every_ring() {
    for variant in VARIANTS {
        for size in SlotSize::ALL {
            let (_, mut producer, mut consumer) = ring(config(size, 4, variant));
            for len in (0..=producer.max_message_bytes()).step_by(if cfg!(miri) { 61 } else { 1 }) {
                let message = pattern(len as u8, len);
                producer.try_send(&message).unwrap();
                assert_eq!(receive(&mut consumer), Some(message));
                assert_eq!(receive(&mut consumer), None);
            }
            assert_eq!(producer.counters().messages, consumer.counters().messages);
            assert_eq!(producer.counters().bytes, consumer.counters().bytes);
        }
    }
}

#[test]
fn message_above_the_limit_is_refused_without_effect() {
    for variant in VARIANTS {
        for limit in [0, 1, 23, 24, 25, 96] {
            let (_, mut producer, mut consumer) =
                ring(config(SlotSize::B32, 4, variant).with_max_message_bytes(limit));
            let too_long = SendError::TooLong { len_bytes: limit + 1, max_bytes: limit };
            assert_eq!(producer.try_send(&pattern(1, limit + 1)), Err(too_long));
            assert_eq!(producer.claim(limit + 1).err(), Some(too_long));
            assert_eq!(producer.batch().push(&pattern(1, limit + 1)), Err(too_long));
            assert_eq!(receive(&mut consumer), None);
            for len in [limit.saturating_sub(1), limit] {
                producer.try_send(&pattern(2, len)).unwrap();
                assert_eq!(receive(&mut consumer), Some(pattern(2, len)));
                assert_eq!(receive(&mut consumer), None);
            }
        }
    }
}

#[test]
fn a_full_ring_refuses_until_slots_come_back() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        for seed in 0..4 {
            assert!(!producer.is_full().unwrap());
            producer.try_send(&[seed]).unwrap();
        }
        assert!(producer.is_full().unwrap());
        assert_eq!(producer.try_send(&[4]), Err(SendError::Full));
        assert_eq!(producer.counters().refused_full, 1);
        for seed in 0..4 {
            assert_eq!(receive(&mut consumer), Some(vec![seed]));
        }
        // At least half: with used flags the producer looks for no more than it needs.
        assert!(producer.free_slots().unwrap() >= 2);
        producer.try_send(&pattern(5, 96)).unwrap();
        assert_eq!(receive(&mut consumer), Some(pattern(5, 96)));
    }
}

#[test]
fn credit_is_forced_at_half_the_ring_and_flushed_when_idle_once() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, Variant::EpochCredit));
    let credit = || memory.credit_line.load_le(0, Relaxed);
    for seed in 0..6 {
        producer.try_send(&[seed]).unwrap();
    }
    for (consumed, expected) in [(1, 0), (2, 0), (3, 0), (4, 4), (5, 4), (6, 4)] {
        assert!(receive(&mut consumer).is_some());
        assert_eq!(credit(), expected, "after {consumed}");
    }
    assert_eq!(receive(&mut consumer), None);
    assert_eq!(credit(), 6);
    assert_eq!(consumer.counters().credit_stores, 2);
    assert_eq!(receive(&mut consumer), None);
    assert!(!consumer.poll());
    assert_eq!(consumer.counters().credit_stores, 2);
}

#[test]
fn used_slots_are_cleared_at_once() {
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, Variant::UsedFlag));
    producer.try_send(&pattern(1, 48)).unwrap();
    let control = |slot: usize| memory.slots.load_le(slot * 4 + 3, Relaxed);
    assert!(control(0) != 0 && control(1) != 0);
    assert!(receive(&mut consumer).is_some());
    assert_eq!((control(0), control(1)), (0, 0));
}

#[test]
fn a_claim_is_written_in_place_and_published_by_commit() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, variant));
        let mut claim = producer.claim(60).unwrap();
        assert_eq!(claim.len(), 60);
        claim.write_at(0, &pattern(3, 60)).unwrap();
        claim.write_u64_le(16, 0x0102_0304_0506_0708).unwrap();
        claim.write_u64_le(43, u64::MAX).unwrap();
        assert!(claim.write_u64_le(53, 0).is_err());
        assert!(claim.write_at(60, &[0]).is_err());
        assert!(claim.write_at(usize::MAX, &[0; 2]).is_err());
        assert!(claim.write_at(60, &[]).is_ok());
        assert_eq!(receive(&mut consumer), None);
        claim.commit();
        let mut expected = pattern(3, 60);
        expected[16..24].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        expected[43..51].fill(0xff);
        let message = consumer.try_recv().unwrap().unwrap();
        assert_eq!(message.to_vec(), expected);
        assert_eq!(message.read_u64_le(16), Ok(0x0102_0304_0506_0708));
        assert_eq!(message.read_u64_le(43), Ok(u64::MAX));
        assert!(message.read_u64_le(53).is_err());
        let mut part = [0; 30];
        message.read_at(20, &mut part).unwrap();
        assert_eq!(part, expected[20..50]);
        assert!(message.read_at(31, &mut part).is_err());
        let error = TargetTooShort { message_bytes: 60, target_bytes: 30 };
        assert_eq!(message.copy_to(&mut part), Err(error));
    }
}

#[test]
fn a_dropped_claim_sends_nothing_and_a_truncated_one_less() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        for _ in 0..ROUNDS {
            let mut claim = producer.claim(96).unwrap();
            claim.write_at(0, &[0xff; 96]).unwrap();
            drop(claim);
            assert_eq!(receive(&mut consumer), None);
            let mut claim = producer.claim(96).unwrap();
            claim.write_at(0, &pattern(9, 96)).unwrap();
            claim.truncate(30);
            claim.truncate(31);
            claim.commit();
            assert_eq!(receive(&mut consumer), Some(pattern(9, 30)));
            assert_eq!(receive(&mut consumer), None);
        }
    }
}

#[test]
fn batch_appears_whole_or_never() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, variant));
        for round in 0..ROUNDS {
            let mut batch = producer.batch();
            for len in [10, 50, 0] {
                batch.push(&pattern(round, len)).unwrap();
            }
            assert_eq!(batch.len(), 3);
            assert_eq!(receive(&mut consumer), None);
            drop(batch);
            assert_eq!(receive(&mut consumer), None);

            let mut batch = producer.batch();
            for len in [30, 5, 24, 48] {
                batch.push(&pattern(round, len)).unwrap();
            }
            assert_eq!(receive(&mut consumer), None);
            batch.commit();
            for len in [30, 5, 24, 48] {
                assert_eq!(receive(&mut consumer), Some(pattern(round, len)));
            }
            assert_eq!(receive(&mut consumer), None);
        }
        producer.batch().commit();
        assert_eq!(receive(&mut consumer), None);
        let (sent, received) = (producer.counters(), consumer.counters());
        let kept = (4 * u64::from(ROUNDS), 107 * u64::from(ROUNDS));
        assert_eq!((sent.messages, sent.bytes), kept, "what was given up is not counted");
        assert_eq!((received.messages, received.bytes), kept);
    }
}

/// The slot that a batch holds back is still zero, and the producer must not mistake it for a returned one.
#[test]
fn batch_does_not_count_its_own_slots_as_free() {
    for variant in VARIANTS {
        for already_sent in 0..5 {
            let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
            for seed in 0..already_sent {
                producer.try_send(&[seed]).unwrap();
                assert_eq!(receive(&mut consumer), Some(vec![seed]));
            }
            assert_eq!(receive(&mut consumer), None);
            let mut batch = producer.batch();
            for seed in 10..14 {
                batch.push(&[seed]).unwrap();
            }
            assert_eq!(batch.push(&[14]), Err(SendError::Full));
            batch.commit();
            for seed in 10..14 {
                assert_eq!(receive(&mut consumer), Some(vec![seed]));
            }
            assert_eq!(receive(&mut consumer), None);
        }
    }
}

/// Nothing after the leaked batch arrives, and no slot is misinterpreted.
#[test]
fn a_leaked_batch_stops_the_ring() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 8, variant));
        let mut leaked = producer.batch();
        leaked.push(&[1]).unwrap();
        leaked.push(&[2]).unwrap();
        std::mem::forget(leaked);
        let mut batch = producer.batch();
        batch.push(&[3; 20]).unwrap();
        batch.commit();
        producer.try_send(&[4]).unwrap();
        assert_eq!(receive(&mut consumer), None);
    }
}

#[test]
fn a_leaked_message_is_received_again() {
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    producer.try_send(b"again").unwrap();
    std::mem::forget(consumer.try_recv().unwrap().unwrap());
    assert!(consumer.poll());
    assert_eq!(receive(&mut consumer), Some(b"again".to_vec()));
    assert_eq!(receive(&mut consumer), None);
}

#[test]
fn messages_sent_before_a_close_are_received() {
    for variant in VARIANTS {
        for sent in 0..4 {
            let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
            for seed in 0..sent {
                producer.try_send(&[seed]).unwrap();
            }
            producer.close();
            producer.close();
            assert_eq!(producer.try_send(&[9]), Err(SendError::Closed));
            assert_eq!(producer.claim(1).err(), Some(SendError::Closed));
            assert_eq!(producer.batch().push(&[9]), Err(SendError::Closed));
            assert_eq!(producer.is_full(), Err(SendError::Closed));
            for seed in 0..sent {
                assert_eq!(receive(&mut consumer), Some(vec![seed]));
            }
            assert!(consumer.poll());
            for _ in 0..3 {
                assert_eq!(consumer.try_recv().err(), Some(RecvError::Closed));
            }
        }
    }
}

#[test]
fn abandoned_producer_fails_and_does_not_notify() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        producer.try_send(&[1]).unwrap();
        producer.abandon();
        producer.close();
        assert_eq!(producer.try_send(&[2]), Err(SendError::Abandoned));
        assert_eq!(receive(&mut consumer), Some(vec![1]));
        assert!(consumer.try_recv().unwrap().is_none());
    }
}

#[test]
fn producer_without_room_detects_a_close() {
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        producer.try_send(&[1]).unwrap();
        assert!(!producer.peer_closed());
        consumer.close();
        assert!(producer.peer_closed());
        assert_eq!(consumer.try_recv().err(), Some(RecvError::Closed));
        let outcome = (0..3).find_map(|_| producer.try_send(&[2]).err());
        assert_eq!(outcome, Some(SendError::Closed));
        assert_eq!(producer.try_send(&[3]), Err(SendError::Closed));
        producer.record_credit(1);
        assert_eq!(producer.free_slots(), Err(SendError::Closed));
    }
}

#[test]
fn piggybacked_credit_makes_room_without_a_load_of_the_line() {
    let config = config(SlotSize::B32, 4, Variant::EpochCredit);
    let (_, mut there, mut far_consumer) = ring(config);
    let (_, mut back, mut near_consumer) = ring(config);
    for round in 0..100 {
        there.try_send(&[round]).unwrap();
        assert_eq!(receive(&mut far_consumer), Some(vec![round]));
        back.set_reverse_credit(far_consumer.credit_to_piggyback());
        back.try_send(&[round]).unwrap();
        assert_eq!(receive(&mut near_consumer), Some(vec![round]));
        assert_eq!(near_consumer.reverse_credit(), u32::from(round) + 1);
        there.record_credit(near_consumer.reverse_credit());
    }
    assert_eq!(there.counters().credit_loads, 0);
    assert!(back.counters().credit_loads > 0);
}

#[test]
fn lap_tags_wrap_after_32768_laps() {
    let laps: u32 = if cfg!(miri) { 20 } else { 70_000 };
    for variant in VARIANTS {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        for lap in 0..laps {
            for half in 0..2 {
                producer.try_send(&(lap * 2 + half).to_le_bytes()).unwrap();
            }
            assert_eq!(producer.try_send(&[0]), Err(SendError::Full));
            for half in 0..2 {
                assert_eq!(receive(&mut consumer), Some((lap * 2 + half).to_le_bytes().to_vec()));
            }
            assert_eq!(receive(&mut consumer), None);
        }
    }
}

#[test]
fn the_largest_ring_works() {
    if cfg!(miri) {
        return;
    }
    let (_, mut producer, mut consumer) = ring(config(SlotSize::B64, 65_536, Variant::EpochCredit));
    let message = pattern(1, producer.max_message_bytes());
    for _ in 0..3 {
        producer.try_send(&message).unwrap();
        assert_eq!(receive(&mut consumer).as_deref(), Some(&message[..]));
        assert_eq!(receive(&mut consumer), None);
    }
}

#[test]
fn two_threads_pass_messages_of_all_lengths() {
    let rounds: usize = if cfg!(miri) { 20 } else { 100_000 };
    for variant in VARIANTS {
        let config = config(SlotSize::B64, 16, variant).with_max_message_bytes(300);
        let (_memory, mut producer, mut consumer) = ring(config);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..rounds {
                    let message = pattern(round as u8, round % 301);
                    while let Err(error) = producer.try_send(&message) {
                        assert_eq!(error, SendError::Full);
                        std::thread::yield_now();
                    }
                }
                producer.close();
            });
            for round in 0..rounds {
                let message = loop {
                    match receive(&mut consumer) {
                        Some(message) => break message,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(message, pattern(round as u8, round % 301));
            }
            let end = loop {
                match consumer.try_recv() {
                    Ok(None) => std::thread::yield_now(),
                    Ok(Some(message)) => panic!("{message:?} was never sent"),
                    Err(error) => break error,
                }
            };
            assert_eq!(end, RecvError::Closed);
        });
    }
}

#[test]
fn memory_of_the_wrong_size_is_refused() {
    let config = config(SlotSize::B32, 4, Variant::EpochCredit);
    let mut memory = memory(&config);
    memory.slots = memory.slots.slice(0, 96).unwrap();
    let error = Producer::new(config, memory).unwrap_err();
    assert_eq!(error.to_string(), "the slot memory has 96 bytes; this ring needs exactly 128");
}
