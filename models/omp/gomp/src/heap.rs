//! The program's heap: in the arena if its workers are processes, otherwise the C library's.
//!
//! Blocks from before the arena existed are the C library's, and are freed there.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

#[cfg(target_env = "musl")]
use tombolo_omp_team::device::mapping::DeviceAllocator;
use tombolo_omp_team::primitives::store::Store;
use tombolo_omp_team::primitives::sys;

/// Error message for a program that calls `fork` in spite of the restriction.
pub(crate) const FORK_ERROR: &str =
    "the program calls fork, which would share its stack with its child; posix_spawn, system and popen work";

// glibc exports its allocator under `__libc_` names; in an image, `--wrap` provides the names.
// SAFETY: declared as in the C library.
unsafe extern "C" {
    #[cfg_attr(target_env = "musl", link_name = "__real_malloc")]
    fn __libc_malloc(size: usize) -> *mut c_void;
    #[cfg_attr(target_env = "musl", link_name = "__real_calloc")]
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    #[cfg_attr(target_env = "musl", link_name = "__real_realloc")]
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    #[cfg_attr(target_env = "musl", link_name = "__real_aligned_alloc")]
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    #[cfg_attr(target_env = "musl", link_name = "__real_free")]
    fn __libc_free(block: *mut c_void);
}

/// Allocator of the run-time itself, which uses the process's own memory wherever the program's heap is. A
/// full arena does not keep the run-time from ending the job in order, and the first thread of a process
/// never waits for a lock in the arena to send a message.
struct PrivateAllocator;

// SAFETY: the C library's memory is aligned to 16 bytes or as requested.
unsafe impl GlobalAlloc for PrivateAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and alignment are valid.
        unsafe {
            if layout.align() <= ALIGN {
                __libc_malloc(layout.size()).cast()
            } else {
                __libc_memalign(layout.align(), layout.size()).cast()
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the caller guarantees that the block came from the C library.
        unsafe { __libc_free(memory.cast()) };
    }

    // `alloc_zeroed` does not use the C library's `calloc`: musl's calls `malloc`, which is the program's.

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGN {
            // SAFETY: the caller guarantees that the block came from the C library.
            return unsafe { __libc_realloc(memory.cast(), size).cast() };
        }
        // SAFETY: the caller guarantees that the block came from here with this layout and that the new size
        // is valid for a layout.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(memory, new, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}

#[global_allocator]
static PRIVATE_ALLOCATOR: PrivateAllocator = PrivateAllocator;

/// Minimum alignment of the C library's memory, in bytes.
const ALIGN: usize = 16;

static HEAP: AtomicPtr<Store> = AtomicPtr::new(ptr::null_mut());
/// Whether allocations currently come from the process's own memory.
static USES_PRIVATE_HEAP: AtomicBool = AtomicBool::new(false);
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Moves the heap to this store for all further allocations.
pub(crate) fn set_store(store: &'static Store) {
    HEAP.store(ptr::from_ref(store).cast_mut(), Ordering::Release);
}

#[inline]
fn heap() -> Option<&'static Store> {
    // SAFETY: a store is never freed.
    unsafe { HEAP.load(Ordering::Relaxed).as_ref() }.filter(|_| !USES_PRIVATE_HEAP.load(Ordering::Relaxed))
}

#[cfg(target_env = "gnu")]
/// Runs a function whose allocations are the process's own, such as the C library's objects with locks for
/// one process.
pub(crate) fn with_private_heap<T>(run: impl FnOnce() -> T) -> T {
    USES_PRIVATE_HEAP.store(true, Ordering::Relaxed);
    let result = run();
    USES_PRIVATE_HEAP.store(false, Ordering::Relaxed);
    result
}

/// Functions that allocate and free the process's own memory, wherever the heap is.
#[cfg(target_env = "musl")]
pub(crate) const DEVICE_ALLOCATOR: DeviceAllocator =
    DeviceAllocator { allocate: allocate_private, release: release_private };

#[cfg(target_env = "musl")]
fn allocate_private(size: usize) -> *mut u8 {
    let Some(size) = size.max(1).checked_next_multiple_of(64) else { return ptr::null_mut() };
    // SAFETY: any size is valid.
    unsafe { __libc_memalign(64, size) }.cast()
}

