//! `libtombolo-yield.so`: overrides the C library's `sched_yield` for ranks of MPI.
//!
//! MPICH calls `sched_yield` each time it has polled for messages, even if no other thread wants the
//! processor. That is one system call per poll: 0.35 µs where a message takes 0.2, and 2 µs on an emulated
//! processor. `tombolo mpirun` puts this library into `LD_PRELOAD`. It calls the kernel only if another
//! thread has run in place of the caller recently, or if the last check was too long ago. If several threads
//! of a process yield, every call reaches the kernel. A waiting thread gets the processor at most 50 µs later
//! than without this library.
//!
//! Since ranks load it before all other libraries, it also reports files that a job may not open (`files`).

mod files;
mod pace;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use pace::{Looks, Pace, Processor};
use tombolo_platform::{thread, time};

thread_local! {
    /// Nothing until the thread yields, and is counted.
    static THREAD: Cell<Option<Thread>> = const { Cell::new(None) };
}

/// What is known of a thread that yields.
#[derive(Clone, Copy)]
struct Thread {
    pace: Pace,
    looks: Looks,
    /// What [`tombolo_yield_found`] was at its last call.
    found: u32,
}

/// Counts looks for messages that found some. The provider for libfabric finds it by its name, and adds to
/// it; what else carries messages does not, and its ranks then have few looks before they ask.
// SAFETY: the name is ours alone.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is of C")]
pub static tombolo_yield_found: AtomicU32 = AtomicU32::new(0);

/// Threads of this process that have yielded so far. If they are several, they wait for each other's locks as
/// well: the time that a system call takes is the time in which another gets the lock.
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
// SAFETY: the name is the C library's, of the same signature; callers get the same: that others may run
// before it returns. Nothing else of this process is touched.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    let known = THREAD.try_with(|kept| {
        let mut thread = kept.get().unwrap_or_else(|| {
            THREADS.fetch_add(1, Ordering::Relaxed);
            Thread { pace: Pace::NEW, looks: Looks::NEW, found: 0 }
        });
        let found = tombolo_yield_found.load(Ordering::Relaxed);
        if THREADS.load(Ordering::Relaxed) > 1 {
            This.ask();
        } else if found != thread.found {
            // There was something to do, and may be more.
            thread.found = found;
            thread.looks.found();
        } else if thread.looks.may_look_again() {
            std::hint::spin_loop();
        } else {
            thread.pace.idle(&This);
        }
        kept.set(Some(thread));
    });
    // A thread that ends has nothing left to be known by.
    if known.is_err() {
        This.ask();
    }
    0
}
