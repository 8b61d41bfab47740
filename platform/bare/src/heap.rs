//! Heap of the board's monitor or of a program.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};

use linked_list_allocator::Heap;

/// Heap for a program with one thread and no interrupt handlers of its own.
pub(crate) struct SingleThreadedHeap(UnsafeCell<Heap>);

// SAFETY: a board has one processor, and neither of its two programs runs code of its own in an interrupt:
// the monitor polls for interrupts, and one that arrives while a program runs saves all of the program's
// state. So nothing runs during an allocation.
unsafe impl Sync for SingleThreadedHeap {}

#[global_allocator]
static HEAP: SingleThreadedHeap = SingleThreadedHeap(UnsafeCell::new(Heap::empty()));

/// Initialises the heap with its memory.
///
/// # Safety
/// No other code uses these bytes from now on, and this is called once, before the first allocation.
pub(crate) unsafe fn set_up(address: u64, length_bytes: usize) {
    // SAFETY: see `Sync` for exclusive access; the memory is valid by this function's contract.
    unsafe { (*HEAP.0.get()).init(address as *mut u8, length_bytes) }
}

// SAFETY: `Heap` hands out memory that it was given, each byte once, as the layout requires, or reports
// that it has none.
unsafe impl GlobalAlloc for SingleThreadedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `Sync`: nothing else uses the heap now.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let heap = unsafe { &mut *self.0.get() };
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: it came from `alloc` with this layout, by the contract of `dealloc`.
            unsafe { heap.deallocate(pointer, layout) }
        }
    }
}