/// # Safety
/// `memory` came from [`allocate_private`].
#[cfg(target_env = "musl")]
unsafe fn release_private(memory: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { __libc_free(memory.cast()) };
}

#[inline]
fn store_of(block: *mut c_void) -> Option<&'static Store> {
    // SAFETY: a store is never freed.
    unsafe { HEAP.load(Ordering::Relaxed).as_ref() }.filter(|store| store.contains(block as usize))
}

/// Reports once that an allocation failed because it exceeds the arena's size or free space. Sets `errno` and
/// returns null.
fn out_of_memory(store: &Store, size: usize) -> *mut c_void {
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        let arena = store.length() >> 20;
        if size > store.length() {
            let asked = size >> 20;
            sys::print_error(format_args!(
                "tombolo omp: out of memory: {asked} MiB were asked for at once, and the arena has {arena}\n"
            ));
        } else {
            let advice = store.advice();
            sys::print_error(format_args!(
                "tombolo omp: out of memory: all {arena} MiB of the arena are in use; {advice}\n"
            ));
        }
    }
    // SAFETY: `errno` is thread-local.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

fn allocate(store: &Store, size: usize, align: usize) -> *mut c_void {
    if size > isize::MAX as usize {
        return out_of_memory(store, size);
    }
    store.allocate(size.max(1), align).map_or_else(|| out_of_memory(store, size), <*mut u8>::cast)
}

/// `malloc`.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_malloc"))]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match heap() {
        Some(store) => allocate(store, size, 16),
        // SAFETY: any size is valid.
        None => unsafe { __libc_malloc(size) },
    }
}

/// `free`.
///
/// # Safety
/// `block` is null or came from one of these functions.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_free"))]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match store_of(block) {
            Some(store) => store.release(block.cast()),
            None => __libc_free(block),
        }
    }
}

/// `calloc`.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_calloc"))]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(store) = heap() else {
        // SAFETY: any size is valid.
        return unsafe { __libc_calloc(count, size) };
    };
    let Some(bytes) = count.checked_mul(size) else { return out_of_memory(store, usize::MAX) };
    let block = allocate(store, bytes, 16);
    if !block.is_null() {
        // SAFETY: the block is new and has that length.
        unsafe { ptr::write_bytes(block.cast::<u8>(), 0, bytes) };
    }
    block
}

/// `realloc`.
///
/// # Safety
/// `block` is null or came from one of these functions.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_realloc"))]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(store) = heap().filter(|_| block.is_null()).or_else(|| store_of(block)) else {
        // SAFETY: guaranteed by the caller; a block from before the arena stays with the C library.
        return unsafe { __libc_realloc(block, size) };
    };
    if block.is_null() {
        return allocate(store, size, 16);
    }
    if size == 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { store.release(block.cast()) };
        return ptr::null_mut();
    }
    let room = store.usable_size(block.cast());
    if size <= room && size >= room / 4 {
        return block;
    }
    let new = allocate(store, size, 16);
    if !new.is_null() {
        // SAFETY: both are at least that long; the caller permits freeing the old block.
        unsafe {
            ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), room.min(size));
            store.release(block.cast());
        }
    }
    new
}

/// `memalign`, also used for `aligned_alloc`.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_memalign"))]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match heap() {
        Some(store) => allocate(store, size, align.max(16).next_power_of_two()),
        // SAFETY: any size and alignment are valid.
        None => unsafe { __libc_memalign(align, size) },
    }
}

/// `aligned_alloc`.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_aligned_alloc"))]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// `posix_memalign`.
///
/// # Safety
/// `place` points to a variable of the program.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_posix_memalign"))]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let block = memalign(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { place.write(block) };
    0
}

/// `valloc`.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_valloc"))]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(4096, size)
}

/// `malloc_usable_size`, for blocks in the arena; 0 for others.
#[cfg_attr(target_env = "gnu", unsafe(no_mangle))]
#[cfg_attr(target_env = "musl", unsafe(export_name = "__wrap_malloc_usable_size"))]
pub extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    store_of(block).map_or(0, |store| store.usable_size(block.cast()))
}
