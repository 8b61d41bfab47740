//! Every schedule of two ranks that compete for one object, and every outcome that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p tombolo-sharing --release --test loom`
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use tombolo_base::SharedMemory;
use tombolo_base::sync::{AtomicBool, Ordering};
use tombolo_sharing::{Access, Caching, Consistency, Header, Layout, Object, Rank, Ranks, Step};

/// Acquires the object for writing, unless the other rank blocks it, and checks for exclusive access.
fn write_once(memory: &SharedMemory, layout: Layout, rank: u8, inside: &AtomicBool) {
    let mut object = Object::new(layout, Rank(rank), Consistency::Timestamp, Caching::Uncached);
    object.acquire(Access::Write).unwrap();
    loop {
        match object.step(memory, Ranks::NONE).unwrap() {
            Step::Working => {}
            Step::Held => break,
            // A rank that would wait gives up, so that no schedule is endless.
            _ => return object.withdraw(memory).unwrap(),
        }
    }
    assert!(!inside.swap(true, Ordering::Relaxed), "two ranks write");
    inside.store(false, Ordering::Relaxed);
    object.release().unwrap();
    while object.step(memory, Ranks::NONE).unwrap() != Step::Idle {}
}

#[test]
fn two_writers_never_have_an_object_at_the_same_time() {
    loom::model(|| {
        let layout = Layout::new(0, 2, 8).unwrap();
        let memory = SharedMemory::zeroed(layout.total_bytes());
        let (consistency, caching) = (Consistency::Timestamp, Caching::Uncached);
        Header { id: 1, shape: 1, consistency, caching }.create(&memory, &layout, &[0; 8]).unwrap();
        let inside = Arc::new(AtomicBool::new(false));
        let (others_memory, others_inside) = (memory.clone(), Arc::clone(&inside));
        let other = thread::spawn(move || write_once(&others_memory, layout, 1, &others_inside));
        write_once(&memory, layout, 0, &inside);
        other.join().unwrap();
    });
}
