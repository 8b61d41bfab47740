//! Every schedule and every outcome that the memory model allows, for each race in the ring.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p tombolo-ring --release --test loom`
//!
//! Rings are minimal: two slots of 32 bytes. Waiting is a yield, which makes loom run the other side; a
//! sleep is a [`Notify`], which latches one ring as events do. A lost wake-up is a deadlock, which loom
//! reports.
//!
//! Weakening any ordering fails a test here, except the release and acquire of the credit line: they keep
//! reads of a slot before the writes that reuse it, and loom never lets a load see a store from its own
//! future.
#![cfg(loom)]

mod common;

use common::{VARIANTS, config, ring};
use loom::sync::{Arc, Notify};
use loom::thread;
use tombolo_base::steps::counted;
use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_ring::{Consumer, Producer, RecvError, SendError, Sleeper, SlotSize, Variant, WakeOrder, Waker};

fn model(body: impl Fn(Variant) + Sync + Send + 'static + Copy) {
    for variant in VARIANTS {
        loom::model(move || body(variant));
    }
}

/// Returns a message in which every word identifies it.
fn message(number: u64, words: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(words)
}

fn send(producer: &mut Producer, message: &[u8]) {
    while let Err(error) = producer.try_send(message) {
        assert_eq!(error, SendError::Full);
        thread::yield_now();
    }
}

fn receive(consumer: &mut Consumer) -> Result<Vec<u8>, RecvError> {
    loop {
        if let Some(message) = consumer.try_recv()? {
            return Ok(message.to_vec());
        }
        thread::yield_now();
    }
}

#[test]
fn received_messages_were_published_completely() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let sender = thread::spawn(move || {
            producer.try_send(&message(1, 3)).unwrap();
            producer.try_send(&message(2, 1)).unwrap();
        });
        assert_eq!(receive(&mut consumer), Ok(message(1, 3)));
        assert_eq!(receive(&mut consumer), Ok(message(2, 1)));
        sender.join().unwrap();
        assert!(consumer.try_recv().unwrap().is_none());
    });
}

#[test]
fn slots_are_not_written_again_before_they_were_read() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let sender = thread::spawn(move || {
            for number in 1..=4 {
                send(&mut producer, &message(number, 1));
            }
        });
        for number in 1..=4 {
            assert_eq!(receive(&mut consumer), Ok(message(number, 1)));
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_message_of_several_slots_appears_at_once() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let sender = thread::spawn(move || {
            send(&mut producer, &message(1, 4));
            send(&mut producer, &message(2, 5));
        });
        assert_eq!(receive(&mut consumer), Ok(message(1, 4)));
        assert_eq!(receive(&mut consumer), Ok(message(2, 5)));
        sender.join().unwrap();
    });
}

/// Half of the ring is credited by force, the rest by an empty poll: the long message needs both.
#[test]
fn credit_is_forced_and_flushed() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        for number in 1..=3 {
            producer.try_send(&message(number, 1)).unwrap();
        }
        let sender = thread::spawn(move || send(&mut producer, &message(4, 12)));
        for number in 1..=3 {
            assert_eq!(receive(&mut consumer), Ok(message(number, 1)));
        }
        assert_eq!(receive(&mut consumer), Ok(message(4, 12)));
        sender.join().unwrap();
    });
}

#[test]
fn committed_batch_appears_at_once_and_dropped_one_never() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 4, variant));
        let sender = thread::spawn(move || {
            let mut abandoned = producer.batch();
            abandoned.push(&message(7, 1)).unwrap();
            abandoned.push(&message(8, 1)).unwrap();
            drop(abandoned);
            let mut batch = producer.batch();
            batch.push(&message(1, 1)).unwrap();
            batch.push(&message(2, 4)).unwrap();
            batch.commit();
        });
        assert_eq!(receive(&mut consumer), Ok(message(1, 1)));
        let second = consumer.try_recv().unwrap().map(|message| message.to_vec());
        assert_eq!(second, Some(message(2, 4)));
        sender.join().unwrap();
        assert!(consumer.try_recv().unwrap().is_none());
    });
}

#[test]
fn dropped_batch_is_invisible_after_the_next_message() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let sender = thread::spawn(move || {
            let mut abandoned = producer.batch();
            abandoned.push(&message(7, 1)).unwrap();
            abandoned.push(&message(8, 1)).unwrap();
            drop(abandoned);
            producer.try_send(&message(1, 1)).unwrap();
        });
        assert_eq!(receive(&mut consumer), Ok(message(1, 1)));
        assert!(consumer.try_recv().unwrap().is_none());
        sender.join().unwrap();
    });
}

fn close_after_two(slots: u32) {
    model(move |variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, slots, variant));
        let sender = thread::spawn(move || {
            producer.try_send(&message(1, 1)).unwrap();
            producer.try_send(&message(2, 1)).unwrap();
            producer.close();
        });
        assert_eq!(receive(&mut consumer), Ok(message(1, 1)));
        assert_eq!(receive(&mut consumer), Ok(message(2, 1)));
        assert_eq!(receive(&mut consumer), Err(RecvError::Closed));
        sender.join().unwrap();
    });
}

