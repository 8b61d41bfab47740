//! Checks all schedules of a FIFO that wraps, with the doorbell that wakes its receiver.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p tombolo-notification --release --test loom`
#![cfg(loom)]

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering;
use tombolo_notification::payload::{Layout, Received, Receiver, SendError, Sender};
use tombolo_notification::tree;

#[test]
fn messages_arrive_whole_and_in_order_while_the_fifo_wraps() {
    loom::model(|| {
        let layout = Layout::new(256).unwrap();
        let memory = SharedMemory::zeroed(layout.total_bytes());
        let mut sender = Sender::new(&memory, layout).unwrap();
        let mut receiver = Receiver::new(&memory, layout).unwrap();
        let writer = thread::spawn(move || {
            // Two lines each, of four.
            for tag in 1..=3_u8 {
                while sender.try_send(u64::from(tag), &[tag; 56]) == Err(SendError::Full) {
                    thread::yield_now();
                }
            }
        });
        let mut payload = Vec::new();
        for tag in 1..=3_u8 {
            let received = loop {
                match receiver.try_receive(&mut payload).unwrap() {
                    Some(received) => break received,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(received, Received { tag: u64::from(tag), length: 56 });
            assert_eq!(payload, [tag; 56]);
        }
        writer.join().unwrap();
    });
}

#[test]
fn channel_notified_while_pending_is_taken_again() {
    loom::model(|| {
        let memory = SharedMemory::zeroed(tree::TOTAL_BYTES);
        let messages = SharedMemory::zeroed(8);
        let mut sender = tree::Sender::new(&memory).unwrap();
        let mut receiver = tree::Receiver::new(&memory).unwrap();
        let written = messages.clone();
        let writer = thread::spawn(move || {
            for message in 1..=2 {
                written.store_le(0, message, Ordering::Release);
                sender.notify(300);
            }
        });
        let mut read = 0;
        while read < 2 {
            if receiver.take(|channel| assert_eq!(channel, 300)) > 0 {
                read = messages.load_le(0, Ordering::Acquire);
            } else {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
    });
}
