//! Interrupting a wait from elsewhere.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_platform::{OsError, event};

/// Makes a waitset's wait return, from any thread. Cloning names the same waitset; one that is gone is not missed.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Bell {
    counter: OwnedFd,
    /// Somebody called `wake` and no wait has told yet.
    called: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> Result<Self, OsError> {
        Ok(Waker { bell: Arc::new(Bell { counter: event::eventfd()?, called: AtomicBool::new(false) }) })
    }

    /// Makes the wait that is under way, or else the next one, return [`Ready::Woken`](super::Ready::Woken). Several calls
    /// before that are told once.
    pub fn wake(&self) {
        if !self.bell.called.swap(true, Ordering::SeqCst) {
            self.nudge();
        }
    }

    /// Makes the set's descriptor readable, and no more.
    pub(super) fn nudge(&self) {
        // Fails only if it is full, and then it is readable.
        let _ = event::signal(&self.bell.counter);
    }

    /// Takes back what made the descriptor readable; true when somebody called.
    pub(super) fn answer(&self) -> bool {
        event::drain(&self.bell.counter);
        self.bell.called.swap(false, Ordering::SeqCst)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.counter.as_fd()
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
