//! Every schedule and every outcome that the memory model allows, for races that involve both rings of a
//! channel.
//!
//! `cargo xtask model` runs this with the models of the ring.
#![cfg(loom)]

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering;
use tombolo_link::end::{ChannelEnd, DeferredSignals, EndError};
use tombolo_link::layout::{ChannelLayout, HEADER_BYTES, Side};
use tombolo_link::{ChannelConfig, GroupCounter, RingCounter, RingWatch};
use tombolo_ring::{SlotSize, Variant, WakeOrder};

type TestEnd = ChannelEnd<DeferredSignals>;

fn ends() -> (TestEnd, TestEnd) {
    let config = ChannelConfig::new(SlotSize::B32, 2, Variant::EpochCredit).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let end = |side| {
        ChannelEnd::attach(&memory, side, config, WakeOrder::Fence, DeferredSignals::default()).unwrap()
    };
    (end(Side::A), end(Side::B))
}

fn receive(end: &mut TestEnd) -> Result<usize, EndError> {
    loop {
        if let Some(length_bytes) = end.try_recv(|message| message.len())? {
            return Ok(length_bytes);
        }
        thread::yield_now();
    }
}

#[test]
fn received_close_ends_sending() {
    loom::model(|| {
        let (mut a, mut b) = ends();
        let closer = thread::spawn(move || {
            a.try_send(b"last").unwrap();
            a.close();
        });
        assert_eq!(receive(&mut b), Ok(4));
        assert_eq!(receive(&mut b), Err(EndError::Closed));
        assert_eq!(b.try_send(b"to nobody"), Err(EndError::Closed));
        closer.join().unwrap();
    });
}

/// Two programs of a node ring the doorbell that their channels share. Its word stands for the doorbell: a
/// monitor that finds it unchanged since its last check sleeps.
#[test]
fn acknowledged_ring_is_found_through_the_group() {
    loom::model(|| {
        let [doorbell, group] = [(); 2].map(|()| SharedMemory::zeroed(8));
        let channels = [(); 2].map(|()| SharedMemory::zeroed(HEADER_BYTES));
        let ringers = channels.clone().map(|channel| {
            let (doorbell, group) = (doorbell.clone(), group.clone());
            thread::spawn(move || {
                RingCounter::new(&channel, Side::A).unwrap().count();
                GroupCounter::new(&group, 0).unwrap().count();
                GroupCounter::new(&doorbell, 0).unwrap().count();
            })
        });
        let mut watches = channels.each_ref().map(|channel| RingWatch::new(channel, Side::A).unwrap());
        let mut group = RingWatch::of_group(&group, 0).unwrap();
        let (mut rings_seen, mut found) = (0, [false; 2]);
        while found != [true; 2] {
            let rings = doorbell.load_le(0, Ordering::Acquire);
            if rings == rings_seen {
                // Nothing will wake it again after the second ring.
                assert!(rings_seen < 2, "a ring was heard, and its channel not found: {found:?}");
                thread::yield_now();
                continue;
            }
            rings_seen = rings;
            if group.has_rung() {
                for (found, watch) in found.iter_mut().zip(&mut watches) {
                    *found |= watch.has_rung();
                }
            }
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}