#[test]
fn close_is_received_after_all_earlier_messages() {
    close_after_two(2);
}

/// In a larger ring, the poll that finds the close also has credit to flush, which is another path.
#[test]
fn close_is_received_after_uncredited_messages() {
    close_after_two(4);
}

#[test]
fn waiting_producer_detects_a_close() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        for number in 1..=2 {
            producer.try_send(&message(number, 1)).unwrap();
        }
        let receiver = thread::spawn(move || {
            assert_eq!(receive(&mut consumer), Ok(message(1, 1)));
            consumer.close();
        });
        let outcome = loop {
            match producer.try_send(&message(3, 1)) {
                Err(SendError::Full) => thread::yield_now(),
                Err(error) => break error,
                Ok(()) => {}
            }
        };
        assert_eq!(outcome, SendError::Closed);
        receiver.join().unwrap();
    });
}

/// Requests and replies, each carrying credit for the other direction: the credit lines are never loaded.
#[test]
fn credit_is_piggybacked_on_the_reverse_ring() {
    loom::model(|| {
        let shape = config(SlotSize::B32, 2, Variant::EpochCredit);
        let (_, mut requests, mut served) = ring(shape);
        let (_, mut replies, mut answered) = ring(shape);
        let server = thread::spawn(move || {
            for number in 1..=3 {
                assert_eq!(receive(&mut served), Ok(message(number, 1)));
                replies.record_credit(served.reverse_credit());
                replies.set_reverse_credit(served.credit_to_piggyback());
                replies.try_send(&message(number, 2)).unwrap();
            }
            assert_eq!(replies.counters().credit_loads, 0);
        });
        for number in 1..=3 {
            requests.set_reverse_credit(answered.credit_to_piggyback());
            requests.try_send(&message(number, 1)).unwrap();
            assert_eq!(receive(&mut answered), Ok(message(number, 2)));
            requests.record_credit(answered.reverse_credit());
        }
        assert_eq!(requests.counters().credit_loads, 0);
        server.join().unwrap();
    });
}

struct SleepingSide {
    sleeper: Sleeper,
    bell: Arc<Notify>,
}

impl SleepingSide {
    /// Receives a message, and sleeps while there is none.
    fn receive(&mut self, consumer: &mut Consumer) -> Result<Vec<u8>, RecvError> {
        loop {
            if let Some(message) = consumer.try_recv()? {
                return Ok(message.to_vec());
            }
            self.sleeper.arm(|| Ok::<(), ()>(())).unwrap();
            if !consumer.poll() {
                self.bell.wait();
            }
            self.sleeper.disarm();
        }
    }
}

struct WakingSide {
    waker: Waker,
    bell: Arc<Notify>,
}

impl WakingSide {
    fn ring_if_asleep(&mut self) {
        if self.waker.must_ring() {
            self.bell.notify();
        }
    }
}

fn doorbell() -> (SleepingSide, WakingSide) {
    let line = SharedMemory::zeroed(LINE_BYTES);
    let bell = Arc::new(Notify::new());
    let sleeper = Sleeper::new(line.clone(), WakeOrder::Fence).unwrap();
    let waker = Waker::new(line, WakeOrder::Fence).unwrap();
    (SleepingSide { sleeper, bell: bell.clone() }, WakingSide { waker, bell })
}

#[test]
fn no_wake_up_is_lost() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let (mut sleeping, mut waking) = doorbell();
        let sender = thread::spawn(move || {
            for number in 1..=2 {
                producer.try_send(&message(number, 1)).unwrap();
                waking.ring_if_asleep();
            }
        });
        for number in 1..=2 {
            assert_eq!(sleeping.receive(&mut consumer), Ok(message(number, 1)));
        }
        sender.join().unwrap();
    });
}

#[test]
fn close_wakes_a_sleeping_consumer() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let (mut sleeping, mut waking) = doorbell();
        let sender = thread::spawn(move || {
            producer.try_send(&message(1, 1)).unwrap();
            waking.ring_if_asleep();
            producer.close();
            waking.ring_if_asleep();
        });
        assert_eq!(sleeping.receive(&mut consumer), Ok(message(1, 1)));
        assert_eq!(sleeping.receive(&mut consumer), Err(RecvError::Closed));
        sender.join().unwrap();
    });
}

/// A producer that sleeps for room is woken when slots are returned, which `credit_stores` shows.
#[test]
fn a_producer_that_sleeps_for_room_is_woken() {
    model(|variant| {
        let (_, mut producer, mut consumer) = ring(config(SlotSize::B32, 2, variant));
        let (mut sleeping, mut waking) = doorbell();
        for number in 1..=2 {
            producer.try_send(&message(number, 1)).unwrap();
        }
        let receiver = thread::spawn(move || {
            let mut seen = 0;
            for number in 1..=2 {
                assert_eq!(receive(&mut consumer), Ok(message(number, 1)));
                let stores = consumer.counters().credit_stores;
                if stores != seen {
                    seen = stores;
                    waking.ring_if_asleep();
                }
            }
            consumer
        });
        while let Err(error) = producer.try_send(&message(3, 1)) {
            assert_eq!(error, SendError::Full);
            sleeping.sleeper.arm(|| Ok::<(), ()>(())).unwrap();
            if producer.is_full().unwrap() {
                sleeping.bell.wait();
            }
            sleeping.sleeper.disarm();
        }
        let mut consumer = receiver.join().unwrap();
        assert_eq!(receive(&mut consumer), Ok(message(3, 1)));
    });
}

