//! Compares the ring with a model: any sequence of operations gives the same results as a `VecDeque`.
#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "a guard that is leaked must do no harm")]

mod common;

use std::collections::VecDeque;

use common::{VARIANTS, cases, pattern, ring};
use proptest::prelude::*;
use tombolo_ring::{Consumer, Producer, RecvError, RingConfig, SendError, SlotCount, SlotSize, Variant};

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    /// Claimed length, and committed length, if any.
    Claim(usize, Option<usize>),
    /// Lengths, and whether the batch is committed.
    Batch(Vec<usize>, bool),
    Receive,
    /// Receives a message and leaks it.
    Peek,
    Drain,
    Poll,
    /// Passes the consumer's credit to the producer as if by a reverse ring.
    Piggyback,
    CloseProducer,
    CloseConsumer,
}

/// Lengths are thousandths of the longest message and of a slot, so that every ring gets short and long
/// ones.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..80_usize, 2 => 0..400_usize, 1 => 0..=1000_usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => length().prop_map(Step::Send),
        4 => (length(), prop::option::of(length())).prop_map(|(len, cut)| Step::Claim(len, cut)),
        4 => (prop::collection::vec(length(), 0..5), any::<bool>()).prop_map(|(lens, commit)| Step::Batch(lens, commit)),
        14 => Just(Step::Receive),
        3 => Just(Step::Peek),
        3 => Just(Step::Drain),
        2 => Just(Step::Poll),
        2 => Just(Step::Piggyback),
        1 => (0..20_u8).prop_map(|die| if die == 0 { Step::CloseProducer } else { Step::Receive }),
        1 => (0..20_u8).prop_map(|die| if die == 0 { Step::CloseConsumer } else { Step::Receive }),
    ]
}

fn configs() -> impl Strategy<Value = RingConfig> {
    let sizes = prop::sample::select(SlotSize::ALL.to_vec());
    let variants = prop::sample::select(VARIANTS.to_vec());
    // A large ring takes minutes under miri.
    let (small, large) = if cfg!(miri) { (1..3_u32, 3_u32) } else { (1..6, 10) };
    let counts = prop_oneof![8 => small, 1 => Just(large)];
    (sizes, variants, counts, prop::option::of(1..=1000_usize)).prop_map(|(size, variant, log2, limit)| {
        let config = RingConfig::new(size, SlotCount::new(1 << log2).unwrap(), variant);
        match limit {
            Some(thousandths) => {
                config.with_max_message_bytes(config.max_message_bytes() * thousandths / 1000)
            }
            None => config,
        }
    })
}

/// Expected behavior of a ring.
struct Model {
    config: RingConfig,
    queue: VecDeque<Vec<u8>>,
    /// Number of slots of the messages in the queue.
    occupied: usize,
    /// Slots consumed since the ring was last polled empty: the maximum that can lack credit.
    uncredited: usize,
    producer_closed: bool,
    consumer_closed: bool,
}

impl Model {
    fn slots(&self, len: usize) -> usize {
        len.div_ceil(self.config.slot_size().payload_bytes()).max(1)
    }

    /// Whether a refusal for lack of `needed` slots is justified while `staged` are in a batch.
    fn may_be_full(&self, needed: usize, staged: usize) -> bool {
        let count = self.config.slot_count().get() as usize;
        let without_credit = match self.config.variant() {
            Variant::EpochCredit => self.uncredited.min(count / 2 - 1),
            Variant::UsedFlag => 0,
        };
        needed + staged + self.occupied + without_credit > count
    }

    fn check_send(
        &self,
        len: usize,
        staged: usize,
        outcome: Result<(), SendError>,
    ) -> Result<bool, TestCaseError> {
        let max_bytes = self.config.max_message_bytes();
        let needed = self.slots(len);
        let fits = needed + staged + self.occupied <= self.config.slot_count().get() as usize;
        match outcome {
            Ok(()) => prop_assert!(len <= max_bytes && fits && !self.producer_closed),
            Err(SendError::TooLong { len_bytes, .. }) => prop_assert!(len_bytes == len && len > max_bytes),
            Err(SendError::Full) => prop_assert!(self.may_be_full(needed, staged)),
            Err(SendError::Abandoned) => {
                prop_assert!(false, "the consumer never abandons the ring in this test");
            }
            Err(SendError::Closed) => prop_assert!(self.producer_closed || self.consumer_closed),
            Err(SendError::Violation(violation)) => prop_assert!(false, "{violation}"),
        }
        Ok(outcome.is_ok())
    }

