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

use pace::{PollBudget, Scheduler, YieldPacer};
use tombolo_platform::{thread, time};

thread_local! {
    /// State of this thread; `None` until it first yields and is counted.
    static THREAD: Cell<Option<Thread>> = const { Cell::new(None) };
}

/// State of a thread that yields.
#[derive(Clone, Copy)]
struct Thread {
    pacer: YieldPacer,
    poll_budget: PollBudget,
    /// Value of [`tombolo_yield_found`] at its last call.
    found: u32,
}

/// Counts polls that found messages. The libfabric provider looks it up by name and increments it. Other
/// transports do not, and their ranks poll only a few times before they yield.
// SAFETY: no other library defines this symbol.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is of C")]
pub static tombolo_yield_found: AtomicU32 = AtomicU32::new(0);

/// Number of threads of this process that have yielded so far. Several threads also wait for each other's
/// locks: the syscall gives another thread the time to get the lock.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// The clock and scheduler of the kernel.
struct KernelScheduler;

impl Scheduler for KernelScheduler {
    #[inline]
    fn now_ns(&self) -> u64 {
        time::now_ns()
    }

    #[inline]
    fn yield_now(&self) {
        thread::yield_now();
    }

    fn switches(&self) -> u64 {
        thread::context_switches()
    }
}

/// Yields like `sched_yield(2)`. Returns 0, as that never fails on Linux.
// SAFETY: overrides the C library's symbol with the same signature and contract: other threads may run
// before it returns. It has no other effect on the process.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    let known = THREAD.try_with(|kept| {
        let mut thread = kept.get().unwrap_or_else(|| {
            THREADS.fetch_add(1, Ordering::Relaxed);
            Thread { pacer: YieldPacer::NEW, poll_budget: PollBudget::NEW, found: 0 }
        });
        let found = tombolo_yield_found.load(Ordering::Relaxed);
        if THREADS.load(Ordering::Relaxed) > 1 {
            KernelScheduler.yield_now();
        } else if found != thread.found {
            // The last poll found something, and the next may, too.
            thread.found = found;
            thread.poll_budget.poll_succeeded();
        } else if thread.poll_budget.should_poll_again() {
            std::hint::spin_loop();
        } else {
            thread.pacer.idle(&KernelScheduler);
        }
        kept.set(Some(thread));
    });
    // The thread is exiting, and its thread-local state is gone.
    if known.is_err() {
        KernelScheduler.yield_now();
    }
    0
}