/// The kernel's part of a waitset: the bells that rang, and a wait for any of them.
struct Kernel {
    rung: loom::sync::Mutex<[bool; 2]>,
    any: Notify,
}

/// A set of two channels polls and arms both, and from then on polls only those that rang. One stays armed
/// while the other is polled and armed again.
#[test]
fn a_waitset_that_polls_only_what_rang_misses_nothing() {
    // Three threads: one preemption fewer than elsewhere, or it takes an hour.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(2));
    builder.check(|| {
        let kernel = Arc::new(Kernel { rung: loom::sync::Mutex::new([false; 2]), any: Notify::new() });
        let mut members = Vec::new();
        let mut senders = Vec::new();
        for (channel, count) in [(0, 2), (1, 1)] {
            let (_, mut producer, consumer) = ring(config(SlotSize::B32, 2, Variant::EpochCredit));
            let line = SharedMemory::zeroed(LINE_BYTES);
            members.push((consumer, Sleeper::new(line.clone(), WakeOrder::Fence).unwrap(), count));
            let mut waker = Waker::new(line, WakeOrder::Fence).unwrap();
            let kernel = Arc::clone(&kernel);
            senders.push(thread::spawn(move || {
                for number in 1..=count {
                    producer.try_send(&message(number, 1)).unwrap();
                    if waker.must_ring() {
                        kernel.rung.lock().unwrap()[channel] = true;
                        kernel.any.notify();
                    }
                }
            }));
        }
        let mut left: u64 = members.iter().map(|(_, _, count)| count).sum();
        while left > 0 {
            for (consumer, sleeper, _) in &mut members {
                while !sleeper.is_armed() && consumer.try_recv().unwrap().is_some() {
                    left -= 1;
                }
            }
            if left == 0 {
                break;
            }
            let fresh: Vec<bool> = members.iter().map(|(_, sleeper, _)| !sleeper.is_armed()).collect();
            for ((_, sleeper, _), fresh) in members.iter_mut().zip(&fresh) {
                if *fresh {
                    sleeper.arm(|| Ok::<(), ()>(())).unwrap();
                }
            }
            for ((consumer, sleeper, _), fresh) in members.iter_mut().zip(&fresh) {
                if *fresh && consumer.poll() {
                    sleeper.disarm();
                }
            }
            if members.iter().all(|(_, sleeper, _)| sleeper.is_armed()) {
                kernel.any.wait();
                let rung = std::mem::take(&mut *kernel.rung.lock().unwrap());
                for ((_, sleeper, _), rung) in members.iter_mut().zip(rung) {
                    if rung {
                        sleeper.disarm();
                    }
                }
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Maximum number of steps of one kind in any schedule; not part of the model.
type MaxSteps = std::sync::Mutex<u64>;

fn record_max(max_steps: &MaxSteps, steps: u64) {
    let mut max_steps = max_steps.lock().unwrap();
    *max_steps = steps.max(*max_steps);
}

/// In every schedule neither side exceeds its bound, and the bounds are reached.
#[test]
fn no_schedule_exceeds_a_bound() {
    static SENT: MaxSteps = MaxSteps::new(0);
    static RECEIVED: MaxSteps = MaxSteps::new(0);
    let bytes = 8;
    loom::model(move || {
        let config = config(SlotSize::B32, 2, Variant::EpochCredit);
        let (_, mut producer, mut consumer) = ring(config);
        let sender = thread::spawn(move || {
            for number in 1..=3 {
                let (_, steps) = counted(|| producer.try_send(&message(number, 1)));
                assert!(steps.within(config.send_bound(bytes)), "{steps:?}");
                record_max(&SENT, steps.loads);
            }
            let ((), steps) = counted(|| producer.close());
            assert!(steps.within(config.close_bound()), "{steps:?}");
        });
        for _ in 0..2 {
            let mut target = [0; 8];
            let (_, steps) = counted(|| {
                if let Ok(Some(message)) = consumer.try_recv() {
                    let _ = message.copy_to(&mut target);
                }
            });
            assert!(steps.within(config.receive_bound(bytes)), "{steps:?}");
            record_max(&RECEIVED, steps.loads);
        }
        sender.join().unwrap();
    });
    let config = config(SlotSize::B32, 2, Variant::EpochCredit);
    let max_steps = [&SENT, &RECEIVED].map(|max_steps| *max_steps.lock().unwrap());
    assert_eq!(max_steps, [config.send_bound(bytes).loads, config.receive_bound(bytes).loads]);
}
