//! Every schedule and every outcome that the memory model allows, for races that involve both rings of a
//! channel.
//!
//! `cargo xtask model` runs this with the models of the ring.
#![cfg(loom)]

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_link::ChannelConfig;
use tombolo_link::end::{ChannelEnd, Deferred, EndError};
use tombolo_link::layout::{ChannelLayout, Side};
use tombolo_ring::{SlotSize, Variant, WakeOrder};

type TestEnd = ChannelEnd<Deferred>;

fn ends() -> (TestEnd, TestEnd) {
    let config = ChannelConfig::new(SlotSize::B32, 2, Variant::EpochCredit).unwrap();
    let memory = SharedMemory::zeroed(ChannelLayout::new(config).length_bytes());
    let end =
        |side| ChannelEnd::attach(&memory, side, config, WakeOrder::Fence, Deferred::default()).unwrap();
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
fn an_end_that_was_received_ends_sending_too() {
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
