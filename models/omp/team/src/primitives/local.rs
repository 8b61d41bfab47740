//! Per-thread state of the primitives: its parker, its spinning, its cache of free memory.
//!
//! It is part of a record defined by the layer above, and is found through one word of thread-local storage.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::cache::Cache;
use super::node_load::{NodeLoad, SpinYield, UNREGISTERED};
use super::parker::Parker;
use super::sys::{self, Spin};

/// Per-thread state of the primitives.
#[repr(C, align(64))]
pub struct Local {
    parker: Cell<*const Parker>,
    node_load: &'static NodeLoad,
    /// Cache of free memory.
    pub cache: Cache,
    /// Interval at which it checks for competitors for its processor.
    pub spin_yield: SpinYield,
    /// Its entry in a wait queue of [`super::park`].
    pub parked: Parked,
    /// Whether it sleeps until another thread wakes it.
    asleep: AtomicBool,
}

/// Entry of a thread in the queue of those that sleep on a word.
#[derive(Default)]
pub struct Parked {
    /// Address of the word that it sleeps on; 0 once it has been woken.
    pub(super) word: AtomicUsize,
    pub(super) next: Cell<Option<&'static Local>>,
}

impl Local {
    /// Creates the state of a thread on processors whose threads `node_load` counts.
    #[must_use]
    pub fn new(node_load: &'static NodeLoad) -> Self {
        Self {
            parker: Cell::new(ptr::null()),
            node_load,
            cache: Cache::default(),
            spin_yield: SpinYield::default(),
            parked: Parked::default(),
            asleep: AtomicBool::new(false),
        }
    }

    /// Whether the thread sleeps until it is woken. The answer may be out of date.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Sets the thread's parker. Called once, before any other thread knows this one.
    pub fn set_parker(&self, parker: &'static Parker) {
        self.parker.set(parker);
    }

    /// Returns the parker on which the thread sleeps.
    #[inline]
    pub fn parker(&self) -> &'static Parker {
        // SAFETY: `set_parker` stored a reference before the thread was used.
        unsafe { &*self.parker.get() }
    }

    /// Returns the counter of awake threads on its processors.
    #[inline]
    pub fn node_load(&self) -> &'static NodeLoad {
        self.node_load
    }
}

/// Offset of the [`Local`] in a thread's record, in bytes. The record begins with its [`Parker`].
pub(crate) const OFFSET: usize = 128;

/// Returns the state of the calling thread; `None` before it has a record.
#[inline]
pub fn me() -> Option<&'static Local> {
    let record = record();
    // SAFETY: a non-null pointer was stored by `set_me`: a record that is never freed.
    (!record.is_null()).then(|| unsafe { &*record.byte_add(OFFSET).cast::<Local>() })
}

/// Returns the record of the calling thread as stored by [`set_me`]; null before that.
#[inline]
pub(crate) fn record() -> *const c_void {
    sys::thread_record()
}

/// Sets the record of the calling thread, or null.
///
/// # Safety
/// The record must never be freed, must begin with its [`Parker`], and must have its [`Local`] at [`OFFSET`].
pub(crate) unsafe fn set_me(record: *const c_void) {
    sys::set_thread_record(record);
}

/// Returns the parker of the calling thread, for comparison; null before it has a record.
#[inline]
pub(crate) fn parker_or_null() -> *const Parker {
    record().cast()
}

#[inline]
fn node_load() -> &'static NodeLoad {
    me().map_or(&UNREGISTERED, Local::node_load)
}

/// Returns the state used by threads that have no record yet.
pub fn unregistered_load() -> &'static NodeLoad {
    &UNREGISTERED
}

/// Maximum spin turns on a lock if there are more threads than processors. Threads that take turns with a
/// lock on different processors should not sleep in between: each sleep wakes another thread, so that soon
/// all are awake, and those without work keep their processors from the others for whole time slices. GCC's
/// library spins as often.
const OVERSUBSCRIBED_LOCK_TURNS: u64 = 100;

/// Returns how long to spin on a lock.
pub fn lock_spin_budget() -> Spin {
    let node_load = node_load();
    let turns = node_load.turns();
    Spin::turns(if node_load.is_oversubscribed() {
        turns.min(OVERSUBSCRIBED_LOCK_TURNS)
    } else {
        turns.min(20_000)
    })
}

/// Runs `sleep` with the thread marked and counted as asleep.
pub fn mark_asleep_while(sleep: impl FnOnce()) {
    let (me, node_load) = (me(), node_load());
    let set_asleep = |asleep| me.iter().for_each(|me| me.asleep.store(asleep, Ordering::Relaxed));
    node_load.remove_running();
    set_asleep(true);
    sleep();
    set_asleep(false);
    node_load.add_running();
}
