//! `libtombolo-yield.so`: a `sched_yield` in front of the C library's, for ranks of MPI.
//!
//! MPICH yields its processor after every look for messages, also when nobody else wants it. That is a system call a
//! look: 0.35 µs where a message takes 0.2, and 2 µs on an emulated processor. `tombolo mpirun` names this library in
//! `LD_PRELOAD`, and a call then asks the kernel only if somebody has run in the caller's place lately, or if it is time to
//! see whether somebody wants to. Where several threads of a process yield, every call asks. Whoever waits for the processor gets it at most 50 µs later than otherwise.

mod pace;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use pace::{Pace, Processor};
use tombolo_platform::{thread, time};

thread_local! {
    /// Nothing until the thread yields, and is counted.
    static PACE: Cell<Option<Pace>> = const { Cell::new(None) };
}

/// Threads of this process that have yielded so far. If they are several, they wait for each other's locks as well: the time
/// that a system call takes is the time in which another gets the lock.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// The one that this thread runs on.
struct This;

impl Processor for This {
    #[inline]
    fn now_ns(&self) -> u64 {
        time::now_ns()
    }

    #[inline]
    fn ask(&self) {
        thread::yield_now();
    }

    fn switches(&self) -> u64 {
        thread::switches()
    }
}

/// As `sched_yield(2)`, which never fails on Linux: returns 0.
// SAFETY: the name is the C library's, of the same signature; whoever calls it has the same promised: that others may run
// before it returns. Nothing else of this process is touched.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    let known = PACE.try_with(|kept| {
        let mut pace = kept.get().unwrap_or_else(|| {
            THREADS.fetch_add(1, Ordering::Relaxed);
            Pace::NEW
        });
        if THREADS.load(Ordering::Relaxed) == 1 {
            pace.idle(&This);
        } else {
            This.ask();
        }
        kept.set(Some(pace));
    });
    // A thread that ends has nothing left to be known by.
    if known.is_err() {
        This.ask();
    }
    0
}
