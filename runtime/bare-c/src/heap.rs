//! `malloc` and related functions, over the heap of programs in Rust.
//!
//! A header before each block records the start of the allocation and its layout, which `free` needs.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::ffi::c_int;
use core::ptr::{copy_nonoverlapping, null_mut, write_bytes};

/// Minimum alignment of a block, as C programs expect of `malloc`.
const ALIGNMENT_BYTES: usize = 16;

/// Error numbers of the C library: out of memory, invalid argument.
const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

/// Header immediately before a block.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    allocation: *mut u8,
    layout: Layout,
    /// Length of the block as requested.
    length_bytes: usize,
}

fn allocate(alignment_bytes: usize, length_bytes: usize) -> *mut u8 {
    let alignment_bytes = alignment_bytes.max(ALIGNMENT_BYTES);
    let head_bytes = size_of::<Head>().next_multiple_of(alignment_bytes);
    let layout = head_bytes
        .checked_add(length_bytes)
        .and_then(|total_bytes| Layout::from_size_align(total_bytes, alignment_bytes).ok());
    let Some(layout) = layout else { return null_mut() };
    // SAFETY: the layout is not empty, since it has room for the header.
    let allocation = unsafe { alloc(layout) };
    if allocation.is_null() {
        return null_mut();
    }
    // SAFETY: the block begins inside the allocation, after room for the header, and both are aligned.
    unsafe {
        let block = allocation.add(head_bytes);
        block.cast::<Head>().sub(1).write(Head { allocation, layout, length_bytes });
        block
    }
}

/// # Safety
/// `block` came from [`allocate`] and was not released.
unsafe fn head(block: *mut u8) -> Head {
    // SAFETY: by the contract the header lies immediately before the block.
    unsafe { block.cast::<Head>().sub(1).read() }
}

#[unsafe(no_mangle)]
extern "C" fn malloc(length_bytes: usize) -> *mut u8 {
    allocate(ALIGNMENT_BYTES, length_bytes)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, each_bytes: usize) -> *mut u8 {
    let Some(length_bytes) = count.checked_mul(each_bytes) else { return null_mut() };
    let block = allocate(ALIGNMENT_BYTES, length_bytes);
    if !block.is_null() {
        // SAFETY: the new block has this length.
        unsafe { write_bytes(block, 0, length_bytes) };
    }
    block
}

/// # Safety
/// `block` is null, or came from one of the functions here and was not released.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut u8) {
    if !block.is_null() {
        // SAFETY: by the contract; the header has the layout of the allocation.
        unsafe {
            let head = head(block);
            dealloc(head.allocation, head.layout);
        }
    }
}

/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut u8, length_bytes: usize) -> *mut u8 {
    let new = allocate(ALIGNMENT_BYTES, length_bytes);
    if !new.is_null() && !block.is_null() {
        // SAFETY: by the contract; both blocks have at least this many bytes, and they do not overlap.
        unsafe {
            copy_nonoverlapping(block, new, head(block).length_bytes.min(length_bytes));
            free(block);
        }
    }
    new
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(alignment_bytes: usize, length_bytes: usize) -> *mut u8 {
    if alignment_bytes.is_power_of_two() { allocate(alignment_bytes, length_bytes) } else { null_mut() }
}

#[unsafe(no_mangle)]
extern "C" fn memalign(alignment_bytes: usize, length_bytes: usize) -> *mut u8 {
    aligned_alloc(alignment_bytes, length_bytes)
}

/// # Safety
/// `block` has room for an address.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    block: *mut *mut u8,
    alignment_bytes: usize,
    length_bytes: usize,
) -> c_int {
    if !alignment_bytes.is_power_of_two() {
        return EINVAL;
    }
    let new = allocate(alignment_bytes, length_bytes);
    if new.is_null() {
        return ENOMEM;
    }
    // SAFETY: by the contract.
    unsafe { block.write(new) };
    0
}
