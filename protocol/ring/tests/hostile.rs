//! A peer that writes anything anywhere: only its own ring fails, with an error.
#![cfg(not(loom))]

mod common;

use common::{VARIANTS, cases, config, memory, ring};
use proptest::prelude::*;
use tombolo_base::sync::Ordering::Relaxed;
use tombolo_ring::{
    Consumer, Producer, RecvError, RingConfig, RingMemory, SendError, SlotSize, Variant, Violation,
};

const WRITTEN: u64 = 1 << 15;

/// Returns the control word of a slot written in `lap`, with `len` bytes and the bit `more`.
fn word(lap: u64, len: u64, more: bool) -> u64 {
    WRITTEN | lap | len << 16 | u64::from(more) << 24
}

fn scribbled(words: &[(usize, u64)], variant: Variant) -> (RingMemory, Consumer) {
    let config = config(SlotSize::B32, 4, variant).with_max_message_bytes(60);
    let (memory, _, consumer) = ring(config);
    for (slot, word) in words {
        memory.slots.store_le(slot * 4 + 3, *word, Relaxed);
    }
    (memory, consumer)
}

#[test]
fn each_violation_of_a_producer_has_its_error() {
    use Violation::{FragmentLength, FragmentMissing, LapTag, MessageTooLong, ReservedBits};
    let lap_tag = |found| LapTag { position: 0, expected: 0x8000, found };
    let reserved = |position, word| ReservedBits { position, word };
    let bad = word(0, 8, false) | 1 << 25;
    let last = word(0, 8, false) | 1 << 31;
    let full = word(0, 24, true);
    #[rustfmt::skip]
    let lies: Vec<(Vec<(usize, u64)>, Violation)> = vec![
        (vec![(0, word(1, 8, false))], lap_tag(0x8001)),
        (vec![(0, 1)], lap_tag(1)),
        (vec![(0, u64::MAX)], lap_tag(0xffff)),
        (vec![(0, bad)], reserved(0, bad)),
        (vec![(0, last)], reserved(0, last)),
        (vec![(0, full), (1, bad)], reserved(1, bad)),
        (vec![(0, word(0, 25, false))], FragmentLength { position: 0, length_bytes: 25 }),
        (vec![(0, word(0, 255, true))], FragmentLength { position: 0, length_bytes: 255 }),
        (vec![(0, word(0, 23, true))], FragmentLength { position: 0, length_bytes: 23 }),
        (vec![(0, full), (1, word(0, 0, false))], FragmentLength { position: 1, length_bytes: 0 }),
        (vec![(0, full)], FragmentMissing { position: 1 }),
        (vec![(0, full), (1, word(1, 4, false))], FragmentMissing { position: 1 }),
        (vec![(0, full), (1, full), (2, word(0, 13, false))], MessageTooLong { position: 0, max_bytes: 60 }),
        (vec![(0, full), (1, full), (2, full), (3, full)], MessageTooLong { position: 0, max_bytes: 60 }),
    ];
    for (words, violation) in lies {
        for variant in VARIANTS {
            let (memory, mut consumer) = scribbled(&words, variant);
            assert!(consumer.poll());
            for _ in 0..2 {
                assert_eq!(consumer.try_recv().err(), Some(RecvError::Violation(violation)));
                // Correcting it later does not help.
                memory.slots.clear();
                memory.slots.store_le(3, word(0, 8, false), Relaxed);
            }
        }
    }
    // Just within the limit: valid.
    let (_, mut consumer) = scribbled(&[(0, full), (1, full), (2, word(0, 12, false))], Variant::EpochCredit);
    assert_eq!(consumer.try_recv().unwrap().unwrap().len(), 60);
}

#[test]
fn check_of_a_chain_as_long_as_the_ring_ends() {
    for variant in VARIANTS {
        let config = config(SlotSize::B32, 4, variant);
        let (memory, _, mut consumer) = ring(config);
        for slot in 0..4 {
            memory.slots.store_le(slot * 4 + 3, word(0, 24, true), Relaxed);
        }
        let violation = Violation::MessageTooLong { position: 0, max_bytes: 96 };
        assert_eq!(consumer.try_recv().err(), Some(violation.into()));
    }
}

