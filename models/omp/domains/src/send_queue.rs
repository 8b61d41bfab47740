//! Where threads of a process leave what its first thread is to send for them. No thread waits here, as
//! others may wait for the thread that calls. For the same reason the lists allocate no memory: another
//! thread may hold the heap's lock.

use std::sync::OnceLock;

use tombolo::waitset::Waker;
use tombolo_omp_team::primitives::exclusive;
use tombolo_omp_team::primitives::parker::Parker;
use tombolo_omp_team::primitives::wake_domain::List;
use tombolo_omp_team::team::thread::Thread;

/// Threads of other wake domains that are to be woken.
static ASLEEP: List = List::new();
/// Workers that are to be started.
static WANTED: List = List::new();
static WAKER: OnceLock<Waker> = OnceLock::new();

/// Says how the first thread is told.
pub fn open(waker: Waker) {
    let _ = WAKER.set(waker);
}

/// Has the first thread look.
pub fn ring() {
    if let Some(waker) = WAKER.get() {
        waker.wake();
    }
}

/// Has a thread of another wake domain woken.
pub fn wake(parker: &'static Parker) {
    ASLEEP.add(parker);
    ring();
}

/// Has a worker started. It is an error of the whole job if it cannot be, which is not waited for.
///
/// # Errors
/// None: the hub ends the job then.
pub fn start(thread: &'static Thread) -> Result<(), String> {
    exclusive::flush();
    WANTED.add(&thread.parker);
    ring();
    Ok(())
}

/// What was left since the last call: workers to be started, by the addresses of their records, which their
/// parkers are at the beginning of, and threads to be woken.
pub fn take(start: impl FnMut(&'static Parker), wake: impl FnMut(&'static Parker)) {
    WANTED.take(start);
    ASLEEP.take(wake);
}

const _: () = assert!(std::mem::offset_of!(Thread, parker) == 0);
