//! Where threads of a process leave what its first thread is to send for them.

use std::sync::{Mutex, OnceLock, PoisonError};

use tombolo::Waker;
use tombolo_omp::dock::Dock;
use tombolo_omp::thread::Thread;

/// What a thread wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A worker is to be started: its record.
    Start(u64),
    /// A thread of another home is to be woken: that home, and where it sleeps.
    Wake(u32, u64),
}

static WISHES: Mutex<Vec<Wish>> = Mutex::new(Vec::new());
static WAKER: OnceLock<Waker> = OnceLock::new();

/// Says how the first thread is told.
pub fn open(waker: Waker) {
    let _ = WAKER.set(waker);
}

fn leave(wish: Wish) {
    WISHES.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
    ring();
}

/// Has the first thread look.
pub fn ring() {
    if let Some(waker) = WAKER.get() {
        waker.wake();
    }
}

/// What was left since the last call.
#[must_use]
pub fn take() -> Vec<Wish> {
    std::mem::take(&mut *WISHES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Has a thread of another home woken.
pub fn wake(dock: &Dock) {
    leave(Wish::Wake(dock.home(), std::ptr::from_ref(dock) as u64));
}

/// Has a worker started. It is an error of the whole job if it cannot be, which is not waited for.
///
/// # Errors
/// None: the hub ends the job then.
pub fn start(thread: &'static Thread) -> Result<(), String> {
    tombolo_omp::exclusive::flush();
    leave(Wish::Start(std::ptr::from_ref(thread) as u64));
    Ok(())
}
