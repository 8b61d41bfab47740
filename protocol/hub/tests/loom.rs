//! Every schedule of two tasks that use a count while the server takes it back and lends it again.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p tombolo-hub --release --test loom`
#![cfg(loom)]

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_base::sync::Ordering;
use tombolo_hub::CountWord;

const CAPACITY: u32 = 2;

/// The first word is the count; the second is written by a task before it signals.
fn count(memory: &SharedMemory) -> CountWord<'_> {
    CountWord::new(&memory.words()[0])
}

#[test]
fn units_are_neither_lost_nor_duplicated_and_order_writes() {
    loom::model(|| {
        let memory = SharedMemory::zeroed(16);
        count(&memory).lend(0);
        let (of_putter, of_getter) = (memory.clone(), memory.clone());
        let putter = thread::spawn(move || {
            of_putter.words()[1].store(7, Ordering::Relaxed);
            count(&of_putter).put(CAPACITY)
        });
        let getter = thread::spawn(move || {
            let got = count(&of_getter).get();
            if got {
                assert_eq!(of_getter.words()[1].load(Ordering::Relaxed), 7, "the unit came before the data");
            }
            got
        });
        let between = count(&memory).reclaim(CAPACITY);
        count(&memory).lend(between);
        let (put, got) = (putter.join().unwrap(), getter.join().unwrap());
        let left = count(&memory).reclaim(CAPACITY);
        assert_eq!(u32::from(put), u32::from(got) + left);
    });
}

#[test]
fn two_tasks_never_take_one_unit() {
    loom::model(|| {
        let memory = SharedMemory::zeroed(8);
        count(&memory).lend(1);
        let other = memory.clone();
        let other = thread::spawn(move || count(&other).get());
        let got = count(&memory).get();
        let others = other.join().unwrap();
        assert!(got != others, "one takes the unit, and only one");
    });
}
