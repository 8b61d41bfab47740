//! The control loop with threads as workers.

use std::hint::spin_loop;
use std::thread;
use std::time::Instant;

use tombolo_base::SharedMemory;
use tombolo_realtime::{Barrier, share};

use crate::MAX_WORKERS;
use crate::fft::{BUTTERFLIES, Fft, STAGES};

/// Turns of the loop that the average is of.
const LOOP_ITERATIONS: usize = 200;
/// Looks at a barrier before a worker gives its processor away: there may be fewer processors than workers.
const SPINS_BEFORE_YIELD: u32 = 200;

/// The average time of a turn, in nanoseconds.
pub(crate) fn average_ns(fft: &Fft, workers: usize) -> u64 {
    let memory = SharedMemory::zeroed(Barrier::<MAX_WORKERS>::length_bytes(workers));
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in 1..workers {
            let memory = &memory;
            scope.spawn(move || work(fft, memory, worker, workers));
        }
        work(fft, &memory, 0, workers);
    });
    start.elapsed().as_nanos() as u64 / LOOP_ITERATIONS as u64
}

fn work(fft: &Fft, memory: &SharedMemory, worker: usize, workers: usize) {
    let Ok(mut barrier) = Barrier::<MAX_WORKERS>::new(memory, worker, workers) else { return };
    for turn in 0..LOOP_ITERATIONS {
        if worker == 0 {
            fft.sample(turn % BUTTERFLIES);
        }
        meet(&mut barrier);
        for stage in 0..STAGES {
            share(BUTTERFLIES, worker, workers).for_each(|number| fft.butterfly(stage, number));
            meet(&mut barrier);
        }
        if worker == 0 {
            assert_eq!(fft.respond(), turn % BUTTERFLIES, "the workers got in each other's way");
        }
    }
}

/// Waits for the other threads, which compute and nothing else, so that they come.
fn meet(barrier: &mut Barrier<MAX_WORKERS>) {
    barrier.arrive();
    for look in 1_u32.. {
        if barrier.is_complete() {
            return;
        }
        if look % SPINS_BEFORE_YIELD == 0 { thread::yield_now() } else { spin_loop() }
    }
}
