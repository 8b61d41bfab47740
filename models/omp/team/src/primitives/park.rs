//! Sleeping on an arbitrary word, such as a lock or a construct that another thread prepares.
//!
//! If all threads are in one [wake domain](super::wake_domain), this is a futex of the kernel. Otherwise a
//! thread enters a bucket in the store and sleeps on its parker, which every domain can have woken. Buckets
//! are found by the address of the word, as in WebKit's *parking lot*. A bucket's lock is held for a few
//! instructions and never slept on. A thread without a parker, such as the first of a worker process, polls
//! instead.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::local::{self, Local};
use super::{paged_wait, sys, wake_domain};

/// Number of buckets. Words that share a bucket are distinguished by the address in each sleeper's entry.
const BUCKETS: usize = 64;

/// Polling interval of a thread without a parker, in microseconds.
const POLL_INTERVAL_US: u32 = 50;

/// All buckets, in the record of the job. All-zero memory is valid: empty buckets.
pub struct ParkingLot {
    buckets: [Bucket; BUCKETS],
}

#[repr(C, align(64))]
struct Bucket {
    locked: AtomicU32,
    first: Cell<Option<&'static Local>>,
    last: Cell<Option<&'static Local>>,
}

// SAFETY: cells are touched only while the bucket is locked, and those of removed threads only by the thread
// that removed them.
unsafe impl Sync for Bucket {}

/// Guard that releases the bucket when dropped.
struct BucketGuard<'a>(&'a Bucket);

impl Drop for BucketGuard<'_> {
    fn drop(&mut self) {
        self.0.locked.store(0, Ordering::Release);
    }
}

impl Bucket {
    fn lock(&self) -> BucketGuard<'_> {
        let take = || self.locked.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if paged_wait::is_memory_paged() {
            let mut poller = paged_wait::Poller::new();
            while self.locked.load(Ordering::Relaxed) != 0 || !take() {
                poller.pause();
            }
        } else {
            while !take() {
                sys::yield_now();
            }
        }
        BucketGuard(self)
    }

    fn append(&self, thread: &'static Local) {
        thread.parked.next.set(None);
        match self.last.replace(Some(thread)) {
            Some(last) => last.parked.next.set(Some(thread)),
            None => self.first.set(Some(thread)),
        }
    }

    /// Removes the first thread that sleeps on this word.
    fn remove(&self, word: usize) -> Option<&'static Local> {
        let mut before: Option<&'static Local> = None;
        let mut at = self.first.get();
        while let Some(thread) = at {
            let next = thread.parked.next.get();
            if thread.parked.word.load(Ordering::Relaxed) == word {
                match before {
                    Some(before) => before.parked.next.set(next),
                    None => self.first.set(next),
                }
                if next.is_none() {
                    self.last.set(before);
                }
                return Some(thread);
            }
            (before, at) = (at, next);
        }
        None
    }
}

impl Bucket {
    /// Removes up to `count` threads that currently sleep on this word, linked in their order. All are
    /// removed at once: a thread that is woken and finds its condition false enters the bucket again, so
    /// removing them one by one might never end.
    fn remove_all(&self, word: usize, count: u32) -> Option<&'static Local> {
        let first = (count > 0).then(|| self.remove(word))??;
        first.parked.next.set(None);
        let mut last = first;
        for _ in 1..count {
            let Some(thread) = self.remove(word) else { break };
            thread.parked.next.set(None);
            last.parked.next.set(Some(thread));
            last = thread;
        }
        Some(first)
    }
}

/// Buckets of the job; null before there is one.
static PARKING_LOT: AtomicPtr<ParkingLot> = AtomicPtr::new(ptr::null_mut());

/// Sets the buckets that this process uses. Called once per process, before there are several wake domains.
pub fn set_parking_lot(lot: &'static ParkingLot) {
    PARKING_LOT.store(ptr::from_ref(lot).cast_mut(), Ordering::Release);
}

/// Returns the bucket for a word; `None` before there is a job, when no thread sleeps on any.
fn bucket(word: usize) -> Option<&'static Bucket> {
    // SAFETY: a stored lot is never freed.
    let lot = unsafe { PARKING_LOT.load(Ordering::Acquire).as_ref() }?;
    // Words have at least four bytes, and often a cache line each.
    Some(&lot.buckets[((word >> 2) ^ (word >> 6) ^ (word >> 12)) % BUCKETS])
}

/// Sleeps until `word` is woken; returns at once if its value is not `expected`. May also return spuriously.
pub fn sleep(word: &AtomicU32, expected: u32) {
    if !wake_domain::is_multi_domain() {
        return local::mark_asleep_while(|| sys::futex_wait(word, expected));
    }
    let address = word.as_ptr() as usize;
    let (Some(me), Some(bucket)) = (local::me(), bucket(address)) else {
        return sys::sleep_for(POLL_INTERVAL_US);
    };
    // The first thread forwards wake-ups to other kernels: asleep, it would wait for itself.
    if cfg!(not(loom)) && sys::is_first_thread() {
        return sys::sleep_for(POLL_INTERVAL_US);
    }
    let held = bucket.lock();
    if word.load(Ordering::SeqCst) != expected {
        return;
    }
    me.parked.word.store(address, Ordering::Relaxed);
    bucket.append(me);
    drop(held);
    while me.parked.word.load(Ordering::Acquire) != 0 {
        me.parker().sleep_unless(&mut || me.parked.word.load(Ordering::Acquire) == 0);
    }
}

/// Wakes up to `count` threads that sleep on `word`, which the caller changed before.
pub fn wake(word: &AtomicU32, count: u32) {
    if !wake_domain::is_multi_domain() {
        return sys::futex_wake(word, count);
    }
    // Pairs with the lock of the bucket: a thread that enters later sees the changed word.
    sys::full_fence();
    let address = word.as_ptr() as usize;
    let Some(bucket) = bucket(address) else { return };
    let held = bucket.lock();
    let mut next = bucket.remove_all(address, count);
    drop(held);
    while let Some(thread) = next {
        // After the store below the thread may enter a bucket again.
        next = thread.parked.next.take();
        thread.parked.word.store(0, Ordering::Release);
        thread.parker().fence_and_wake();
    }
}
