//! Counts the allocations of a thread, for tests that code does not allocate.
//!
//! A test declares `#[global_allocator] static COUNTING: CountingAllocator = CountingAllocator;` and compares
//! the count before and after.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter.
#[derive(Debug)]
pub struct CountingAllocator;

/// Returns the number of allocations and reallocations of this thread; 0 unless [`CountingAllocator`] is the
/// global allocator.
#[must_use]
pub fn count() -> u64 {
    COUNT.with(Cell::get)
}

fn increment() {
    // The variable has no destructor and allocates nothing, so it is valid until the thread ends.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is forwarded to the system's allocator with the same arguments, under the same
// contract; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        increment();
        // SAFETY: the caller upholds the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        increment();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, length_bytes: usize) -> *mut u8 {
        increment();
        // SAFETY: as above; `block` came from the system's allocator, like all memory here.
        unsafe { System.realloc(block, layout, length_bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
