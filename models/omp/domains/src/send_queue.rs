//! Queues through which a process's threads send messages by way of its first thread. Entering never blocks,
//! as other threads may wait for the caller. For the same reason it allocates no memory: another thread may
//! hold the heap's lock.

use std::sync::OnceLock;

use tombolo::waitset::Waker;
use tombolo_omp_team::primitives::parker::Parker;
use tombolo_omp_team::primitives::separate_processes;
use tombolo_omp_team::primitives::wake_domain::ParkerList;
use tombolo_omp_team::team::thread::Thread;

/// Threads of other wake domains to wake.
static TO_WAKE: ParkerList = ParkerList::new();
/// Workers to start.
static TO_START: ParkerList = ParkerList::new();
static WAKER: OnceLock<Waker> = OnceLock::new();

/// Sets the waker of the first thread.
pub fn set_waker(waker: Waker) {
    let _ = WAKER.set(waker);
}

/// Wakes the first thread to process the queues.
pub fn wake_first_thread() {
    if let Some(waker) = WAKER.get() {
        waker.wake();
    }
}

/// Queues the wake-up of a thread of another wake domain.
pub fn wake(parker: &'static Parker) {
    TO_WAKE.add(parker);
    wake_first_thread();
}

/// Queues the start of a worker, without waiting for it. A failure to start it is fatal to the whole job.
///
/// # Errors
/// Never fails: the hub ends the job if the worker cannot be started.
pub fn start(thread: &'static Thread) -> Result<(), String> {
    separate_processes::flush();
    TO_START.add(&thread.parker);
    wake_first_thread();
    Ok(())
}

/// Drains both queues: workers to start, by their parkers, which are the first fields of their records, and
/// threads to wake.
pub fn drain(start: impl FnMut(&'static Parker), wake: impl FnMut(&'static Parker)) {
    TO_START.drain(start);
    TO_WAKE.drain(wake);
}

const _: () = assert!(std::mem::offset_of!(Thread, parker) == 0);
