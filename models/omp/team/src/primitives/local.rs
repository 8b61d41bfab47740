//! What the primitives keep of a thread: where it sleeps, how it spins, which free memory it holds.
//!
//! It is part of a record that the layer above defines, and is found by one word of thread-local storage.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::awake::{Asking, Awake, CROWDED, UNKNOWN};
use super::cache::Cache;
use super::parker::Parker;
use super::sys::{self, Spin};

/// A thread, as the primitives know it.
#[repr(C, align(64))]
pub struct Local {
    parker: Cell<*const Parker>,
    awake: &'static Awake,
    /// Free memory that it keeps for itself.
    pub cache: Cache,
    /// When it asks whether another thread wants its processor.
    pub asking: Asking,
    /// Its entry in a list of [`super::park`].
    pub parked: Parked,
    /// Whether it sleeps until another thread wakes it.
    asleep: AtomicBool,
}

/// A thread's entry in a list of those that sleep on a word.
#[derive(Default)]
pub struct Parked {
    /// The address of the word that it sleeps on; 0 once it is to go on.
    pub(super) word: AtomicUsize,
    pub(super) next: Cell<Option<&'static Local>>,
}

impl Local {
    /// For a thread on processors whose threads are counted here.
    #[must_use]
    pub fn new(awake: &'static Awake) -> Self {
        Self {
            parker: Cell::new(ptr::null()),
            awake,
            cache: Cache::default(),
            asking: Asking::default(),
            parked: Parked::default(),
            asleep: AtomicBool::new(false),
        }
    }

    /// Whether the thread sleeps until another thread wakes it. It may have been woken meanwhile.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Says where the thread sleeps. Called once, before any other thread knows this one.
    pub fn set_parker(&self, parker: &'static Parker) {
        self.parker.set(parker);
    }

    /// The parker on which the thread sleeps.
    #[inline]
    pub fn parker(&self) -> &'static Parker {
        // SAFETY: `set_parker` has stored a reference before the thread was used.
        unsafe { &*self.parker.get() }
    }

    /// The threads that are awake on its processors.
    #[inline]
    pub fn awake(&self) -> &'static Awake {
        self.awake
    }
}

/// Where in the record of a thread its [`Local`] is, in bytes. The record begins with its [`Parker`].
pub(crate) const OFFSET: usize = 128;

/// The calling thread; `None` before it has a record.
#[inline]
pub fn me() -> Option<&'static Local> {
    let record = record();
    // SAFETY: what is not null was stored by `set_me`: a record that lives for ever.
    (!record.is_null()).then(|| unsafe { &*record.byte_add(OFFSET).cast::<Local>() })
}

/// The record of the calling thread, as [`set_me`] has stored it; null before.
#[inline]
pub(crate) fn record() -> *const c_void {
    sys::thread_record()
}

/// Stores which record the calling thread has, or null.
///
/// # Safety
/// The record lives for ever, begins with its [`Parker`], and has its [`Local`] at [`OFFSET`].
pub(crate) unsafe fn set_me(record: *const c_void) {
    sys::set_thread_record(record);
}

/// Where the calling thread sleeps, to compare with others; null before it has a record.
#[inline]
pub(crate) fn parker_or_null() -> *const Parker {
    record().cast()
}

#[inline]
fn awake() -> &'static Awake {
    me().map_or(&UNKNOWN, Local::awake)
}

/// What threads use before they have a record.
pub fn unknown() -> &'static Awake {
    &UNKNOWN
}

/// How long to spin on a lock.
pub fn budget_for_locks() -> Spin {
    let awake = awake();
    let turns = awake.turns();
    Spin::turns(if awake.crowded() { turns.min(CROWDED) } else { turns.min(20_000) })
}

/// Runs something during which the thread sleeps.
pub fn asleep(sleep: impl FnOnce()) {
    let (me, awake) = (me(), awake());
    let says = |asleep| me.iter().for_each(|me| me.asleep.store(asleep, Ordering::Relaxed));
    awake.went();
    says(true);
    sleep();
    says(false);
    awake.came();
}
