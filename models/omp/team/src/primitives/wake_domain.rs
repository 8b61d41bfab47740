//! Wake domains: which processes can wake a thread.
//!
//! Threads on one kernel that share memory wake each other by futexes, in any process. In memory for which
//! the kernel has no pages, such as a window into another computer, a process can wake only its own threads;
//! others must ask it to. So each such process is a *wake domain* of its own; all other processes on the
//! first kernel of the job share domain 0. Every [parker](super::parker) holds the number of its thread's
//! wake domain.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::parker::Parker;

/// Asks the process of another domain to wake a thread. Must not block, as others may be waiting for the
/// caller.
pub type ForwardWake = fn(&'static Parker);

static OWN: AtomicU32 = AtomicU32::new(0);
static MULTI_DOMAIN: AtomicBool = AtomicBool::new(false);
static FORWARD_WAKE: OnceLock<ForwardWake> = OnceLock::new();

/// Configures several wake domains for this job: `own` is that of this process, and `forward_wake` wakes
/// threads of others. Called before the first region begins; only the first call sets `forward_wake`.
pub fn configure(own: u32, forward_wake: ForwardWake) {
    OWN.store(own, Ordering::Relaxed);
    let _ = FORWARD_WAKE.set(forward_wake);
    MULTI_DOMAIN.store(true, Ordering::Release);
}

/// Returns the wake domain of this process.
pub fn own() -> u32 {
    OWN.load(Ordering::Relaxed)
}

/// Whether the job has several wake domains, so that threads sleep only on parkers.
#[inline]
pub fn is_multi_domain() -> bool {
    MULTI_DOMAIN.load(Ordering::Relaxed)
}

/// Asks the process of another domain to wake a thread.
#[cfg_attr(loom, expect(dead_code, reason = "a model has one wake domain"))]
#[cold]
pub(super) fn forward_wake(parker: &Parker) {
    // SAFETY: parkers are parts of thread records, which are never freed.
    let parker: &'static Parker = unsafe { &*ptr::from_ref(parker) };
    if let Some(forward_wake) = FORWARD_WAKE.get() {
        forward_wake(parker);
    }
}

/// Link of a parker in a [`ParkerList`]: null if it is in none, [`END`] at the end of one.
#[derive(Debug, Default)]
pub(super) struct Entry(AtomicPtr<Parker>);

const END: *mut Parker = ptr::without_provenance_mut(align_of::<Parker>());

/// Lock-free list of parkers to be handled by a thread of this process. Adding one takes no lock and
/// allocates nothing, so the caller may hold locks that other threads wait for.
#[derive(Debug)]
pub struct ParkerList(AtomicPtr<Parker>);

impl ParkerList {
    /// Creates an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(END))
    }

    /// Adds a parker, unless it is already in a list of any process: then it has yet to be handled.
    pub fn add(&self, parker: &'static Parker) {
        let link = &parker.entry.0;
        if link.compare_exchange(ptr::null_mut(), END, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            link.store(first, Ordering::Relaxed);
            let entry = ptr::from_ref(parker).cast_mut();
            match self.0.compare_exchange_weak(first, entry, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Empties the list and calls `handle` for each parker, which may be added again before that.
    pub fn drain(&self, mut handle: impl FnMut(&'static Parker)) {
        let mut at = self.0.swap(END, Ordering::AcqRel);
        while at != END {
            // SAFETY: entries of the list are parkers, which are never freed.
            let parker: &'static Parker = unsafe { &*at };
            at = parker.entry.0.swap(ptr::null_mut(), Ordering::SeqCst);
            handle(parker);
        }
    }
}

impl Default for ParkerList {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn parker_is_handled_once_until_added_again() {
        let list = ParkerList::new();
        let parkers: &'static [Parker] = Vec::leak((0..3).map(|_| Parker::default()).collect());
        for parker in [&parkers[0], &parkers[1], &parkers[0], &parkers[2]] {
            list.add(parker);
        }
        let mut handled = Vec::new();
        list.drain(|parker| {
            handled.push(ptr::from_ref(parker));
            if handled.len() == 1 {
                list.add(parker);
            }
        });
        handled.sort();
        let mut all: Vec<_> = parkers.iter().map(ptr::from_ref).collect();
        all.sort();
        assert_eq!(handled, all);
        let mut count = 0;
        list.drain(|_| count += 1);
        list.drain(|_| count += 10);
        assert_eq!(count, 1);
    }

    #[test]
    fn no_parker_is_lost_under_concurrent_adds() {
        static LIST: ParkerList = ParkerList::new();
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        let parkers: &'static [Parker] = Vec::leak((0..8).map(|_| Parker::default()).collect());
        let threads: Vec<_> = (0..4)
            .map(|part| {
                std::thread::spawn(move || {
                    for _ in 0..500 {
                        for parker in &parkers[part * 2..part * 2 + 2] {
                            LIST.add(parker);
                            while !parker.entry.0.load(Ordering::Acquire).is_null() {
                                LIST.drain(|_| {
                                    HANDLED.fetch_add(1, Ordering::Relaxed);
                                });
                                std::thread::yield_now();
                            }
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(HANDLED.load(Ordering::Relaxed), 4 * 500 * 2);
    }
}