#[test]
fn a_close_out_of_range_is_a_violation() {
    for (close_word, closed_at) in [(1, 0), (8, 7), (u64::MAX, u64::MAX - 1)] {
        let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
        for _ in 0..2 {
            producer.try_send(&[1]).unwrap();
            assert!(consumer.try_recv().unwrap().is_some());
        }
        memory.producer_line.store_le(0, close_word, Relaxed);
        let violation = Violation::CloseOutOfRange { closed_at, position: 2 };
        assert_eq!(consumer.try_recv().err(), Some(violation.into()));
    }
    // In range, but the slots before it were never sent.
    let (memory, _, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    memory.producer_line.store_le(0, 3, Relaxed);
    let violation = Violation::LapTag { position: 0, expected: 0x8000, found: 0 };
    assert_eq!(consumer.try_recv().err(), Some(violation.into()));
    // As far ahead as possible for a producer that has filled the ring.
    let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    for _ in 0..2 {
        producer.try_send(&[1]).unwrap();
        assert!(consumer.try_recv().unwrap().is_some());
    }
    memory.producer_line.store_le(0, 7, Relaxed);
    let violation = Violation::LapTag { position: 2, expected: 0x8000, found: 0 };
    assert_eq!(consumer.try_recv().err(), Some(violation.into()));
}

#[test]
fn each_violation_of_a_consumer_has_its_error() {
    let full = |producer: &mut Producer| (0..9).find_map(|_| producer.try_send(&[1]).err()).unwrap();
    for credit in [5, u64::MAX] {
        let (memory, mut producer, _) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
        memory.credit_line.store_le(0, credit, Relaxed);
        let violation = SendError::Violation(Violation::CreditBeyondSent { credit, sent: 4 });
        assert_eq!(full(&mut producer), violation);
        memory.credit_line.store_le(0, 4, Relaxed);
        assert_eq!(full(&mut producer), violation);
        assert_eq!(producer.batch().push(&[1]), Err(violation));
        producer.record_credit(3);
        assert_eq!(producer.free_slots(), Err(violation));
        producer.close();
        assert_eq!(producer.try_send(&[1]), Err(violation));
        assert_eq!(memory.producer_line.load_le(0, Relaxed), 5);
    }
    let (memory, mut producer, _) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    memory.credit_line.store_le(0, 2, Relaxed);
    for _ in 0..6 {
        producer.try_send(&[1]).unwrap();
    }
    memory.credit_line.store_le(0, 1, Relaxed);
    assert_eq!(full(&mut producer), Violation::CreditWentBack { credit: 1, before: 2 }.into());

    let (_, mut producer, _) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
    producer.try_send(&[1]).unwrap();
    let violation = Violation::CreditBeyondSent { credit: 5, sent: 4 }.into();
    producer.record_credit(5);
    assert_eq!(producer.check_open(), Ok(()), "the credit has not been checked yet");
    assert_eq!(full(&mut producer), violation);
    assert_eq!(producer.check_open(), Err(violation));
}

/// A batch that encounters a violation can still be dropped, and no later send succeeds.
#[test]
fn a_violation_in_a_batch_stays() {
    for dropped in [false, true] {
        let (memory, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, Variant::EpochCredit));
        let mut batch = producer.batch();
        for _ in 0..4 {
            batch.push(&[1]).unwrap();
        }
        // The consumer cannot have consumed unpublished slots.
        memory.credit_line.store_le(0, 1, Relaxed);
        let violation = SendError::Violation(Violation::CreditBeyondSent { credit: 1, sent: 0 });
        assert_eq!(batch.push(&[1]), Err(violation));
        if dropped {
            drop(batch);
            assert!(consumer.try_recv().unwrap().is_none());
        } else {
            batch.commit();
        }
        assert_eq!(producer.try_send(&[1]), Err(violation));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Batch(usize, bool),
    Receive(usize),
    Hear(u32),
    /// Writes a value to the word with this index, anywhere in the ring's memory.
    Scribble(usize, u64),
    CloseProducer,
}

fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..20_u64,
        Just(0),
        (0..4_u64, 0..130_u64, any::<bool>()).prop_map(|(lap, len, more)| word(lap, len, more)),
        (0..4_u64, 0..4_usize, any::<bool>()).prop_map(|(lap, size, more)| word(
            lap,
            [24, 56, 120, 8][size],
            more
        )),
        (0..4_u64, 25..32_u32).prop_map(|(lap, bit)| word(lap, 8, false) | 1 << bit),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // Even under miri, these lengths are split in some rings and refused by others.
    let longest: usize = if cfg!(miri) { 150 } else { 600 };
    prop_oneof![
        6 => (0..longest).prop_map(Step::Send),
        2 => (0..longest / 3, any::<bool>()).prop_map(|(len, commit)| Step::Batch(len, commit)),
        6 => (1..10_usize).prop_map(Step::Receive),
        1 => any::<u32>().prop_map(Step::Hear),
        1 => (0..20_u32).prop_map(Step::Hear),
        8 => (any::<usize>(), any_word()).prop_map(|(place, word)| Step::Scribble(place, word)),
        1 => Just(Step::CloseProducer),
    ]
}

