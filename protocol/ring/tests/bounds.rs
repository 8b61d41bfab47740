//! No path through a ring exceeds its bound on accesses to shared memory, and each bound is reached.
//!
//! `RUSTFLAGS="--cfg sim" cargo test -p tombolo-ring --test bounds`; without that, accesses are not counted.
#![cfg(all(sim, not(loom)))]

mod common;

use common::{VARIANTS, config, pattern, ring};
use tombolo_base::steps::counted;
use tombolo_base::sync::Ordering::{Relaxed, Release};
use tombolo_base::{Random, SharedMemory, Steps};
use tombolo_ring::{Consumer, Producer, RingConfig, Sleeper, SlotSize, Variant, WakeOrder, Waker};

const SIZES: [SlotSize; 3] = [SlotSize::B32, SlotSize::B64, SlotSize::B128];

/// Maximum counted for an operation on messages of one length, and its bound.
struct Observed {
    what: &'static str,
    bound: Steps,
    max_steps: Steps,
}

impl Observed {
    fn new(what: &'static str, bound: Steps) -> Self {
        Observed { what, bound, max_steps: Steps::NONE }
    }

    /// Counts an operation and returns its result.
    fn count<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        let (result, steps) = counted(operation);
        assert!(steps.within(self.bound), "{}: {steps:?} exceeds {:?}", self.what, self.bound);
        self.max_steps = self.max_steps.max(steps);
        result
    }

    /// Fails if the bound is too far above the observed maximum.
    fn assert_tight(&self, slack: u64) {
        let (max_steps, bound) = (self.max_steps, self.bound);
        assert!(
            (max_steps + Steps::of(slack, 0)).loads >= bound.loads,
            "{}: {max_steps:?} of {bound:?}",
            self.what
        );
        assert_eq!((max_steps.stores, max_steps.fences), (bound.stores, bound.fences), "{}", self.what);
    }
}

fn receive(consumer: &mut Consumer, target: &mut [u8]) -> Option<usize> {
    let received = consumer.try_recv().ok()??.copy_to(target);
    Some(received.expect("the target is as long as the longest message"))
}

/// Sends and receives in a random order until every state of the ring occurred: empty, full, at the end of a
/// lap, refused, closed with and without messages left.
fn walk(config: RingConfig, message_bytes: usize, seed: u64, sent: &mut Observed, received: &mut Observed) {
    let mut random = Random::new(seed);
    let (_, mut producer, mut consumer) = ring(config);
    let mut target = vec![0; message_bytes];
    for turn in 0..300_u32 {
        let message = pattern(turn as u8, message_bytes);
        for _ in 0..random.below(4) {
            let _ = sent.count(|| producer.try_send(&message));
        }
        for _ in 0..random.below(4) {
            received.count(|| receive(&mut consumer, &mut target));
        }
    }
    if random.chance(500) {
        let mut closed = Observed::new("close", config.close_bound());
        closed.count(|| consumer.close());
        let _ = sent.count(|| producer.try_send(&target));
    } else {
        producer.close();
        for _ in 0..2 * config.slot_count().get() {
            received.count(|| receive(&mut consumer, &mut target));
        }
    }
}

#[test]
fn sending_and_receiving_stay_within_their_bounds_and_reach_them() {
    for (size, variant) in SIZES.into_iter().flat_map(|size| VARIANTS.map(|variant| (size, variant))) {
        let config = config(size, 8, variant);
        for slots in 1..=4 {
            for message_bytes in [slots * size.payload_bytes(), slots * size.payload_bytes() - 3] {
                let mut sent = Observed::new("send", config.send_bound(message_bytes));
                let mut received = Observed::new("receive", config.receive_bound(message_bytes));
                for seed in 0..20 {
                    walk(config, message_bytes, seed, &mut sent, &mut received);
                }
                sent.assert_tight(0);
                // The path with three more loads occurs only while the other side runs: see `tests/loom.rs`.
                received.assert_tight(3);
            }
        }
    }
}

/// A peer that writes anything anywhere does not prolong any operation.
#[test]
fn bounds_hold_for_a_hostile_peer() {
    for (size, variant) in SIZES.into_iter().flat_map(|size| VARIANTS.map(|variant| (size, variant))) {
        let config = config(size, 8, variant);
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (memory, mut producer, mut consumer) = ring(config);
            let longest = config.max_message_bytes();
            let mut sent = Observed::new("send", config.send_bound(longest));
            let mut received = Observed::new("receive", config.receive_bound(longest));
            let mut target = vec![0; longest];
            for _ in 0..50 {
                scribble(&mut random, &memory.slots);
                scribble(&mut random, &memory.producer_line);
                scribble(&mut random, &memory.credit_line);
                let length = random.index(longest + 1);
                let _ = sent.count(|| producer.try_send(&pattern(3, length)));
                received.count(|| receive(&mut consumer, &mut target));
            }
        }
    }
}

/// Stores a partially valid word, so that checks are passed occasionally.
fn scribble(random: &mut Random, memory: &SharedMemory) {
    if random.chance(300) {
        let index = random.index(memory.len_bytes() / 8);
        let old = memory.load_le(index, Relaxed);
        memory.store_le(index, old ^ (1 << random.below(64)), Release);
    }
}

#[test]
fn doorbells_stay_within_their_bounds_and_reach_them() {
    for order in [WakeOrder::Fence, WakeOrder::Asymmetric] {
        let lines = [SharedMemory::zeroed(64), SharedMemory::zeroed(64)];
        let mut sleeper: Sleeper = Sleeper::new(lines[0].clone(), order).unwrap();
        sleeper = sleeper.with_peer_fence_line(lines[1].clone()).unwrap();
        let mut waker: Waker = Waker::new(lines[0].clone(), order).unwrap();
        waker = waker.with_own_fence_line(lines[1].clone()).unwrap();
        let mut armed = Observed::new("arm", Sleeper::<tombolo_base::Coherent>::ARM_BOUND);
        let mut disarmed = Observed::new("disarm", Sleeper::<tombolo_base::Coherent>::DISARM_BOUND);
        let mut checked = Observed::new("check", Waker::<tombolo_base::Coherent>::CHECK_BOUND);
        let mut quiet = Observed::new("is_quiet", Waker::<tombolo_base::Coherent>::QUIET_BOUND);
        for _ in 0..3 {
            quiet.count(|| waker.is_quiet());
            checked.count(|| waker.check());
            armed.count(|| sleeper.arm(|| Ok::<(), ()>(()))).unwrap();
            assert!(!quiet.count(|| waker.is_quiet()));
            checked.count(|| waker.check());
            disarmed.count(|| sleeper.disarm());
        }
        disarmed.assert_tight(0);
        if order == WakeOrder::Asymmetric {
            // It needs no fence of its own until it has rung.
            checked.assert_tight(0);
            armed.assert_tight(0);
        } else {
            quiet.assert_tight(0);
        }
    }
}

/// Guards against a test that counts nothing.
#[test]
fn exceeded_bound_is_detected() {
    let config = config(SlotSize::B64, 8, Variant::EpochCredit);
    let (_, mut producer, mut consumer): (_, Producer, Consumer) = ring(config);
    let short = Steps::of(0, config.send_bound(50).stores - 1);
    let (sent, steps) = counted(|| producer.try_send(&[7; 50]));
    assert!(sent.is_ok() && !steps.within(short), "{steps:?}");
    let (received, steps) = counted(|| receive(&mut consumer, &mut [0; 50]));
    assert_eq!((received, steps), (Some(50), Steps::of(8, 0)), "a control word and seven words");
}
