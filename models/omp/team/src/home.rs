//! Where a thread can be woken from.
//!
//! Threads of one kernel that share memory wake each other by futexes, whatever processes they are of. A process whose memory the
//! kernel knows no pages of, as that of a window into another computer, can only wake its own threads; everybody else has to tell it
//! to. So each such process is a *home* of its own, and all others of the kernel that the job began on are one, number 0. Every
//! [dock](crate::dock) has the number of the home that its thread is of.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::dock::Dock;

/// Tells the home of a dock to wake whoever sleeps there. It waits for nobody: whoever calls it may be what others wait for.
pub type Post = fn(&'static Dock);

static HERE: AtomicU32 = AtomicU32::new(0);
static SEVERAL: AtomicBool = AtomicBool::new(false);
static POST: OnceLock<Post> = OnceLock::new();

/// Says that this job has threads of several homes, that this process is of the home `here`, and how others are told to wake
/// their threads. Called before the first region begins; what is said first stays.
pub fn settle(here: u32, post: Post) {
    HERE.store(here, Ordering::Relaxed);
    let _ = POST.set(post);
    SEVERAL.store(true, Ordering::Release);
}

/// The home that this process is of.
pub fn here() -> u32 {
    HERE.load(Ordering::Relaxed)
}

/// Whether the job has threads of several homes, so that no word but a dock may be slept on.
#[inline]
pub fn are_several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// Tells the home of a dock to wake whoever sleeps there.
#[cfg_attr(loom, expect(dead_code, reason = "a model has one home"))]
#[cold]
pub(crate) fn tell(dock: &Dock) {
    // SAFETY: docks are parts of threads, which live for ever.
    let dock: &'static Dock = unsafe { &*ptr::from_ref(dock) };
    if let Some(post) = POST.get() {
        post(dock);
    }
}

/// A dock's place in a [`List`]: null if it is in none, a dock that there is not at the end of one.
#[derive(Debug, Default)]
pub(crate) struct Link(AtomicPtr<Dock>);

const END: *mut Dock = ptr::without_provenance_mut(align_of::<Dock>());

/// Docks that a thread of this process is to tell something. Entering one takes no lock and no memory, so it can be done by
/// whoever has locks that others wait for.
#[derive(Debug)]
pub struct List(AtomicPtr<Dock>);

impl List {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(END))
    }

    /// Enters a dock. One that is in a list of any process stays there: it has not been told yet.
    pub fn enter(&self, dock: &'static Dock) {
        let link = &dock.told.0;
        if link.compare_exchange(ptr::null_mut(), END, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            link.store(first, Ordering::Relaxed);
            let entry = ptr::from_ref(dock).cast_mut();
            match self.0.compare_exchange_weak(first, entry, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes all out. Each may be entered anew before `tell` is called for it.
    pub fn take(&self, mut tell: impl FnMut(&'static Dock)) {
        let mut at = self.0.swap(END, Ordering::AcqRel);
        while at != END {
            // SAFETY: docks live for ever, and what is in the list is one.
            let dock: &'static Dock = unsafe { &*at };
            at = dock.told.0.swap(ptr::null_mut(), Ordering::SeqCst);
            tell(dock);
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_is_told_once_until_it_is_entered_anew() {
        let list = List::new();
        let docks: &'static [Dock] = Vec::leak((0..3).map(|_| Dock::default()).collect());
        for dock in [&docks[0], &docks[1], &docks[0], &docks[2]] {
            list.enter(dock);
        }
        let mut told = Vec::new();
        list.take(|dock| {
            told.push(ptr::from_ref(dock));
            if told.len() == 1 {
                list.enter(dock);
            }
        });
        told.sort();
        let mut all: Vec<_> = docks.iter().map(ptr::from_ref).collect();
        all.sort();
        assert_eq!(told, all);
        let mut count = 0;
        list.take(|_| count += 1);
        list.take(|_| count += 10);
        assert_eq!(count, 1);
    }

    #[test]
    fn nobody_is_forgotten_whoever_enters_them() {
        static LIST: List = List::new();
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        let docks: &'static [Dock] = Vec::leak((0..8).map(|_| Dock::default()).collect());
        let threads: Vec<_> = (0..4)
            .map(|part| {
                std::thread::spawn(move || {
                    for _ in 0..500 {
                        for dock in &docks[part * 2..part * 2 + 2] {
                            LIST.enter(dock);
                            while !dock.told.0.load(Ordering::Acquire).is_null() {
                                LIST.take(|_| {
                                    TOLD.fetch_add(1, Ordering::Relaxed);
                                });
                                std::thread::yield_now();
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(TOLD.load(Ordering::Relaxed), 4 * 500 * 2);
    }
}
