//! Progress of doacross loop nests (`ordered(n)`), whose iterations wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::primitives::icv::ScheduleKind;
use crate::primitives::store::Store;
use crate::primitives::sys;

/// Most loops in a nest.
const DEPTH_MAX: usize = 128;

/// Progress of a loop nest.
pub struct Doacross {
    depth: usize,
    /// Iterations of the whole nest per iteration of each loop.
    weight: [u64; DEPTH_MAX],
    /// Chunk size of the outermost loop; 0 if there is a posted counter per thread rather than per chunk.
    pub(crate) chunk: u64,
    /// Highest iteration posted by each thread or chunk, plus one.
    posted: *mut AtomicU64,
    /// Iteration that each thread of the team waits for.
    wait_target: *mut WaitTarget,
}

/// Iteration that a thread waits for.
#[repr(C)]
pub(crate) struct WaitTarget {
    /// Index of the counter in `posted`, plus one; 0 while the thread does not wait.
    index: AtomicU64,
    /// Least value that ends the wait.
    number: AtomicU64,
}

impl WaitTarget {
    /// Announces what the thread waits for, before it checks whether that was posted.
    pub(crate) fn begin(&self, index: u64, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.index.store(index + 1, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.index.store(0, Ordering::Relaxed);
    }

    /// Whether the thread may be waiting for this post.
    pub(crate) fn is_satisfied_by(&self, index: u64, number: u64) -> bool {
        self.index.load(Ordering::Acquire) == index + 1 && self.number.load(Ordering::Relaxed) <= number
    }
}

// SAFETY: only atomics change after construction.
unsafe impl Sync for Doacross {}

impl Doacross {
    /// Creates the state of a nest with these iteration counts, shared by a team of `size` threads.
    pub fn create(
        store: &'static Store,
        size: u32,
        counts: &[u64],
        kind: ScheduleKind,
        chunk: u64,
    ) -> &'static Self {
        if counts.is_empty() || counts.len() > DEPTH_MAX {
            sys::fatal(format_args!("ordered({}): there can be 1 to {DEPTH_MAX} loops", counts.len()));
        }
        let mut weight = [1_u64; DEPTH_MAX];
        // Of a nest without iterations GCC sets the first count alone.
        let nested = if counts[0] == 0 { &counts[..1] } else { counts };
        for loop_number in (0..nested.len() - 1).rev() {
            let product = weight[loop_number + 1].checked_mul(nested[loop_number + 1].max(1));
            weight[loop_number] = product.unwrap_or_else(|| fatal_iteration_overflow());
        }
        if weight[0].checked_mul(counts[0].max(1)).is_none_or(|all| all == u64::MAX) {
            fatal_iteration_overflow();
        }
        let (chunk, entries) = match kind {
            ScheduleKind::Static | ScheduleKind::Auto => (0, u64::from(size)),
            _ => (chunk, counts[0].div_ceil(chunk).max(1)),
        };
        let (posted, wait_target) = (zeroed(store, entries), zeroed(store, u64::from(size)));
        store.place(Self { depth: counts.len(), weight, chunk, posted, wait_target })
    }

    /// Frees the state once all threads have left the nest.
    pub fn release(&'static self, store: &Store) {
        // SAFETY: all came from the store, and nothing uses them any more.
        unsafe {
            store.release(self.posted.cast());
            store.release(self.wait_target.cast());
            store.release(std::ptr::from_ref(self).cast_mut().cast());
        }
    }

    /// Returns the number of loops in the nest.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the number that is posted for an iteration: its position in the nest, plus one.
    pub(crate) fn number(&self, iteration: &[u64]) -> u64 {
        1 + iteration
            .iter()
            .zip(&self.weight)
            .map(|(at, weight)| at.wrapping_mul(*weight))
            .fold(0, u64::wrapping_add)
    }

    /// Returns the wait record of a thread.
    pub(crate) fn wait_target(&self, id: u32) -> &WaitTarget {
        // SAFETY: there is one for each thread.
        unsafe { &*self.wait_target.wrapping_add(id as usize) }
    }

    pub(crate) fn entry(&self, index: u64) -> &AtomicU64 {
        // SAFETY: callers pass indices of threads of the team or of chunks of the loop, and there is a
        // counter for each.
        unsafe { &*self.posted.wrapping_add(usize::try_from(index).unwrap_or(0)) }
    }
}

/// Allocates an array of a type for which all zeros is valid.
fn zeroed<T>(store: &'static Store, count: u64) -> *mut T {
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size_of::<T>()));
    let Some(memory) = bytes.and_then(|bytes| store.allocate(bytes, 64)) else { store.exhausted() };
    // SAFETY: the memory was just allocated with this length.
    unsafe { std::ptr::write_bytes(memory, 0, bytes.unwrap_or(0)) };
    memory.cast()
}

fn fatal_iteration_overflow() -> ! {
    sys::fatal("ordered(n): the nest has more than 2^64 iterations, which depend(sink) cannot count")
}
