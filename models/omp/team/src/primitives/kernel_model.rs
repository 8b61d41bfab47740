//! The kernel's futexes, as loom's models have them.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

/// What the kernel does for a word: a thread that waits compares it and goes to sleep in one step.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Kernel {
    pub(super) fn wait(&self, word: &AtomicU32, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    pub(super) fn wake(&self, count: u32) {
        let _queue = self.queue.lock().unwrap();
        if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
    }
}