fn scribble(memory: &RingMemory, place: usize, word: u64) {
    let slot_words = memory.slots.words().len();
    // Lines as often as slots, control words as often as payload.
    match place % 4 {
        0 => memory.producer_line.store_le(place / 4 % 2, word, Relaxed),
        1 => memory.credit_line.store_le(place / 4 % 2, word, Relaxed),
        2 => memory.slots.store_le(place / 4 % slot_words, word, Relaxed),
        _ => memory.slots.store_le((place / 4 * 4 + 3) % slot_words, word, Relaxed),
    }
}

/// Receives and reads at most `limit` messages. Returns the error, if there was one.
fn receive(consumer: &mut Consumer, limit: usize) -> Result<Option<RecvError>, TestCaseError> {
    let max_bytes = consumer.config().max_message_bytes();
    for _ in 0..limit {
        match consumer.try_recv() {
            Ok(Some(message)) => {
                prop_assert!(message.len() <= max_bytes);
                prop_assert_eq!(message.to_vec().len(), message.len());
                let _ = message.read_u64_le(message.len() / 2);
            }
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

fn run(config: RingConfig, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let memory = memory(&config);
    let mut producer = Producer::new(config, memory.clone()).unwrap();
    let mut consumer = Consumer::new(config, memory.clone()).unwrap();
    let mut failed_send = None;
    let mut failed_receive = None;
    for step in steps {
        let outcome = match step {
            Step::Send(len) => producer.try_send(&vec![7; len]),
            Step::Batch(len, commit) => {
                let mut batch = producer.batch();
                let outcome = (0..3).try_for_each(|_| batch.push(&vec![8; len]));
                if commit {
                    batch.commit();
                }
                outcome
            }
            Step::Receive(limit) => {
                let error = receive(&mut consumer, limit)?;
                if failed_receive.is_some() {
                    prop_assert_eq!(error, failed_receive);
                }
                failed_receive = error;
                Ok(())
            }
            Step::Hear(credit) => {
                producer.record_credit(credit);
                Ok(())
            }
            Step::Scribble(place, word) => {
                scribble(&memory, place, word);
                Ok(())
            }
            Step::CloseProducer => {
                producer.close();
                Ok(())
            }
        };
        if let Err(error @ (SendError::Closed | SendError::Violation(_))) = outcome {
            prop_assert!(failed_send.is_none_or(|before| before == error));
            failed_send = Some(error);
        }
    }
    // Memory that no longer changes holds at most one ring of messages.
    let count = config.slot_count().get() as usize;
    let mut received = 0;
    while let Ok(Some(message)) = consumer.try_recv() {
        drop(message);
        received += 1;
        prop_assert!(received <= count);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn corruption_affects_only_its_ring(
        size in prop::sample::select(SlotSize::ALL.to_vec()),
        variant in prop::sample::select(VARIANTS.to_vec()),
        log2 in 1..4_u32,
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 20 } else { 100 }),
    ) {
        run(config(size, 1 << log2, variant), steps)?;
    }
}
