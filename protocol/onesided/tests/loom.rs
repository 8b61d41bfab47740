//! Checks a put and its flag in all schedules and with all outcomes that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p tombolo-onesided --release --test loom`
#![cfg(loom)]

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_onesided::{FlagReader, FlagWriter, get, put};

const READY: usize = 64;
const TAKEN: usize = 128;

#[test]
fn flag_orders_puts_before_and_after_it() {
    loom::model(|| {
        let memory = SharedMemory::zeroed(192);
        let mut ready = FlagWriter::new(&memory, READY).unwrap();
        let taken = FlagReader::new(&memory, TAKEN).unwrap();
        let writers_memory = memory.clone();
        let writer = thread::spawn(move || {
            put(&writers_memory, 0, &[1; 16]).unwrap();
            ready.raise_with(0, &[16]);
            while taken.latest() < 1 {
                thread::yield_now();
            }
            put(&writers_memory, 0, &[2; 16]).unwrap();
            ready.raise_with(0, &[8]);
        });
        let mut ready = FlagReader::new(&memory, READY).unwrap();
        let mut taken = FlagWriter::new(&memory, TAKEN).unwrap();
        while !ready.take() {
            thread::yield_now();
        }
        let mut bytes = [0; 16];
        assert_eq!(ready.word(0), 16);
        get(&memory, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 16]);
        taken.raise();
        writer.join().unwrap();
        assert_eq!((ready.latest(), ready.word(0)), (2, 8));
    });
}

#[test]
fn late_reader_counts_every_raise() {
    loom::model(|| {
        let memory = SharedMemory::zeroed(64);
        let mut flag = FlagWriter::new(&memory, 0).unwrap();
        let writer = thread::spawn(move || {
            flag.raise();
            flag.raise();
        });
        let mut reader = FlagReader::new(&memory, 0).unwrap();
        let mut seen = 0;
        while seen < 2 {
            let latest = reader.latest();
            assert!(latest >= seen && latest <= 2);
            seen = latest;
            thread::yield_now();
        }
        writer.join().unwrap();
        assert!(reader.take() && reader.take() && !reader.take());
    });
}