    fn push(&mut self, message: Vec<u8>) {
        self.occupied += self.slots(message.len());
        self.queue.push_back(message);
    }

    fn check_receive(&mut self, consumer: &mut Consumer) -> Result<bool, TestCaseError> {
        let outcome = consumer.try_recv().map(|found| found.map(|message| message.to_vec()));
        match outcome {
            Ok(Some(message)) => {
                prop_assert!(!self.consumer_closed);
                prop_assert_eq!(Some(&message), self.queue.front());
                let slots = self.slots(message.len());
                self.queue.pop_front();
                self.occupied -= slots;
                self.uncredited += slots;
                return Ok(true);
            }
            Ok(None) => {
                prop_assert!(self.queue.is_empty() && !self.producer_closed && !self.consumer_closed);
                self.uncredited = 0;
            }
            Err(RecvError::Closed) => {
                prop_assert!(self.consumer_closed || (self.producer_closed && self.queue.is_empty()));
                self.uncredited = 0;
            }
            Err(RecvError::Violation(violation)) => prop_assert!(false, "{}", violation),
        }
        Ok(false)
    }
}

fn run(config: RingConfig, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (_memory, mut producer, mut consumer) = ring(config);
    let mut model = Model {
        config,
        queue: VecDeque::new(),
        occupied: 0,
        uncredited: 0,
        producer_closed: false,
        consumer_closed: false,
    };
    // Some requests exceed the limit by one byte.
    let scaled = |thousandths: usize| (config.max_message_bytes() + 1) * thousandths / 1000;
    for (index, step) in steps.into_iter().enumerate() {
        let seed = index as u8;
        match step {
            Step::Send(len) => {
                let message = pattern(seed, scaled(len));
                if model.check_send(message.len(), 0, producer.try_send(&message))? {
                    model.push(message);
                }
            }
            Step::Claim(len, cut) => {
                claim(&mut model, &mut producer, &pattern(seed, scaled(len)), cut.map(scaled))?;
            }
            Step::Batch(lens, commit) => {
                let messages = lens.into_iter().map(|len| pattern(seed, scaled(len))).collect();
                batch(&mut model, &mut producer, messages, commit)?;
            }
            Step::Receive => {
                model.check_receive(&mut consumer)?;
            }
            Step::Peek => {
                if let Ok(Some(message)) = consumer.try_recv() {
                    prop_assert_eq!(Some(&message.to_vec()), model.queue.front());
                    std::mem::forget(message);
                }
            }
            Step::Drain => while model.check_receive(&mut consumer)? {},
            Step::Poll => {
                let expected = !model.queue.is_empty() || model.producer_closed || model.consumer_closed;
                prop_assert_eq!(consumer.poll(), expected);
            }
            Step::Piggyback => producer.record_credit(consumer.credit_to_piggyback()),
            Step::CloseProducer => {
                producer.close();
                model.producer_closed = true;
            }
            Step::CloseConsumer => {
                consumer.close();
                model.consumer_closed = true;
            }
        }
    }
    Ok(())
}

fn claim(
    model: &mut Model,
    producer: &mut Producer,
    message: &[u8],
    cut: Option<usize>,
) -> Result<(), TestCaseError> {
    match producer.claim(message.len()) {
        Ok(mut claim) => {
            let (head, tail) = message.split_at(message.len() / 3);
            claim.write_at(head.len(), tail).unwrap();
            claim.write_at(0, head).unwrap();
            model.check_send(message.len(), 0, Ok(()))?;
            if let Some(len) = cut {
                claim.truncate(len);
                claim.commit();
                model.push(message[..message.len().min(len)].to_vec());
            }
        }
        Err(error) => {
            model.check_send(message.len(), 0, Err(error))?;
        }
    }
    Ok(())
}

fn batch(
    model: &mut Model,
    producer: &mut Producer,
    messages: Vec<Vec<u8>>,
    commit: bool,
) -> Result<(), TestCaseError> {
    let mut batch = producer.batch();
    let mut staged = Vec::new();
    let mut staged_slots = 0;
    for message in messages {
        let outcome = batch.push(&message);
        if model.check_send(message.len(), staged_slots, outcome)? {
            staged_slots += model.slots(message.len());
            staged.push(message);
        }
    }
    prop_assert_eq!(batch.len(), staged.len() as u64);
    if commit {
        batch.commit();
        for message in staged {
            model.push(message);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_ring_is_a_queue(
        config in configs(),
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 20 } else { 300 }),
    ) {
        run(config, steps)?;
    }
}
