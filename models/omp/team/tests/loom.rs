//! Every schedule and every outcome that the memory model allows, of going to sleep and being woken.
//!
//! `cargo xtask model omp`
//!
//! What the kernel does for a word that threads sleep on is modelled by a lock and a condition variable. A lost wake-up is a deadlock, which
//! loom reports.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use tombolo_omp::dock::{Dock, Sleepers};

#[derive(Default)]
struct Shared {
    dock: Dock,
    sleepers: Sleepers,
    /// What is waited for.
    count: AtomicU32,
}

impl Shared {
    fn wait(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.dock.sleep_unless(&mut condition);
        }
    }
}

#[test]
fn the_last_to_finish_wakes_the_master() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // As `team::finish_work` does.
                    if shared.count.fetch_add(1, Ordering::SeqCst) + 1 == 2 {
                        shared.dock.tell();
                    }
                })
            })
            .collect();
        shared.wait(|| shared.count.load(Ordering::Acquire) == 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn the_last_at_a_barrier_wakes_who_is_counted() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let last = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // As `barrier::barrier` and `Team::notify` do.
                shared.count.swap(1, Ordering::SeqCst);
                if shared.sleepers.any() {
                    shared.dock.wake();
                }
            })
        };
        let mut open = || shared.count.load(Ordering::Acquire) == 1;
        while !open() {
            shared.sleepers.with(|| shared.dock.sleep_unless(&mut open));
        }
        last.join().unwrap();
    });
}

#[test]
fn what_is_given_is_noticed_whoever_else_wakes() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let master = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.count.store(7, Ordering::Relaxed);
                shared.dock.give(1);
            })
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.dock.tell())
        };
        shared.wait(|| shared.dock.given() == 1);
        assert_eq!(shared.count.load(Ordering::Relaxed), 7, "what was written before it was given");
        master.join().unwrap();
        other.join().unwrap();
    });
}
