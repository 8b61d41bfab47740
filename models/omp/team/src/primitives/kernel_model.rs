//! Model of the kernel's futexes for loom.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

/// Model of a futex: a waiting thread compares the word and goes to sleep atomically.
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
