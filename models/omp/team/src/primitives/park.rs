//! Sleeping on an arbitrary word, such as a lock or a construct that another thread prepares.
//!
//! If all threads are in one [wake domain](super::wake_domain), this is a futex of the kernel. Otherwise a
//! thread enters a list in the store and sleeps on its parker, which every domain can have woken. Lists are
//! found by the address of the word, as in WebKit's *parking lot*. A list's lock is held for a few
//! instructions and never slept on. A thread without a parker, such as the first of a worker process, polls
//! instead.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::local::{self, Local};
use super::{pace, sys, wake_domain};

/// Number of lists. Words that share a list are distinguished by the address in each sleeper's entry.
const LISTS: usize = 64;

/// Polling interval of a thread without a parker, in microseconds.
const LOOK_AGAIN_US: u32 = 50;

/// All lists, in the record of the job. All-zero memory is valid: empty lists.
pub struct Lot {
    lists: [List; LISTS],
}

#[repr(C, align(64))]
struct List {
    held: AtomicU32,
    first: Cell<Option<&'static Local>>,
    last: Cell<Option<&'static Local>>,
}

// SAFETY: cells are touched only while the list is held, and those of removed threads only by the thread that
// removed them.
unsafe impl Sync for List {}

/// Guard that releases the list when dropped.
struct Held<'a>(&'a List);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.store(0, Ordering::Release);
    }
}

impl List {
    fn hold(&self) -> Held<'_> {
        let take = || self.held.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if pace::is_on() {
            let mut looks = pace::Looks::new();
            while self.held.load(Ordering::Relaxed) != 0 || !take() {
                looks.pause();
            }
        } else {
            while !take() {
                sys::yield_now();
            }
        }
        Held(self)
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

impl List {
    /// Removes up to `count` threads that currently sleep on this word, linked in their order. All are
    /// removed at once: a thread that is woken and finds its condition false enters the list again, so
    /// removing them one by one might never end.
    fn take(&self, word: usize, count: u32) -> Option<&'static Local> {
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

/// Lists of the job; null before there is one.
static LOT: AtomicPtr<Lot> = AtomicPtr::new(ptr::null_mut());

/// Sets the lists that this process uses. Called once per process, before there are several wake domains.
pub fn use_lot(lot: &'static Lot) {
    LOT.store(ptr::from_ref(lot).cast_mut(), Ordering::Release);
}

/// Returns the list for a word; `None` before there is a job, when no thread sleeps on any.
fn list(word: usize) -> Option<&'static List> {
    // SAFETY: a stored lot is never freed.
    let lot = unsafe { LOT.load(Ordering::Acquire).as_ref() }?;
    // Words have at least four bytes, and often a cache line each.
    Some(&lot.lists[((word >> 2) ^ (word >> 6) ^ (word >> 12)) % LISTS])
}

/// Sleeps until `word` is woken; returns at once if its value is not `expected`. May also return spuriously.
pub fn sleep(word: &AtomicU32, expected: u32) {
    if !wake_domain::are_several() {
        return local::asleep(|| sys::futex_wait(word, expected));
    }
    let address = word.as_ptr() as usize;
    let (Some(me), Some(list)) = (local::me(), list(address)) else { return sys::sleep_for(LOOK_AGAIN_US) };
    // The first thread forwards wake-ups to other kernels: asleep, it would wait for itself.
    if cfg!(not(loom)) && sys::is_first_thread() {
        return sys::sleep_for(LOOK_AGAIN_US);
    }
    let held = list.hold();
    if word.load(Ordering::SeqCst) != expected {
        return;
    }
    me.parked.word.store(address, Ordering::Relaxed);
    list.append(me);
    drop(held);
    while me.parked.word.load(Ordering::Acquire) != 0 {
        me.parker().sleep_unless(&mut || me.parked.word.load(Ordering::Acquire) == 0);
    }
}

/// Wakes up to `count` threads that sleep on `word`, which the caller changed before.
pub fn wake(word: &AtomicU32, count: u32) {
    if !wake_domain::are_several() {
        return sys::futex_wake(word, count);
    }
    // Pairs with the lock of the list: a thread that enters later sees the changed word.
    sys::full_fence();
    let address = word.as_ptr() as usize;
    let Some(list) = list(address) else { return };
    let held = list.hold();
    let mut next = list.take(address, count);
    drop(held);
    while let Some(thread) = next {
        // After the store below the thread may enter a list again.
        next = thread.parked.next.take();
        thread.parked.word.store(0, Ordering::Release);
        thread.parker().tell();
    }
}
