//! Sleeping on any word: on a lock, on a construct that somebody prepares.
//!
//! Where all threads are of one [home] the kernel does it, with a futex. Where they are not, a thread enters itself in a
//! list that lies in the store and sleeps at its dock, from which every home can be woken. Lists are found by the address of the
//! word, as WebKit's *parking lot* has it. A list's lock is held for a few instructions and never slept on. A thread without a dock,
//! as the first of a worker's process, looks again after a while instead.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::root::{Root, root};
use crate::thread::Thread;
use crate::wait;
use crate::{home, sys};

/// Lists; two words that share one are told apart by the address that a sleeper says.
const LISTS: usize = 64;

/// After how long a thread without a dock looks again, in microseconds.
const LOOK_AGAIN_US: u32 = 50;

/// All lists. They lie in the root; all zero is empty ones.
pub struct Lot {
    lists: [List; LISTS],
}

#[repr(C, align(64))]
struct List {
    held: AtomicU32,
    first: Cell<Option<&'static Thread>>,
    last: Cell<Option<&'static Thread>>,
}

// SAFETY: cells are touched only while the list is held, and those of threads that were taken out only by whoever took them.
unsafe impl Sync for List {}

/// A thread's place in a list.
#[derive(Default)]
pub struct Parked {
    /// The address of the word that it sleeps on; 0 once it is to go on.
    word: AtomicUsize,
    next: Cell<Option<&'static Thread>>,
}

/// Gives a list back when it goes.
struct Held<'a>(&'a List);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.store(0, Ordering::Release);
    }
}

impl List {
    fn hold(&self) -> Held<'_> {
        while self.held.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            sys::yield_now();
        }
        Held(self)
    }

    fn append(&self, thread: &'static Thread) {
        thread.parked.next.set(None);
        match self.last.replace(Some(thread)) {
            Some(last) => last.parked.next.set(Some(thread)),
            None => self.first.set(Some(thread)),
        }
    }

    /// Takes the first out that sleeps on this word.
    fn remove(&self, word: usize) -> Option<&'static Thread> {
        let mut before: Option<&'static Thread> = None;
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
    /// Takes up to `count` out that sleep on this word now, linked in their order. All at once: whoever is woken and finds nothing to do
    /// enters itself again, and taken one after another they would be woken for ever.
    fn take(&self, word: usize, count: u32) -> Option<&'static Thread> {
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

impl Root {
    fn list(&self, word: usize) -> &List {
        // Words are four bytes at least, and often one to a cache line.
        &self.lot.lists[((word >> 2) ^ (word >> 6) ^ (word >> 12)) % LISTS]
    }
}

/// Sleeps until somebody wakes those who sleep on `word`; returns at once if it is not `expected`. May also return for no reason.
pub fn sleep(word: &AtomicU32, expected: u32) {
    if !home::are_several() {
        return wait::asleep(|| sys::futex_wait(word, expected));
    }
    let Some(me) = sys::me() else { return sys::sleep_for(LOOK_AGAIN_US) };
    let address = word.as_ptr() as usize;
    let list = me.root().list(address);
    let held = list.hold();
    if word.load(Ordering::SeqCst) != expected {
        return;
    }
    me.parked.word.store(address, Ordering::Relaxed);
    list.append(me);
    drop(held);
    while me.parked.word.load(Ordering::Acquire) != 0 {
        me.dock.sleep_unless(&mut || me.parked.word.load(Ordering::Acquire) == 0);
    }
}

/// Wakes up to `count` of those who sleep on `word`, which has been changed.
pub fn wake(word: &AtomicU32, count: u32) {
    if !home::are_several() {
        return sys::futex_wake(word, count);
    }
    // Pairs with the lock of the list: who enters itself later sees that the word has changed.
    sys::full_fence();
    let address = word.as_ptr() as usize;
    let list = root().list(address);
    let held = list.hold();
    let mut next = list.take(address, count);
    drop(held);
    while let Some(thread) = next {
        // Once it is told to go on it may enter itself again.
        next = thread.parked.next.take();
        thread.parked.word.store(0, Ordering::Release);
        thread.dock.tell();
    }
}
