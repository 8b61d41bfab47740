//! Checks sleeping and waking in all schedules and with all outcomes that the memory model allows.
//!
//! `cargo xtask model`
//!
//! The kernel's futexes are modelled by a lock and a condition variable. A lost wake-up is a deadlock, which
//! loom reports.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use tombolo_omp_team::primitives::bell::{Bell, Sleepers};
use tombolo_omp_team::primitives::parker::Parker;

#[derive(Default)]
struct Shared {
    parker: Parker,
    bell: Bell,
    sleepers: Sleepers,
    /// Value that the conditions of the waiting threads test.
    count: AtomicU32,
}

impl Shared {
    fn wait(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.parker.sleep_unless(&mut condition);
        }
    }

    fn wait_on_bell(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.bell.sleep_unless(&mut condition);
        }
    }
}

#[test]
fn last_to_finish_wakes_the_master() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // Like `worker::finish_work`.
                    if shared.count.fetch_add(1, Ordering::SeqCst) + 1 == 2 {
                        shared.parker.fence_and_wake();
                    }
                })
            })
            .collect();
        shared.wait(|| shared.count.load(Ordering::Acquire) == 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn last_at_barrier_wakes_all_waiters() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                // Like `barrier::barrier`.
                thread::spawn(move || shared.wait_on_bell(|| shared.count.load(Ordering::Acquire) == 1))
            })
            .collect();
        // Like `barrier::barrier` and `Team::notify`.
        shared.count.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        shared.bell.ring(u32::MAX >> 1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn task_wakes_one_waiter_at_barrier() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Like `tasking::enqueue` and `Team::notify_one`. A thread that is woken for one task also
                // looks for the other.
                for number in 1..=2 {
                    shared.count.store(number, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    if shared.bell.has_sleepers() {
                        shared.bell.ring(1);
                    }
                }
            })
        };
        shared.wait_on_bell(|| shared.count.load(Ordering::Acquire) > 0);
        shared.wait_on_bell(|| shared.count.load(Ordering::Acquire) == 2);
        other.join().unwrap();
    });
}

#[test]
fn worker_on_bell_sees_assigned_work() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let master = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Like `assign_work` and `Team::wake_workers`.
                shared.count.store(7, Ordering::Relaxed);
                shared.parker.publish_work(1);
                fence(Ordering::SeqCst);
                shared.bell.ring(u32::MAX >> 1);
            })
        };
        shared.wait_on_bell(|| shared.parker.work_count() == 1);
        assert_eq!(shared.count.load(Ordering::Relaxed), 7, "what was written before it was given");
        master.join().unwrap();
    });
}

#[test]
fn counted_sleeper_is_woken() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Like `Team::notify` for threads that sleep on their parkers.
                shared.count.swap(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if shared.sleepers.has_sleepers() {
                    shared.parker.wake();
                }
            })
        };
        let mut is_ready = || shared.count.load(Ordering::Acquire) == 1;
        while !is_ready() {
            shared.sleepers.while_counted(|| shared.parker.sleep_unless(&mut is_ready));
        }
        other.join().unwrap();
    });
}

#[test]
fn assigned_work_is_seen_despite_other_wakes() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let master = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.count.store(7, Ordering::Relaxed);
                shared.parker.publish_work(1);
            })
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.parker.fence_and_wake())
        };
        shared.wait(|| shared.parker.work_count() == 1);
        assert_eq!(shared.count.load(Ordering::Relaxed), 7, "what was written before it was given");
        master.join().unwrap();
        other.join().unwrap();
    });
}
