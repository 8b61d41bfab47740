//! The operations that have bounds, in memory of this program: both ends of a ring, a doorbell, a barrier.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use tombolo_base::{Coherent, LINE_BYTES, SharedMemory};
use tombolo_realtime::Barrier;
use tombolo_ring::{
    Consumer, Producer, RingConfig, RingMemory, Sleeper, SlotCount, SlotSize, Variant, WakeOrder, Waker,
};

use crate::MAX_WORKERS;
use crate::measure::{Clock, Row};

type LoopBarrier = Barrier<MAX_WORKERS>;

/// Messages of one slot, of two, and of several.
const MESSAGES: [(usize, &str, &str); 3] = [
    (48, "ring: send 48 B", "ring: receive 48 B"),
    (96, "ring: send 96 B", "ring: receive 96 B"),
    (400, "ring: send 400 B", "ring: receive 400 B"),
];

/// Measures each operation.
pub(crate) fn rows(clock: &Clock) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(config) = config() {
        for (bytes, sent, received) in MESSAGES {
            rows.extend(ring(clock, config, bytes, [sent, received]));
        }
    }
    rows.extend(doorbell(clock));
    rows.push(barrier(clock));
    rows
}

fn config() -> Option<RingConfig> {
    let slots = SlotCount::new(16).ok()?;
    Some(RingConfig::new(SlotSize::B64, slots, Variant::EpochCredit))
}

/// Both ends of a ring, and where messages go.
struct Loopback {
    producer: Producer,
    consumer: Consumer,
    message: Vec<u8>,
    target: Vec<u8>,
}

impl Loopback {
    fn new(config: RingConfig, bytes: usize) -> Option<Loopback> {
        let memory = RingMemory {
            slots: SharedMemory::zeroed(config.slots_bytes()),
            producer_line: SharedMemory::zeroed(LINE_BYTES),
            credit_line: SharedMemory::zeroed(LINE_BYTES),
        };
        Some(Loopback {
            producer: Producer::new(config, memory.clone()).ok()?,
            consumer: Consumer::new(config, memory).ok()?,
            message: vec![7; bytes],
            target: vec![0; bytes],
        })
    }

    fn send(&mut self) -> bool {
        self.producer.try_send(&self.message).is_ok()
    }

    fn receive(&mut self) -> bool {
        let Ok(Some(message)) = self.consumer.try_recv() else { return false };
        message.copy_to(&mut self.target).is_ok()
    }
}

/// Sends and receives by turns, so that each send finds room and each receive a message, at every place of
/// the ring and over the ends of its laps.
fn ring(clock: &Clock, config: RingConfig, bytes: usize, [sent, received]: [&'static str; 2]) -> Vec<Row> {
    let Some(mut ring) = Loopback::new(config, bytes) else { return Vec::new() };
    let sending = (Loopback::send, Loopback::receive);
    let receiving = (Loopback::receive, Loopback::send);
    vec![
        clock.row_after(sent, config.send_bound(bytes), &mut ring, sending),
        clock.row_after(received, config.receive_bound(bytes), &mut ring, receiving),
    ]
}

fn doorbell(clock: &Clock) -> Vec<Row> {
    let line = SharedMemory::zeroed(LINE_BYTES);
    let (Ok(mut sleeper), Ok(mut waker)) =
        (Sleeper::new(line.clone(), WakeOrder::Fence), Waker::new(line, WakeOrder::Fence))
    else {
        return Vec::new();
    };
    let armed_and_withdrawn = Sleeper::<Coherent>::ARM_BOUND + Sleeper::<Coherent>::DISARM_BOUND;
    vec![
        clock.row("doorbell: arm and disarm", armed_and_withdrawn, || {
            let armed = sleeper.arm(|| Ok::<(), ()>(()));
            sleeper.disarm();
            armed
        }),
        clock.row("doorbell: check", Waker::<Coherent>::CHECK_BOUND, || waker.check()),
    ]
}

/// A worker that arrives last, and looks.
pub(crate) fn barrier(clock: &Clock) -> Row {
    let memory = SharedMemory::zeroed(LoopBarrier::length_bytes(MAX_WORKERS));
    let worker = |worker| LoopBarrier::new(&memory, worker, MAX_WORKERS).ok();
    let mut own = worker(0);
    let mut others: Vec<LoopBarrier> = (1..MAX_WORKERS).filter_map(worker).collect();
    let steps = LoopBarrier::ARRIVE_BOUND + LoopBarrier::POLL_BOUND;
    clock.row_after("barrier of 4: arrive, look", steps, &mut (), {
        (
            |(): &mut ()| {
                let own = own.as_mut()?;
                own.arrive();
                Some(own.is_complete())
            },
            |(): &mut ()| others.iter_mut().for_each(LoopBarrier::arrive),
        )
    })
}
