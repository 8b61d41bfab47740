//! The heap of whoever runs here: the board's monitor or a program.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};

use linked_list_allocator::Heap;

/// A heap for a program with one thread and no interrupt handlers of its own.
pub(crate) struct OneThread(UnsafeCell<Heap>);

// SAFETY: a board has one processor, and neither of the two programs on it runs code of its own in an interrupt:
// the monitor looks for interrupts when it wants to, and one that comes while a program runs saves all of the
// program's state and is none of its business. So nothing ever runs while an allocation is under way.
unsafe impl Sync for OneThread {}

#[global_allocator]
static HEAP: OneThread = OneThread(UnsafeCell::new(Heap::empty()));

/// Gives the heap its memory.
///
/// # Safety
/// Nobody else uses these bytes from now on, and this is called once, before the first allocation.
pub(crate) unsafe fn set_up(address: u64, length_bytes: usize) {
    // SAFETY: see above for exclusive access; the memory is the caller's promise.
    unsafe { (*HEAP.0.get()).init(address as *mut u8, length_bytes) }
}

// SAFETY: `Heap` hands out memory that it was given, each byte once, as the layout says, or says that it has none.
unsafe impl GlobalAlloc for OneThread {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see `Sync`: nothing else is at the heap now.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let heap = unsafe { &mut *self.0.get() };
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: it came from `alloc` with this layout, as the caller of `dealloc` promises.
            unsafe { heap.deallocate(pointer, layout) }
        }
    }
}
