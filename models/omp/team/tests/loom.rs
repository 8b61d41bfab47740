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

    fn wait_together(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.bell.sleep_unless(&mut condition);
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
                    // Like `team::finish_work`.
                    if shared.count.fetch_add(1, Ordering::SeqCst) + 1 == 2 {
                        shared.parker.tell();
                    }
                })
            })
            .collect();
        shared.wait(|| shared.count.load(Ordering::Acquire) == 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn the_last_at_a_barrier_wakes_all_who_are_there() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                // Like `barrier::barrier`.
                thread::spawn(move || shared.wait_together(|| shared.count.load(Ordering::Acquire) == 1))
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
fn a_task_wakes_one_of_those_at_a_barrier() {
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
                    if shared.bell.any() {
                        shared.bell.ring(1);
                    }
                }
            })
        };
        shared.wait_together(|| shared.count.load(Ordering::Acquire) > 0);
        shared.wait_together(|| shared.count.load(Ordering::Acquire) == 2);
        other.join().unwrap();
    });
}

#[test]
fn a_worker_on_a_bell_notices_what_it_is_given() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let master = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Like `engage` and `Team::call`.
                shared.count.store(7, Ordering::Relaxed);
                shared.parker.give(1);
                fence(Ordering::SeqCst);
                shared.bell.ring(u32::MAX >> 1);
            })
        };
        shared.wait_together(|| shared.parker.given() == 1);
        assert_eq!(shared.count.load(Ordering::Relaxed), 7, "what was written before it was given");
        master.join().unwrap();
    });
}

#[test]
fn who_is_counted_is_woken() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Like `Team::notify` for threads that sleep on their parkers.
                shared.count.swap(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if shared.sleepers.any() {
                    shared.parker.wake();
                }
            })
        };
        let mut come = || shared.count.load(Ordering::Acquire) == 1;
        while !come() {
            shared.sleepers.with(|| shared.parker.sleep_unless(&mut come));
        }
        other.join().unwrap();
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
                shared.parker.give(1);
            })
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.parker.tell())
        };
        shared.wait(|| shared.parker.given() == 1);
        assert_eq!(shared.count.load(Ordering::Relaxed), 7, "what was written before it was given");
        master.join().unwrap();
        other.join().unwrap();
    });
}
