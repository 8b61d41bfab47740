//! Interruption of a wait from another thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_platform::{OsError, event};

/// Handle that makes a waitset's wait return, from any thread. Clones wake the same waitset. Waking a dropped
/// waitset does nothing.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<WakerState>,
}

#[derive(Debug)]
struct WakerState {
    counter: OwnedFd,
    /// Whether `wake` was called and no wait has reported it yet.
    requested: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> Result<Self, OsError> {
        Ok(Waker {
            shared: Arc::new(WakerState { counter: event::eventfd()?, requested: AtomicBool::new(false) }),
        })
    }

    /// Makes the current or the next wait return [`Ready::Woken`](super::Ready::Woken). Several calls before
    /// that are reported once.
    pub fn wake(&self) {
        if !self.shared.requested.swap(true, Ordering::SeqCst) {
            self.nudge();
        }
    }

    /// Makes the set's descriptor readable and does nothing else.
    pub(super) fn nudge(&self) {
        // Fails only when the counter is full, and then the descriptor is readable.
        let _ = event::signal(&self.shared.counter);
    }

    /// Makes the descriptor unreadable again. Returns whether `wake` was called.
    pub(super) fn acknowledge(&self) -> bool {
        event::drain(&self.shared.counter);
        self.shared.requested.swap(false, Ordering::SeqCst)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.counter.as_fd()
    }
}

impl std::task::Wake for Waker {
    fn wake(self: Arc<Self>) {
        Waker::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Waker::wake(self);
    }
}
