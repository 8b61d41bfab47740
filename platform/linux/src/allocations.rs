//! Counting what a thread allocates: the proof that something allocates nothing.
//!
//! A test declares `#[global_allocator] static COUNTING: Counting = Counting;` and asks before and after.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
#[derive(Debug)]
pub struct Counting;

/// How often this thread has allocated, or made what it has longer or shorter; 0 where [`Counting`] is not the allocator.
#[must_use]
pub fn so_far() -> u64 {
    COUNT.with(Cell::get)
}

fn count() {
    // It has no destructor and needs no memory of its own; a thread that ends has it to its end.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator with the same arguments, whose promises are those asked for
// here; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, length_bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above; `block` came from the system's allocator, as everything here does.
        unsafe { System.realloc(block, layout, length_bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
