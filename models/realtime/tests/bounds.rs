//! Tests that a barrier's accesses to shared memory match its bounds.
//!
//! `cargo xtask bounds` runs it with `--cfg sim`; without that, accesses are not counted.
#![cfg(sim)]

use tombolo_base::steps::counted;
use tombolo_base::{SharedMemory, Steps};
use tombolo_realtime::Barrier;

type Four = Barrier<4>;

#[test]
fn barrier_bounds_are_tight() {
    let memory = SharedMemory::zeroed(Four::length_bytes(4));
    let mut workers = [0, 1, 2, 3].map(|worker| Four::new(&memory, worker, 4).unwrap());
    let mut most = Steps::NONE;
    for worker in [2, 0, 3, 1] {
        let ((), arrived) = counted(|| workers[worker].arrive());
        assert_eq!(arrived, Four::ARRIVE_BOUND);
        for worker in &workers {
            let (_, looked) = counted(|| worker.is_complete());
            assert!(looked.within(Four::POLL_BOUND), "{looked:?}");
            most = most.max(looked);
        }
    }
    assert_eq!(most, Four::POLL_BOUND);
}
